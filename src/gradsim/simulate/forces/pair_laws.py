"""Contact parameters of all pairs of rigid bodies in a scene, grouped.

Bodies with equal contact parameters form a group, so that a scene of many equal bodies has one law instead of one for
each pair.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradsim.cache import cache_key
from gradsim.scene.bodies import body_size
from gradsim.scene.link_bodies import LinkBody, can_collide
from gradsim.scene.materials import Contact
from gradsim.scene.pairs import contact_between, pairs_by_names
from gradsim.scene.quantity import unwrap
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import default_depth, law_values
from gradsim.simulate.forces.restitution import restitution_rows
from gradsim.simulate.forces.sticking import sticking_rows

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher

_PLAIN = (np.ndarray, type(None))  # sizes that are the same in all worlds and have no gradient


class PairLaw(NamedTuple):
    """Contact parameters, and two bodies that have them."""

    contact: Contact
    first: Rigid
    second: Rigid


@dataclass(frozen=True, eq=False)
class PairLaws:
    """The laws of a scene.

    Attributes:
        groups: Group of each rigid body, [bodies].
        numbers: Number of the law between two groups, -1 where they do not touch, [groups, groups].
        laws: By number.
    """

    groups: np.ndarray
    numbers: np.ndarray
    laws: tuple[PairLaw, ...]

    @property
    def key(self) -> Hashable:
        return self.groups.tobytes(), self.numbers.tobytes()

    @property
    def sticks(self) -> np.ndarray:
        """Whether the friction of each law is sticking, [laws]."""
        return np.array([law.contact.sticks for law in self.laws], dtype=bool)


def first_rigid(scene: Scene) -> Rigid:
    """Returns the first rigid body of a scene, which owns all pairs."""
    return scene.rigid_bodies[0]


def touching_pairs(groups: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the bodies of all pairs that may touch, the first before the second, and the numbers of their laws."""
    first, second = (index.astype(np.int32) for index in np.triu_indices(len(groups), 1))
    laws = numbers[groups[first], groups[second]]
    return first[laws >= 0], second[laws >= 0], laws[laws >= 0]


def pair_laws(scene: Scene) -> PairLaws:
    """Returns the contact parameters of all pairs of rigid bodies."""
    bodies = scene.rigid_bodies
    overridden = pairs_by_names(scene)
    named = _named(bodies) | {name for pair in overridden for name in pair}
    members: dict[Hashable, list[Rigid]] = {}
    for body in bodies:
        members.setdefault(_group_key(body, named), []).append(body)
    place = {body.name: group for group, own in enumerate(members.values()) for body in own}
    groups = np.array([place[body.name] for body in bodies], dtype=np.int32)
    numbers = np.full((len(members), len(members)), -1, dtype=np.int32)
    laws: list[PairLaw] = []
    lists = list(members.values()) if scene.has_pairs else []
    for i, own in enumerate(lists):
        for j, others in enumerate(lists[: i + 1]):
            first, second = own[0], others[-1]
            if first is second:
                continue
            pair = frozenset((first.name, second.name))
            own_contact = overridden[pair] if pair in overridden else contact_between(first, second)
            contact = own_contact if can_collide(first, second) else None
            if contact is not None:
                numbers[i, j] = numbers[j, i] = len(laws)
                laws.append(PairLaw(contact, first, second))
    return PairLaws(groups, numbers, tuple(laws))


def _named(bodies: Sequence[Rigid]) -> set[str]:
    """Returns the bodies whose contact parameters with some other body are given by name, and those others."""
    known = {body.name for body in bodies}
    named: set[str] = set()
    for body in bodies:
        others = known & set(body.contact) if isinstance(body.contact, Mapping) else set()
        named |= {body.name, *others} if others else set()
    return named


def _group_key(body: Rigid, named: set[str]) -> Hashable:
    """Returns a key that is equal for bodies with equal contact parameters with all other bodies."""
    if body.name in named or isinstance(body, LinkBody):
        return body.name
    contact: Any = None if isinstance(body.contact, Mapping) else body.contact
    own = None if contact is None else cache_key(contact) or id(contact)
    if contact is not None and contact.delta is not None:
        return own, None
    sizes = (unwrap(getattr(body, name, None)) for name in ("size", "radius"))
    return own, body.name if any(not isinstance(size, _PLAIN) for size in sizes) else body_size(body)


def law_columns(laws: PairLaws, batcher: "SceneBatcher") -> Any:
    """Returns the parameters of all laws, [B, rows, laws]."""
    columns = []
    for number, law in enumerate(laws.laws):
        depth = _depth(law, batcher) if law.contact.delta is None else None
        values = (*law_values(law.contact, depth), *restitution_rows(law.contact), *sticking_rows(law.contact))
        columns.append(batcher.rows(("pair", number), values, 1))
    return batcher.concatenate(columns, 2)


def _depth(law: PairLaw, batcher: "SceneBatcher") -> Any:
    """Returns the smaller of the bodies' default depths [m]."""
    first, second = (default_depth(body, batcher) for body in (law.first, law.second))
    plain = (np.ndarray, np.generic)
    if isinstance(first, plain) and isinstance(second, plain):
        return np.minimum(first, second)
    first, second = (batcher.tensor(depth) if isinstance(depth, plain) else depth for depth in (first, second))
    return first.minimum(second)
