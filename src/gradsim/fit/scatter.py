"""Unknowns that vary between trials: their mean and their scatter."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.parameters import Parameters
from gradsim.fit.student import student_95

ITERATIONS = 30  # of the moment equation for the scatter


@dataclass(frozen=True)
class Scatter:
    """Distribution of a quantity over trials, in its own unit."""

    mean: float
    mean_low: float  # ends of the 95 % interval of the mean
    mean_high: float
    sd: float  # standard deviation between trials, without the uncertainty of the single estimates
    unit: str


def trial_scatter(parameters: Parameters, z: torch.Tensor, deviation: torch.Tensor) -> dict[str, Scatter]:
    """Returns mean and scatter of every unknown declared with `varies=True`, by path, with an index for components.

    The estimates of the trials are normal about the mean with variance s^2 (between trials) plus their own variance.
    s^2 solves the moment equation of Paule and Mandel; the interval of the mean is that of Hartung and Knapp, with
    Student's distribution, because s is known only from the trials themselves.

    Args:
        parameters: Unknowns of the trials.
        z: Estimate, [P].
        deviation: Standard deviations of the coordinates, [P].
    """
    groups: dict[str, list[tuple[ScaledUnknown, slice]]] = {}
    for unknown, part in parameters.items():
        if unknown.varies and unknown.trial is not None and unknown.scale != "rotation":
            groups.setdefault(unknown.path.rsplit("@", 1)[0], []).append((unknown, part))
    found = {}
    for path, members in groups.items():
        if len(members) < 2:
            continue
        for k, scatter in enumerate(_component_scatter(members, z, deviation)):
            found[path if members[0][0].size == 1 else f"{path}[{k}]"] = scatter
    return found


def _component_scatter(
    members: list[tuple[ScaledUnknown, slice]], z: torch.Tensor, deviation: torch.Tensor
) -> list[Scatter]:
    """Returns the scatter of each component of an unknown from its coordinates in all trials.

    The trials may have different guesses, which scale linear coordinates: all are converted to those of the first.
    """
    first = members[0][0]
    centers = torch.stack([first.from_value(unknown.to_value(z[part])) for unknown, part in members])  # [K, size]
    shifted = torch.stack([first.from_value(unknown.to_value((z + deviation)[part])) for unknown, part in members])
    means, mean_sds, spreads = zip(
        *(random_effects(values, (side - values) ** 2) for values, side in zip(centers.T, shifted.T, strict=True)),
        strict=True,
    )
    mean, margin, spread = torch.stack(means), torch.stack(mean_sds), torch.stack(spreads)
    margin = margin * student_95(len(members) - 1)
    center, low, high, side = (
        first.to_value(point).reshape(-1).tolist() for point in (mean, mean - margin, mean + margin, mean + spread)
    )
    return [
        Scatter(center[k], min(low[k], high[k]), max(low[k], high[k]), abs(side[k] - center[k]), first.unit)
        for k in range(first.size)
    ]


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
    observed = (weights * (values - mean) ** 2).sum() / (count - 1)  # relative to the assumed variance
    return mean, (observed.clamp_min(1.0) / weights.sum()).sqrt(), spread.sqrt()
