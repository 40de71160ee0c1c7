"""Collision shapes that forces do not move, in addition to the ground plane: spheres, capsules and boxes."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TriMesh
from gradsim.scene.motion import Motion, check_motion
from gradsim.scene.quantity import Quantity, quantity, specs_of
from gradsim.scene.surfaces import box, capsule, sphere
from gradsim.scene.validation import has_zero_vector

UNIT_TOLERANCE = 1e-12  # a quaternion this close to unit length is not normalized, so that save and load keep all bits


@dataclass(frozen=True, eq=False)
class StaticSphere(Contact):
    """A sphere that forces do not move. Its contact parameters apply to every body without its own.

    Example:
        `gs.Scene([cube], shapes={"bump": gs.StaticSphere(radius=0.3, position=(0.0, -0.1, 0.0))})`

    Args:
        radius: [m].
        position: Of the centre [m], [..., 3].
        look: Appearance; None excludes it from rendering.
        motion: Prescribed motion; it stands still if None.
        surface_velocity: Velocity of the surface in addition to that of the motion [m/s], [..., 3], such as that of a
            conveyor belt; `Signal` is allowed.
    """

    radius: Quantity = quantity(1.0, "m", above=0.0)
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    look: Look | None = Look()
    motion: Motion | None = field(default=None, kw_only=True)
    surface_velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), signal=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_motion(f"{type(self).__name__}.motion", self.motion)
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticCapsule(Contact):
    """A capsule that forces do not move: a cylinder with hemispherical ends.

    Example:
        `gs.Scene([cube], shapes={"rail": gs.StaticCapsule(radius=0.05, start=(-1, 0, 0), end=(1, 0, 0))})`

    Args:
        radius: [m].
        start, end: Of the axis [m], [..., 3].
        look, motion, surface_velocity: As for `StaticSphere`.
    """

    radius: Quantity = quantity(0.1, "m", above=0.0)
    start: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    end: Quantity = quantity((0.0, 1.0, 0.0), "m", shape=(3,))
    look: Look | None = Look()
    motion: Motion | None = field(default=None, kw_only=True)
    surface_velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), signal=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_motion(f"{type(self).__name__}.motion", self.motion)
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticBox(Contact):
    """A box that forces do not move.

    Example:
        `gs.Scene([cube], shapes={"ramp": gs.StaticBox(size=(1.0, 0.1, 1.0), rotation=(0, 0, 0.2, 1))})`

    Args:
        size: Edge lengths [m], [..., 3], or one number for a cube.
        position: Of the centre [m], [..., 3].
        rotation: Quaternion (x, y, z, w), [..., 4].
        look, motion, surface_velocity: As for `StaticSphere`.
    """

    size: Quantity = quantity((1.0, 1.0, 1.0), "m", shape=(3,), above=0.0)
    position: Quantity = quantity((0.0, 0.0, 0.0), "m", shape=(3,))
    rotation: Quantity = quantity((0.0, 0.0, 0.0, 1.0), "1", shape=(4,))
    look: Look | None = Look()
    motion: Motion | None = field(default=None, kw_only=True)
    surface_velocity: Quantity = quantity((0.0, 0.0, 0.0), "m/s", shape=(3,), signal=True, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.size, (int, float)) or (isinstance(self.size, np.ndarray) and self.size.ndim == 0):
            object.__setattr__(self, "size", (float(self.size),) * 3)
        super().__post_init__()
        if has_zero_vector(self.rotation):
            raise OutOfRange("StaticBox.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is the identity")
        if isinstance(self.rotation, np.ndarray):
            length = np.linalg.norm(self.rotation, axis=-1, keepdims=True)
            if (abs(length - 1.0) > UNIT_TOLERANCE).any():
                object.__setattr__(self, "rotation", self.rotation / length)
        check_motion(f"{type(self).__name__}.motion", self.motion)
        _check_look(self)


StaticShape: TypeAlias = "Ground | StaticSphere | StaticCapsule | StaticBox"
SHAPES = (Ground, StaticSphere, StaticCapsule, StaticBox)


def _check_look(shape: Any) -> None:
    check_look(
        type(shape).__name__, shape.look, lambda: (len(shape_mesh(shape).vertices), len(shape_mesh(shape).faces))
    )


def has_fixed_mesh(shape: StaticShape) -> bool:
    """Whether the surface of a shape is the same at all times and in all worlds, and has no gradient."""
    values = [
        (getattr(shape, name), len(specs_of(type(shape))[name].shape)) for name in GEOMETRY if hasattr(shape, name)
    ]
    return shape.motion is None and all(isinstance(x, np.ndarray) and x.ndim == ndim for x, ndim in values)


GEOMETRY = ("normal", "offset", "radius", "position", "start", "end", "size", "rotation")


def shape_mesh(shape: StaticSphere | StaticCapsule | StaticBox) -> TriMesh:
    """Returns the surface of a static shape: in world coordinates if it is fixed, else of unit size at the origin."""
    still, place = (0.0, 0.0, 0.0, 1.0), (0.0, 0.0, 0.0)
    fixed: Any = shape if has_fixed_mesh(shape) else None
    if isinstance(shape, StaticSphere):
        size = 1.0 if fixed is None else float(fixed.radius)
        return _placed(sphere, (size, 24, 48), place if fixed is None else tuple(fixed.position), still)
    if isinstance(shape, StaticBox):
        if fixed is None:
            return _placed(box, ((1.0, 1.0, 1.0),), place, still)
        return _placed(box, (tuple(fixed.size),), tuple(fixed.position), tuple(fixed.rotation))
    if fixed is None:
        return _placed(capsule, (1.0, 1.0), place, still)
    axis = fixed.end - fixed.start
    height = float(np.linalg.norm(axis))
    if height == 0.0:
        return _placed(sphere, (float(fixed.radius), 24, 48), tuple(fixed.start), still)
    # The smallest rotation from y to the axis; for -y it is not unique, and half a turn about x is one of them.
    x, y, z = axis / height
    rotation = np.array([z, 0.0, -x, 1.0 + y]) if y > -1.0 else np.array([1.0, 0.0, 0.0, 0.0])
    rotation /= np.linalg.norm(rotation)
    return _placed(capsule, (float(fixed.radius), height), tuple((fixed.start + fixed.end) / 2), tuple(rotation))


@functools.lru_cache(maxsize=64)  # a scene is rendered many times with the same shapes
def _placed(build: Any, arguments: tuple[Any, ...], position: tuple[float, ...], q: tuple[float, ...]) -> TriMesh:
    """Builds a mesh, rotates it by a unit quaternion and translates it."""
    mesh, axis = build(*arguments), np.array(q[:3])
    cross = np.cross(axis, mesh.vertices)
    vertices = mesh.vertices + 2.0 * (q[3] * cross + np.cross(axis, cross))
    return TriMesh(vertices + np.array(position), mesh.faces)
