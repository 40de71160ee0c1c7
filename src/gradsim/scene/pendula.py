"""Pendula: point masses (bobs) on rigid rods that swing in the x-y plane about a pivot."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from gradsim.scene.bodies import check_name
from gradsim.scene.body import Body
from gradsim.scene.looks import Look, check_look
from gradsim.scene.quantity import Quantity, quantity
from gradsim.scene.surfaces import cylinder, icosphere
from gradsim.scene.validation import check_positive_length, validate_quantities

LINK_QUANTITIES = ("length", "mass", "rod_mass", "angle", "rate", "damping", "drag")


@dataclass(frozen=True, eq=False)
class Pendulum(Body):
    """A simple pendulum: a'' = -(g / length) sin a - damping / (mass length^2) a' if its rod has no mass.

    Example:
        `gs.Pendulum("pendulum", length=0.8, angle=0.6, damping=0.01)`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        length: Length of the rod [m], [...].
        mass: Mass of the bob [kg], [...].
        angle: Initial angle from straight down, towards +x [rad], [...].
        rate: Initial angular rate [rad/s], [...].
        damping: Damping of the joint [N m s], [...].
        pivot: Position of the pivot [m], [..., 3].
        rod_mass: Mass of the rod, which is thin and uniform [kg], [...].
        drag: Drag of the bob over its speed [N s/m], [...].
        bob, rod: Radii of bob and rod in images [m].
        look: Appearance of rod and bob; None excludes them from rendering.
    """

    name: str
    length: Quantity = quantity(1.0, "m", above=0.0)
    mass: Quantity = quantity(1.0, "kg", above=0.0)
    angle: Quantity = quantity(0.5, "rad")
    rate: Quantity = quantity(0.0, "rad/s")
    damping: Quantity = quantity(0.0, "N m s", low=0.0)
    pivot: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rod_mass: Quantity = quantity(0.0, "kg", low=0.0)
    drag: Quantity = quantity(0.0, "N s/m", low=0.0)
    bob: float = 0.1
    rod: float = 0.02
    look: Look | None = Look()

    def __post_init__(self) -> None:
        _validate_pendulum(self)

    def links(self) -> list[dict[str, Any]]:
        """Returns the quantities of each link."""
        return [{name: getattr(self, name) for name in LINK_QUANTITIES}]

    @property
    def faces(self) -> np.ndarray:
        """Triangles of rods and bobs, [F, 3]."""
        return skeleton(self).faces


@dataclass(frozen=True, eq=False)
class DoublePendulum(Body):
    """Two rods and bobs, the second suspended from the first; quantities of the links are pairs.

    Example:
        `gs.DoublePendulum("pendulum", lengths=(0.3, 0.2), masses=(1.0, 0.5), angles=(1.2, 0.4))`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        lengths: Lengths of the rods [m], [..., 2].
        masses: Masses of the bobs [kg], [..., 2].
        angles: Initial angles, each from straight down [rad], [..., 2].
        rates: Initial angular rates [rad/s], [..., 2].
        damping: Damping of the joints [N m s], [..., 2].
        pivot: Position of the pivot [m], [..., 3].
        rod_masses: Masses of the rods, which are thin and uniform [kg], [..., 2].
        drag: Drag of the bobs over their speeds [N s/m], [..., 2].
        bob, rod: Radii of bobs and rods in images [m].
        look: Appearance of rods and bobs; None excludes them from rendering.
    """

    name: str
    lengths: Quantity = quantity((1.0, 1.0), "m", shape=(2,), above=0.0)
    masses: Quantity = quantity((1.0, 1.0), "kg", shape=(2,), above=0.0)
    angles: Quantity = quantity((0.5, 0.5), "rad", shape=(2,))
    rates: Quantity = quantity((0.0, 0.0), "rad/s", shape=(2,))
    damping: Quantity = quantity((0.0, 0.0), "N m s", shape=(2,), low=0.0)
    pivot: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rod_masses: Quantity = quantity((0.0, 0.0), "kg", shape=(2,), low=0.0)
    drag: Quantity = quantity((0.0, 0.0), "N s/m", shape=(2,), low=0.0)
    bob: float = 0.1
    rod: float = 0.02
    look: Look | None = Look()

    def __post_init__(self) -> None:
        _validate_pendulum(self)

    def links(self) -> list[dict[str, Any]]:
        """Returns the quantities of each link."""
        names = {"rod_mass": "rod_masses", "mass": "masses", "damping": "damping", "drag": "drag"}
        pairs = {name: getattr(self, names.get(name, f"{name}s")) for name in LINK_QUANTITIES}
        return [{name: value[..., k] for name, value in pairs.items()} for k in range(2)]

    @property
    def faces(self) -> np.ndarray:
        """Triangles of rods and bobs, [F, 3]."""
        return skeleton(self).faces


AnyPendulum: TypeAlias = "Pendulum | DoublePendulum"


def _validate_pendulum(body: AnyPendulum) -> None:
    check_name(body.name)
    validate_quantities(body, body.name)
    for name in ("bob", "rod"):
        check_positive_length(f"{body.name}.{name}", getattr(body, name))
    check_look(body.name, body.look, lambda: (len(skeleton(body).offsets), len(body.faces)))


class Skeleton(NamedTuple):
    """Surface mesh of a pendulum. A vertex lies at a fraction of the length of its link, plus an offset."""

    offsets: np.ndarray  # in axes whose y points from the bob to the start of the rod [m], [V, 3]
    faces: np.ndarray  # [F, 3]
    link: np.ndarray  # link of each vertex, [V]
    along: np.ndarray  # fraction of the length, 0 at the start of the rod, 1 at its bob, [V]


def skeleton(body: AnyPendulum) -> Skeleton:
    """Returns the surface mesh of the rods and bobs of all links."""
    return _skeleton(len(body.links()), body.bob, body.rod)


@functools.cache  # one entry for each combination of links and radii
def _skeleton(links: int, bob: float, rod: float) -> Skeleton:
    tube, ball = cylinder(rod, 1.0, 12), icosphere(bob, 2)
    ring = tube.vertices * np.array([1.0, 0.0, 1.0])
    offsets = np.concatenate([ring, ball.vertices])
    along = np.concatenate([0.5 - tube.vertices[:, 1], np.ones(len(ball.vertices))])
    faces = np.concatenate([tube.faces, ball.faces + len(ring)])
    count = len(offsets)
    return Skeleton(
        np.tile(offsets, (links, 1)),
        np.concatenate([faces + k * count for k in range(links)]),
        np.repeat(np.arange(links), count),
        np.tile(along, links),
    )


def link_pose(
    angle: torch.Tensor, rate: torch.Tensor, lengths: torch.Tensor, pivot: torch.Tensor, bones: Skeleton
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns vertices [m], their velocities [m/s], both [..., T, V, 3], and centres of bobs [m], [..., T, links, 3].

    Args:
        angle: Angle of each link [rad], [..., T, links].
        rate: Angular rate of each link [rad/s], [..., T, links].
        lengths: Lengths of the rods [m], [..., 1, links].
        pivot: Position of the pivot [m], [..., 1, 3].
        bones: Surface mesh of the links.
    """
    start = pivot[..., None, :]
    speed = torch.zeros_like(start)
    vertices, velocities, bobs = [], [], []
    for k in range(angle.shape[-1]):
        a, w, rod = (x[..., k, None, None] for x in (angle, rate, lengths))
        zero, own = torch.zeros_like(a), bones.link == k
        down = torch.cat([torch.sin(a), -torch.cos(a), zero], -1)  # along the rod
        side = torch.cat([torch.cos(a), torch.sin(a), zero], -1)  # direction of the bob's velocity
        offsets, along = (torch.as_tensor(x[own]).to(angle) for x in (bones.offsets, bones.along[:, None]))
        reach = along * rod - offsets[:, 1:2]
        depth = torch.nn.functional.pad(offsets[:, 2:], (2, 0))
        vertices.append(start + down * reach + side * offsets[:, :1] + depth)
        velocities.append(speed + w * (side * reach - down * offsets[:, :1]))
        start, speed = start + down * rod, speed + side * (w * rod)
        bobs.append(start)
    return torch.cat(vertices, -2), torch.cat(velocities, -2), torch.cat(bobs, -2)
