"""Gauss and Newton's method with Levenberg and Marquardt's damping, for many starts at once.

A Jacobian costs as many rollouts as there are unknowns, so each is used for several steps: after the first, the same
damped normal equations are solved for the residuals found there (Fan, Math. Comp. 81, 2012). Contact parameters lie in
narrow bent valleys: the first step leaves the valley, and the next ones come back to its floor much farther on than a
step that had to stay inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.residuals import FIRST_STEP, Residual, balanced, evaluated, slopes

TRIALS = (1e-3, 0.1, 10.0)  # factors of the damping that are tried at once
RAISE = 1e4  # of the damping, where none was better
CHORDS = 8  # steps with the same Jacobian, after the first
WORTH = 0.8  # of the cost that a step may leave, to be worth another with the same Jacobian
LEAST, MOST = 1e-12, 1e2  # damping; beyond it no trial was better
ENOUGH = 1e-9  # relative gain that is not worth an iteration
PROMISE = 1e-2  # relative gain by the linear model, above which a place without a better one near is no minimum
ROUNDING = 1e-24  # cost of residuals that are nothing but rounding

Rest = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


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

    def residual(self, z: torch.Tensor) -> torch.Tensor:
        return self.weight**0.5 * (z - self.middle) / self.width


def descend(
    residual: Residual,
    z: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    rest: Rest = lambda z, cost: torch.zeros_like(cost, dtype=torch.bool),
    slope: torch.Tensor | None = None,
    report: Callable[[torch.Tensor, torch.Tensor], None] = lambda z, cost: None,
) -> Descent:
    """Go down from every start z [K, P] until the steps are small.

    Args:
        residual: Of coordinates [B, P].
        z: Starts.
        limits: Bounds of the coordinates, [P] each.
        options: See `GaussNewton`.
        prior: Added to the cost while going down.
        rest: Told z [K, P] and cost [K], which starts are good enough [K].
        slope: Jacobian to begin with, [P, N], of a place that is thought to be near.
        report: Told z and cost after each iteration.
    """
    if prior is not None:
        pulled = lambda z: torch.cat([residual(z), prior.residual(z)], -1)  # noqa: E731
        done = descend(pulled, z, limits, options, rest=rest, report=report)
        done.cost = done.cost - (prior.residual(done.z) ** 2).sum(-1)
        return done
    for done in descents(residual, z, limits, options, rest=rest, slope=slope):
        if done.iterations:
            report(done.z, done.cost)
    return done


def descents(
    residual: Residual,
    z: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    rest: Rest = lambda z, cost: torch.zeros_like(cost, dtype=torch.bool),
    slope: torch.Tensor | None = None,
) -> Iterator[Descent]:
    """As `descend`, iteration by iteration, from the starts on."""
    z = z.clamp(*limits)
    r = evaluated(residual, z, options.worlds)
    cost = (r * r).sum(1)
    damping = torch.full_like(cost, options.damping)
    steps = torch.full_like(z, FIRST_STEP)
    J = [r.new_zeros(0) if slope is None else slope for _ in z]
    moved = torch.full_like(cost, slope is None, dtype=torch.bool)  # since the Jacobian was taken
    converged = rest(z, cost) | (cost <= ROUNDING)
    active = torch.isfinite(cost) & ~converged
    history = [(z.clone(), cost.clone())]
    iteration = 0
    yield Descent(z, cost, iteration, converged, history)
    while iteration < options.iterations and bool(active.any()):
        iteration += 1
        new = torch.nonzero(active & moved)[:, 0]
        for i, slope in zip(new.tolist(), slopes(residual, z[new], r[new], steps[new], options.worlds), strict=True):
            J[i], steps[i] = slope, balanced(slope)
        k = torch.nonzero(active)[:, 0]
        model = _Model(z[k], [r[i] for i in k], [J[i] for i in k], limits)
        trial, found, factor = _followed(residual, model, damping[k], options)
        now, then = cost[k], (found * found).sum(1)
        better = then < now
        step = (trial - z[k]).abs().amax(1)
        z[k[better]], r[k[better]], cost[k[better]] = trial[better], found[better], then[better]
        moved[k] = better
        damping[k] = torch.where(better, factor.clamp_min(LEAST), damping[k] * RAISE)
        stuck = damping[k] > MOST
        small = better & ((step < options.tolerance) | (now - then < ENOUGH * now))
        low = (cost[k] <= ROUNDING) | rest(z[k], cost[k])
        converged[k] = small | low | (~better & (model.promise < torch.where(stuck, PROMISE, ENOUGH)))
        active[k] = ~converged[k] & ~stuck
        history.append((z.clone(), cost.clone()))
        yield Descent(z, cost, iteration, converged, history)


class _Model:
    """Residuals as linear functions about K places; of large pictures, so nothing of their size is copied."""

    def __init__(
        self, z: torch.Tensor, r: list[torch.Tensor], J: list[torch.Tensor], limits: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        """Args: z: [K, P]. r: [N] each. J: [P, N] each. limits: Bounds of the coordinates, [P] each."""
        self.z, self.r, self.J, self.limits = z, r, J, limits
        g = torch.stack([slope @ rest for slope, rest in zip(J, r, strict=True)])
        self.held = ((z <= limits[0]) & (g > 0)) | ((z >= limits[1]) & (g < 0))  # pressed against a bound
        A = torch.stack([slope @ slope.T for slope in J])
        self.A = torch.where(self.held[:, :, None] | self.held[:, None, :], 0.0, A)
        diagonal = torch.diagonal(self.A, dim1=1, dim2=2)
        self.scale = torch.maximum(diagonal, 1e-6 * diagonal.amax(1, keepdim=True) + 1e-14)
        full = self._solved(torch.arange(len(z)), g, torch.full_like(z[:, 0], LEAST))
        cost = torch.stack([rest @ rest for rest in r])
        self.promise = -(g * full).sum(1) / cost.clamp_min(1e-300)  # relative gain of a step without damping

    def step(self, k: torch.Tensor, r: list[torch.Tensor], damping: torch.Tensor) -> torch.Tensor:
        """From where residuals r were found, by the models k [M] with dampings [M]: [M, P]."""
        return self._solved(k, torch.stack([self.J[i] @ rest for i, rest in zip(k, r, strict=True)]), damping)

    def _solved(self, k: torch.Tensor, g: torch.Tensor, damping: torch.Tensor) -> torch.Tensor:
        lhs = self.A[k] + torch.diag_embed(damping[:, None] * self.scale[k])
        return -torch.linalg.lstsq(lhs, torch.where(self.held[k], 0.0, g)[..., None]).solution[..., 0]


def _followed(
    residual: Residual, model: _Model, damping: torch.Tensor, options: GaussNewton
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The best place that steps by one Jacobian lead to [K, P], its residuals [K, N], and the damping [K]."""
    count = len(damping)
    k = torch.arange(count).repeat_interleave(len(TRIALS))
    factor = (damping[:, None] * torch.tensor(TRIALS, dtype=damping.dtype)).flatten()
    z, r = model.z[k], [model.r[i] for i in k]
    best_z, best_r, best = z.clone(), list(r), torch.full_like(factor, torch.inf)
    going = torch.arange(len(k))
    for _ in range(1 + CHORDS):
        step = model.step(k[going], [r[i] for i in going], factor[going])
        longest = step.abs().amax(-1, keepdim=True).clamp_min(1e-300)
        z[going] += step * torch.clamp(options.largest_step / longest, max=1.0)
        z[going] = z[going].clamp(*model.limits)
        found = evaluated(residual, z[going], options.worlds).expand(-1, len(r[0]))
        cost = torch.nan_to_num(torch.stack([rest @ rest for rest in found]), nan=torch.inf)
        worth = torch.isfinite(cost) & (cost < WORTH * best[going]) & (cost > ROUNDING)
        for row, i in enumerate(going.tolist()):
            r[i] = found[row]
            if cost[row] < best[i]:
                best_z[i], best_r[i], best[i] = z[i], r[i], cost[row]
        going = going[worth]
        if len(going) == 0:
            break
    first = torch.argmin(best.view(count, -1), dim=1) + len(TRIALS) * torch.arange(count)
    return best_z[first], torch.stack([best_r[i] for i in first]), factor[first]
