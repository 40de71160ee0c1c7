"""Scatter of the estimates from disjoint groups of trials.

A model that is slightly wrong in every trial has residuals far above the noise of the measurements, and after several
impacts their derivatives describe only a tiny neighbourhood of the estimate. Intervals from derivatives are then too
narrow. Estimates from disjoint groups of trials need no derivatives: they scatter by as much as the trials disagree.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.stages import solve_in_stages
from gradsim.fit.student import NORMAL_95, student_95

MIN_TRIALS = 20  # trials from which groups are formed
GROUP_SIZE = 10  # trials of a group
MIN_GROUPS, MAX_GROUPS = 4, 10
ITERATIONS, TOLERANCE = 8, 1e-3


def group_scatter(
    problem: EstimationProblem, z: torch.Tensor, optimizer: GaussNewton, report: Any
) -> torch.Tensor | None:
    """Returns the covariance [P, P] of the mean of the estimates from groups of trials; None for few trials.

    It is 0 for coordinates of single trials, and scaled so that 1.96 standard deviations of it are the half width of
    the 95 % interval of Student's distribution.

    Args:
        problem: Problem of all trials.
        z: Estimate [P] from all trials, where the fits of the groups start.
        optimizer: Options of the least-squares solver.
        report: Called after every iteration.
    """
    count = len(problem.trials)
    if count < MIN_TRIALS:
        return None
    number = max(MIN_GROUPS, min(MAX_GROUPS, count // GROUP_SIZE))
    estimates = torch.stack([_group_estimate(problem, z, k, number, optimizer, report) for k in range(number)])
    shared = torch.tensor([owner is None for owner in problem.parameters.coordinate_trials])
    deviations = torch.where(shared, estimates - estimates.mean(0), 0.0)
    covariance = deviations.T @ deviations / (number * (number - 1))
    return covariance * (student_95(number - 1) / NORMAL_95) ** 2


def _group_estimate(
    problem: EstimationProblem, z: torch.Tensor, first: int, stride: int, optimizer: GaussNewton, report: Any
) -> torch.Tensor:
    """Returns the estimate [P] from every `stride`-th trial, with z for what these do not have."""
    part = problem.subset(range(first, len(problem.trials), stride))
    start = part.parameters.merged(part.parameters.initial(), problem.parameters, z)
    options = replace(optimizer, iterations=ITERATIONS, tolerance=TOLERANCE)

    def own_report(stage: str, z_part: torch.Tensor, *progress: Any) -> None:
        report(stage, problem.parameters.merged(z, part.parameters, z_part), *progress)

    state = solve_in_stages(part, start, options, own_report, f"group {first + 1} of the trials")
    return problem.parameters.merged(z, part.parameters, state.z[0])
