"""Rayleigh damping of soft bodies."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.scene.arguments import checked_number
from gradsim.scene.elements import SmoothedTet
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.materials import NeoHookean, YoungSolid
from gradsim.scene.quantity import PerElement, Quantity, is_per_element, is_zero, quantity, unwrap
from gradsim.scene.solids import MooneyRivlin
from gradsim.scene.validation import validate_quantities


@dataclass(frozen=True, eq=False)
class Rayleigh:
    """Damping proportional to mass and stiffness.

    A mode of angular frequency w has the damping ratio mass / (2 w) + stiffness w / 2. The damping is given by the two
    coefficients, or by the ratio at a frequency, of which `stiffness_part` is proportional to the stiffness and the
    rest to the mass. The part of the mass also brakes a body that moves as a whole. The part of the stiffness damps
    short waves most and may need small time steps: see `gs.stable_dt`.

    Example:
        `gs.Rayleigh(ratio=gs.unknown(0.02, low=0.001, high=0.5), frequency=6.0)`

    Args:
        mass: Coefficient of the mass matrix [1/s].
        stiffness: Coefficient of the stiffness matrix [s].
        ratio: Damping ratio at `frequency`, instead of the coefficients; 1 is critical.
        frequency: Frequency of the ratio [Hz].
        stiffness_part: Part of the ratio, 0 to 1, that is proportional to the stiffness.
    """

    mass: Quantity | None = quantity(None, "1/s", low=0.0)
    stiffness: Quantity | None = quantity(None, "s", low=0.0)
    ratio: Quantity | None = quantity(None, "1", low=0.0)
    frequency: float | None = None
    stiffness_part: float = 0.0

    def __post_init__(self) -> None:
        validate_quantities(self, "Rayleigh")
        if (self.ratio is None) != (self.frequency is None):
            raise InvalidInput("Rayleigh.frequency", self.frequency, "and ratio are given together, or neither of them")
        if self.ratio is not None and (self.mass is not None or self.stiffness is not None):
            raise InvalidInput("Rayleigh.ratio", "given", "is instead of mass and stiffness: give one or the other")
        if self.ratio is None and self.mass is None and self.stiffness is None:
            raise InvalidInput("Rayleigh.mass", None, "give mass [1/s], stiffness [s], or ratio and frequency [Hz]")
        if self.frequency is not None:
            checked_number("Rayleigh.frequency", self.frequency, above=0.0)
        if checked_number("Rayleigh.stiffness_part", self.stiffness_part, low=0.0) > 1.0:
            raise OutOfRange("Rayleigh.stiffness_part", self.stiffness_part, "must be between 0 and 1")

    @property
    def mass_rate(self) -> Any:
        """Coefficient of the mass matrix [1/s]."""
        if self.frequency is None:
            return 0.0 if self.mass is None else self.mass
        return unwrap(self.ratio) * (4.0 * math.pi * self.frequency * (1.0 - self.stiffness_part))

    @property
    def stiffness_time(self) -> Any:
        """Coefficient of the stiffness matrix [s]."""
        if self.frequency is None:
            return 0.0 if self.stiffness is None else self.stiffness
        return unwrap(self.ratio) * (self.stiffness_part / (math.pi * self.frequency))

    @property
    def has_mass(self) -> bool:
        """Whether a part is proportional to the mass."""
        return self.stiffness_part < 1.0 if self.frequency is not None else _is_given(self.mass)

    @property
    def has_stiffness(self) -> bool:
        """Whether a part is proportional to the stiffness."""
        return self.stiffness_part > 0.0 if self.frequency is not None else _is_given(self.stiffness)


def _is_given(value: Any) -> bool:
    return value is not None and not is_zero(value)


def combined(function: Callable[..., Any], *values: Quantity) -> Any:
    """Returns a function of quantities, which may be tensors, numbers, and given per element."""
    own = [unwrap(value) for value in values]
    tensor = next((value for value in own if isinstance(value, torch.Tensor)), None)
    if tensor is not None:
        own = [torch.as_tensor(value, dtype=tensor.dtype, device=tensor.device) for value in own]
    per_tet = [is_per_element(value) for value in values]
    if any(per_tet):  # leading dimensions of the others are a batch
        own = [value if per else value[..., None] for value, per in zip(own, per_tet, strict=True)]
        return PerElement(function(*own))
    return function(*own)


def lame_parameters(material: Any) -> tuple[Any, Any]:
    """Returns mu and lam of a material at small strain [Pa]."""
    if isinstance(material, MooneyRivlin):
        shear = combined(lambda a, b: 2.0 * (a + b), material.c10, material.c01)
        return shear, combined(lambda bulk, mu: bulk - 2.0 / 3.0 * mu, material.bulk, shear)
    if isinstance(material, (NeoHookean, YoungSolid)):
        mu = combined(lambda mu: 0.75 * mu, material.mu)
        return mu, combined(lambda lam, mu: lam - 0.625 * mu, material.lam, material.mu)
    return material.mu, material.lam


def strain_rate_damping(body: Any) -> Any:
    """Returns the damping of a soft body's strain rate [Pa s], with the part of its Rayleigh damping."""
    own, rayleigh = body.material.damping, body.rayleigh
    if rayleigh is None or not rayleigh.has_stiffness:
        return own
    mu, _ = lame_parameters(body.material)
    return combined(lambda damping, time, mu: damping + 2.0 * time * mu, own, rayleigh.stiffness_time, mu)


def edge_bulk_damping(body: Any) -> Any:
    """Returns the viscosity of the rate of volume on the edges of smoothed tetrahedra [Pa s], from Rayleigh damping.

    Edges have a Lamé parameter equal to the shear modulus.
    """
    if body.rayleigh is None or not body.rayleigh.has_stiffness:
        return 0.0
    mu, _ = lame_parameters(body.material)
    return combined(lambda time, mu: time * mu, body.rayleigh.stiffness_time, mu)


def bulk_viscosity(body: Any) -> Any:
    """Returns the viscosity of a soft body's rate of volume on the nodes [Pa s], from its Rayleigh damping."""
    mu, lam = lame_parameters(body.material)
    if isinstance(body.element, SmoothedTet):
        lam = combined(lambda lam, mu: lam - mu, lam, mu)
    return combined(lambda time, lam: time * lam, body.rayleigh.stiffness_time, lam)
