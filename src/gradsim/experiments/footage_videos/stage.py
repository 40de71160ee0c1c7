"""Things that stand still in a synthetic video: ruler, incline, stands and clamps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.motion import DARK_GRAY, Motion, View, stroke
from gradsim.experiments.footage_videos.raster import Image, Polygon, draw_layer

Array = NDArray[np.float64]
Random = np.random.Generator

RULERS = (1.0, 0.5, 0.3, 0.2, 0.15, 0.1)  # lengths [m]
RULER_ERROR = 0.01  # standard deviation of its distance from the plane of motion, relative to that of the camera
PALE = np.array([0.78, 0.68, 0.36])  # linear RGB
WOOD = np.array([0.36, 0.22, 0.11])
GRAY = np.array([0.16, 0.16, 0.17])


@dataclass(frozen=True, eq=False)
class Ruler:
    """A ruler of known length near the plane of motion.

    Args:
        ends: [2, 3] [m].
        length: [m].
    """

    ends: Array
    length: float

    def draw(self, image: Image, camera: TrueCamera) -> None:
        """Draws the ruler with ten alternating marks."""
        a, b = self.ends
        width = 0.045 * self.length
        side = np.array([width, 0.0, 0.0]) if abs(b[1] - a[1]) > abs(b[0] - a[0]) else np.array([0.0, -width, 0.0])
        _quad(image, camera, np.array([a, b, b + side, a + side]), PALE)
        for k in range(1, 10, 2):
            low, high = a + (b - a) * k / 10, a + (b - a) * (k + 1) / 10
            _quad(image, camera, np.array([low, high, high + side, low + side]), DARK_GRAY)


def draw_ruler(random: Random, view: View, distance: float) -> Ruler:
    """Returns a ruler at one side of the view, slightly off the plane of motion."""
    length = next((own for own in RULERS if own < 0.62 * view.height), RULERS[-1])
    depth = -distance * float(np.clip(RULER_ERROR * random.normal(), -0.022, 0.022))
    x = view.width * random.choice([-1, 1]) * random.uniform(0.4, 0.45)
    bottom = random.uniform(-0.42 * view.height, 0.4 * view.height - length)
    lean = np.radians(random.normal()) * length
    return Ruler(np.array([(x, bottom, depth), (x + lean, bottom + np.sqrt(length**2 - lean**2), depth)]), length)


def _quad(image: Image, camera: TrueCamera, corners: Array, color: Array) -> None:
    draw_layer(image, Polygon(camera.project(corners), color))


def draw_supports(image: Image, camera: TrueCamera, motion: Motion, view: View) -> None:
    """Draws what holds the bodies of a motion: an incline, a stand, a clamp."""
    if motion.angle is not None and motion.surface is not None:
        _draw_incline(image, camera, motion.surface, view)
    if motion.pivot is not None:
        clamp = _draw_clamp if motion.kind == "beam" else _draw_bar
        clamp(image, camera, motion.pivot, view)


def _draw_incline(image: Image, camera: TrueCamera, surface: Array, view: View) -> None:
    """A plank with two feet. Its top is visible where it lies below the camera."""
    thick, depth = np.array([0, 0.025 * view.height, 0]), np.array([0, 0, 0.08 * view.height])
    for end in surface[0] + np.array([[0.15], [0.85]]) * (surface[1] - surface[0]):
        foot = np.array([end[0], -0.6 * view.height, end[2]])
        _bar(image, camera, np.array([end, foot]), 0.03 * view.height, GRAY)
    _quad(image, camera, np.array([surface[0] - depth, surface[1] - depth, surface[1], surface[0]]), 1.3 * WOOD)
    _quad(image, camera, np.array([surface[0], surface[1], surface[1] - thick, surface[0] - thick]), WOOD)


def _draw_bar(image: Image, camera: TrueCamera, pivot: Array, view: View) -> None:
    """A horizontal bar that reaches into the picture from the nearer side, to the pivot."""
    side = 1.0 if pivot[0] > 0 else -1.0
    start = pivot + np.array([side * view.width, 0.03 * view.height, 0.0])
    end = pivot + np.array([-side * 0.03 * view.height, 0.03 * view.height, 0.0])
    _bar(image, camera, np.array([start, end]), 0.03 * view.height, GRAY)
    _bar(
        image,
        camera,
        np.array([pivot, pivot]) + np.array([[0, 0.03 * view.height, 0], [0, 0, 0]]),
        0.012 * view.height,
        DARK_GRAY,
    )


def _draw_clamp(image: Image, camera: TrueCamera, root: Array, view: View) -> None:
    """A block on a post that holds a beam."""
    side = 1.0 if root[0] > 0 else -1.0
    half = 0.05 * view.height
    block = root + np.array([(0, half, 0), (0, -half, 0), (2.4 * side * half, -half, 0), (2.4 * side * half, half, 0)])
    foot = np.array([[root[0] + 1.2 * side * half, root[1], 0.0], [root[0] + 1.2 * side * half, -view.height, 0.0]])
    _bar(image, camera, foot, 0.04 * view.height, GRAY)
    _quad(image, camera, block, WOOD)


def _bar(image: Image, camera: TrueCamera, ends: Array, width: float, color: Array) -> None:
    line = camera.project(ends[0] + np.linspace(0, 1, 12)[:, None] * (ends[1] - ends[0]))
    draw_layer(image, Polygon(stroke(line, width * camera.scale), color))
