"""A measured number with its standard deviation and its source."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradsim.scene.errors import NotFinite, OutOfRange
from gradsim.scene.priors import LogNormal, Normal


@dataclass(frozen=True)
class Measured:
    """A measured number. It becomes the prior of an unknown.

    Args:
        value: Best value.
        sd: Standard deviation >= 0, in the same unit; infinite for a value that is only a guess.
        unit: Unit, such as "px".
        source: Where the value comes from, in words.
    """

    value: float
    sd: float
    unit: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or math.isnan(self.sd):
            raise NotFinite("measured value", f"{self.value:g} ± {self.sd:g}", "must be finite")
        if self.sd < 0:
            raise OutOfRange("measured value.sd", f"{self.sd:g}", "must be >= 0")

    def __str__(self) -> str:
        known = self.sd and math.isfinite(self.sd)
        number = f"{self.value:.{_decimals(self.sd)}f} ± {self.sd:.2g}" if known else f"{self.value:g}"
        return f"{number} {self.unit}".rstrip() + (f" ({self.source})" if self.source else "")

    @property
    def relative_sd(self) -> float:
        """Standard deviation over the value, which is that of the logarithm."""
        return self.sd / abs(self.value)

    def scaled(self, factor: float, unit: str = "") -> Measured:
        """Returns the value and its standard deviation times a factor, in another unit."""
        return Measured(self.value * factor, self.sd * abs(factor), unit or self.unit, self.source)

    def normal(self) -> Normal:
        """Returns the normal prior with this mean and standard deviation."""
        return Normal(self.value, self.sd)

    def log_normal(self) -> LogNormal:
        """Returns the prior of a positive quantity with this median and relative standard deviation."""
        return LogNormal(self.value, self.relative_sd)


def _decimals(sd: float) -> int:
    """Returns how many decimals show two digits of a standard deviation."""
    return max(0, 1 - math.floor(math.log10(sd)))
