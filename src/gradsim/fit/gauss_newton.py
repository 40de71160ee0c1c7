"""Gauss and Newton's method with Levenberg and Marquardt's damping, for many starts at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.residuals import Residual, evaluated, jacobian

TRIALS = (1e-2, 1.0, 1e2, 1e4)  # factors of the damping that are tried at once
LEAST, MOST = 1e-12, 1.0  # damping; beyond it no trial was better, so this is the minimum
ENOUGH = 1e-9  # relative gain of an iteration that is not worth another


@dataclass(frozen=True)
class GaussNewton:
    """Least squares for up to about fifty unknowns: the Jacobian comes from one batch of rollouts and renderings.

    Args:
        iterations: At most.
        damping: At the start, relative to the diagonal of the normal equations.
        tolerance: Stop where the largest step, in natural units of the unknowns, is smaller.
        largest_step: Of one iteration, in the same units.
        worlds: Most worlds in one rollout; more are taken one batch after another.
    """

    iterations: int = 30
    damping: float = 1e-3
    tolerance: float = 1e-11
    largest_step: float = 1.2
    worlds: int = 64


@dataclass(eq=False)
class Descent:
    """Where K starts have come to."""

    z: torch.Tensor  # coordinates [K, P]
    cost: torch.Tensor  # sum of squared residuals, without the prior, [K]
    iterations: int
    converged: torch.Tensor  # [K]
    history: list[tuple[torch.Tensor, torch.Tensor]]  # z and cost after each iteration

    @property
    def best(self) -> int:
        return int(torch.argmin(self.cost))


@dataclass(frozen=True, eq=False)
class Prior:
    """A weak pull towards the middle of what is plausible, for what is not seen yet."""

    middle: torch.Tensor  # [P]
    width: torch.Tensor  # [P]
    weight: float

    def cost(self, z: torch.Tensor) -> torch.Tensor:
        return self.weight * (((z - self.middle) / self.width) ** 2).sum(-1)


def descend(
    residual: Residual,
    z: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    goal: float = 0.0,
    report: Callable[[torch.Tensor, torch.Tensor], None] = lambda z, cost: None,
) -> Descent:
    """Go down from every start z [K, P] until the steps are small.

    Args:
        residual: Of coordinates [B, P].
        z: Starts.
        limits: Bounds of the coordinates, [P] each.
        options: See `GaussNewton`.
        prior: Added to the cost while going down.
        goal: Cost at which a start rests.
        report: Told z and cost after each iteration.
    """
    done = None
    for done in descents(residual, z, limits, options, prior=prior, goal=goal):
        if done.iterations:
            report(done.z, done.cost)
    assert done is not None
    return done


def descents(
    residual: Residual,
    z: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    goal: float = 0.0,
) -> Iterator[Descent]:
    """As `descend`, iteration by iteration, from the starts on."""
    z = z.clamp(*limits)
    r = evaluated(residual, z, options.worlds)
    cost = (r * r).sum(1)
    damping = torch.full_like(cost, options.damping)
    active = torch.isfinite(cost)
    history = [(z.clone(), cost.clone())]
    iteration = 0
    yield Descent(z, cost, iteration, ~active, history)
    while iteration < options.iterations and bool(active.any()):
        iteration += 1
        k = torch.nonzero(active)[:, 0]
        trial, factor = _trials(residual, z[k], r[k], damping[k], limits, options, prior)
        found = evaluated(residual, trial.flatten(0, 1), options.worlds)
        found = found.expand(-1, r.shape[1]).view(*trial.shape[:2], -1)
        costs = (found * found).sum(2)
        extra = (lambda x: torch.zeros(x.shape[:-1], dtype=x.dtype)) if prior is None else prior.cost
        total, now = costs + extra(trial), cost[k] + extra(z[k])
        best = torch.argmin(torch.nan_to_num(total, nan=torch.inf), dim=1)
        rows = torch.arange(len(k))
        better = total[rows, best] < now
        step = (trial[rows, best] - z[k]).abs().amax(1)
        gain = (now - total[rows, best]) / now.clamp_min(1e-300)
        damping[k] = torch.where(better, factor[rows, best].clamp_min(LEAST), damping[k] * 1e4)
        take = k[better]
        z[take], r[take] = trial[rows, best][better], found[rows, best][better]
        cost[take] = costs[rows, best][better]
        small = better & ((step < options.tolerance) | (gain < ENOUGH))
        active[k] = ~small & (damping[k] <= MOST) & (cost[k] > goal)
        history.append((z.clone(), cost.clone()))
        yield Descent(z, cost, iteration, ~active, history)


def _trials(
    residual: Residual,
    z: torch.Tensor,
    r: torch.Tensor,
    damping: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton,
    prior: Prior | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Points to try from each z [K, P], one for each damping, [K, D, P], and the dampings [K, D]."""
    J = jacobian(residual, z, options.worlds)
    J = torch.where(torch.isfinite(J), J, 0.0)
    A, g = J @ J.mT, (J @ r[..., None])[..., 0]
    if prior is not None:
        A = A + torch.diag(prior.weight / prior.width**2)
        g = g + prior.weight * (z - prior.middle) / prior.width**2
    diagonal = torch.diagonal(A, dim1=1, dim2=2)
    floor = 1e-6 * diagonal.amax(1, keepdim=True) + 1e-14
    scale = torch.diag_embed(torch.maximum(diagonal, floor))
    factors = damping[:, None] * torch.tensor(TRIALS, dtype=z.dtype)
    lhs = A[:, None] + factors[..., None, None] * scale[:, None]
    step = -torch.linalg.lstsq(lhs, g[:, None, :, None].expand(-1, len(TRIALS), -1, -1)).solution[..., 0]
    longest = step.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    step = step * torch.clamp(options.largest_step / longest, max=1.0)
    return (z[:, None] + step).clamp(*limits), factors
