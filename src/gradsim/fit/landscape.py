"""landscape(): the cost of an estimate over the range of one or two unknowns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import Observed, Trial, make_trial_model
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName
from gradsim.scene.integrators import Integrator
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import did_you_mean

POINTS = {1: 61, 2: 25}  # along each unknown, by the number of unknowns
MOST_WORLDS = 1_000_000  # that are simulated
EDGE_MARGIN = 0.02  # fraction of the range between two bounds that is left out at each end


@dataclass(frozen=True, eq=False)
class Axis:
    """Values of one unknown."""

    name: str
    unit: str
    values: torch.Tensor  # [N]
    logarithmic: bool


@dataclass(frozen=True, eq=False)
class Landscape:
    """Mean squared difference of a pixel over one or two unknowns; the others are fixed."""

    axes: tuple[Axis, ...]
    mean_square: torch.Tensor  # [N] or [N, M], infinite where the simulation diverges
    fixed: dict[str, Any]  # values of the other unknowns by path

    @property
    def minimum(self) -> dict[str, float]:
        """Values with the smallest mean square, by name."""
        index = torch.unravel_index(torch.argmin(self.mean_square), self.mean_square.shape)
        return {axis.name: float(axis.values[k]) for axis, k in zip(self.axes, index, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        axes = {axis.name: axis.values.tolist() for axis in self.axes}
        return {
            "over": axes,
            "mean square": _finite(self.mean_square.tolist()),
            "minimum": self.minimum,
            "fixed": self.fixed,
        }


def _finite(numbers: Any) -> Any:
    """Replaces infinity, which JSON does not have, by None in nested lists."""
    if isinstance(numbers, list):
        return [_finite(number) for number in numbers]
    return numbers if math.isfinite(numbers) else None


def landscape(
    scene: Scene,
    video: Observed,
    over: Sequence[str],
    *,
    points: int | None = None,
    values: Mapping[str, Any] | None = None,
    fps: float | None = None,
    substeps: int | None = None,
    integrator: Integrator | None = None,
    dtype: torch.dtype = torch.float64,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Landscape:
    """Evaluates the mean square between a video and the scene over the range of one or two unknowns.

    Args:
        scene: Scene with unknowns.
        video: As for `gs.estimate`.
        over: Names of one or two unknowns, such as "cube.density", with an index if there are several values.
        points: Number of values of each; if None, 61 for one unknown and 25 for two.
        values: Values of the other unknowns by path; the guesses where not given.
        fps, substeps, integrator: As for `gs.estimate`.
        dtype: Precision of the simulation.
        progress: Called with the completed fraction.
    """
    if len(over) not in (1, 2) or len(set(over)) != len(over):
        raise InvalidInput("over", ", ".join(over), "must name one unknown or two different ones")
    count = POINTS[len(over)] if points is None else points
    if not 2 <= count <= MOST_WORLDS ** (1 / len(over)):
        most = int(MOST_WORLDS ** (1 / len(over)))
        raise OutOfRange("points", count, f"must be at least 2, and at most {most} for {len(over)} unknowns")
    trial = make_trial_model(Trial(scene, video, fps=fps), name="0", substeps=substeps, integrator=integrator)
    parameters = Parameters(trial.scene, dtype=dtype)
    problem = EstimationProblem(parameters, (trial,))
    columns = [_column(parameters, name) for name in over]
    fixed = _fixed_values(parameters, values or {})
    lines = [_line(parameters, k, count) for k in columns]
    z = parameters.coordinates(fixed).repeat(*[count] * len(over), 1)
    for dim, (k, line) in enumerate(zip(columns, lines, strict=True)):
        z[..., k] = line.view([-1 if d == dim else 1 for d in range(len(over))])
    worlds = z.flatten(0, -2)
    batch = problem.batch_size(0)
    squares = []
    for first in range(0, len(worlds), batch):
        squares.append(problem.mean_square(worlds[first : first + batch], 0, problem.frames))
        progress(min(1.0, (first + batch) / len(worlds)))
    mean_square = torch.nan_to_num(torch.cat(squares).view(z.shape[:-1]), nan=torch.inf)
    axes = tuple(_axis(parameters, *pair, z) for pair in zip(columns, lines, strict=True))
    return Landscape(axes, mean_square, {path: value.tolist() for path, value in fixed.items() if path not in over})


def _fixed_values(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the guesses of all unknowns, updated by the given values, by path."""
    fixed = parameters.values(parameters.initial())
    for path, value in values.items():
        if path not in fixed:
            remedy = f"{did_you_mean(path, fixed)}the scene's unknowns are {', '.join(fixed)}"
            raise UnknownName("values", repr(path), remedy)
        fixed[path] = torch.as_tensor(value, dtype=parameters.dtype).expand(fixed[path].shape).clone()
    return fixed


def _column(parameters: Parameters, name: str) -> int:
    """Returns the index of the coordinate with a name."""
    names = parameters.names
    if name not in names:
        raise UnknownName("over", repr(name), f"{did_you_mean(name, names)}the scene's unknowns are {', '.join(names)}")
    return names.index(name)


def _line(parameters: Parameters, column: int, count: int) -> torch.Tensor:
    """Returns coordinates [N] over the plausible range; uniform in the value for a logit scale."""
    center, width = (tensor[column] for tensor in parameters.prior())
    if _unknown_at(parameters, column)[0].scale == "logit":
        return torch.logit(torch.linspace(EDGE_MARGIN, 1 - EDGE_MARGIN, count, dtype=center.dtype))
    return center + width * torch.linspace(-1.0, 1.0, count, dtype=center.dtype)


def _unknown_at(parameters: Parameters, column: int) -> tuple[ScaledUnknown, slice]:
    """Returns the unknown to which a coordinate belongs, and the slice of its coordinates."""
    return next((unknown, part) for unknown, part in parameters.items() if column < part.stop)


def _axis(parameters: Parameters, column: int, line: torch.Tensor, z: torch.Tensor) -> Axis:
    """Returns the values along a line of coordinates; those of a rotation are its rotation vector [rad]."""
    unknown, part = _unknown_at(parameters, column)
    name = parameters.names[column]
    if unknown.scale == "rotation":
        return Axis(name, "rad", line, False)
    points = z.reshape(-1, z.shape[-1])[:1, part].repeat(len(line), 1)
    points[:, column - part.start] = line
    values = unknown.to_value(points).reshape(len(line), -1)[:, column - part.start]
    return Axis(name, unknown.unit, values, unknown.scale == "log")
