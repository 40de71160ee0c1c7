"""The optimization loop that `minimize` and `control` share: best points, stopping, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradsim.fit.checkpoint import checkpoint_file, read_checkpoint, write_checkpoint
from gradsim.fit.gauss_newton import GaussNewton, iterate
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.optimizers import LBFGS, GradientOptimizer, OptimizerStep
from gradsim.scene.errors import Diverged, WrongShape, WrongType
from gradsim.scene.spelling import abbreviate

MOST_STARTS = 100_000  # searches, each of which takes seconds at least
STALL_ITERATIONS = 50  # iterations without a lower loss after which the search stops
GRADIENT_TOLERANCE = 1e-12  # largest component of the gradient at a minimum
STALLED_ADVICE = "the loss stopped decreasing: try another start, learning rate or optimizer"
DIVERGED_ADVICE = "the simulation diverges at every start: raise substeps, or choose other guesses or narrower bounds"

Optimizer = GradientOptimizer | GaussNewton | MinimumNorm
Bounds = tuple[torch.Tensor, torch.Tensor]  # of the coordinates, [P] each
Callback = Callable[[int, torch.Tensor, torch.Tensor], None]  # iteration, coordinates [K, P], losses [K]


@dataclass(eq=False)
class OptimizeRecord:
    """The best point of every start, and the history."""

    points: torch.Tensor  # best coordinates of each start, [K, P]
    losses: torch.Tensor  # at these, [K]
    best_iteration: int = 0  # iteration of the last improvement of the lowest loss
    improved_iteration: int = 0  # iteration of the last improvement of any start
    last: torch.Tensor | None = None  # point of the last iteration with the lowest loss, [P]
    history: list[tuple[int, float, float, float]] = field(default_factory=list)  # iteration, loss, best loss, seconds

    @property
    def loss(self) -> float:
        """Lowest loss of all starts."""
        return float(self.losses.min())

    @property
    def best(self) -> torch.Tensor:
        """Coordinates with the lowest loss, [P]."""
        return self.points[int(torch.argmin(self.losses))]

    def update(self, iteration: int, z: torch.Tensor, losses: torch.Tensor, seconds: float) -> None:
        """Records an iterate z [K, P] with losses [K]."""
        better = losses < self.losses
        if bool(better.any()):
            self.improved_iteration = iteration
        if bool((losses < self.losses.min()).any()):
            self.best_iteration = iteration
        self.points = torch.where(better[:, None], z, self.points)
        self.losses = torch.where(better, losses, self.losses)
        lowest = int(torch.argmin(torch.nan_to_num(losses, nan=torch.inf)))
        self.last = z[lowest].clone()
        self.history.append((iteration, float(losses[lowest]), self.loss, seconds))


@dataclass(frozen=True, eq=False)
class OptimizeResult:
    """Outcome of an optimization."""

    record: OptimizeRecord
    status: str  # "converged", "stalled", "out of iterations", "diverged", "interrupted"
    advice: str


def optimize(
    objective: Callable[[torch.Tensor], torch.Tensor],
    z: torch.Tensor,
    bounds: Bounds,
    optimizer: Optimizer,
    *,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, float], None] = lambda iteration, loss: None,
    callback: Callback = lambda iteration, z, losses: None,
) -> OptimizeResult:
    """Minimizes an objective over coordinates within bounds.

    Args:
        objective: Losses [K] of coordinates [K, P]; residuals [K, N] for least-squares methods.
        z: Starts [K, P].
        bounds: Lower and upper bounds of the coordinates, [P] each.
        optimizer: Optimization method.
        checkpoint: File of the best points; see `gs.minimize`.
        progress: Called with the iteration and the lowest loss so far.
        callback: Called with the iteration, coordinates [K, P] and losses [K].
    """
    check_optimizer(optimizer)
    file = None if checkpoint is None else checkpoint_file(checkpoint)
    if file is not None and file.exists():
        z = _load_checkpoint(file, z)
    record = OptimizeRecord(z.clone(), torch.full((len(z),), torch.inf, dtype=z.dtype))
    begin = time.perf_counter()
    try:
        for iteration, step in enumerate(_iterates(objective, z, bounds, optimizer)):
            record.update(iteration, step.z, step.losses, time.perf_counter() - begin)
            progress(iteration, record.loss)
            callback(iteration, step.z, step.losses)
            if file is not None:
                write_checkpoint(file, record.points)
            if bool((step.max_gradient < GRADIENT_TOLERANCE).all()):
                return OptimizeResult(record, "converged", "")
            if iteration - record.improved_iteration > STALL_ITERATIONS:
                return OptimizeResult(record, "stalled", STALLED_ADVICE)
    except KeyboardInterrupt:
        return OptimizeResult(record, "interrupted", "this is the best point so far")
    except Diverged as error:
        if not record.history:
            raise
        advice = f"this is the best point so far; the simulation of the next one diverged: {error}"
        return OptimizeResult(record, "diverged", advice)
    if not math.isfinite(record.loss):
        return OptimizeResult(record, "diverged", DIVERGED_ADVICE)
    return OptimizeResult(record, *_final_status(optimizer, len(record.history) - 1, len(z)))


def check_optimizer(optimizer: Any) -> None:
    """Raises WrongType unless a value is an optimizer."""
    known = isinstance(optimizer, (GaussNewton, MinimumNorm)) or callable(getattr(optimizer, "iterate", None))
    if not known or isinstance(optimizer, type):
        kinds = "gs.LBFGS(), gs.Adam(), gs.TorchOptimizer(...), gs.GaussNewton() or gs.MinimumNorm()"
        raise WrongType("optimizer", abbreviate(optimizer), f"must be {kinds}")


def _final_status(optimizer: Optimizer, iterations: int, starts: int) -> tuple[str, str]:
    """Returns status and advice of an optimizer that ended by itself."""
    if isinstance(optimizer, LBFGS) and iterations < optimizer.iterations * starts:
        return "converged", ""
    if isinstance(optimizer, GaussNewton) and iterations < optimizer.iterations:
        return "stalled", STALLED_ADVICE
    return "out of iterations", "use more iterations or a better start"


def _iterates(objective: Any, z: torch.Tensor, bounds: Bounds, optimizer: Any) -> Iterator[OptimizerStep]:
    """Yields the iterates of any optimizer; `max_gradient` of a `GaussNewton` start is 0 once it has converged."""
    if isinstance(optimizer, MinimumNorm):
        yield from optimizer.iterate(lambda z: _flatten(objective(z.clamp(*bounds)), len(z)), z)
        return
    if isinstance(optimizer, GaussNewton):
        for state in iterate(lambda z: _flatten(objective(z), len(z)), z, bounds, optimizer):
            yield OptimizerStep(state.z.clone(), state.cost.clone(), (~state.converged).to(state.cost.dtype))
        return

    def loss(z: torch.Tensor) -> torch.Tensor:
        losses = objective(z.clamp(*bounds))
        if losses.numel() != len(z):
            raise WrongShape("loss", f"shape {tuple(losses.shape)}", f"must be one number per world: {len(z)}")
        return losses.reshape(len(z))

    yield from optimizer.iterate(loss, z)


def _flatten(residuals: torch.Tensor, count: int) -> torch.Tensor:
    """Flattens residuals of `count` worlds to [count, N]; those of a single world have no batch dimension."""
    return residuals.reshape(1, -1) if count == 1 else residuals.flatten(1)


def _load_checkpoint(file: Path, z: torch.Tensor) -> torch.Tensor:
    """Reads points with the shape of the starts z [K, P]."""
    points = read_checkpoint(file, "minimize or control")
    if not isinstance(points, torch.Tensor) or points.shape != z.shape:
        found = f"{tuple(points.shape)}" if isinstance(points, torch.Tensor) else "no points"
        raise WrongShape("checkpoint", found, f"must be {tuple(z.shape)} for this scene and starts")
    return points
