"""Static things that bodies touch: besides the ground's plane, spheres, capsules and boxes."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.looks import Look, check_look
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import Spec, validated_array
from gradsim.scene.surfaces import box, capsule, sphere

UNIT = 1e-12  # a quaternion this close to unit length is kept as it is, so that a saved shape is loaded as the same


def _fixed(shape: Any, name: str, spec: Spec) -> None:
    """A shape's geometry is plain numbers: it passes no gradient on, and says so."""
    label, value = f"{type(shape).__name__}.{name}", getattr(shape, name)
    array = validated_array(label, value, spec)
    if not isinstance(array, np.ndarray):
        raise WrongType(label, "tensor", "the place and size of a static shape are plain numbers, without gradient")
    if array.shape != spec.shape:
        raise WrongType(label, f"shape {array.shape}", "a static shape is the same in all worlds: give no batch")
    object.__setattr__(shape, name, array)


@dataclass(frozen=True, eq=False)
class StaticSphere(Contact):
    """A ball at rest. Its contact parameters hold for every body that has none of its own."""

    radius: Any = 1.0  # [m]
    position: Any = (0.0, 0.0, 0.0)  # of its centre [m]
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        _fixed(self, "radius", Spec("m", above=0.0))
        _fixed(self, "position", Spec("m", shape=(3,)))
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticCapsule(Contact):
    """A rod with round ends at rest, between two points."""

    radius: Any = 0.1  # [m]
    start: Any = (0.0, 0.0, 0.0)  # [m]
    end: Any = (0.0, 1.0, 0.0)  # [m]
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        _fixed(self, "radius", Spec("m", above=0.0))
        _fixed(self, "start", Spec("m", shape=(3,)))
        _fixed(self, "end", Spec("m", shape=(3,)))
        _check_look(self)


@dataclass(frozen=True, eq=False)
class StaticBox(Contact):
    """A block at rest."""

    size: Any = (1.0, 1.0, 1.0)  # whole edges [m], or one number for a cube
    position: Any = (0.0, 0.0, 0.0)  # of its centre [m]
    rotation: Any = (0.0, 0.0, 0.0, 1.0)  # quaternion (x, y, z, w)
    look: Look | None = Look()

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.ndim(self.size) == 0 and isinstance(self.size, (int, float)):
            object.__setattr__(self, "size", (self.size,) * 3)
        _fixed(self, "size", Spec("m", shape=(3,), above=0.0))
        _fixed(self, "position", Spec("m", shape=(3,)))
        _fixed(self, "rotation", Spec("1", shape=(4,)))
        length = float(np.linalg.norm(self.rotation))
        if length == 0.0:
            raise OutOfRange("StaticBox.rotation", "(0, 0, 0, 0)", "must not be zero; (0, 0, 0, 1) is no rotation")
        if abs(length - 1.0) > UNIT:
            object.__setattr__(self, "rotation", self.rotation / length)
        _check_look(self)


StaticShape: TypeAlias = "Ground | StaticSphere | StaticCapsule | StaticBox"
SHAPES = (Ground, StaticSphere, StaticCapsule, StaticBox)


def _check_look(shape: Any) -> None:
    check_look(
        type(shape).__name__, shape.look, lambda: (len(shape_mesh(shape).vertices), len(shape_mesh(shape).faces))
    )


def shape_mesh(shape: StaticSphere | StaticCapsule | StaticBox) -> TriMesh:
    """What is seen of a shape, in the world's coordinates."""
    if isinstance(shape, StaticSphere):
        return _placed(sphere, (float(shape.radius), 24, 48), tuple(shape.position), (0.0, 0.0, 0.0, 1.0))
    if isinstance(shape, StaticBox):
        return _placed(box, (tuple(shape.size),), tuple(shape.position), tuple(shape.rotation))
    axis = shape.end - shape.start
    height = float(np.linalg.norm(axis))
    if height == 0.0:
        return _placed(sphere, (float(shape.radius), 24, 48), tuple(shape.start), (0.0, 0.0, 0.0, 1.0))
    # The shortest turn from y to the axis; straight down there are many, and half a turn about x is one.
    x, y, z = axis / height
    turn = np.array([z, 0.0, -x, 1.0 + y]) if y > -1.0 else np.array([1.0, 0.0, 0.0, 0.0])
    turn /= np.linalg.norm(turn)
    return _placed(capsule, (float(shape.radius), height), tuple((shape.start + shape.end) / 2), tuple(turn))


@functools.lru_cache(maxsize=64)
def _placed(make: Any, arguments: tuple[Any, ...], position: tuple[float, ...], q: tuple[float, ...]) -> TriMesh:
    """A mesh turned by a unit quaternion and moved."""
    mesh, axis = make(*arguments), np.array(q[:3])
    turned = np.cross(axis, mesh.vertices)
    vertices = mesh.vertices + 2.0 * (q[3] * turned + np.cross(axis, turned))
    return TriMesh(vertices + np.array(position), mesh.faces)
