"""Restarts beside a minimum, which find lower or equally low ones that a test of the residual cannot see."""

from __future__ import annotations

import torch

from gradsim.fit.least_squares import ROUNDING_COST, StopCriterion
from gradsim.fit.level_solver import ACCEPTED_EXCESS, LevelSolver, SearchResult

RESTART_ITERATIONS = 4  # after which only promising restarts go on, for as many more
PROMISING_COST_RATIO = 10.0  # largest ratio of mean squares of these to that of the minimum
CANDIDATE_COST_RATIO = 1.2  # the same of a minimum worth refining
RESTART_FACTORS = (0.6, 0.8, 1.25, 1.6)  # of a value on a logarithmic scale
SAME_MINIMUM_DISTANCE = 1e-2  # largest distance, in coordinate units, of restarts that end in the same minimum


def restart(solver: LevelSolver, result: SearchResult, coarse: torch.Tensor, level: int) -> None:
    """Restarts beside a result along the least determined coordinates, and updates it.

    A lower minimum replaces the result, others with equal cost are added to its alternatives.

    Args:
        solver: Solver of the problem.
        result: Result of a search at the finest level.
        coarse: The same minimum at `level`, [P].
        level: Level of detail of the restarts.
    """
    problem = solver.problem
    frames = problem.frames
    square = float(problem.mean_square(coarse[None], level, frames))
    J = problem.jacobian(coarse, level, frames)
    deviations = problem.standard_deviations(J, level)
    starts = _restart_points(coarse, deviations, exact=frames * square <= ROUNDING_COST)
    stop: StopCriterion = lambda z, cost: same_minimum(z, coarse)  # noqa: E731
    state = solver.solve(starts, level, frames, RESTART_ITERATIONS, "restarts", stop=stop, jacobian=J)
    limit = problem.from_mean_square(PROMISING_COST_RATIO * square + ACCEPTED_EXCESS, level, frames)
    promising = (state.cost < limit) & ~state.converged
    if bool(promising.any()):
        more = solver.solve(state.z[promising], level, frames, RESTART_ITERATIONS, "restarts", stop=stop)
        state.z[promising], state.cost[promising] = more.z, more.cost
    minima = [coarse]
    for k in torch.argsort(state.cost).tolist():
        if solver.mean_square(state.cost[k], level, frames) > CANDIDATE_COST_RATIO * square + ACCEPTED_EXCESS:
            break
        if any(bool(same_minimum(state.z[k], minimum)) for minimum in minima):
            continue
        minima.append(state.z[k])
        if _compare(solver, result, state.z[k]):
            break


def _restart_points(z: torch.Tensor, deviations: torch.Tensor, exact: bool) -> torch.Tensor:
    """Returns starts beside a minimum z [P] along the coordinates with the largest standard deviations [P].

    If the minimum is exact only the farthest are used: no other is lower, and one of equal cost is far away.
    """
    weakest = torch.argsort(deviations, descending=True)[:2]
    factors = RESTART_FACTORS[:: len(RESTART_FACTORS) - 1] if exact else RESTART_FACTORS
    offsets = torch.log(torch.tensor(factors, dtype=z.dtype))
    starts = z.repeat(len(weakest) * len(offsets), 1)
    for row, (k, offset) in enumerate((k, offset) for k in weakest for offset in offsets):
        starts[row, k] += offset
    return starts


def _compare(solver: LevelSolver, result: SearchResult, z: torch.Tensor) -> bool:
    """Refines another minimum z [P] of a coarser level and updates the result with it.

    Returns whether it is a different minimum at the finest level.
    """
    problem = solver.problem
    frames = problem.frames
    stop: StopCriterion = lambda z, cost: same_minimum(z, result.z)  # noqa: E731
    state = solver.solve(z[None], 0, frames, solver.optimizer.iterations, "restarts", stop=stop)
    z = state.z[0]
    if bool(same_minimum(z, result.z)):
        return False
    new = solver.mean_square(state.cost[0], 0, frames)
    old = float(problem.mean_square(result.z[None], 0, frames))
    if new < old * (1 - 1e-6):
        if problem.is_equal_cost(old, new):
            result.alternative_minima.append(result.z)
        result.z, result.converged = z, bool(state.converged[0])
    elif problem.is_equal_cost(new, old):
        result.alternative_minima.append(z)
    return True


def same_minimum(z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Whether points z [..., P] are at the minimum `other`, [...]."""
    return (z - other).abs().amax(-1) < SAME_MINIMUM_DISTANCE
