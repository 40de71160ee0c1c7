"""Systematic errors of estimates from videos without noise.

The residuals of such a video are errors of the model: of the time step, of the compliance of contact, of anything in
the scene. They are often far below the rounding to 8 bits, so that the scene explains the video. As independent noise
of each pixel they would give intervals far too narrow, because all pixels and frames have the same cause.
"""

from __future__ import annotations

import torch

from gradsim.fit.causes import largest_shifts
from gradsim.fit.linearization import linearize
from gradsim.fit.linearized import Linearization
from gradsim.fit.misfit import MAX_SCORE
from gradsim.fit.nuisance_scores import linearize_nuisances, scored_nuisances
from gradsim.fit.problem import EstimationProblem


def systematic_shifts(problem: EstimationProblem, lin: Linearization) -> torch.Tensor | None:
    """Returns possible shifts of the coordinates of a video without noise, [P]; None for very many unknowns.

    They are the largest of two: that by the time step, and that by any one error of the scene that explains a
    significant part of the residuals, however small these are.
    """
    if lin.basis is not None:
        return None
    shifts = torch.zeros_like(lin.z)
    candidates = scored_nuisances(problem, lin.z)
    if candidates[0]:
        scored = linearize_nuisances(problem, lin, candidates)
        found = largest_shifts(scored.with_variance(scored.chi2), len(candidates[0]), MAX_SCORE)
        shifts = found if len(found) == len(shifts) else shifts  # a sample of many trials has not all coordinates
    finer = problem.with_substeps(2)
    change = linearize(problem, lin.z, finer=finer, columns=lin.columns, shifts=False).step_gradient
    if change is None or not bool(torch.isfinite(change).all()):
        return shifts
    return torch.maximum(shifts, step_shifts(problem, lin, change).abs())


def covariance(problem: EstimationProblem, lin: Linearization) -> torch.Tensor:
    """Covariance of the coordinates for the noise and the widths of the priors, [P, P]."""
    prior = lin.reduced(torch.diag(1.0 / problem.parameters.prior()[1] ** 2))
    return torch.linalg.inv(lin.information() + prior)


def step_shifts(problem: EstimationProblem, lin: Linearization, change: torch.Tensor) -> torch.Tensor:
    """Shifts of the coordinates from infinitely small time steps, from the `change` by steps half as long, [P]."""
    order = min(trial.time.integrator.order for trial in problem.trials)
    return covariance(problem, lin) @ change / (1 - 0.5**order)
