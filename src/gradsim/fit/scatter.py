"""Unknowns that vary between trials: their mean and their scatter."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradsim.fit.linearization import Linearization
from gradsim.fit.parameters import Parameters
from gradsim.fit.student import NORMAL_95
from gradsim.fit.uncertainty import Uncertainty

ITERATIONS = 50  # of the moment equation for the scatter


@dataclass(frozen=True)
class Scatter:
    """Distribution of a quantity over trials, in its own unit."""

    mean: float
    mean_low: float  # ends of the 95 % interval of the mean
    mean_high: float
    sd: float  # standard deviation between trials, without the uncertainty of the single estimates
    unit: str


def trial_scatter(
    parameters: Parameters, z: torch.Tensor, lin: Linearization, uncertainty: Uncertainty
) -> dict[str, Scatter]:
    """Returns mean and scatter of every unknown declared with `varies=True`, by path.

    The estimates of the trials are normal about the mean with variance s^2 (between trials) plus their own variance.
    s^2 solves the moment equation of Paule and Mandel; the interval of the mean follows from both.
    """
    groups: dict[str, list[int]] = {}
    units: dict[str, str] = {}
    for unknown, part in parameters.items():
        if unknown.varies and unknown.size == 1:
            base = unknown.path.split("@")[0]
            groups.setdefault(base, []).append(part.start)
            units[base] = unknown.unit
    found = {}
    for path, index in groups.items():
        if len(index) < 2:
            continue
        first = next(u for u in parameters.unknowns if u.path.split("@")[0] == path)
        values = z[torch.tensor(index)]
        variances = uncertainty.standard_deviation[torch.tensor(index)] ** 2
        mean, mean_sd, spread = random_effects(values, variances)
        ends = [
            first.to_value(torch.stack([x]).to(z))
            for x in (mean, mean - NORMAL_95 * mean_sd, mean + NORMAL_95 * mean_sd)
        ]
        side = first.to_value((mean + spread)[None])
        center, low, high = (float(value) for value in ends)
        found[path] = Scatter(center, min(low, high), max(low, high), abs(float(side) - center), units[path])
    return found


def random_effects(values: torch.Tensor, variances: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns mean, standard deviation of the mean and standard deviation between groups (Paule and Mandel).

    Args:
        values: Estimates of the groups, [K].
        variances: Their variances, [K].
    """
    count = len(values)

    def excess(spread: torch.Tensor) -> torch.Tensor:
        weights = 1.0 / (variances + spread)
        mean = (weights * values).sum() / weights.sum()
        return (weights * (values - mean) ** 2).sum() - (count - 1)

    low, high = values.new_zeros(()), 4 * values.var() + variances.max()
    if float(excess(low)) <= 0:
        spread = low
    else:
        for _ in range(ITERATIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if float(excess(middle)) > 0 else (low, middle)
        spread = (low + high) / 2
    weights = 1.0 / (variances + spread)
    mean = (weights * values).sum() / weights.sum()
    return mean, weights.sum().rsqrt(), spread.sqrt()
