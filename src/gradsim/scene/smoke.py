"""Smoke in two dimensions: initial state, parameters, and motion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gradsim.scene.bodies import check_name
from gradsim.scene.body import Body
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.memory import check_memory
from gradsim.scene.quantity import Quantity, Spec, TensorLike, quantity
from gradsim.scene.validation import check_positive_length, validate_quantities, validated_array

STEP_BYTES = 2000  # of memory for one step of a cell, about
MIN_CELLS = 4  # per side: a cubic spline has four coefficients


@dataclass(frozen=True)
class Closed:
    """Free-slip walls on all sides: no flow through them, no friction along them.

    Example:
        `gs.Smoke("smoke", (64, 64), boundary=gs.Closed())`
    """


@dataclass(frozen=True)
class Periodic:
    """Periodic boundaries: flow that leaves on one side enters on the opposite side.

    Example:
        `gs.Smoke("smoke", (64, 64), boundary=gs.Periodic())`
    """


Boundary: TypeAlias = Closed | Periodic


@dataclass(frozen=True, eq=False)
class Smoke(Body):
    """Smoke advected by an incompressible flow on a rectangular grid of square cells.

    Element [row, column] of a field lies at x = (column + 1/2) h, y = (row + 1/2) h, h = length / W: x points right, y
    up, and row 0 is at the bottom.

    Example:
        `gs.Smoke("smoke", (64, 64), density=torch.rand(64, 64), buoyancy=0.5)`

    Args:
        name: Identifier; paths of the body's parameters start with it.
        size: Number of cells (H, W).
        density: Initial density, 1 is opaque: [..., H, W], or one number for all cells.
        velocity: Initial velocity [m/s], [..., H, W, 2], or one vector for all cells. The simulation projects it to a
            divergence-free field, without flow through closed walls.
        viscosity: Kinematic viscosity [m^2/s].
        buoyancy: Upward acceleration at unit density [m/s^2]; smoke sinks if negative.
        boundary: `Closed()` or `Periodic()`.
        length: Width of the rectangle [m].
    """

    name: str
    size: tuple[int, int]
    density: TensorLike = 0.0
    velocity: TensorLike = (0.0, 0.0)
    viscosity: Quantity = quantity(0.0, "m^2/s", low=0.0)
    buoyancy: Quantity = quantity(0.0, "m/s^2")
    boundary: Boundary = Closed()
    length: float = 1.0

    def __post_init__(self) -> None:
        check_name(self.name)
        size = _checked_size(f"{self.name}.size", self.size)
        object.__setattr__(self, "size", size)
        validate_quantities(self, self.name)
        for field, spec in (("density", Spec("1", size)), ("velocity", Spec("m/s", (*size, 2)))):
            value = _checked_field(f"{self.name}.{field}", getattr(self, field), spec)
            object.__setattr__(self, field, value)
        if not isinstance(self.boundary, (Closed, Periodic)):
            raise WrongType(f"{self.name}.boundary", repr(self.boundary), "must be gs.Closed() or gs.Periodic()")
        check_positive_length(f"{self.name}.length", self.length)


def _checked_size(name: str, size: Any) -> tuple[int, int]:
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise WrongType(name, repr(size), "must be two whole numbers of cells (H, W)") from None
    if (height, width) != tuple(size) or min(height, width) < MIN_CELLS:
        raise OutOfRange(name, tuple(size), f"must be whole numbers of cells (H, W), each >= {MIN_CELLS}")
    check_memory(name, (height, width), STEP_BYTES * float(height) * width, "give fewer cells")
    return height, width


def _checked_field(name: str, value: Any, spec: Spec) -> Any:
    """Returns a valid field [..., *spec.shape], or the value of a uniform field, of shape spec.shape[2:]."""
    array = validated_array(name, value, Spec(spec.unit))
    uniform = spec.shape[2:]
    if tuple(array.shape) == uniform:
        return array
    if tuple(array.shape[-len(spec.shape) :]) != spec.shape:
        expected = ", ".join(map(str, spec.shape))
        single = "one vector (x, y)" if uniform else "one number"
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have shape [..., {expected}], or be {single}")
    return array


@dataclass(frozen=True, eq=False)
class SmokeMotion:
    """Motion of smoke: density and velocity at the frames."""

    densities: torch.Tensor  # [..., T, H, W]
    velocities: torch.Tensor  # [m/s], [..., T, H, W, 2]

    @property
    def image(self) -> torch.Tensor:
        """Density as grey images, [..., T, H, W, 3], top row first.

        Values are linear in the density, 0 is black and 1 is white. They are not clamped, so that they keep their
        gradient; where splines overshoot, they lie slightly outside [0, 1]. Clamp before saving to a file.
        """
        return self.densities.flip(-2)[..., None].expand(*self.densities.shape, 3)

    def at(self, frames: slice) -> SmokeMotion:
        """Returns the motion at some of the frames."""
        return SmokeMotion(self.densities[..., frames, :, :], self.velocities[..., frames, :, :, :])

    @staticmethod
    def joined(motions: Sequence[SmokeMotion]) -> SmokeMotion:
        """Concatenates motions in time."""
        densities, velocities = [m.densities for m in motions], [m.velocities for m in motions]
        return SmokeMotion(torch.cat(densities, -3), torch.cat(velocities, -4))
