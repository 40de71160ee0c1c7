"""Least squares at one level of detail, over the first frames: the step of which a search is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, Prior, SolverState, solve
from gradsim.fit.least_squares import StopCriterion, never_stop
from gradsim.fit.problem import EstimationProblem

ACCEPTED_EXCESS = 1e-8  # mean square of a correct fit in excess of the noise floor

Report = Callable[[str, torch.Tensor, float, int, int], None]  # stage, coordinates [P], mean square, frames, level


@dataclass(eq=False)
class SearchResult:
    """The minimum found by a search."""

    z: torch.Tensor  # [P]
    mean_square: float  # at the finest level
    accepted: bool  # whether it is at the noise floor
    converged: bool = False  # at the finest level
    alternative_minima: list[torch.Tensor] = field(default_factory=list)  # other minima with equal cost, [P] each


class LevelSolver:
    """Runs the least-squares solver of a problem at any level and over any number of first frames.

    Attributes:
        best: The last iterate, for a search that is interrupted.
    """

    def __init__(self, problem: EstimationProblem, optimizer: GaussNewton, report: Report):
        """Args:
        problem: Problem to solve.
        optimizer: Options of the least-squares solver.
        report: Called after every iteration.
        """
        self.problem, self.optimizer, self.report = problem, optimizer, report
        self.best: SearchResult | None = None

    def solve(
        self,
        z: torch.Tensor,
        level: int,
        frames: int,
        iterations: int,
        stage: str,
        *,
        prior: Prior | None = None,
        stop: StopCriterion = never_stop,
        jacobian: torch.Tensor | None = None,
        optimizer: GaussNewton | None = None,
    ) -> SolverState:
        """Minimizes from starts z [K, P] and reports every iteration; `prior` is added to the declared priors."""
        options = replace(optimizer or self.optimizer, iterations=iterations, max_worlds=self.problem.batch_size(level))
        declared = self.problem.prior(level)
        prior = declared if prior is None else prior if declared is None else prior.combined(declared)

        def callback(z: torch.Tensor, cost: torch.Tensor) -> None:
            best = int(torch.argmin(cost))
            mean_square = self.mean_square(cost[best], level, frames)
            self.best = SearchResult(z[best].clone(), mean_square, accepted=False)
            self.report(f"{stage}, {frames} frames", z[best], mean_square, frames, level)

        extra: dict[str, Any] = {
            "prior": prior,
            "stop": stop,
            "jacobian": jacobian,
            "callback": callback,
            "structure": self.problem.structure(level, frames),
            "resolution": self.problem.resolution(level),
        }
        return solve(self.problem.residual(level, frames), z, self.problem.parameters.bounds(), options, **extra)

    def mean_square(self, cost: torch.Tensor, level: int, frames: int) -> float:
        """Returns the mean square of an entry for a cost []."""
        return float(self.problem.to_mean_square(cost, level, frames))
