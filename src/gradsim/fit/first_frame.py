"""Errors of camera, light and start from the first frame of a video, before the search for the unknowns.

The first frame usually does not depend on the unknowns. A search with a light that is a fifth too bright would end in a
minimum that hides the difference by a wrong motion.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.problem import EstimationProblem

ITERATIONS = 8
TOLERANCE = 1e-4  # of the coordinates, in standard deviations of the priors


def nuisances_of_first_frame(
    problem: EstimationProblem, rough: EstimationProblem, optimizer: GaussNewton
) -> torch.Tensor:
    """Returns the coordinates [R] of all nuisances that the first frame suggests; 0 where it depends on the unknowns.

    Args:
        problem: Problem without nuisances.
        rough: The same problem with the coordinates of R nuisances added.
        optimizer: Options of the least-squares solver.
    """
    count = problem.parameters.count
    z = rough.parameters.initial()
    if problem.first_frame_depends():
        return torch.zeros_like(z[count:])
    options = replace(optimizer, iterations=ITERATIONS, tolerance=TOLERANCE, log=None)
    low, high = (bound.clone() for bound in rough.parameters.bounds())
    low[:count] = high[:count] = z[:count]
    residual, structure = rough.residual(0, 1), rough.structure(0, 1)
    state = solve(residual, z[None], (low, high), options, prior=rough.prior(0), structure=structure)
    return torch.zeros_like(z[count:]) if bool(state.diverged[0]) else state.z[0, count:]


def with_fixed_nuisances(
    problem: EstimationProblem, rough: EstimationProblem, amounts: torch.Tensor
) -> EstimationProblem:
    """Returns a problem without coordinates of nuisances whose scenes are changed by coordinates `amounts` [R]."""
    z = torch.cat([problem.parameters.initial(), amounts])
    values = rough.parameters.values(z)
    trials = []
    for k, (trial, extended) in enumerate(zip(problem.trials, rough.trials, strict=True)):
        own = rough.parameters.model_values(values, k)
        fixed = {nuisance.path: own[nuisance.path] for nuisance in extended.nuisances}
        trials.append(replace(trial, nuisances=extended.nuisances, fixed_amounts=fixed))
    return replace(problem, trials=tuple(trials), noise=dict(problem.noise))
