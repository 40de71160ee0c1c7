"""minimize(): a loss of a scene, made small by moving its unknowns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, descents
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.optimizers import LBFGS, Descending, Step
from gradsim.fit.parameters import Parameters
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import Diverged, InvalidInput, WrongShape
from gradsim.scene.scene import Scene

STALL = 50  # iterations without a better loss
FLAT = 1e-12  # largest slope of a minimum
STALLED = "the loss stopped falling: try another start, rate or optimizer"


@dataclass(frozen=True, eq=False)
class Minimum:
    """Where a loss came to."""

    values: dict[str, torch.Tensor]  # by path
    loss: float
    status: str  # "converged", "stalled", "out of iterations", "diverged", "interrupted"
    advice: str
    scene: Scene  # with the values
    iteration: int  # that the values are of
    losses: torch.Tensor  # of all starts at their best, [K]
    history: tuple[tuple[int, float, float], ...] = field(repr=False, default=())  # iteration, best loss, seconds

    def __str__(self) -> str:
        lines = [f"{path} = {value.tolist()}" for path, value in self.values.items()]
        return "\n".join([*lines, f"loss {self.loss:.6g}, {self.status}" + (f": {self.advice}" if self.advice else "")])


def minimize(
    loss: Callable[[Scene], torch.Tensor],
    scene: Scene,
    optimizer: Descending | GaussNewton | MinimumNorm = LBFGS(),
    *,
    starts: int = 1,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, float], None] = lambda iteration, best: None,
) -> Minimum:
    """Find the values of a scene's unknowns for which a loss is smallest.

    Ctrl-C returns the best so far.

    Args:
        loss: Of a scene with values in place of its unknowns. With several starts these have a leading batch, and the
            loss is one number a world, [K]. For `GaussNewton` and `MinimumNorm` it gives residuals [K, ...] whose
            squares are summed.
        scene: With unknowns.
        optimizer: `LBFGS()`, `Adam()`, any of torch's as `TorchOptimizer(...)`, `GaussNewton()` or `MinimumNorm()`.
        starts: The guesses, and random places within the bounds.
        seed: Of the random places.
        checkpoint: File to keep the best places in, after every iteration; if it exists the search goes on from there.
        progress: Told the iteration and the best loss.
    """
    parameters = Parameters(scene)
    generator = torch.Generator().manual_seed(seed)
    z = torch.cat([parameters.start()[None], parameters.draw(starts - 1, generator)])

    def objective(z: torch.Tensor) -> torch.Tensor:
        return loss(parameters.fill(z[0] if len(z) == 1 else z))

    sought = descended(objective, z, parameters.limits(), optimizer, checkpoint=checkpoint, progress=progress)
    record = sought.record
    values = parameters.values(record.places[record.start])
    history = tuple((k, loss, seconds) for k, _, loss, seconds in record.history)
    return Minimum(
        values,
        record.best,
        sought.status,
        sought.advice,
        scene.with_values(values),
        record.improved,
        record.losses,
        history,
    )


@dataclass(eq=False)
class Record:
    """The best places so far, and the last."""

    places: torch.Tensor  # [K, P]
    losses: torch.Tensor  # [K]
    improved: int = 0  # iteration of the last improvement
    last: torch.Tensor | None = None  # place of the last iterate, [P], of the start that is best in it
    history: list[tuple[int, float, float, float]] = field(default_factory=list)  # iteration, loss, best, seconds

    @property
    def best(self) -> float:
        return float(self.losses.min())

    @property
    def start(self) -> int:
        """Which start is the best."""
        return int(torch.argmin(self.losses))

    def take(self, iteration: int, z: torch.Tensor, losses: torch.Tensor, seconds: float) -> None:
        if len(z) != len(self.places):  # some starts were given up
            self.places, self.losses = self.places[: len(z)], self.losses[: len(z)]
        better = losses < self.losses
        if bool((losses < self.losses.min()).any()):
            self.improved = iteration
        self.places = torch.where(better[:, None], z, self.places)
        self.losses = torch.where(better, losses, self.losses)
        lowest = int(torch.argmin(torch.nan_to_num(losses, nan=torch.inf)))
        self.last = z[lowest].clone()
        self.history.append((iteration, float(losses[lowest]), self.best, seconds))


@dataclass(frozen=True, eq=False)
class Sought:
    """How a descent ended."""

    record: Record
    status: str
    advice: str


def descended(
    objective: Callable[[torch.Tensor], torch.Tensor],
    z: torch.Tensor,
    limits: tuple[torch.Tensor, torch.Tensor],
    optimizer: Descending | GaussNewton | MinimumNorm,
    *,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, float], None] = lambda iteration, best: None,
    told: Callable[[int, torch.Tensor, torch.Tensor], None] = lambda iteration, z, losses: None,
) -> Sought:
    """The loop itself: coordinates z [K, P] that make an objective small, within limits.

    Args:
        objective: Losses [K] of coordinates [K, P]; residuals [K, N] for methods of least squares.
        z: Starts.
        limits: Bounds of the coordinates, [P] each.
        optimizer, checkpoint, progress: As for `minimize`.
        told: Of every iterate: its number, places and losses.
    """
    file = None if checkpoint is None else Path(checkpoint)
    if file is not None and file.exists():
        z = _resumed(file, z)
    record = Record(z.clone(), torch.full((len(z),), torch.inf, dtype=z.dtype))
    status, advice = "out of iterations", "give it more iterations, or a better start"
    begin = time.perf_counter()
    iteration = 0
    try:
        for iteration, (place, losses, slopes) in enumerate(_steps(objective, z, limits, optimizer)):
            record.take(iteration, place, losses, time.perf_counter() - begin)
            progress(iteration, record.best)
            told(iteration, place, losses)
            if file is not None:
                write_atomically(file, lambda target: torch.save(record.places, target), InvalidInput)
            if bool((slopes < FLAT).all()):
                status, advice = "converged", ""
                break
            if iteration - record.improved > STALL:
                status, advice = "stalled", STALLED
                break
        else:
            if isinstance(optimizer, LBFGS) and iteration < optimizer.iterations * len(z):
                status, advice = "converged", ""
            elif isinstance(optimizer, GaussNewton) and iteration < optimizer.iterations:
                status, advice = "stalled", STALLED
    except KeyboardInterrupt:
        status, advice = "interrupted", "this is the best so far"
    except Diverged as error:
        if not record.history:
            raise
        status, advice = "diverged", f"this is the best so far, the next step led too far: {error}"
    return Sought(record, status, advice)


def _steps(
    objective: Any, z: torch.Tensor, limits: tuple[torch.Tensor, torch.Tensor], optimizer: Any
) -> Iterator[Step]:
    if isinstance(optimizer, MinimumNorm):
        yield from optimizer.steps(lambda z: _rows(objective(z.clamp(*limits)), len(z)), z)
        return
    if isinstance(optimizer, GaussNewton):
        for done in descents(lambda z: _rows(objective(z), len(z)), z, limits, optimizer):
            yield done.z.clone(), done.cost.clone(), (~done.converged).to(done.cost.dtype)
        return

    def losses(z: torch.Tensor) -> torch.Tensor:
        value = objective(z.clamp(*limits))
        if value.numel() != len(z):
            raise WrongShape("loss", f"shape {tuple(value.shape)}", f"must be one number a world: {len(z)}")
        return value.reshape(len(z))

    yield from optimizer.steps(losses, z)


def _rows(residuals: torch.Tensor, count: int) -> torch.Tensor:
    return residuals.reshape(1, -1) if count == 1 else residuals.flatten(1)


def _resumed(file: Path, z: torch.Tensor) -> torch.Tensor:
    try:
        places = torch.load(file, weights_only=True)
    except Exception as error:
        raise InvalidInput("checkpoint", str(file), f"is no checkpoint of minimize: {error}") from None
    if places.shape != z.shape:
        raise WrongShape("checkpoint", f"{tuple(places.shape)}", f"this scene and these starts need {tuple(z.shape)}")
    return places
