"""Few residuals and many unknowns: the smallest change that would bring all residuals to zero.

Gauss and Newton's step with the pseudo-inverse from the other side, -J' (J J')^-1 r: the rows of J are one backward
pass each. The residuals of a long motion bend away from their tangent, so several lengths of a step are tried at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.optimizers import Loss, Step
from gradsim.fit.residuals import evaluated
from gradsim.scene.errors import InvalidInput

MOST_RESIDUALS = 64
RIDGE = 1e-9  # relative, of J J'


@dataclass(frozen=True)
class MinimumNorm:
    """Least squares for a handful of residuals and any number of unknowns.

    Of several starts only the best goes on.

    Args:
        iterations: Steps.
        trials: Lengths of a step that are tried at once, as worlds of one rollout.
        largest_step: Root mean square of a step, in natural units of the unknowns.
        shortest: Least length tried, as a share of the whole step.
    """

    iterations: int = 10
    trials: int = 8
    largest_step: float = 0.5
    shortest: float = 0.05

    def steps(self, residual: Loss, z: torch.Tensor) -> Iterator[Step]:
        """Residuals [K, N] of coordinates [K, P]; yields the start and where each step leads."""
        first = evaluated(residual, z, len(z))
        best = int(torch.argmin(torch.nan_to_num((first * first).sum(1), nan=torch.inf)))
        place = z[best : best + 1].detach().clone()
        for k in range(self.iterations + 1):
            r, rows = _linearized(residual, place)
            cost = (r * r).sum()[None]
            slope = (rows.T @ r).abs().max()[None] * 2
            yield place.clone(), cost, slope
            if k < self.iterations:
                place = self._moved(residual, place, r, rows, float(cost))

    def _moved(
        self, residual: Loss, place: torch.Tensor, r: torch.Tensor, rows: torch.Tensor, cost: float
    ) -> torch.Tensor:
        square = rows @ rows.T
        ridge = RIDGE * square.diagonal().mean()
        if not bool(ridge > 0.0):  # nothing that may be chosen matters here
            return place
        step = -(rows.T @ torch.linalg.solve(square + ridge * torch.eye(len(r), dtype=r.dtype), r))
        size = float(step.square().mean().sqrt())
        if not size > 0.0:
            return place
        reach = min(1.5, self.largest_step / size)  # a little beyond the tangent's zero: a minimum wants two sides
        lengths = reach * torch.logspace(0.0, 1.0, self.trials, base=self.shortest, dtype=r.dtype).flip(0)
        found = evaluated(residual, place + lengths[:, None] * step, self.trials)
        ends = torch.cat([r[None].expand(1, -1), found.expand(-1, len(r))])
        return place + _lowest(torch.cat([lengths.new_zeros(1), lengths]), ends) * step


def _linearized(residual: Loss, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Residuals [N] at a place [1, P] and their derivatives [N, P]."""
    leaf = place.detach().clone().requires_grad_()
    r = residual(leaf)[0]
    if len(r) > MOST_RESIDUALS:
        raise InvalidInput(
            "MinimumNorm", f"{len(r)} residuals", f"is for at most {MOST_RESIDUALS}, such as those of gs.Moments()"
        )
    rows = [torch.autograd.grad(value, leaf, retain_graph=True)[0][0] for value in r]
    return r.detach(), torch.stack(rows)


def _lowest(lengths: torch.Tensor, ends: torch.Tensor) -> float:
    """The length at which residuals [M, N], linear between those tried, have the least sum of squares."""
    a, b = ends[:-1], ends[1:] - ends[:-1]
    share = (-(a * b).sum(1) / (b * b).sum(1).clamp_min(1e-300)).clamp(0.0, 1.0)
    share = torch.nan_to_num(share, nan=0.0)
    cost = torch.nan_to_num(((a + share[:, None] * b) ** 2).sum(1), nan=torch.inf)
    k = int(torch.argmin(cost))
    return float(lengths[k] + share[k] * (lengths[k + 1] - lengths[k]))
