"""Gauss-Newton steps of minimum norm, for few residuals and many unknowns.

The step is -J^T (J J^T)^-1 r; each row of J costs one backward pass. The residuals of a long motion are strongly
nonlinear, so several step lengths are evaluated in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.optimizers import OptimizerStep
from gradsim.fit.residuals import Residual, evaluate
from gradsim.scene.arguments import checked_number, checked_whole
from gradsim.scene.errors import InvalidInput

MAX_RESIDUALS = 64
RIDGE = 1e-9  # regularization of J J^T, relative to the mean of its diagonal
MAX_LENGTH = 1.5  # longest step length, relative to the full step; beyond 1 to bracket the minimum


@dataclass(frozen=True)
class MinimumNorm:
    """Nonlinear least squares for few residuals and any number of unknowns, by steps of minimum norm.

    Several starts run one after another, that with the lowest residuals first; those that diverge are left out.

    Example:
        `gs.control(scene, image, frames=30, stages=[(gs.Moments(), gs.MinimumNorm(iterations=5))])`

    Args:
        iterations: Number of steps.
        line_search_points: Step lengths evaluated in one batch of rollouts.
        max_step: Largest root mean square of a step, in coordinate units (see `gradsim.fit.parameters`).
        min_length: Shortest step length evaluated, relative to the longest.
    """

    iterations: int = 10
    line_search_points: int = 8
    max_step: float = 0.5
    min_length: float = 0.05

    def __post_init__(self) -> None:
        checked_whole("MinimumNorm.iterations", self.iterations, 0)
        checked_whole("MinimumNorm.line_search_points", self.line_search_points)
        checked_number("MinimumNorm.max_step", self.max_step, above=0.0)
        checked_number("MinimumNorm.min_length", self.min_length, above=0.0)

    def iterate(self, residual: Residual, z: torch.Tensor) -> Iterator[OptimizerStep]:
        """Yields all points [K, P] at the starts and after every step of one of them."""
        points = z.detach().clone()
        first = evaluate(residual, points, len(points))
        costs = torch.nan_to_num((first * first).sum(1), nan=torch.inf, posinf=torch.inf)
        max_gradient = torch.full_like(costs, torch.inf)
        for start in torch.argsort(costs).tolist():
            if not bool(torch.isfinite(costs[start])):
                break
            for k in range(self.iterations + 1):
                point = points[start : start + 1]
                r, J = _linearize(residual, point)
                costs[start], max_gradient[start] = (r * r).sum(), (J.T @ r).abs().max() * 2
                yield OptimizerStep(points.clone(), costs.clone(), max_gradient.clone())
                if k < self.iterations:
                    points[start] = self._step(residual, point, r, J)[0]

    def _step(self, residual: Residual, point: torch.Tensor, r: torch.Tensor, J: torch.Tensor) -> torch.Tensor:
        """Returns the next point [1, P] from a point with residuals r [N] and Jacobian J [N, P]."""
        gram = J @ J.T
        ridge = RIDGE * gram.diagonal().mean()
        if not bool(ridge > 0.0):  # the residuals do not depend on the unknowns here
            return point
        step = -(J.T @ torch.linalg.solve(gram + ridge * torch.eye(len(r), dtype=r.dtype), r))
        rms = float(step.square().mean().sqrt())
        if not rms > 0.0:
            return point
        longest = min(MAX_LENGTH, self.max_step / rms)
        fractions = torch.logspace(0.0, 1.0, self.line_search_points, base=self.min_length, dtype=r.dtype)
        lengths = longest * fractions.flip(0)
        new = evaluate(residual, point + lengths[:, None] * step, self.line_search_points)
        residuals = torch.cat([r[None].expand(1, -1), new.expand(-1, len(r))])
        return point + _best_length(torch.cat([lengths.new_zeros(1), lengths]), residuals) * step


def _linearize(residual: Residual, point: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the residuals [N] at a point [1, P] and their Jacobian [N, P]."""
    leaf = point.detach().clone().requires_grad_()
    r = residual(leaf)[0]
    if len(r) > MAX_RESIDUALS:
        raise InvalidInput(
            "MinimumNorm", f"{len(r)} residuals", f"must be at most {MAX_RESIDUALS}, such as those of gs.Moments()"
        )
    rows = [torch.autograd.grad(value, leaf, retain_graph=True)[0][0] for value in r]
    return r.detach(), torch.stack(rows)


def _best_length(lengths: torch.Tensor, residuals: torch.Tensor) -> float:
    """Returns the length that minimizes the sum of squares of residuals [M, N], interpolated between lengths [M]."""
    a, b = residuals[:-1], residuals[1:] - residuals[:-1]
    fraction = (-(a * b).sum(1) / (b * b).sum(1).clamp_min(1e-300)).clamp(0.0, 1.0)
    fraction = torch.nan_to_num(fraction, nan=0.0)
    cost = torch.nan_to_num(((a + fraction[:, None] * b) ** 2).sum(1), nan=torch.inf)
    k = int(torch.argmin(cost))
    return float(lengths[k] + fraction[k] * (lengths[k + 1] - lengths[k]))
