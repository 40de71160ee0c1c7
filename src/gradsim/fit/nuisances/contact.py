"""Nuisances of contact parameters: of static shapes, of bodies, of pairs of bodies, and of nodes.

Compliant contact stands for one that is almost rigid, and smoothed friction for Coulomb's law. Stiffness, damping and
depth of a contact are therefore errors of the scene like any other, also where no one has measured them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import multiplied, size_of, tensor_of, with_body, with_obstacle
from gradsim.fit.nuisances.nuisance import Nuisance, SceneChange
from gradsim.scene.materials import Contact
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.pairs import SEPARATOR, own_contact, pairs_by_names
from gradsim.scene.quantity import to_numpy
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.contact_law import CONTACT_DEPTH

CONTACT = math.log(1.5)  # of the logarithm of contact parameters
NEW_FRICTION = 0.1  # of a coefficient of friction that is zero
RESTITUTION_SLOPE = 0.1  # decrease of the restitution with the impact speed [s/m]
MAX_DEFAULT_PAIRS = 45  # pairs without contact parameters of their own that are changed: those of ten bodies

MEANING = {
    "ke": "contact stiffness",
    "kd": "contact damping",
    "kf": "friction damping",
    "mu": "friction",
    "delta": "contact depth",
}

ContactChange = Callable[[Scene, Callable[[Any], dict[str, Any]]], Scene]


def contact_nuisances(scene: Scene) -> Iterator[Nuisance]:
    """Parameters of all contacts that a scene has."""
    touching = [body for body in scene.bodies if hasattr(body, "contact")]
    for name, shape in scene.obstacles.items():
        users = [body for body in touching if _own_contact(body, name) is None]
        if users:
            yield from _contact_of(name, name, shape, _common_depth(users), _obstacle_contact(name))
    for body in touching:
        yield from _body_contacts(scene, body)
    yield from _pair_contacts(scene)
    yield from _node_contacts(scene)


def _own_contact(body: Any, name: str) -> Contact | None:
    contact: Contact | None = body.contact.get(name) if isinstance(body.contact, Mapping) else body.contact
    return contact


def _body_contacts(scene: Scene, body: Any) -> Iterator[Nuisance]:
    """Parameters that a body has of its own, for static shapes and for other bodies."""
    contacts, partners = body.contact, _partners(scene, body)
    if isinstance(contacts, Mapping):
        for name, contact in contacts.items():
            if name not in scene.obstacles and name not in partners:
                continue
            users = [body, *([partners[name]] if name in partners else [])]
            path, owner = f"{body.name}.contact.{name}", f"{body.name} on {name}"
            yield from _contact_of(path, owner, contact, _common_depth(users), _mapped_contact(body.name, name))
    elif contacts is not None and (scene.obstacles or partners):
        depth = _common_depth([body, *partners.values()])
        yield from _contact_of(f"{body.name}.contact", body.name, contacts, depth, _body_contact(body.name))


def _partners(scene: Scene, body: Any) -> dict[str, Rigid]:
    """Returns the rigid bodies that a rigid body touches with its own contact parameters, by name."""
    if not isinstance(body, Rigid) or not scene.has_pairs:
        return {}
    named = pairs_by_names(scene)
    others = [other for other in scene.bodies if isinstance(other, Rigid) and other is not body]
    return {other.name: other for other in others if frozenset((body.name, other.name)) not in named}


def _pair_contacts(scene: Scene) -> Iterator[Nuisance]:
    """Parameters of the pairs that the scene names, and the defaults of those without any, which change together."""
    if not scene.has_pairs:
        return
    named = scene.pairs if isinstance(scene.pairs, Mapping) else {}
    for pair, contact in named.items():
        if contact is not None:
            depth = _smaller_depth(scene[name] for name in pair.split(SEPARATOR))
            yield from _contact_of(f"pairs.{pair}", pair, contact, depth, _named_contact((pair,)))
    rigid = [body for body in scene.bodies if isinstance(body, Rigid)]
    given = pairs_by_names(scene)
    pairs = [
        (first, second)
        for first, second in itertools.combinations(rigid, 2)
        if own_contact(first, second.name) is None
        and own_contact(second, first.name) is None
        and frozenset((first.name, second.name)) not in given
    ]
    if not 0 < len(pairs) <= MAX_DEFAULT_PAIRS:
        return
    depths = {_smaller_depth(pair) for pair in pairs}
    names = tuple(f"{first.name}{SEPARATOR}{second.name}" for first, second in pairs)
    depth = depths.pop() if len(depths) == 1 else None
    owner = names[0] if len(names) == 1 else "bodies that touch"
    yield from _contact_of("pairs", owner, Contact(), depth, _named_contact(names))


def _node_contacts(scene: Scene) -> Iterator[Nuisance]:
    """Parameters of contact of nodes with each other and with moving rigid bodies."""
    for force in scene.forces:
        if isinstance(force, NodeContact):
            depth = CONTACT_DEPTH * size_of(force.rigid_of(scene))
            yield from _contact_of(force.name, force.name, force, depth, _force_contact(force.name))
    for body in scene.bodies:
        contact = getattr(body, "self_contact", None)
        if contact is not None:
            path, owner = f"{body.name}.self_contact", f"{body.name} on itself"
            yield from _contact_of(path, owner, contact, None, _self_contact(body.name))


def _common_depth(users: Iterable[Any]) -> float | None:
    """Returns the depth of contact that several bodies have by default [m]; None if they differ."""
    depths = {round(CONTACT_DEPTH * size_of(body), 15) for body in users}
    return depths.pop() if len(depths) == 1 else None


def _smaller_depth(users: Iterable[Any]) -> float:
    """Returns the depth of contact that a pair has by default [m]."""
    return min(CONTACT_DEPTH * size_of(body) for body in users)


def _obstacle_contact(name: str) -> ContactChange:
    return lambda scene, change: with_obstacle(scene, name, **change(scene.obstacles[name]))


def _body_contact(body: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        contact = scene[body].contact
        return with_body(scene, body, contact=dataclasses.replace(contact, **change(contact)))

    return result


def _mapped_contact(body: str, shape: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        contacts = dict(scene[body].contact)
        contacts[shape] = dataclasses.replace(contacts[shape], **change(contacts[shape]))
        return with_body(scene, body, contact=contacts)

    return result


def _named_contact(names: tuple[str, ...]) -> ContactChange:
    """Changes the parameters of pairs; those that the scene does not name have the defaults."""

    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        pairs = dict(scene.pairs) if isinstance(scene.pairs, Mapping) else {}
        for name in names:
            contact = pairs.get(name) or Contact()
            pairs[name] = dataclasses.replace(contact, **change(contact))
        return dataclasses.replace(scene, pairs=pairs)

    return result


def _force_contact(name: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        forces = [dataclasses.replace(f, **change(f)) if f.name == name else f for f in scene.forces]
        return dataclasses.replace(scene, forces=forces)

    return result


def _self_contact(body: str) -> ContactChange:
    def result(scene: Scene, change: Callable[[Any], dict[str, Any]]) -> Scene:
        contact = scene[body].self_contact
        return with_body(scene, body, self_contact=dataclasses.replace(contact, **change(contact)))

    return result


def _contact_of(
    path: str, owner: str, contact: Any, depth: float | None, replaced: ContactChange
) -> Iterator[Nuisance]:
    """Factors of the parameters of one contact; `depth` is that by default [m], None if it is not one number."""
    for field, phrase in MEANING.items():
        value, default = getattr(contact, field), None
        if value is None:
            if field != "delta" or depth is None:  # a restitution replaces kd, and sticking friction kf
                continue
            default = depth
        elif not np.any(to_numpy(value)):
            if field == "mu":
                yield _new_friction(path, owner, replaced)
            continue
        text = wording.larger(f"{phrase} of {owner}", log_unit=1.0)
        change = _contact_factor(field, default, replaced)
        changes = (f"{path}.{field}",)
        yield Nuisance(f"{path}.{field}", "contact", "log", CONTACT, text, scene=change, changes=changes)
    if getattr(contact, "restitution", None) is not None:
        yield from _restitution_of(path, owner, replaced)


def _restitution_of(path: str, owner: str, replaced: ContactChange) -> Iterator[Nuisance]:
    """Ratio of a restitution and its distance from 1, and its decrease with speed."""

    def ratio(scene: Scene, amount: torch.Tensor) -> Scene:
        def value(contact: Any) -> dict[str, Any]:
            e = tensor_of(contact.restitution, amount)
            return {"restitution": e / (e + (1.0 - e) * torch.exp(-amount))}

        return replaced(scene, value)

    def slope(scene: Scene, amount: torch.Tensor) -> Scene:
        return replaced(
            scene, lambda contact: {"restitution_slope": tensor_of(contact.restitution_slope, amount) + amount}
        )

    text = wording.larger(f"ratio e / (1 - e) of the restitution of {owner}", log_unit=1.0)
    name = f"{path}.restitution"
    yield Nuisance(name, "contact", "log", CONTACT, text, scene=ratio, changes=(name,))
    text, name = wording.of(f"decrease of the restitution of {owner} with speed", "s/m"), f"{path}.restitution_slope"
    yield Nuisance(name, "contact", "s/m", RESTITUTION_SLOPE, text, scene=slope, changes=(name,))


def _contact_factor(field: str, default: float | None, replaced: ContactChange) -> SceneChange:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        def values(contact: Any) -> dict[str, Any]:
            value = getattr(contact, field)
            return {field: multiplied(np.asarray(default) if value is None else value, amount)}

        return replaced(scene, values)

    return change


def _new_friction(path: str, owner: str, replaced: ContactChange) -> Nuisance:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        return replaced(scene, lambda contact: {"mu": tensor_of(contact.mu, amount) + amount})

    text = wording.of(f"friction of {owner}")
    changes = (f"{path}.mu",)
    return Nuisance(f"{path}.mu", "contact", "1", NEW_FRICTION, text, scene=change, changes=changes, low=0.0)
