"""Gauss-Newton method with Levenberg-Marquardt damping, for a batch of starts.

A Jacobian costs one rollout per unknown, so each is used for several steps: after the first step, the same damped
normal equations are solved for the new residuals (Fan, Math. Comp. 81, 2012). The cost of contact parameters has narrow
curved valleys. The first step leaves the valley, and the following chord steps return to its floor much farther along
than a step restricted to the valley.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.residuals import FORWARD_STEP, Residual, balanced_steps, evaluate, forward_jacobian

DAMPING_FACTORS = (1e-3, 0.1, 10.0)  # factors of the damping that are evaluated in one batch
DAMPING_INCREASE = 1e4  # factor of the damping after an iteration without improvement
MIN_DAMPING, MAX_DAMPING = 1e-12, 1e2  # above the maximum the iteration stops
MAX_CHORD_STEPS = 8  # further steps with the same Jacobian
CHORD_DECREASE = 0.8  # largest ratio of new to old cost for which another chord step is taken
MIN_DECREASE = 1e-9  # relative decrease of the cost below which the iteration has converged
STATIONARY_DECREASE = 1e-2  # relative decrease predicted by the linear model, above which a point is not a minimum
ROUNDING_COST = 1e-24  # cost that consists of rounding errors only

StopCriterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # coordinates [K, P], costs [K] -> stop [K]
Callback = Callable[[torch.Tensor, torch.Tensor], None]  # coordinates [K, P], costs [K]


@dataclass(frozen=True)
class GaussNewton:
    """Nonlinear least squares for up to about fifty unknowns; the Jacobian is computed by one batch of rollouts.

    Args:
        iterations: Maximum number of iterations.
        damping: Initial damping, relative to the diagonal of the normal equations.
        tolerance: Converged when the largest component of a step is smaller, in coordinate units
            (see `gradsim.fit.parameters`).
        max_step: Largest component of a step, in coordinate units.
        max_worlds: Maximum number of worlds in one rollout; larger batches are split.
    """

    iterations: int = 30
    damping: float = 1e-3
    tolerance: float = 1e-11
    max_step: float = 1.2
    max_worlds: int = 64


@dataclass(eq=False)
class SolverState:
    """Current iterates of K starts."""

    z: torch.Tensor  # coordinates [K, P]
    cost: torch.Tensor  # sum of squared residuals, without the prior, [K]
    iterations: int
    converged: torch.Tensor  # [K]


@dataclass(frozen=True, eq=False)
class Prior:
    """Weak quadratic prior for unknowns that the observations do not determine yet."""

    center: torch.Tensor  # [P]
    width: torch.Tensor  # [P]
    weight: float

    def residual(self, z: torch.Tensor) -> torch.Tensor:
        return self.weight**0.5 * (z - self.center) / self.width


def never_stop(z: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
    """Stop criterion that no start fulfils."""
    return torch.zeros_like(cost, dtype=torch.bool)


def solve(
    residual: Residual,
    z: torch.Tensor,
    bounds: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    stop: StopCriterion = never_stop,
    jacobian: torch.Tensor | None = None,
    callback: Callback = lambda z, cost: None,
) -> SolverState:
    """Minimizes the sum of squared residuals from every start.

    Args:
        residual: Residuals [B, N] of coordinates [B, P].
        z: Starts [K, P].
        bounds: Lower and upper bounds of the coordinates, [P] each.
        options: Options of the method.
        prior: Prior that is added to the minimized cost; the returned cost does not include it.
        stop: Starts that fulfil this criterion count as converged.
        jacobian: Initial Jacobian [P, N] at a point near the starts; not used with a prior.
        callback: Called with coordinates [K, P] and costs [K] after every iteration.
    """
    if prior is not None:

        def with_prior(z: torch.Tensor) -> torch.Tensor:
            return torch.cat([residual(z), prior.residual(z)], -1)

        state = solve(with_prior, z, bounds, options, stop=stop, callback=callback)
        state.cost = state.cost - (prior.residual(state.z) ** 2).sum(-1)
        return state
    for state in iterate(residual, z, bounds, options, stop=stop, jacobian=jacobian):
        if state.iterations:
            callback(state.z, state.cost)
    return state


def iterate(
    residual: Residual,
    z: torch.Tensor,
    bounds: tuple[torch.Tensor, torch.Tensor],
    options: GaussNewton = GaussNewton(),
    *,
    stop: StopCriterion = never_stop,
    jacobian: torch.Tensor | None = None,
) -> Iterator[SolverState]:
    """Yields the starts and the state after every iteration of `solve`; the tensors are updated in place."""
    z = z.clamp(*bounds)
    r = evaluate(residual, z, options.max_worlds)
    cost = (r * r).sum(1)
    damping = torch.full_like(cost, options.damping)
    steps = torch.full_like(z, FORWARD_STEP)
    J = [r.new_zeros(0) if jacobian is None else jacobian for _ in z]
    outdated = torch.full_like(cost, jacobian is None, dtype=torch.bool)  # Jacobians
    converged = stop(z, cost) | (cost <= ROUNDING_COST)
    active = torch.isfinite(cost) & ~converged
    iteration = 0
    yield SolverState(z, cost, iteration, converged)
    while iteration < options.iterations and bool(active.any()):
        iteration += 1
        new = torch.nonzero(active & outdated)[:, 0]
        updated = forward_jacobian(residual, z[new], r[new], steps[new], options.max_worlds)
        for i, matrix in zip(new.tolist(), updated, strict=True):
            J[i], steps[i] = matrix, balanced_steps(matrix)
        k = torch.nonzero(active)[:, 0]
        model = _LinearModel(z[k], [r[i] for i in k], [J[i] for i in k], bounds)
        trial_z, trial_r, trial_damping = _chord_steps(residual, model, damping[k], options)
        old, new_cost = cost[k], (trial_r * trial_r).sum(1)
        better = new_cost < old
        step = (trial_z - z[k]).abs().amax(1)
        z[k[better]], r[k[better]], cost[k[better]] = trial_z[better], trial_r[better], new_cost[better]
        outdated[k] = better
        damping[k] = torch.where(better, trial_damping.clamp_min(MIN_DAMPING), damping[k] * DAMPING_INCREASE)
        stuck = damping[k] > MAX_DAMPING
        small = better & ((step < options.tolerance) | (old - new_cost < MIN_DECREASE * old))
        low = (cost[k] <= ROUNDING_COST) | stop(z[k], cost[k])
        stationary = model.predicted_decrease < torch.where(stuck, STATIONARY_DECREASE, MIN_DECREASE)
        converged[k] = small | low | (~better & stationary)
        active[k] = ~converged[k] & ~stuck
        yield SolverState(z, cost, iteration, converged)


class _LinearModel:
    """Linear models of the residuals at K points.

    Residuals and Jacobians of large images are kept in lists: stacking them would copy them.
    """

    def __init__(
        self, z: torch.Tensor, r: list[torch.Tensor], J: list[torch.Tensor], bounds: tuple[torch.Tensor, torch.Tensor]
    ) -> None:
        """Args:
        z: Coordinates [K, P].
        r: K residuals [N].
        J: K Jacobians [P, N].
        bounds: Lower and upper bounds of the coordinates, [P] each.
        """
        self.z, self.r, self.J, self.bounds = z, r, J, bounds
        g = torch.stack([matrix @ vector for matrix, vector in zip(J, r, strict=True)])
        self.fixed = ((z <= bounds[0]) & (g > 0)) | ((z >= bounds[1]) & (g < 0))  # active bounds
        A = torch.stack([matrix @ matrix.T for matrix in J])
        self.A = torch.where(self.fixed[:, :, None] | self.fixed[:, None, :], 0.0, A)
        diagonal = torch.diagonal(self.A, dim1=1, dim2=2)
        self.scale = torch.maximum(diagonal, 1e-6 * diagonal.amax(1, keepdim=True) + 1e-14)
        undamped = self._solve(torch.arange(len(z)), g, torch.full_like(z[:, 0], MIN_DAMPING))
        cost = torch.stack([vector @ vector for vector in r])
        self.predicted_decrease = -(g * undamped).sum(1) / cost.clamp_min(1e-300)  # relative, of an undamped step

    def step(self, k: torch.Tensor, r: list[torch.Tensor], damping: torch.Tensor) -> torch.Tensor:
        """Returns steps [M, P] from points with residuals r, by the models k [M] with dampings [M]."""
        return self._solve(k, torch.stack([self.J[i] @ vector for i, vector in zip(k, r, strict=True)]), damping)

    def _solve(self, k: torch.Tensor, g: torch.Tensor, damping: torch.Tensor) -> torch.Tensor:
        lhs = self.A[k] + torch.diag_embed(damping[:, None] * self.scale[k])
        return -torch.linalg.lstsq(lhs, torch.where(self.fixed[k], 0.0, g)[..., None]).solution[..., 0]


def _chord_steps(
    residual: Residual, model: _LinearModel, damping: torch.Tensor, options: GaussNewton
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes steps with one Jacobian per start and several dampings.

    Returns the best points [K, P], their residuals [K, N] and the dampings [K] that led to them.
    """
    count = len(damping)
    k = torch.arange(count).repeat_interleave(len(DAMPING_FACTORS))
    dampings = (damping[:, None] * torch.tensor(DAMPING_FACTORS, dtype=damping.dtype)).flatten()
    z, r = model.z[k], [model.r[i] for i in k]
    best_z, best_r, best_cost = z.clone(), list(r), torch.full_like(dampings, torch.inf)
    active = torch.arange(len(k))
    for _ in range(1 + MAX_CHORD_STEPS):
        step = model.step(k[active], [r[i] for i in active], dampings[active])
        length = step.abs().amax(-1, keepdim=True).clamp_min(1e-300)
        z[active] += step * torch.clamp(options.max_step / length, max=1.0)
        z[active] = z[active].clamp(*model.bounds)
        new_r = evaluate(residual, z[active], options.max_worlds).expand(-1, len(r[0]))
        cost = torch.nan_to_num(torch.stack([vector @ vector for vector in new_r]), nan=torch.inf)
        decreasing = torch.isfinite(cost) & (cost < CHORD_DECREASE * best_cost[active]) & (cost > ROUNDING_COST)
        for row, i in enumerate(active.tolist()):
            r[i] = new_r[row]
            if cost[row] < best_cost[i]:
                best_z[i], best_r[i], best_cost[i] = z[i], r[i], cost[row]
        active = active[decreasing]
        if len(active) == 0:
            break
    best = torch.argmin(best_cost.view(count, -1), dim=1) + len(DAMPING_FACTORS) * torch.arange(count)
    return best_z[best], torch.stack([best_r[i] for i in best]), dampings[best]
