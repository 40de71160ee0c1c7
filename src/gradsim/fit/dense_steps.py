"""Levenberg-Marquardt steps with dense Jacobians from forward differences, for a batch of starts.

A Jacobian costs one rollout per unknown, so each is used for several steps: after the first step, the same damped
normal equations are solved for the new residuals (Fan, Math. Comp. 81, 2012). The cost of contact parameters has narrow
curved valleys. The first step leaves the valley, and the following chord steps return to its floor much farther along
than a step restricted to the valley.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from gradsim.fit.least_squares import (
    MAX_DAMPING,
    MIN_DAMPING,
    MIN_DECREASE,
    ROUNDING_COST,
    STATIONARY_DECREASE,
    Bounds,
    Iterates,
    Memory,
    StopCriterion,
    active_bounds,
    least_squares,
    limited_step,
    squared_norms,
)
from gradsim.fit.residuals import FORWARD_STEP, Residual, balanced_steps, evaluate, forward_jacobian
from gradsim.fit.structure import Structure

if TYPE_CHECKING:
    from gradsim.fit.gauss_newton import GaussNewton

DAMPING_FACTORS = (1e-3, 0.1, 10.0)  # factors of the damping that are evaluated in one batch
DAMPING_INCREASE = 1e4  # factor of the damping after an iteration without improvement
MAX_CHORD_STEPS = 8  # further steps with the same Jacobian
CHORD_DECREASE = 0.8  # largest ratio of new to old cost for which another chord step is taken
CHORD_COORDINATES = 10  # from this number of coordinates on, chord steps go on while they matter: Jacobians are costly
CHORD_DISTANCE = 0.05  # largest step over which a Jacobian hardly changes, in coordinate units


def iterate_dense(
    residual: Residual,
    z: torch.Tensor,
    bounds: Bounds,
    options: GaussNewton,
    *,
    stop: StopCriterion,
    jacobian: torch.Tensor | None = None,
    structure: Structure | None = None,
    resolution: float = 0.0,
    last: Iterates | None = None,
) -> Iterator[Iterates]:
    """Yields the starts z [K, P] and the iterates after every iteration; other arguments as for `solve`.

    With the last iterates of an interrupted sequence, and their memory, it continues that sequence.
    """
    z = z.clamp(*bounds) if last is None else last.z.clone()
    r = evaluate(residual, z, options.max_worlds) if last is None else last.memory["r"].clone()
    cost = squared_norms(r) if last is None else last.memory["cost"].clone()
    J = [r.new_zeros(0) if jacobian is None else jacobian for _ in z]
    outdated = torch.full_like(cost, jacobian is None or last is not None, dtype=torch.bool)  # Jacobians
    converged = stop(z, cost) | (cost <= ROUNDING_COST) if last is None else last.converged.clone()
    memory = _new_memory(z, cost, converged, options) if last is None else _copied(last.memory)
    memory |= {"r": r, "cost": cost}  # changed in place
    damping, steps, complete, active = (memory[name] for name in ("damping", "steps", "complete", "active"))
    yield Iterates(z, cost, converged, {})
    model: _LinearModel | None
    for _ in range(options.iterations):
        if not bool(active.any()):
            return
        new = torch.nonzero(active & outdated)[:, 0]
        model, updated = None, r.new_zeros(0)  # frees outdated Jacobians before others are computed
        for i in new.tolist():
            J[i] = updated
        updated, known = forward_jacobian(residual, z[new], r[new], steps[new], options.max_worlds, bounds, structure)
        complete[new] = known
        for row, i in enumerate(new.tolist()):
            J[i], steps[i] = updated[row], balanced_steps(updated[row])
        k = torch.nonzero(active)[:, 0]
        model = _LinearModel(z[k], [r[i] for i in k], [J[i] for i in k], bounds)
        trial_z, trial_r, trial_damping, settled = _chord_steps(residual, model, damping[k], options, resolution)
        old, new_cost = cost[k], squared_norms(trial_r)
        better = new_cost < old
        step = (trial_z - z[k]).abs().amax(1)
        z[k[better]], r[k[better]], cost[k[better]] = trial_z[better], trial_r[better], new_cost[better]
        outdated[k] = better
        damping[k] = torch.where(better, trial_damping.clamp_min(MIN_DAMPING), damping[k] * DAMPING_INCREASE)
        stuck = damping[k] > MAX_DAMPING
        least = (MIN_DECREASE * old).clamp_min(resolution)  # decrease of the cost that matters
        small = better & ((step < options.tolerance) | (old - new_cost < least) | (settled & (step < CHORD_DISTANCE)))
        low = (cost[k] <= ROUNDING_COST) | stop(z[k], cost[k])
        stationary = model.predicted_decrease < torch.where(stuck, STATIONARY_DECREASE, least / old.clamp_min(1e-300))
        converged[k] = low | (complete[k] & (small | (~better & stationary)))
        active[k] = ~(small | low | (~better & stationary)) & ~stuck
        # A Jacobian that is still valid is not part of the memory: the sequence cannot be continued from here.
        yield Iterates(z, cost, converged, memory if bool(outdated[active].all()) else {})


def _new_memory(z: torch.Tensor, cost: torch.Tensor, converged: torch.Tensor, options: GaussNewton) -> Memory:
    """Returns what the next iteration depends on beside the iterates, the residuals r [K, N] and their cost [K].

    The memory has the latter too: evaluated in a batch of another size they differ in their last bits.
    """
    return {
        "damping": torch.full_like(cost, options.damping),
        "steps": torch.full_like(z, FORWARD_STEP),  # of the next differences, [K, P]
        "complete": torch.ones_like(cost, dtype=torch.bool),  # whether every column of the Jacobian is known
        "active": torch.isfinite(cost) & ~converged,  # whether to continue
    }


def _copied(memory: Memory) -> Memory:
    return {name: value.clone() for name, value in memory.items()}


class _LinearModel:
    """Linear models of the residuals at K points.

    Residuals and Jacobians of large images are kept in lists: stacking them would copy them.
    """

    def __init__(self, z: torch.Tensor, r: list[torch.Tensor], J: list[torch.Tensor], bounds: Bounds) -> None:
        """Args:
        z: Coordinates [K, P].
        r: K residuals [N].
        J: K Jacobians [P, N].
        bounds: Lower and upper bounds of the coordinates, [P] each.
        """
        self.z, self.r, self.J, self.bounds = z, r, J, bounds
        g = torch.stack([matrix @ vector for matrix, vector in zip(J, r, strict=True)])
        self.fixed = active_bounds(z, g, bounds)
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
        return -solve_finite(lhs, torch.where(self.fixed[k], 0.0, g))


def solve_finite(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Solves linear systems lhs [M, P, P] x = rhs [M, P]; x [M, P] is 0 where a system is not finite or not solvable.

    LAPACK fails on NaN and infinity, which products of huge derivatives beside a divergence overflow to, and a failure
    in one system of a batch would lose the others.
    """
    finite = torch.isfinite(lhs).all(-1).all(-1) & torch.isfinite(rhs).all(-1)
    solution = torch.zeros_like(rhs)
    try:
        solution[finite] = least_squares(lhs[finite], rhs[finite][..., None])[..., 0]
    except RuntimeError:  # LinAlgError is one
        for i in torch.nonzero(finite)[:, 0].tolist():
            solution[i] = torch.linalg.pinv(lhs[i], hermitian=True) @ rhs[i]
    return torch.where(torch.isfinite(solution), solution, 0.0)


def _chord_steps(
    residual: Residual, model: _LinearModel, damping: torch.Tensor, options: GaussNewton, resolution: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Takes steps with one Jacobian per start and several dampings.

    Returns the best points [K, P], their residuals [K, N], the dampings [K] that led to them, and whether a further
    step with the same Jacobian changes the cost by less than `resolution`, [K].
    """
    count = len(damping)
    k = torch.arange(count).repeat_interleave(len(DAMPING_FACTORS))
    dampings = (damping[:, None] * torch.tensor(DAMPING_FACTORS, dtype=damping.dtype)).flatten()
    z, r = model.z[k], [model.r[i] for i in k]
    best_z, best_r, best_cost = z.clone(), list(r), torch.full_like(dampings, torch.inf)
    settled = torch.zeros_like(dampings, dtype=torch.bool)
    ratio = CHORD_DECREASE if z.shape[1] < CHORD_COORDINATES or not resolution else 1.0
    active = torch.arange(len(k))
    for _ in range(1 + MAX_CHORD_STEPS):
        step = model.step(k[active], [r[i] for i in active], dampings[active])
        z[active] = limited_step(z[active], step, options.max_step, model.bounds)
        new_r = evaluate(residual, z[active], options.max_worlds).expand(-1, len(r[0]))
        cost = torch.nan_to_num(torch.stack([vector @ vector for vector in new_r]), nan=torch.inf)
        settled[active] = (best_cost[active] - cost).abs() < resolution
        decreasing = torch.isfinite(cost) & (cost < ratio * best_cost[active]) & (cost > ROUNDING_COST)
        decreasing &= ~settled[active]
        for row, i in enumerate(active.tolist()):
            r[i] = new_r[row]
            if cost[row] < best_cost[i]:
                best_z[i], best_r[i], best_cost[i] = z[i], r[i], cost[row]
        active = active[decreasing]
        if len(active) == 0:
            break
    best = torch.argmin(best_cost.view(count, -1), dim=1) + len(DAMPING_FACTORS) * torch.arange(count)
    return best_z[best], torch.stack([best_r[i] for i in best]), dampings[best], settled[best]
