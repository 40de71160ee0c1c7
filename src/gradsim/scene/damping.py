"""Rayleigh damping of soft bodies."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.quantity import Quantity, is_zero, quantity, unwrap
from gradsim.scene.validation import validate_quantities


@dataclass(frozen=True, eq=False)
class Rayleigh:
    """Damping proportional to mass and stiffness: a mode of angular frequency w has the ratio mass / 2w + stiffness w / 2.

    It is given by the two coefficients, or by the damping ratio at a frequency, of which `stiffness_part` is
    proportional to the stiffness and the rest to the mass. The part of the mass also brakes a body that moves as a
    whole. The part of the stiffness damps short waves most and may need small time steps, as `gs.stable_dt` tells.

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
        if self.frequency is not None and not 0.0 < self.frequency < math.inf:
            raise OutOfRange("Rayleigh.frequency", self.frequency, "must be > 0 and finite [Hz]")
        if not 0.0 <= self.stiffness_part <= 1.0:
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
        return self.stiffness_part < 1.0 if self.frequency is not None else not (self.mass is None or is_zero(self.mass))

    @property
    def has_stiffness(self) -> bool:
        """Whether a part is proportional to the stiffness."""
        return self.stiffness_part > 0.0 if self.frequency is not None else not (self.stiffness is None or is_zero(self.stiffness))
