"""minimize(): values of a scene's unknowns that minimize a loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

from gradsim.fit.observations.base import brief
from gradsim.fit.optimize import MOST_STARTS, Optimizer, optimize
from gradsim.fit.optimizers import LBFGS
from gradsim.fit.parameters import Parameters
from gradsim.scene.arguments import check_function, checked_whole
from gradsim.scene.errors import WrongType
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.scene import Scene


@dataclass(frozen=True, eq=False)
class Minimum:
    """Result of `gs.minimize`."""

    values: dict[str, torch.Tensor]  # by path
    loss: float
    status: str  # "converged", "stalled", "out of iterations", "diverged", "interrupted"
    advice: str
    scene: Scene  # with the values filled in
    iteration: int  # iteration that found the values
    losses: torch.Tensor  # lowest loss of each start, [K]
    history: tuple[tuple[int, float, float], ...] = field(repr=False, default=())  # iteration, best loss, seconds

    def __str__(self) -> str:
        lines = [f"{path} = {value.tolist()}" for path, value in self.values.items()]
        return "\n".join([*lines, f"loss {self.loss:.6g}, {self.status}" + (f": {self.advice}" if self.advice else "")])


def minimize(
    loss: Callable[[Scene], torch.Tensor],
    scene: Scene,
    optimizer: Optimizer = LBFGS(),
    *,
    starts: int = 1,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Callable[[int, float], None] = lambda iteration, loss: None,
) -> Minimum:
    """Finds the values of a scene's unknowns that minimize a loss.

    Ctrl-C returns the best values so far.

    Example:
        `gs.minimize(loss, scene, gs.LBFGS())`

    Args:
        loss: Function of a scene whose unknowns are replaced by values. With several starts the values have a leading
            batch dimension, and the loss is one number per world, [K]. For `GaussNewton` and `MinimumNorm` it returns
            residuals [K, ...], whose sum of squares is minimized.
        scene: Scene with unknowns.
        optimizer: `LBFGS()`, `Adam()`, a torch optimizer as `TorchOptimizer(...)`, `GaussNewton()` or `MinimumNorm()`.
        starts: Number of starts: the guesses, and random points within the bounds.
        seed: Seed of the random points.
        checkpoint: File to which the best points are written after every iteration; if it exists, the search starts
            from them.
        progress: Called with the iteration and the lowest loss so far.
    """
    if not callable(loss):
        raise WrongType("loss", brief(loss), "must be a function of a scene: gs.minimize(loss, scene)")
    if not isinstance(scene, Scene):
        raise WrongType("scene", brief(scene), "must be a gs.Scene: gs.minimize(loss, scene)")
    check_function("progress", progress, "the iteration and the lowest loss")
    starts, seed = checked_whole("starts", starts, high=MOST_STARTS), checked_seed(seed)
    parameters = Parameters(scene)
    generator = torch.Generator().manual_seed(seed)
    z = torch.cat([parameters.initial()[None], parameters.sample(starts - 1, generator)])

    def objective(z: torch.Tensor) -> torch.Tensor:
        return loss(parameters.fill(z[0] if len(z) == 1 else z))

    result = optimize(objective, z, parameters.bounds(), optimizer, checkpoint=checkpoint, progress=progress)
    record = result.record
    values = parameters.values(record.best)
    return Minimum(
        values=values,
        loss=record.loss,
        status=result.status,
        advice=result.advice,
        scene=scene.with_values(values),
        iteration=record.best_iteration,
        losses=record.losses,
        history=tuple((iteration, best, seconds) for iteration, _, best, seconds in record.history),
    )
