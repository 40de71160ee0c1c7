"""Levenberg-Marquardt steps from products with the Jacobian, for hundreds or thousands of unknowns.

The linear problem of an iteration is solved in a Krylov space. The space gives the steps for all dampings, so several
are evaluated in one batch of rollouts, and a step that fails is shortened without new products. The coordinates are
scaled by the norms of the columns of the Jacobian, which are estimated from random combinations of its rows: the
expectation of (J^T u)^2 is the diagonal of J^T J if the components of u are independent signs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch

from gradsim.fit.bidiagonalization import Bidiagonalization
from gradsim.fit.jacobians import Adjoint, JacobianProducts
from gradsim.fit.least_squares import (
    MAX_DAMPING,
    MIN_DAMPING,
    ROUNDING_COST,
    STATIONARY_DECREASE,
    Bounds,
    Iterates,
    Memory,
    StopCriterion,
    active_bounds,
    limited_step,
    squared_norms,
)
from gradsim.fit.residuals import Residual, evaluate

if TYPE_CHECKING:
    from gradsim.fit.gauss_newton import GaussNewton

DAMPING_FACTORS = (1e-3, 1e-2, 0.1, 1.0, 10.0)  # factors of the damping that are evaluated in one batch
DAMPING_INCREASE = 1e4  # factor of the damping if none of these steps is better
FIRST_PROBES, PROBES = 8, 2  # random combinations of rows in the first and in later iterations
PROBE_WEIGHT = 0.25  # of the latest estimate of the column norms
SMALL_DECREASE = 10.0  # predicted decrease at convergence, relative to the tolerance of the actual one
MIN_SCALE = 1e-6  # smallest squared norm of a column relative to the largest, as for dense Jacobians


class _Step(NamedTuple):
    """Outcome of an iteration of one start."""

    z: torch.Tensor  # [P]
    cost: torch.Tensor  # scalar
    converged: bool
    active: bool  # whether to continue


def iterate_matrix_free(
    residual: Residual,
    z: torch.Tensor,
    bounds: Bounds,
    options: GaussNewton,
    adjoint: Adjoint,
    *,
    stop: StopCriterion,
    last: Iterates | None = None,
) -> Iterator[Iterates]:
    """Yields the starts z [K, P] and the iterates after every iteration; each start is iterated by itself.

    With the last iterates of an interrupted sequence it continues that sequence.
    """
    solvers = [_Solver(residual, bounds, options, adjoint) for _ in z]
    z = z.clamp(*bounds) if last is None else last.z.clone()
    if last is None:
        cost = squared_norms(evaluate(residual, z, options.max_worlds))
        converged = stop(z, cost) | (cost <= ROUNDING_COST)
        active = torch.isfinite(cost) & ~converged
    else:
        cost, converged, active = last.memory["cost"].clone(), last.converged.clone(), last.memory["active"].clone()
        for k, solver in enumerate(solvers):
            solver.restore({name: value[k] for name, value in last.memory.items()})
    yield Iterates(z, cost, converged, {})
    for _ in range(options.iterations):
        if not bool(active.any()):
            return
        for k in torch.nonzero(active)[:, 0].tolist():
            z[k], cost[k], converged[k], active[k] = solvers[k].step(z[k], cost[k])
        converged |= active & ((cost <= ROUNDING_COST) | stop(z, cost))
        active &= ~converged
        yield Iterates(z, cost, converged, {"cost": cost, "active": active, **_memory(solvers, z)})


def _memory(solvers: Sequence[_Solver], z: torch.Tensor) -> Memory:
    """Returns what the solvers remember; a scale that is not known is NaN."""
    unknown = torch.full_like(z[0], torch.nan)
    return {
        "damping": torch.tensor([solver.damping for solver in solvers], dtype=z.dtype),
        "scale": torch.stack([unknown if solver.scale is None else solver.scale for solver in solvers]),
        "generator": torch.stack([solver.generator.get_state() for solver in solvers]),
    }


class _Solver:
    """The iteration of one start: its damping, and the estimated squared norms of the columns of its Jacobian."""

    def __init__(self, residual: Residual, bounds: Bounds, options: GaussNewton, adjoint: Adjoint):
        self.residual, self.bounds, self.options, self.adjoint = residual, bounds, options, adjoint
        self.damping = options.damping
        self.scale: torch.Tensor | None = None  # [P]
        self.generator = torch.Generator().manual_seed(0)

    def restore(self, memory: Memory) -> None:
        """Continues where another solver was."""
        self.damping = float(memory["damping"])
        self.scale = None if bool(memory["scale"].isnan().any()) else memory["scale"].clone()
        self.generator.set_state(memory["generator"].clone())

    def step(self, z: torch.Tensor, cost: torch.Tensor) -> _Step:
        """Takes a step from a point z [P] with a finite cost."""
        products = JacobianProducts(self.residual, z)
        g = products.backward(products.r)
        self._update_scale(products)
        assert self.scale is not None
        if not bool(torch.isfinite(g).all() and torch.isfinite(self.scale).all()):
            return _Step(z, cost, converged=False, active=False)  # the backward pass diverges
        floor = MIN_SCALE * self.scale.max() + 1e-14
        unit = torch.where(active_bounds(z, g, self.bounds), 0.0, torch.maximum(self.scale, floor).rsqrt())
        space = Bidiagonalization(
            lambda y: products.forward(unit * y),
            lambda u: unit * products.backward(u),
            -products.r,
            -unit * g,
            damping=DAMPING_FACTORS[0] * self.damping,
            tolerance=self.adjoint.inner_tolerance,
            iterations=self.adjoint.inner_iterations,
        )
        return self._best_step(z, cost, unit, space)

    def _best_step(self, z: torch.Tensor, cost: torch.Tensor, unit: torch.Tensor, space: Bidiagonalization) -> _Step:
        """Evaluates steps with several dampings and returns the best; increases the damping while none is better."""
        while self.damping <= MAX_DAMPING:
            dampings = [factor * self.damping for factor in DAMPING_FACTORS]
            steps = torch.stack([unit * space.solution(damping) for damping in dampings])
            points = limited_step(z, steps, self.options.max_step, self.bounds)
            costs = squared_norms(evaluate(self.residual, points, self.options.max_worlds))
            best = int(torch.argmin(costs))
            if bool(costs[best] < cost):
                self.damping = max(dampings[best], MIN_DAMPING)
                length, decrease = float((points[best] - z).abs().max()), float((cost - costs[best]) / cost)
                small = length < self.options.tolerance or decrease < self.adjoint.cost_tolerance
                return _Step(points[best], costs[best], converged=small and self._is_complete(space), active=not small)
            if self._is_complete(space) and space.decrease < self.adjoint.cost_tolerance:
                return _Step(z, cost, converged=True, active=False)
            self.damping *= DAMPING_INCREASE
        return _Step(z, cost, converged=space.converged and space.decrease < STATIONARY_DECREASE, active=False)

    def _is_complete(self, space: Bidiagonalization) -> bool:
        """Whether the linear problem is solved, or all products were used and predict hardly any decrease."""
        small = space.decrease < SMALL_DECREASE * self.adjoint.cost_tolerance
        return space.converged or (small and space.products == self.adjoint.inner_iterations)

    def _update_scale(self, products: JacobianProducts) -> None:
        """Updates the estimate of the squared norms of the Jacobian's columns."""
        squares = []
        for _ in range(FIRST_PROBES if self.scale is None else PROBES):
            signs = torch.randint(0, 2, products.r.shape, generator=self.generator).to(products.r.dtype) * 2 - 1
            squares.append(products.backward(signs) ** 2)
        latest = torch.stack(squares).mean(0)
        self.scale = latest if self.scale is None else torch.lerp(self.scale, latest, PROBE_WEIGHT)
