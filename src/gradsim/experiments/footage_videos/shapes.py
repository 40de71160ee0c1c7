"""Bodies of synthetic videos: shaded balls and boxes, plain or with two colours, and their shadows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.raster import Image, Shaded, Shadow

Array = NDArray[np.float64]

OUTLINE_POINTS = 48
STRIPES = 4  # on each face of a box
CORNERS = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
GLOSS = 40.0  # exponent of the highlight


@dataclass(frozen=True)
class Look:
    """Colours of a body and the light that falls on it.

    Args:
        colors: One or two linear RGB colours; two make a two-coloured ball or a striped box.
        light: Unit vector along which light travels.
        ambient: Part of the light that comes from everywhere.
        gloss: Brightness of the highlight.
    """

    colors: tuple[tuple[float, float, float], ...]
    light: tuple[float, float, float]
    ambient: float = 0.5
    gloss: float = 0.0

    def shade(self, normal: NDArray[Any]) -> NDArray[Any]:
        """Returns the brightness [...] of a surface with unit normals [..., 3]."""
        return self.ambient + (1 - self.ambient) * np.maximum(-(normal @ np.array(self.light, normal.dtype)), 0)

    def highlight(self, normal: NDArray[Any]) -> NDArray[Any]:
        """Returns the brightness [...] that the light's reflection adds."""
        half = np.array([0.0, 0.0, 1.0]) - np.array(self.light)
        half = (half / np.linalg.norm(half)).astype(normal.dtype)
        return self.gloss * np.maximum(normal @ half, 0) ** GLOSS


@dataclass(frozen=True)
class Ball:
    """A sphere.

    Args:
        diameter: [m].
        axis: Unit vector to the middle of the second colour, at angle 0.
    """

    diameter: float
    axis: tuple[float, float, float] = (0.6, 0.5, 0.62)

    def surface(self, position: Array, angle: float, toward: Array) -> Array:
        """Returns the points [N, 3] of the outline in the direction of the unit vector `toward` [m]."""
        side = np.cross(toward, (0.0, 1.0, 0.0) if abs(toward[1]) < 0.9 else (1.0, 0.0, 0.0))
        side = side / np.linalg.norm(side)
        phase = np.linspace(0, 2 * np.pi, OUTLINE_POINTS, endpoint=False)[:, None]
        return position + self.diameter / 2 * (np.cos(phase) * side + np.sin(phase) * np.cross(toward, side))

    def outline(self, camera: TrueCamera, position: Array, angle: float) -> Array:
        """Returns the outline in the picture [N, 2] [px]."""
        view = camera.eye - position
        distance = np.linalg.norm(view)
        view, ratio = view / distance, self.diameter / 2 / distance
        tangent = (
            position + view * self.diameter / 2 * ratio
        )  # the circle seen from the eye lies in front of the centre
        circle = self.surface(position, angle, view) - position
        return camera.project(tangent + circle * np.sqrt(1 - ratio**2))

    def layer(self, camera: TrueCamera, position: Array, angle: float, look: Look) -> Shaded:
        """Returns the ball in the picture. Its outline is an ellipse."""
        outline = self.outline(camera, position, angle)
        center = outline.mean(0)
        spread, axes = np.linalg.eigh(2 * np.cov(outline.T, bias=True))
        inverse = (axes / np.sqrt(spread) @ axes.T).astype(np.float32)

        def unit(x: Image, y: Image) -> tuple[Image, Image]:
            """Returns the coordinates in which the outline is the unit circle, y up."""
            dx, dy = x - np.float32(center[0]), y - np.float32(center[1])
            return inverse[0, 0] * dx + inverse[0, 1] * dy, -(inverse[1, 0] * dx + inverse[1, 1] * dy)

        def inside(x: Image, y: Image) -> NDArray[np.bool_]:
            u, v = unit(x, y)
            return u * u + v * v < 1

        def color(x: Image, y: Image) -> Image:
            u, v = unit(x, y)
            normal = np.stack([u, v, np.sqrt(np.maximum(1 - u * u - v * v, 0))], -1)
            return self._color(normal, angle, look)

        return Shaded(outline, inside, color)

    def _color(self, normal: Image, angle: float, look: Look) -> Image:
        shade, extra = look.shade(normal)[..., None], look.highlight(normal)[..., None]
        first = np.array(look.colors[0], np.float32)
        if len(look.colors) == 1:
            return shade * first + extra
        cos, sin = np.cos(angle), np.sin(angle)
        x, y, z = self.axis
        axis = np.array([cos * x - sin * y, sin * x + cos * y, z], np.float32)
        second = np.array(look.colors[1], np.float32)
        return shade * np.where((normal @ axis > 0.25)[..., None], second, first) + extra


@dataclass(frozen=True, eq=False)
class Box:
    """A rectangular box.

    Args:
        sides: Lengths along its own axes [m].
        tilt: Rotation [3, 3] at angle 0.
    """

    sides: tuple[float, float, float]
    tilt: Array = field(default_factory=lambda: np.eye(3))

    @property
    def diameter(self) -> float:
        """Longest side in the plane of motion [m]."""
        return max(self.sides[:2])

    def corners(self, position: Array, angle: float) -> Array:
        """Returns the corners [8, 3] [m]."""
        cos, sin = np.cos(angle), np.sin(angle)
        turn = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
        return position + CORNERS * self.sides @ (turn @ self.tilt).T

    def surface(self, position: Array, angle: float, toward: Array) -> Array:
        """Returns points [N, 3] whose convex hull is the box [m]."""
        return self.corners(position, angle)

    def outline(self, camera: TrueCamera, position: Array, angle: float) -> Array:
        """Returns the outline in the picture [N, 2] [px]."""
        return convex_hull(camera.project(self.corners(position, angle)))

    def layer(self, camera: TrueCamera, position: Array, angle: float, look: Look) -> Shaded:
        """Returns the box in the picture."""
        corners = self.corners(position, angle)
        outline = convex_hull(camera.project(corners))
        faces = [_Face.of(camera, corners, axis, side, look) for axis in range(3) for side in (0, 1)]
        shown = [face for face in faces if face.faces_eye]

        def color(x: Image, y: Image) -> Image:
            image = np.broadcast_to(shown[0].colors[0], (y.size, x.size, 3)).copy()
            for face in shown:
                face.paint(image, x, y)
            return image

        return Shaded(outline, lambda x, y: _inside_convex(outline, x, y), color)


@dataclass(frozen=True, eq=False)
class _Face:
    """A face of a box in the picture, as a parallelogram."""

    origin: Array  # of a corner [px]
    inverse: Array  # from pixels to coordinates in [0, 1] along its edges [2, 2]
    colors: tuple[NDArray[np.float32], ...]  # shaded
    faces_eye: bool

    @staticmethod
    def of(camera: TrueCamera, corners: Array, axis: int, side: int, look: Look) -> _Face:
        grid = np.moveaxis(corners.reshape(2, 2, 2, 3), axis, 0)[side]
        normal = np.moveaxis(corners.reshape(2, 2, 2, 3), axis, 0)[[1 - side, side]].mean((1, 2))
        normal = (normal[1] - normal[0]) / np.linalg.norm(normal[1] - normal[0])
        pixels = camera.project(grid)
        edges = (
            (pixels[1, 1] + pixels[1, 0] - pixels[0, 1] - pixels[0, 0]) / 2,
            (pixels[1, 1] + pixels[0, 1] - pixels[1, 0] - pixels[0, 0]) / 2,
        )
        matrix = np.stack(edges, 1)
        faces_eye = bool(normal @ (camera.eye - grid.mean((0, 1))) > 0) and abs(np.linalg.det(matrix)) > 1e-3
        inverse = np.linalg.inv(matrix) if faces_eye else np.eye(2)
        shade = float(look.shade(normal))
        colors = tuple((shade * np.array(color)).astype(np.float32) for color in look.colors)
        return _Face(pixels.mean((0, 1)) - matrix.sum(1) / 2, inverse, colors, faces_eye)

    def paint(self, color: Image, x: Image, y: Image) -> None:
        dx, dy = x - np.float32(self.origin[0]), y - np.float32(self.origin[1])
        u, v = (float(row[0]) * dx + float(row[1]) * dy for row in self.inverse)
        inside = (u >= 0) & (u <= 1) & (v >= 0) & (v <= 1)
        color[inside] = self.colors[0]
        if len(self.colors) > 1:
            color[inside & (np.floor(u * STRIPES) % 2 == 1)] = self.colors[1]


def _inside_convex(outline: Array, x: Image, y: Image) -> NDArray[np.bool_]:
    """Returns which points lie inside a convex outline, of either orientation."""
    following = np.roll(outline, -1, 0)
    x0, y0, x1, y1 = (own.astype(np.float32) for own in (*outline.T, *following.T))
    orientation = np.sign(np.sum(outline[:, 0] * following[:, 1] - outline[:, 1] * following[:, 0]))
    inside = np.ones((y.size, x.size), bool)
    for k in range(len(outline)):
        inside &= ((x1[k] - x0[k]) * (y - y0[k]) - (y1[k] - y0[k]) * (x - x0[k])) * np.float32(orientation) >= 0
    return inside


def convex_hull(points: Array) -> Array:
    """Returns the corners of the convex hull of points in the plane [N, 2], in order."""
    order = cv2.convexHull(points.astype(np.float32), returnPoints=False)
    return points[np.ravel(order)]


@dataclass(frozen=True)
class Room:
    """The surfaces that shadows fall on.

    Args:
        floor: Height of the floor [m]; None if the picture does not show it.
        wall: Position of the wall along z [m], negative: behind the plane of motion.
    """

    floor: float | None
    wall: float


def cast_shadow(
    camera: TrueCamera, shape: Ball | Box, position: Array, angle: float, light: Array, room: Room, darkness: float
) -> Shadow:
    """Returns the shadow of a body on the floor or the wall, whichever the light meets first."""
    reach = (room.wall - position[2]) / light[2]
    points = shape.surface(position, angle, -light)
    if room.floor is not None and (room.floor - position[1]) / light[1] < reach:
        reach = (room.floor - position[1]) / light[1]
        shadow = points + ((room.floor - points[:, 1]) / light[1])[:, None] * light
    else:
        shadow = points + ((room.wall - points[:, 2]) / light[2])[:, None] * light
    reach = max(float(reach), 0.0)
    blur = 0.6 + 0.04 * reach * camera.scale
    return Shadow(convex_hull(camera.project(shadow)), darkness / (1 + reach), blur)
