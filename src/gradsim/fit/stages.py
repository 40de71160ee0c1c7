"""Least squares over a growing number of frames, for many trials.

Over many frames the cost of trials with impacts is rough. Over the first frames it is smooth, and its minimum is close
to that of twice as many frames.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, SolverState, solve
from gradsim.fit.problem import EstimationProblem

STAGES = 4  # each but the last covers half as many frames as the next
STAGE_ITERATIONS, STAGE_TOLERANCE = 6, 1e-3  # of all stages but the last
ROUGH_TOLERANCE = 1e-3  # of many trials with unknown noise, which differ by more


def solve_in_stages(
    problem: EstimationProblem, z: torch.Tensor, optimizer: GaussNewton, report: Any, stage: str
) -> SolverState:
    """Solves a problem from z [P] over more and more frames, at the finest level and with the declared priors."""
    total = problem.frames
    counts = dict.fromkeys(max(2, total >> k) for k in range(STAGES - 1, -1, -1))
    for frames in counts:
        options = replace(optimizer, max_worlds=problem.batch_size(0))
        if frames < total:
            options = replace(options, iterations=STAGE_ITERATIONS, tolerance=STAGE_TOLERANCE)
        elif not problem.noise_is_known:
            options = replace(options, tolerance=max(options.tolerance, ROUGH_TOLERANCE))

        def callback(points: torch.Tensor, cost: torch.Tensor, frames: int = frames) -> None:
            mean_square = float(problem.to_mean_square(cost[0], 0, frames))
            report(f"{stage}, {frames} frames", points[0], mean_square, frames, 0)

        extra: dict[str, Any] = {"prior": problem.prior(0), "structure": problem.structure(0, frames)}
        residual, bounds = problem.residual(0, frames), problem.parameters.bounds()
        state = solve(residual, z[None], bounds, options, callback=callback, **extra)
        z = state.z[0]
    return state
