"""What moves in a synthetic video: trajectories, bodies, and the threads, rods and springs that hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.raster import Polyline
from gradsim.experiments.footage_videos.shapes import Ball, Box

Array = NDArray[np.float64]
Trajectory = Callable[[Array], tuple[Array, Array]]  # times [N] -> positions [N, K, 3] [m], angles [N, K] [rad]

GRAVITY = 9.81  # [m/s^2]
DARK_GRAY = np.array([0.03, 0.03, 0.035])  # linear RGB
STEEL = np.array([0.25, 0.26, 0.28])


@dataclass(frozen=True)
class View:
    """Extent of the plane of motion in the picture [m], centred at the origin."""

    height: float
    width: float

    @property
    def short(self) -> float:
        """The shorter of both, which sizes of bodies follow."""
        return min(self.height, self.width)


class Link(Protocol):
    """Something that is drawn between bodies."""

    def layers(self, camera: TrueCamera, positions: Array) -> list[Polyline]:
        """Returns the link in the picture for the positions of the bodies [K, 3] [m]."""
        ...


@dataclass(frozen=True, eq=False)
class Motion:
    """A motion and what is true of it.

    Args:
        kind: Name of the kind.
        values: Physical values, in SI units.
        judged: Names of the values that an estimate is judged on.
        duration: [s].
        trajectory: Positions and angles of the bodies as functions of time.
        shapes: The bodies, rear ones first.
        links: Drawn behind the bodies.
        floor: Height of the floor [m]; None if there is none.
        surface: Ends of the line that the body touches [2, 3] [m].
        pivot: Fixed point [3] [m].
        angle: Of an incline [rad].
        can_be_held: Whether a hand may release the body.
    """

    kind: str
    values: Mapping[str, float]
    judged: tuple[str, ...]
    duration: float
    trajectory: Trajectory
    shapes: tuple[Ball | Box, ...]
    links: tuple[Link, ...] = ()
    floor: float | None = None
    surface: Array | None = None
    pivot: Array | None = None
    angle: float | None = None
    can_be_held: bool = False


@dataclass(frozen=True, eq=False)
class Rod:
    """A thread or a rod from a fixed point or a body to a body."""

    start: Array | int  # point [3] [m], or index of a body
    end: int
    width: float  # [m]
    color: Array = field(default_factory=lambda: DARK_GRAY)

    def layers(self, camera: TrueCamera, positions: Array) -> list[Polyline]:
        start = positions[self.start] if isinstance(self.start, int) else self.start
        ends = camera.project(np.stack([start, positions[self.end]]))
        return [Polyline(ends, self.color, max(self.width * camera.scale, 1.0))]


@dataclass(frozen=True, eq=False)
class Coil:
    """A helical spring from a fixed point down to a body."""

    start: Array  # [3] [m]
    end: int
    radius: float  # [m]
    turns: int
    gap: float  # between its lower end and the centre of the body [m]

    def layers(self, camera: TrueCamera, positions: Array) -> list[Polyline]:
        phase = np.linspace(0, 1, 12 * self.turns + 1)[:, None]
        end = positions[self.end] + (0.0, self.gap, 0.0)
        turn = 2 * np.pi * self.turns * phase
        helix = (
            self.start + phase * (end - self.start) + self.radius * np.hstack([np.sin(turn), 0 * turn, np.cos(turn)])
        )
        line = camera.project(helix)
        width = max(0.18 * self.radius * camera.scale, 1.2)
        return [Polyline(line, STEEL, width)]


@dataclass(frozen=True, eq=False)
class Cantilever:
    """A thin beam clamped at a point, horizontal there, with a body at its tip."""

    root: Array  # [3] [m]
    end: int
    width: float  # [m]

    def layers(self, camera: TrueCamera, positions: Array) -> list[Polyline]:
        s = np.linspace(0, 1, 24)[:, None]
        span = positions[self.end] - self.root
        shape = (3 * s**2 - s**3) / 2  # of a beam with a load at its tip
        line = self.root + np.hstack([s * span[0], shape * span[1], s * span[2]])
        pixels = camera.project(line)
        return [Polyline(pixels, STEEL, max(self.width * camera.scale, 2.0))]


def stroke(line: Array, width: float) -> Array:
    """Returns the outline of a line [N, 2] of the given width [px]."""
    direction = np.gradient(line, axis=0)
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
    side = width / 2 * np.stack([-direction[:, 1], direction[:, 0]], -1)
    return np.concatenate([line + side, (line - side)[::-1]])


def capsule(start: Array, end: Array, widths: tuple[float, float]) -> Array:
    """Returns the outline of a line with round ends of two widths [px], [N, 2]."""
    along = (end - start) / max(float(np.linalg.norm(end - start)), 1e-9)
    heading = np.arctan2(along[1], along[0])
    half = np.linspace(-np.pi / 2, np.pi / 2, 9)
    front, back = heading + half, heading + np.pi + half
    return np.concatenate(
        [
            end + widths[1] / 2 * np.stack([np.cos(front), np.sin(front)], -1),
            start + widths[0] / 2 * np.stack([np.cos(back), np.sin(back)], -1),
        ]
    )
