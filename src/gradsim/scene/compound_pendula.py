"""Pendula as articulated bodies."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.joints import Revolute
from gradsim.scene.pendula import LINK_QUANTITIES, AnyPendulum, Pendulum
from gradsim.scene.quantity import check_known, is_zero, unwrap
from gradsim.scene.rigid import Drag


def as_articulated(body: AnyPendulum) -> Articulated:
    """Returns a simple or double pendulum as an articulated body that moves in the same way.

    Its links are `upper` and `lower`, and can be changed further: centres, springs, motors, dry friction, contact.

    Example:
        `bars = gs.as_articulated(gs.DoublePendulum("bars", lengths=(0.3, 0.2), rod_masses=(0.2, 0.1)))`

    Args:
        body: A `gs.Pendulum` or `gs.DoublePendulum` without unknowns, from whose quantities gradients flow.
    """
    links: dict[str, Link] = {}
    before: dict[str, torch.Tensor] | None = None
    names = ("upper",) if isinstance(body, Pendulum) else ("upper", "lower")
    for name, given in zip(names, body.links(), strict=True):
        own = {row: _tensor(f"{body.name}.{row}", given[row]) for row in LINK_QUANTITIES}
        links[name] = _bar(own, before)
        if not is_zero(given["drag"]):
            links[f"{name}_bob"] = Link(parent=name, position=_along(-own["length"]), drag=Drag(linear=own["drag"]))
        before = own
    return Articulated(body.name, links, position=body.pivot)


def _tensor(path: str, value: Any) -> torch.Tensor:
    check_known(path, value)
    return torch.as_tensor(unwrap(value))


def _along(y: torch.Tensor) -> torch.Tensor:
    """Returns the vectors (0, y, 0)."""
    zero = torch.zeros_like(y)
    return torch.stack([zero, y, zero], -1)


def _bar(own: dict[str, torch.Tensor], before: dict[str, torch.Tensor] | None) -> Link:
    """Returns a thin rod with a bob as one link, at the end of the bar before."""
    length, bob, rod = own["length"], own["mass"], own["rod_mass"]
    mass = bob + rod
    center = length * (bob + rod / 2) / mass
    about_center = length**2 * (bob + rod / 3) - mass * center**2
    inertia = about_center[..., None, None] * torch.diag(torch.tensor([1.0, 0.0, 1.0], dtype=length.dtype))
    angle, rate = own["angle"], own["rate"]
    place: dict[str, Any] = {}
    if before is not None:
        angle, rate = angle - before["angle"], rate - before["rate"]
        place = {"parent": "upper", "position": _along(-before["length"])}
    joint = Revolute(angle=angle, rate=rate, damping=own["damping"])
    return Link(joint, mass=mass, center=_along(-center), inertia=inertia, **place)
