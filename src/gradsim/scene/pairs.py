"""Pairs of rigid bodies that may touch each other, and the contact parameters of a pair."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from gradsim.scene.errors import InvalidInput, UnknownName, WrongType
from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Contact
from gradsim.scene.quantity import unwrap
from gradsim.scene.rigid import Rigid

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene

Pairs: TypeAlias = "Mapping[str, Contact | None] | bool"  # contact parameters by "name-name", or whether bodies touch

SEPARATOR = "-"  # not part of a name, which is an identifier


def check_pairs(scene: Scene) -> Pairs:
    """Returns the pairs of a scene, checked: names of rigid bodies, each pair once."""
    given: Any = scene.pairs
    if isinstance(given, bool):
        return given
    if not isinstance(given, Mapping):
        remedy = "must be contact parameters by pair, {'left-right': gs.Contact(...)}, or True or False for all pairs"
        raise WrongType("scene.pairs", type(given).__name__, remedy)
    known = [body.name for body in scene.rigid_bodies]
    seen: set[frozenset[str]] = set()
    for pair, contact in given.items():
        names = str(pair).split(SEPARATOR)
        if len(names) != 2 or names[0] == names[1]:
            raise InvalidInput("scene.pairs", repr(pair), "a pair is the names of two bodies, such as 'left-right'")
        for name in names:
            if name not in known:
                raise UnknownName("scene.pairs", repr(name), f"the rigid bodies are {', '.join(known) or 'none'}")
        if frozenset(names) in seen:
            raise InvalidInput("scene.pairs", repr(pair), "is given twice, in either order")
        seen.add(frozenset(names))
        if contact is not None and type(contact) is not Contact:
            raise WrongType(f"pairs.{pair}", type(contact).__name__, "must be a gs.Contact, or None to switch it off")
    return dict(given)


def pairs_by_names(scene: Scene) -> dict[frozenset[str], Contact | None]:
    """Returns the pairs that the scene names, with their contact parameters; None for those switched off."""
    if isinstance(scene.pairs, bool):
        return {}
    return {frozenset(pair.split(SEPARATOR)): contact for pair, contact in scene.pairs.items()}


def own_contact(body: Rigid, other: str) -> Contact | None:
    """Returns a body's own contact parameters for another body of this name."""
    return body.contact.get(other) if isinstance(body.contact, Mapping) else body.contact


def contact_between(first: Rigid, second: Rigid) -> Contact:
    """Returns the contact parameters of two bodies from their own ones.

    Those of the one body that has some; the defaults of `gs.Contact` if neither has. Of two, the means: the harmonic
    mean of the stiffnesses, which is that of two springs in series where both are equal, and the arithmetic mean of
    everything else. A restitution takes precedence over a `kd`, and `gs.Sticking()` over regularized friction.
    """
    own, other = own_contact(first, second.name), own_contact(second, first.name)
    if own is None or other is None or own is other:
        return own or other or Contact()
    return combined(own, other)


def combined(first: Contact, second: Contact) -> Contact:
    """Returns the means of two bodies' contact parameters; see `contact_between`."""
    damping: dict[str, Any] = {"kd": _mean(first.kd, second.kd)}
    if first.restitution is not None or second.restitution is not None:
        names = ("restitution", "restitution_slope", "restitution_speed")
        ones = [contact for contact in (first, second) if contact.restitution is not None]
        damping = {name: _mean(getattr(ones[0], name), getattr(ones[-1], name)) for name in names}
    friction: dict[str, Any] = {"kf": _mean(first.kf, second.kf)}
    sticking = [contact.friction for contact in (first, second) if isinstance(contact.friction, Sticking)]
    if sticking:
        one, other = sticking[0], sticking[-1]
        means = (one.stiffness + other.stiffness) / 2, (one.damping + other.damping) / 2
        friction = {"friction": Sticking(*means)}
    return Contact(
        ke=_harmonic_mean(first.ke, second.ke),
        **friction,
        mu=_mean(first.mu, second.mu),
        delta=_mean(first.delta, second.delta),
        **damping,
    )


def _mean(first: Any, second: Any) -> Any:
    """Returns the mean of two quantities; the given one if the other is None."""
    if first is None or second is None or first is second:
        return second if first is None else first
    a, b = _alike(first, second)
    return (a + b) / 2


def _harmonic_mean(first: Any, second: Any) -> Any:
    if first is second:
        return first
    a, b = _alike(first, second)
    return 2 * a * b / (a + b + 1e-30)


def _alike(first: Any, second: Any) -> tuple[Any, Any]:
    """Returns the numbers of two quantities, both as tensors if one is a tensor."""
    a, b = unwrap(first), unwrap(second)
    if isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
        b = torch.as_tensor(b, dtype=a.dtype, device=a.device)
    if isinstance(b, torch.Tensor) and not isinstance(a, torch.Tensor):
        a = torch.as_tensor(a, dtype=b.dtype, device=b.device)
    return a, b
