"""Smoke in two dimensions: what there is, and how it moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gradsim.scene.bodies import check_name
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.quantity import Plain, Quantity, Spec, quantity, validate_quantities, validated_array

SMALLEST = 4  # cells a side: a cubic spline has four coefficients


@dataclass(frozen=True)
class Closed:
    """Walls all around that nothing flows through, and along which the flow slips freely."""


@dataclass(frozen=True)
class Periodic:
    """What leaves on one side enters on the opposite one."""


Boundary: TypeAlias = Closed | Periodic


@dataclass(frozen=True, eq=False)
class Smoke:
    """An incompressible flow on a rectangle of square cells, and the smoke it carries.

    Element [row, column] of a field lies at x = (column + 1/2) h, y = (row + 1/2) h, h = length / W: x points right, y
    up, and row 0 is the bottom one.

    Args:
        name: Identifier, the first part of its parameters' paths.
        size: Cells (H, W).
        density: Smoke at the start, 1 being opaque: [..., H, W], or one number for all cells.
        velocity: Flow at the start [m/s], [..., H, W, 2], or one vector for all cells. The simulation starts from the
            part of it that has no divergence, and between closed walls no flow through them.
        viscosity: Kinematic, [m^2/s].
        buoyancy: Upward acceleration of unit density [m/s^2]; smoke sinks if negative.
        boundary: `Closed()` or `Periodic()`.
        length: Width of the rectangle [m].
    """

    name: str
    size: tuple[int, int]
    density: Plain = 0.0
    velocity: Plain = (0.0, 0.0)
    viscosity: Quantity = quantity(0.0, "m^2/s", low=0.0)
    buoyancy: Quantity = quantity(0.0, "m/s^2")
    boundary: Boundary = Closed()
    length: float = 1.0

    def __post_init__(self) -> None:
        check_name(self.name)
        size = _checked_size(f"{self.name}.size", self.size)
        object.__setattr__(self, "size", size)
        validate_quantities(self, self.name)
        for field, spec, one in (("density", Spec("1", size), 0), ("velocity", Spec("m/s", (*size, 2)), 1)):
            value = _checked_field(f"{self.name}.{field}", getattr(self, field), spec, one)
            object.__setattr__(self, field, value)
        if not isinstance(self.boundary, (Closed, Periodic)):
            raise WrongType(f"{self.name}.boundary", repr(self.boundary), "must be gs.Closed() or gs.Periodic()")
        if isinstance(self.length, bool) or not isinstance(self.length, (int, float)):
            raise WrongType(f"{self.name}.length", repr(self.length), "must be a number [m]")
        if not 0.0 < self.length < float("inf"):
            raise OutOfRange(f"{self.name}.length", self.length, "must be > 0 and finite [m]")


def _checked_size(name: str, size: Any) -> tuple[int, int]:
    try:
        height, width = (int(n) for n in size)
    except (TypeError, ValueError):
        raise WrongType(name, repr(size), "must be two whole numbers of cells (H, W)") from None
    if (height, width) != tuple(size) or min(height, width) < SMALLEST:
        raise OutOfRange(name, tuple(size), f"must be whole numbers of cells (H, W), each >= {SMALLEST}")
    return height, width


def _checked_field(name: str, value: Any, spec: Spec, one: int) -> Any:
    """A field [..., *spec.shape], or a single value, which has `one` dimensions."""
    array = validated_array(name, value, Spec(spec.unit))
    if array.ndim == one and tuple(array.shape) == spec.shape[2:]:
        return array
    if tuple(array.shape[-len(spec.shape) :]) != spec.shape:
        wanted = ", ".join(map(str, spec.shape))
        single = "one number" if one == 0 else "one vector (x, y)"
        raise WrongShape(name, f"shape {tuple(array.shape)}", f"must have shape [..., {wanted}], or be {single}")
    return array


@dataclass(frozen=True, eq=False)
class SmokeMotion:
    """The states of smoke at the frames."""

    densities: torch.Tensor  # [..., T, H, W]
    velocities: torch.Tensor  # [m/s], [..., T, H, W, 2]

    @property
    def image(self) -> torch.Tensor:
        """The density as grey pictures, [..., T, H, W, 3], the top row first as in any image.

        Linear in the density, 0 black and 1 white, and not clamped, so that no gradient is lost: where a spline
        overshoots, values lie slightly outside [0, 1]. Clamp before saving to a file.
        """
        return self.densities.flip(-2)[..., None].expand(*self.densities.shape, 3)

    def at(self, frames: slice) -> SmokeMotion:
        """Some of the frames."""
        return SmokeMotion(self.densities[..., frames, :, :], self.velocities[..., frames, :, :, :])

    @staticmethod
    def joined(motions: Sequence[SmokeMotion]) -> SmokeMotion:
        """One after another in time."""
        densities, velocities = [m.densities for m in motions], [m.velocities for m in motions]
        return SmokeMotion(torch.cat(densities, -3), torch.cat(velocities, -4))
