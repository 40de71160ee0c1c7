"""Static things that bodies touch: besides the ground's plane, spheres, capsules and boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.quantity import Spec, validated_array


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

    def __post_init__(self) -> None:
        super().__post_init__()
        _fixed(self, "radius", Spec("m", above=0.0))
        _fixed(self, "position", Spec("m", shape=(3,)))


@dataclass(frozen=True, eq=False)
class StaticCapsule(Contact):
    """A rod with round ends at rest, between two points."""

    radius: Any = 0.1  # [m]
    start: Any = (0.0, 0.0, 0.0)  # [m]
    end: Any = (0.0, 1.0, 0.0)  # [m]

    def __post_init__(self) -> None:
        super().__post_init__()
        _fixed(self, "radius", Spec("m", above=0.0))
        _fixed(self, "start", Spec("m", shape=(3,)))
        _fixed(self, "end", Spec("m", shape=(3,)))


@dataclass(frozen=True, eq=False)
class StaticBox(Contact):
    """A block at rest."""

    size: Any = (1.0, 1.0, 1.0)  # whole edges [m], or one number for a cube
    position: Any = (0.0, 0.0, 0.0)  # of its centre [m]
    rotation: Any = (0.0, 0.0, 0.0, 1.0)  # quaternion (x, y, z, w)

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
        object.__setattr__(self, "rotation", self.rotation / length)


StaticShape: TypeAlias = "Ground | StaticSphere | StaticCapsule | StaticBox"
SHAPES = (Ground, StaticSphere, StaticCapsule, StaticBox)
