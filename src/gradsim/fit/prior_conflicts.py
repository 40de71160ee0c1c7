"""Nuisances that are estimated far from their priors: then something else in the scene is wrong."""

from __future__ import annotations

import torch

from gradsim.fit.problem import EstimationProblem

MAX_DEVIATION = 3.0  # of a nuisance from its prior, in standard deviations of it


def prior_conflicts(problem: EstimationProblem, z: torch.Tensor) -> tuple[str, ...]:
    """Returns the declared nuisances that contradict their priors at coordinates z [P], in words, the worst first.

    A positive quantity that is much smaller than its prior, such as a loss that cannot be seen, is no contradiction.
    """
    found = []
    for unknown, part in problem.parameters.items():
        if not unknown.nuisance:
            continue
        deviations = (z[part] - unknown.prior_mean) / unknown.prior_sd
        largest = float(deviations.max() if unknown.scale == "log" else deviations.abs().max())
        if largest > MAX_DEVIATION:
            found.append((largest, unknown.path))
    return tuple(f"{path} differs from its prior by {own:.1f} standard deviations" for own, path in sorted(found)[::-1])
