"""Gauss-Newton method with Levenberg-Marquardt damping, for a batch of starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch

from gradsim.fit.dense_steps import iterate_dense
from gradsim.fit.jacobians import MAX_DENSE, Adjoint, Differences, chosen_jacobian
from gradsim.fit.krylov_steps import iterate_matrix_free
from gradsim.fit.least_squares import Bounds, Iterates, Memory, StopCriterion, never_stop
from gradsim.fit.residuals import Residual
from gradsim.fit.structure import Structure
from gradsim.scene.arguments import checked_number, checked_whole
from gradsim.scene.errors import InvalidInput, WrongType

Callback = Callable[[torch.Tensor, torch.Tensor], None]  # coordinates [K, P], costs [K]


class SolveLog(Protocol):
    """A record of finished solves, by which an interrupted sequence of solves resumes."""

    def find(self, start: torch.Tensor) -> SolverState | None:
        """Returns the result of the next solve, from starts [K, P], if it is known."""

    def resume(self, start: torch.Tensor) -> SolverState | None:
        """Returns the last state of an unfinished solve from starts [K, P], if there is one."""

    def save(self, start: torch.Tensor, state: SolverState, *, finished: bool) -> None:
        """Records the state of a solve."""


@dataclass(frozen=True)
class GaussNewton:
    """Nonlinear least squares.

    Example:
        `gs.control(scene, image, frames=30, stages=[(gs.Moments(), gs.GaussNewton(iterations=8))])`

    Args:
        iterations: Maximum number of iterations.
        damping: Initial damping, relative to the diagonal of the normal equations.
        tolerance: Converged when the largest component of a step is smaller, in coordinate units
            (see `gradsim.fit.parameters`).
        max_step: Largest component of a step, in coordinate units.
        max_worlds: Maximum number of worlds in one rollout; larger batches are split.
        jacobian: How derivatives are computed: `Differences()`, one world of a batch per unknown; `Adjoint()`,
            products with the Jacobian by backward passes, for hundreds or thousands of unknowns; None selects by the
            number of unknowns.
        log: Record of the solves; set by `gs.estimate(checkpoint=...)`.
    """

    iterations: int = 30
    damping: float = 1e-3
    tolerance: float = 1e-11
    max_step: float = 1.2
    max_worlds: int = 64
    jacobian: Differences | Adjoint | None = None
    log: SolveLog | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.jacobian, Differences | Adjoint | None):
            raise WrongType("jacobian", repr(self.jacobian), "must be gs.Differences(), gs.Adjoint() or None")
        checked_whole("GaussNewton.iterations", self.iterations, 0)
        checked_number("GaussNewton.damping", self.damping, low=0.0)
        checked_number("GaussNewton.tolerance", self.tolerance, low=0.0)
        checked_number("GaussNewton.max_step", self.max_step, above=0.0)
        checked_whole("GaussNewton.max_worlds", self.max_worlds)


@dataclass(eq=False)
class SolverState:
    """Current iterates of K starts."""

    z: torch.Tensor  # coordinates [K, P]
    cost: torch.Tensor  # sum of squared residuals, without the prior, [K]
    iterations: int
    converged: torch.Tensor  # [K]
    prior_cost: torch.Tensor  # what the prior adds to the minimized cost, [K]
    memory: Memory = field(default_factory=dict)  # to continue from here, if that is possible

    @property
    def diverged(self) -> torch.Tensor:
        """Whether the residuals of a start are not finite, so that it could not be continued, [K]."""
        return ~torch.isfinite(self.cost)


@dataclass(frozen=True, eq=False)
class Prior:
    """Independent normal distributions of the coordinates: the cost has weight * ((z - center) / width)^2 for each."""

    center: torch.Tensor  # [P]; any value where there is no prior
    width: torch.Tensor  # standard deviation [P], infinite where there is no prior
    weight: float = 1.0  # squared residual of one standard deviation

    def residual(self, z: torch.Tensor) -> torch.Tensor:
        """Returns residuals [..., M] at z [..., P], one for each of the M coordinates with a prior."""
        known = torch.isfinite(self.width)
        return self.weight**0.5 * (z[..., known] - self.center[known]) / self.width[known]

    def cost(self, z: torch.Tensor) -> torch.Tensor:
        """Returns the sum of squared residuals [...] at z [..., P]."""
        return (self.residual(z) ** 2).sum(-1)

    def jacobian(self) -> torch.Tensor:
        """Returns the derivatives [P, M] of the residuals."""
        known = torch.isfinite(self.width)
        return torch.diag(self.weight**0.5 / self.width)[:, known]

    @property
    def precision(self) -> torch.Tensor:
        """Second derivative of half the cost, [P]; 0 where there is no prior."""
        return self.weight / self.width**2

    def combined(self, other: Prior | None) -> Prior:
        """Returns the product of both distributions; its cost differs from the sum of theirs by a constant."""
        if other is None:
            return self
        precision = self.precision + other.precision
        moments = torch.where(self.precision > 0, self.precision * self.center, 0.0)
        moments = moments + torch.where(other.precision > 0, other.precision * other.center, 0.0)
        known = precision > 0
        return Prior(torch.where(known, moments / precision, 0.0), precision.rsqrt())


def solve(
    residual: Residual,
    z: torch.Tensor,
    bounds: Bounds,
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    stop: StopCriterion = never_stop,
    jacobian: torch.Tensor | None = None,
    structure: Structure | None = None,
    resolution: float = 0.0,
    callback: Callback = lambda z, cost: None,
) -> SolverState:
    """Minimizes the sum of squared residuals from every start.

    Args:
        residual: Residuals [B, N] of coordinates [B, P]; with `Adjoint()` differentiable by autograd.
        z: Starts [K, P].
        bounds: Lower and upper bounds of the coordinates, [P] each.
        options: Options of the method.
        prior: Prior that is added to the minimized cost; the returned cost does not include it.
        stop: Starts that fulfil this criterion count as converged; it receives the minimized cost.
        jacobian: Initial Jacobian [P, N] at a point near the starts, without the prior, for `Differences()`.
        structure: Sparsity of the Jacobian, for `Differences()`; None if residuals may depend on all coordinates.
        resolution: Decrease of the cost below which an iteration has converged, for `Differences()`, such as a small
            fraction of what noise contributes.
        callback: Called with coordinates [K, P] and costs [K], without the prior, after every iteration.
    """
    extra: dict[str, Any] = {"prior": prior, "stop": stop, "jacobian": jacobian, "structure": structure}
    extra["resolution"] = resolution
    start, log = z, options.log
    last = None
    if log is not None:
        known = log.find(start)
        if known is not None:
            callback(known.z, known.cost)
            return known
        last = log.resume(start)
    for state in iterate(residual, z, bounds, options, **extra, last=last):
        if state.iterations:
            if log is not None:
                log.save(start, state, finished=False)
            callback(state.z, state.cost)
    if log is not None:
        log.save(start, state, finished=True)
    return state


def iterate(
    residual: Residual,
    z: torch.Tensor,
    bounds: Bounds,
    options: GaussNewton = GaussNewton(),
    *,
    prior: Prior | None = None,
    stop: StopCriterion = never_stop,
    jacobian: torch.Tensor | None = None,
    structure: Structure | None = None,
    resolution: float = 0.0,
    last: SolverState | None = None,
) -> Iterator[SolverState]:
    """Yields the starts and the state after every iteration of `solve`; the tensors are updated in place.

    With the last state of a sequence that was interrupted it yields that state and those that follow, to the last bit.
    """
    minimized = residual if prior is None else _with_prior(residual, prior)
    iterates: Iterator[Iterates]
    done = 0 if last is None else last.iterations
    resumed = None if last is None else Iterates(last.z, last.cost, last.converged, last.memory)
    options = replace(options, iterations=options.iterations - done)
    few_differences = structure is not None and len(structure.members) <= MAX_DENSE
    if options.jacobian is None and (jacobian is not None or few_differences):
        method: Differences | Adjoint = Differences()
    else:
        method = chosen_jacobian(options.jacobian, minimized, z)
    if isinstance(method, Adjoint):
        if jacobian is not None:
            raise InvalidInput("jacobian", tuple(jacobian.shape), "gs.Adjoint() has no use for a matrix: leave it out")
        iterates = iterate_matrix_free(minimized, z, bounds, options, method, stop=stop, last=resumed)
    else:
        rows = None if prior is None else prior.jacobian()
        given = jacobian if jacobian is None or rows is None else torch.cat([jacobian, rows], -1)
        known = None if structure is None else structure.with_rows(rows)
        extra: dict[str, Any] = {"stop": stop, "jacobian": given, "structure": known, "resolution": resolution}
        iterates = iterate_dense(minimized, z, bounds, options, **extra, last=resumed)
    for iteration, (point, cost, converged, memory) in enumerate(iterates, start=done):
        prior_cost = torch.zeros_like(cost) if prior is None else prior.cost(point)
        yield SolverState(point, cost - prior_cost, iteration, converged, prior_cost, memory)


def _with_prior(residual: Residual, prior: Prior) -> Residual:
    def function(z: torch.Tensor) -> torch.Tensor:
        return torch.cat([residual(z), prior.residual(z)], -1)

    return function
