"""Pendula: rigid, massless rods with a heavy bob at the end, swinging in the x-y plane about a pivot."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradsim.scene.bodies import check_name
from gradsim.scene.errors import OutOfRange
from gradsim.scene.looks import Look, check_look
from gradsim.scene.quantity import Quantity, quantity, validate_quantities
from gradsim.scene.surfaces import cylinder, icosphere


@dataclass(frozen=True, eq=False)
class Pendulum:
    """A simple pendulum: a'' = -(g / length) sin a - damping / (mass length^2) a'.

    Args:
        name: Identifier, the first part of its parameters' paths.
        length: [m], [...].
        mass: Of the bob [kg], [...].
        angle: Start angle from straight down, towards +x [rad], [...].
        rate: Start rate [rad/s], [...].
        damping: Torque of the joint over its rate [N m s], [...].
        pivot: [m], [..., 3].
        bob, rod: Radii of what is seen [m].
        look: Colour and shine of rods and bobs; None leaves them out of pictures.
    """

    name: str
    length: Quantity = quantity(1.0, "m", above=0.0)
    mass: Quantity = quantity(1.0, "kg", above=0.0)
    angle: Quantity = quantity(0.5, "rad")
    rate: Quantity = quantity(0.0, "rad/s")
    damping: Quantity = quantity(0.0, "N m s", low=0.0)
    pivot: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    bob: float = 0.1
    rod: float = 0.02
    look: Look | None = Look()

    def __post_init__(self) -> None:
        _complete(self)

    def links(self) -> list[dict[str, Any]]:
        """Each link's quantities."""
        return [{name: getattr(self, name) for name in ("length", "mass", "angle", "rate", "damping")}]

    @property
    def faces(self) -> np.ndarray:
        """Triangles of rods and bobs, [F, 3]."""
        return skeleton(self).faces


@dataclass(frozen=True, eq=False)
class DoublePendulum:
    """Two rods and bobs, the second hanging on the first; quantities of the links come in pairs.

    Args:
        name: Identifier, the first part of its parameters' paths.
        lengths: [m], [..., 2].
        masses: Of the bobs [kg], [..., 2].
        angles: Start angles, each from straight down [rad], [..., 2].
        rates: Start rates [rad/s], [..., 2].
        damping: Torques of the joints over their rates [N m s], [..., 2].
        pivot: [m], [..., 3].
        bob, rod: Radii of what is seen [m].
        look: Colour and shine of rods and bobs; None leaves them out of pictures.
    """

    name: str
    lengths: Quantity = quantity((1.0, 1.0), "m", shape=(2,), above=0.0)
    masses: Quantity = quantity((1.0, 1.0), "kg", shape=(2,), above=0.0)
    angles: Quantity = quantity((0.5, 0.5), "rad", shape=(2,))
    rates: Quantity = quantity((0.0, 0.0), "rad/s", shape=(2,))
    damping: Quantity = quantity((0.0, 0.0), "N m s", shape=(2,), low=0.0)
    pivot: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    bob: float = 0.1
    rod: float = 0.02
    look: Look | None = Look()

    def __post_init__(self) -> None:
        _complete(self)

    def links(self) -> list[dict[str, Any]]:
        """Each link's quantities."""
        pairs = {"length": self.lengths, "mass": self.masses, "angle": self.angles, "rate": self.rates}
        pairs["damping"] = self.damping
        return [{name: value[..., k] for name, value in pairs.items()} for k in range(2)]  # type: ignore[index, call-overload]

    @property
    def faces(self) -> np.ndarray:
        """Triangles of rods and bobs, [F, 3]."""
        return skeleton(self).faces


AnyPendulum: TypeAlias = "Pendulum | DoublePendulum"


def _complete(body: AnyPendulum) -> None:
    check_name(body.name)
    validate_quantities(body, body.name)
    for name in ("bob", "rod"):
        if not getattr(body, name) > 0:
            raise OutOfRange(f"{body.name}.{name}", getattr(body, name), "must be > 0 [m]")
    check_look(body.name, body.look, lambda: (len(skeleton(body).offsets), len(body.faces)))


class Skeleton(NamedTuple):
    """What is seen of a pendulum: each vertex sits on its link's rod, a part of the way along, with an offset."""

    offsets: np.ndarray  # in axes whose y points back along the rod [m], [V, 3]
    faces: np.ndarray  # [F, 3]
    link: np.ndarray  # [V]
    along: np.ndarray  # 0 at the rod's start, 1 at its bob, [V]


def skeleton(body: AnyPendulum) -> Skeleton:
    """Rods and bobs of all links."""
    return _skeleton(len(body.links()), body.bob, body.rod)


@functools.cache
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
