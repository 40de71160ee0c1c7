"""Static collision shapes in addition to the ground plane: spheres, capsules and boxes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import Spec
from gradsim.scene.surfaces import box, capsule, sphere
from gradsim.scene.validation import validated_array

UNIT_TOLERANCE = 1e-12  # a quaternion this close to unit length is not normalized, so that save and load keep all bits


def _validate_constant(shape: Any, name: str, spec: Spec) -> None:
    """Validates a geometric constant of a static shape, which can be neither a tensor nor a batch."""
    label, value = f"{type(shape).__name__}.{name}", getattr(shape, name)
    array = validated_array(label, value, spec)
    if not isinstance(array, np.ndarray):
        raise WrongType(label, "tensor", "position and size of a static shape must be numbers, without gradient")
    if array.shape != spec.shape:
        raise WrongType(
            label, f"shape {array.shape}", "a static shape is the same in all worlds: give it without batch dimensions"
        )
    object.__setattr__(shape, name, array)


@dataclass(frozen=True, eq=False)
class StaticSphere(Contact):
    """A static sphere. Its contact parameters apply to every body without its own."""

    radius: Any = 1.0  # [m]
    position: Any = (0.0, 0.0, 0.0)  # of the centre [m]
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate_constant(self, "radius", Spec("m", above=0.0))
        _validate_constant(self, "position", Spec("m", shape=(3,)))
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticCapsule(Contact):
    """A static capsule: a cylinder with hemispherical ends, between two points."""

    radius: Any = 0.1  # [m]
    start: Any = (0.0, 0.0, 0.0)  # of the axis [m]
    end: Any = (0.0, 1.0, 0.0)  # of the axis [m]
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate_constant(self, "radius", Spec("m", above=0.0))
        _validate_constant(self, "start", Spec("m", shape=(3,)))
        _validate_constant(self, "end", Spec("m", shape=(3,)))
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticBox(Contact):
    """A static box."""

    size: Any = (1.0, 1.0, 1.0)  # edge lengths [m], or one number for a cube
    position: Any = (0.0, 0.0, 0.0)  # of the centre [m]
    rotation: Any = (0.0, 0.0, 0.0, 1.0)  # quaternion (x, y, z, w)
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.size) == 0 and isinstance(self.size, (int, float)):
            object.__setattr__(self, "size", (self.size,) * 3)
        _validate_constant(self, "size", Spec("m", shape=(3,), above=0.0))
        _validate_constant(self, "position", Spec("m", shape=(3,)))
        _validate_constant(self, "rotation", Spec("1", shape=(4,)))
        length = float(np.linalg.norm(self.rotation))
        if length == 0.0:
            raise OutOfRange("StaticBox.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is the identity")
        if abs(length - 1.0) > UNIT_TOLERANCE:
            object.__setattr__(self, "rotation", self.rotation / length)
        _check_look(self)


StaticShape: TypeAlias = "Ground | StaticSphere | StaticCapsule | StaticBox"
SHAPES = (Ground, StaticSphere, StaticCapsule, StaticBox)


def _check_look(shape: Any) -> None:
    check_look(
        type(shape).__name__, shape.look, lambda: (len(shape_mesh(shape).vertices), len(shape_mesh(shape).faces))
    )


def shape_mesh(shape: StaticSphere | StaticCapsule | StaticBox) -> TriMesh:
    """Returns the surface mesh of a static shape in world coordinates."""
    if isinstance(shape, StaticSphere):
        return _placed(sphere, (float(shape.radius), 24, 48), tuple(shape.position), (0.0, 0.0, 0.0, 1.0))
    if isinstance(shape, StaticBox):
        return _placed(box, (tuple(shape.size),), tuple(shape.position), tuple(shape.rotation))
    axis = shape.end - shape.start
    height = float(np.linalg.norm(axis))
    if height == 0.0:
        return _placed(sphere, (float(shape.radius), 24, 48), tuple(shape.start), (0.0, 0.0, 0.0, 1.0))
    # The smallest rotation from y to the axis; for -y it is not unique, and half a turn about x is one of them.
    x, y, z = axis / height
    rotation = np.array([z, 0.0, -x, 1.0 + y]) if y > -1.0 else np.array([1.0, 0.0, 0.0, 0.0])
    rotation /= np.linalg.norm(rotation)
    return _placed(capsule, (float(shape.radius), height), tuple((shape.start + shape.end) / 2), tuple(rotation))


@functools.lru_cache(maxsize=64)  # a scene is rendered many times with the same shapes
def _placed(build: Any, arguments: tuple[Any, ...], position: tuple[float, ...], q: tuple[float, ...]) -> TriMesh:
    """Builds a mesh, rotates it by a unit quaternion and translates it."""
    mesh, axis = build(*arguments), np.array(q[:3])
    cross = np.cross(axis, mesh.vertices)
    vertices = mesh.vertices + 2.0 * (q[3] * cross + np.cross(axis, cross))
    return TriMesh(vertices + np.array(position), mesh.faces)
