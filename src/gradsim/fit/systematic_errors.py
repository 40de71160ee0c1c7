"""Errors of estimates from videos without noise: those of the model.

The residuals of such a video are not noise. They are errors of the model: of the time step, of the compliance of
contact, of friction that is smoothed. They are often far below the rounding to 8 bits, so that the scene explains the
video. As independent noise of each pixel they would give intervals far too narrow, because all pixels and frames have
the same few causes. The part of a model error that looks like a change of the unknowns is in no residual; it is assumed
to be about as large as all that is seen.
"""

from __future__ import annotations

import torch

from gradsim.fit.linearization import linearize
from gradsim.fit.linearized import Linearization
from gradsim.fit.problem import EstimationProblem

ROUNDING = 1e-9  # root mean square residual of a pixel that a video of the same simulator leaves
UNSEEN = 2.0  # standard deviation of the model error along each unknown, relative to the length of the residual


def systematic_covariance(problem: EstimationProblem, lin: Linearization) -> torch.Tensor | None:
    """Returns the covariance of the coordinates from errors of the model, [P, P].

    None if the observations have noise, if nothing but rounding is left of them, since then the model is the one that
    made them, and if more than the rounding to 8 bits is left, since then the scene does not explain them.
    """
    if not problem.is_exact or lin.basis is not None or lin.chi2 > 1.0:
        return None
    square = sum(float(block.difference.square().sum()) for block in lin.blocks)
    if square < ROUNDING**2 * sum(block.difference.numel() for block in lin.blocks):
        return None
    found = covariance(problem, lin) * (UNSEEN**2 * lin.total_chi2)
    finer = problem.with_substeps(2)
    change = linearize(problem, lin.z, finer=finer, columns=lin.columns, shifts=False).step_gradient
    if change is None or not bool(torch.isfinite(change).all()):
        return found
    shift = step_shifts(problem, lin, change)
    return found + torch.outer(shift, shift)


def covariance(problem: EstimationProblem, lin: Linearization) -> torch.Tensor:
    """Covariance of the coordinates for the noise and the widths of the priors, [P, P]."""
    prior = lin.reduced(torch.diag(1.0 / problem.parameters.prior()[1] ** 2))
    return torch.linalg.inv(lin.information() + prior)


def step_shifts(problem: EstimationProblem, lin: Linearization, change: torch.Tensor) -> torch.Tensor:
    """Shifts of the coordinates from infinitely small time steps, from the `change` by steps half as long, [P]."""
    order = min(trial.time.integrator.order for trial in problem.trials)
    return covariance(problem, lin) @ change / (1 - 0.5**order)
