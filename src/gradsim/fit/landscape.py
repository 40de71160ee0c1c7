"""The cost over one or two unknowns: what an estimate has to find its way through."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.fit.estimate import Seen, posed
from gradsim.fit.parameters import Coordinate, Parameters
from gradsim.fit.problem import Problem
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import did_you_mean

POINTS = {1: 61, 2: 25}  # along each unknown
EDGE = 0.02  # of a range between two bounds, that is left out at its ends


@dataclass(frozen=True, eq=False)
class Axis:
    """One unknown and the values it was given."""

    name: str
    unit: str
    values: torch.Tensor  # [N]
    logarithmic: bool


@dataclass(frozen=True, eq=False)
class Landscape:
    """Mean squares of pixels' differences over one or two unknowns, the others being held."""

    axes: tuple[Axis, ...]
    mean_square: torch.Tensor  # [N] or [N, M], infinite where a world diverged
    held: dict[str, Any]  # by path

    @property
    def lowest(self) -> dict[str, float]:
        """Where the mean square is least, by name."""
        place = torch.unravel_index(torch.argmin(self.mean_square), self.mean_square.shape)
        return {axis.name: float(axis.values[k]) for axis, k in zip(self.axes, place, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        axes = {axis.name: axis.values.tolist() for axis in self.axes}
        return {
            "over": axes,
            "mean square": _plain(self.mean_square.tolist()),
            "lowest": self.lowest,
            "held": self.held,
        }


def _plain(numbers: Any) -> Any:
    """Nested lists with None for infinity, which JSON does not have."""
    if isinstance(numbers, list):
        return [_plain(number) for number in numbers]
    return numbers if math.isfinite(numbers) else None


def landscape(
    scene: Scene,
    video: Seen,
    over: Sequence[str],
    *,
    points: int | None = None,
    values: Mapping[str, Any] | None = None,
    fps: float | None = None,
    substeps: int | None = None,
    integrator: Integrator = Midpoint(),
    dtype: torch.dtype = torch.float64,
    progress: Callable[[float], None] = lambda share: None,
) -> Landscape:
    """The mean square between a video and the scene, over the range of one or two unknowns.

    Args:
        scene: With unknowns.
        video: As for `gs.estimate`.
        over: Names of unknowns, such as "cube.density", with an index where there are several values.
        points: Along each of them; 61 for one, 25 for two if None.
        values: Of the other unknowns, by path; their guesses where not given.
        fps, substeps, integrator: As for `gs.estimate`.
        dtype: Precision of the worlds.
        progress: Told which share is done.
    """
    if len(over) not in (1, 2) or len(set(over)) != len(over):
        raise InvalidInput("over", ", ".join(over), "must name one unknown or two different ones")
    count = POINTS[len(over)] if points is None else points
    if count < 2:
        raise OutOfRange("points", count, "must be at least 2")
    trial = posed(scene, video, fps, substeps, integrator)
    parameters = Parameters(trial.scene, dtype=dtype)
    problem = Problem(parameters, (trial,))
    columns = [_column(parameters, name) for name in over]
    held = parameters.values(parameters.start())
    for path, value in (values or {}).items():
        if path not in held:
            raise UnknownName(
                "values", repr(path), f"{did_you_mean(path, held)}the scene's unknowns are {', '.join(held)}"
            )
        held[path] = torch.as_tensor(value, dtype=dtype).expand(held[path].shape).clone()
    z = parameters.coordinates_of(held).repeat(*[count] * len(over), 1)
    lines = [_line(parameters, k, count) for k in columns]
    for dim, (k, line) in enumerate(zip(columns, lines, strict=True)):
        z[..., k] = line.view([-1 if d == dim else 1 for d in range(len(over))])
    worlds = z.flatten(0, -2)
    batch = problem.batch(0)
    squares = []
    for first in range(0, len(worlds), batch):
        squares.append(problem.mean_square(worlds[first : first + batch], 0, problem.frames))
        progress(min(1.0, (first + batch) / len(worlds)))
    square = torch.nan_to_num(torch.cat(squares).view(z.shape[:-1]), nan=torch.inf)
    axes = tuple(_axis(parameters, *pair, z) for pair in zip(columns, lines, strict=True))
    return Landscape(axes, square, {path: value.tolist() for path, value in held.items() if path not in over})


def _column(parameters: Parameters, name: str) -> int:
    names = parameters.names
    if name not in names:
        raise UnknownName("over", repr(name), f"{did_you_mean(name, names)}the scene's unknowns are {', '.join(names)}")
    return names.index(name)


def _line(parameters: Parameters, column: int, count: int) -> torch.Tensor:
    """Coordinates over what is plausible, [N]: evenly in the logarithm, or in the value itself between two bounds."""
    middle, width = (part[column] for part in parameters.prior())
    if _owner(parameters, column)[0].scale == "logit":
        return torch.logit(torch.linspace(EDGE, 1 - EDGE, count, dtype=middle.dtype))
    return middle + width * torch.linspace(-1.0, 1.0, count, dtype=middle.dtype)


def _owner(parameters: Parameters, column: int) -> tuple[Coordinate, slice]:
    """The unknown that a coordinate belongs to, and its share of the coordinates."""
    return next(pair for pair in zip(parameters.coordinates, parameters.slices, strict=True) if column < pair[1].stop)


def _axis(parameters: Parameters, column: int, line: torch.Tensor, z: torch.Tensor) -> Axis:
    """Values along a line of coordinates; a rotation is shown by its rotation vector [rad]."""
    c, s = _owner(parameters, column)
    name = parameters.names[column]
    if c.scale == "rotation":
        return Axis(name, "rad", line, False)
    moved = z.reshape(-1, z.shape[-1])[:1, s].repeat(len(line), 1)
    moved[:, column - s.start] = line
    values = c.to_value(moved).reshape(len(line), -1)[:, column - s.start]
    return Axis(name, c.unit, values, c.scale == "log")
