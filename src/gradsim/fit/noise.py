"""Noise of observations: given, measured in the data, or taken from the residuals of a fit."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.depth import Depth
from gradsim.fit.observations.pixels import Pixels

ROUNDING_8_BIT = 1.0 / 255.0 / 12.0**0.5  # standard deviation of the rounding to 8 bits
MAX_ROUNDED = 1e-3  # distance from a multiple of 1/255, in these units, of a video in single precision
MIN_RELATIVE_NOISE = 1e-6  # smallest noise of a measured series, relative to its spread
GUESSED_RELATIVE_NOISE = 1e-2  # noise of data that do not show it, relative to their spread
MASK_NOISE = 0.01  # first guess for masks
MAD_TO_SD = 1.4826  # of a normal distribution
THIRD_DIFFERENCE = 20.0**0.5  # factor by which a third difference amplifies white noise


@dataclass(frozen=True, eq=False)
class NoiseLevel:
    """Standard deviation of the entries of an observation, in its unit."""

    sigma: torch.Tensor  # [N], or a scalar for all entries; at the finest level
    source: str  # "given", "measured", "residuals"
    floor: float = 0.0  # differences below this count as explained
    before: float | None = None  # noise before a video was compressed or rounded, where that is simulated

    @property
    def floored(self) -> torch.Tensor:
        """The standard deviation, at least `floor`."""
        return self.sigma.clamp_min(self.floor)


def noise_level(observation: Observation) -> NoiseLevel:
    """Returns the noise of an observation from what is given or from the data alone."""
    groups = observation.groups()
    given = [observation.group_noise(name) for name, _ in groups]
    if isinstance(observation, Pixels) and given[0] is None:
        sigma = torch.tensor(observation.estimated_noise() or 0.0, dtype=torch.float64)
        return NoiseLevel(sigma, "measured", ROUNDING_8_BIT)
    sigma = torch.ones(observation.entries(observation.levels - 1), dtype=torch.float64)
    series = observation.images.flatten(1) if isinstance(observation, Depth) else observation.series()
    for (name, index), noise in zip(groups, given, strict=True):
        guess = MASK_NOISE if series is None else series_noise(series[:, index])
        guess = max(guess, observation.group_threshold(name) or 0.0)
        sigma[index] = guess if noise is None else noise
    source = "residuals" if any(noise is None for noise in given) else "given"
    return NoiseLevel(sigma if len(groups) > 1 else sigma[0], source)


def is_rounded(video: Pixels) -> bool:
    """Whether all values of a video are multiples of 1/255, or means of 2 x 2, 4 x 4, ... of such."""
    values = video.targets[-1]
    for pixels in (1, 4, 16, 64):
        whole = values * (255.0 * pixels)
        if bool(((whole - whole.round()).abs() < MAX_ROUNDED).all()):
            return True
    return False


def series_noise(series: torch.Tensor) -> float:
    """Returns a guess of the white noise in series [T, N] (NaN where missing), from third differences in time.

    Smooth motion has small third differences. Impacts are outliers, which the median ignores.
    """
    spread = _spread(series)
    if len(series) < 5:
        return max(GUESSED_RELATIVE_NOISE * spread, 1e-300)
    third = series[3:] - 3 * series[2:-1] + 3 * series[1:-2] - series[:-3]
    third = third[torch.isfinite(third)]
    if len(third) == 0:
        return max(GUESSED_RELATIVE_NOISE * spread, 1e-300)
    return max(float(third.abs().median()) * MAD_TO_SD / THIRD_DIFFERENCE, MIN_RELATIVE_NOISE * spread, 1e-300)


def _spread(series: torch.Tensor) -> float:
    """Root mean square deviation from the mean over time; the magnitude if nothing changes."""
    valid = torch.isfinite(series)
    filled = torch.where(valid, series, 0.0)
    count = valid.sum(0).clamp_min(1)
    deviation = torch.where(valid, series - filled.sum(0) / count, 0.0)
    spread = float(deviation.square().mean().sqrt())
    return spread or float(filled.abs().max()) or 1.0
