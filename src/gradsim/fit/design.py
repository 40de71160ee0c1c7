"""best_design(): the push, camera or start for which a recording determines the unknowns best.

The mean logarithm of the expected standard deviations is minimized over the design variables by gradient descent. Its
gradient is taken by central differences: each evaluation is a batch of rollouts for the derivatives with respect to the
unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gradsim.fit.identifiability import ExpectedIntervals, expected_intervals
from gradsim.fit.parameters import Parameters
from gradsim.fit.recording import Recording
from gradsim.fit.student import NORMAL_95
from gradsim.scene.arguments import check_function, checked_whole
from gradsim.scene.errors import Diverged, InvalidInput, UnknownName, WrongType
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate, did_you_mean

DIFFERENCE = 0.02  # of a central difference, in coordinate units: longer than the kinks of contacts and silhouettes
FIRST_STEP, SMALLEST_STEP = 0.5, 0.02  # largest component of a step, in coordinate units
LONGER, SHORTER = 1.5, 0.4  # factors of the step after success and failure
FLAT = 1e-6  # largest gradient of a design that has no effect


@dataclass(frozen=True, eq=False)
class Design:
    """Result of `gs.best_design`; `print` shows the design and what it determines.

    Example:
        `gs.best_design(scene, ["cube.velocity"], frames=10).values["cube.velocity"]`
    """

    values: dict[str, torch.Tensor]  # best values of the design variables, by path
    scene: Scene  # with these values; the other unknowns are still unknown
    before: ExpectedIntervals  # at the guesses of the design variables
    after: ExpectedIntervals  # at the best values
    history: tuple[float, ...] = field(repr=False, default=())  # score of each accepted design

    def __str__(self) -> str:
        old, new = (100 * NORMAL_95 * one.score for one in (self.before, self.after))
        lines = [f"{path} = {_text(value)}" for path, value in self.values.items()]
        lines.append(f"typical half width {old:.3g} % -> {new:.3g} % of the values")
        return "\n".join([*lines, str(self.after)])

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        values = {path: value.tolist() for path, value in self.values.items()}
        return {"design": values, "before": self.before.as_dict(), "after": self.after.as_dict()}


def best_design(
    scene: Scene,
    design: Sequence[str],
    *,
    frames: int,
    samples: int = 3,
    seed: int = 0,
    iterations: int = 15,
    progress: Callable[[int, float], None] = lambda iteration, score: None,
    **recording: Any,
) -> Design:
    """Finds the design of an experiment for which the expected intervals of the unknowns are narrowest.

    Example:
        `gs.best_design(scene, ["cube.velocity"], frames=10, size=(32, 32)).scene`

    Args:
        scene: Scene with unknowns. Those at the paths of `design` are chosen, the others are to be estimated.
        design: Paths of the design variables, such as `["cube.pushes[0].impulse", "camera.eye"]`: unknowns with the
            bounds within which they can be realized. Without bounds a push would only grow.
        frames: Number of frames.
        samples: Number of true values over which the intervals are averaged, with the guesses.
        seed: Seed of the samples.
        iterations: Largest number of gradient steps.
        progress: Called with the iteration and the score: the typical standard deviation relative to the values.
        recording: Further arguments of `gs.identifiability`: `fps`, `noise`, `size`, `observe`, `roughly`, ...
    """
    _check_design(scene, design)
    samples, seed, iterations = (
        checked_whole("samples", samples),
        checked_seed(seed),
        checked_whole("iterations", iterations, 0),
    )
    check_function("progress", progress, "the iteration and the score")
    given = Recording(scene, frames, **recording)
    variables = _DesignVariables(scene, tuple(design))

    def evaluate(z: torch.Tensor) -> ExpectedIntervals:
        return expected_intervals(replace(given, scene=variables.fill(z)), samples, seed)

    def log_score(z: torch.Tensor) -> float:
        try:
            return math.log(evaluate(z).score)
        except Diverged:
            return math.inf

    z = variables.initial
    before = evaluate(z)
    z, history = _iterate(log_score, z, math.log(before.score), variables.bounds, iterations, progress)
    return Design(variables.values(z), variables.fill(z), before, evaluate(z), history)


class _DesignVariables:
    """The design variables of a scene as a vector of coordinates [D]."""

    def __init__(self, scene: Scene, paths: tuple[str, ...]):
        self.scene, self.paths = scene, paths
        parameters = Parameters(scene)
        self.chosen = [(unknown, part) for unknown, part in parameters.items() if unknown.path in paths]
        self.initial = torch.cat([unknown.from_value(unknown.guess) for unknown, _ in self.chosen])
        low, high = zip(*(unknown.bounds() for unknown, _ in self.chosen), strict=True)
        self.bounds = torch.cat(low), torch.cat(high)

    def values(self, z: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns the values of the design variables at coordinates z [D], by path."""
        sizes = [unknown.size for unknown, _ in self.chosen]
        parts = z.split(sizes)
        return {unknown.path: unknown.to_value(part) for (unknown, _), part in zip(self.chosen, parts, strict=True)}

    def fill(self, z: torch.Tensor) -> Scene:
        """Returns the scene with the design at coordinates z [D]."""
        values: Mapping[str, Any] = {path: value.numpy() for path, value in self.values(z).items()}
        return self.scene.with_values(values)


def _iterate(
    function: Callable[[torch.Tensor], float],
    z: torch.Tensor,
    value: float,
    bounds: tuple[torch.Tensor, torch.Tensor],
    iterations: int,
    progress: Callable[[int, float], None],
) -> tuple[torch.Tensor, tuple[float, ...]]:
    """Minimizes a function from z [D] within bounds by steps along its gradient; returns the best point."""
    history, length = [math.exp(value)], FIRST_STEP
    for iteration in range(iterations):
        gradient = _gradient(function, z)
        largest = float(gradient.abs().max())
        if not FLAT < largest < math.inf:
            break
        while length >= SMALLEST_STEP:
            trial = (z - length / largest * gradient).clamp(*bounds)
            found = function(trial)
            if found < value:
                break
            length *= SHORTER
        else:
            break
        z, value, length = trial, found, length * LONGER
        history.append(math.exp(value))
        progress(iteration, history[-1])
    return z, tuple(history)


def _gradient(function: Callable[[torch.Tensor], float], z: torch.Tensor) -> torch.Tensor:
    """Returns the gradient [D] by central differences; 0 where the motion diverges on one side."""
    quotients = []
    for step in DIFFERENCE * torch.eye(len(z), dtype=z.dtype):
        quotient = (function(z + step) - function(z - step)) / (2 * DIFFERENCE)
        quotients.append(quotient if math.isfinite(quotient) else 0.0)
    return torch.tensor(quotients, dtype=z.dtype)


def _check_design(scene: Scene, design: Sequence[str]) -> None:
    if not isinstance(scene, Scene):
        raise WrongType("scene", abbreviate(scene), "must be a gs.Scene")
    unknowns = scene.unknowns
    if not isinstance(design, (list, tuple)) or not design or not all(isinstance(path, str) for path in design):
        raise InvalidInput("design", abbreviate(design), "must be a list of paths, such as ['cube.pushes[0].impulse']")
    for path in design:
        if path not in unknowns:
            hint = did_you_mean(path, list(unknowns))
            raise UnknownName("design", repr(path), f"{hint}mark it with bounds: gs.unknown(guess, low=..., high=...)")
        if unknowns[path].low is None or unknowns[path].high is None:
            raise InvalidInput(path, unknowns[path], "a design variable needs low and high: what can be realized")
    if not set(unknowns) - set(design):
        raise InvalidInput("design", ", ".join(design), "nothing is left to estimate: mark the unknown quantities too")


def _text(value: torch.Tensor) -> str:
    numbers = ", ".join(f"{x:.4g}" for x in value.reshape(-1).tolist())
    return numbers if value.ndim == 0 else f"({numbers})"
