"""identifiability(): what a recording of a scene would determine, before it is made."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gradsim.fit.coordinates import SAMPLE_MARGIN, ScaledUnknown
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.recording import Observe, Recording
from gradsim.fit.student import NORMAL_95
from gradsim.fit.uncertainty import Identifiability, Uncertainty, value_scales
from gradsim.scene.arguments import check_function, checked_whole
from gradsim.scene.errors import Diverged, InvalidInput, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.unknown import Unknown

LEVELS = ("identifiable", "weak", "from the prior", "at its bound", "not identifiable")  # from best to worst
MOST_SAMPLES = 100_000  # true values
GIVEN = "as given"  # name of the given scene among candidates


@dataclass(frozen=True)
class ExpectedInterval:
    """Expected 95 % intervals of one scalar unknown, at several true values; the first is the guess."""

    name: str
    unit: str
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    verdicts: tuple[Identifiability, ...]

    @property
    def half_widths(self) -> tuple[float, ...]:
        """Half the lengths of the intervals, in `unit`."""
        return tuple((b - a) / 2 for a, b in zip(self.low, self.high, strict=True))

    @property
    def level(self) -> str:
        """The worst verdict over all true values."""
        return max((verdict.level for verdict in self.verdicts), key=LEVELS.index)

    @property
    def reason(self) -> str:
        """Reason of the worst verdict."""
        return next(verdict.reason for verdict in self.verdicts if verdict.level == self.level)

    @property
    def share(self) -> str:
        """The verdict in words, such as "weak, identifiable at 3 of 5 values"."""
        good = sum(verdict.level == "identifiable" for verdict in self.verdicts)
        return f"{self.level}, identifiable at {good} of {len(self.verdicts)} values" if good else self.level

    def __str__(self) -> str:
        label = f"{self.name} [{self.unit}]" if self.unit not in ("", "1") else self.name
        interval = f"{self.low[0]:.5g} .. {self.high[0]:.5g}"
        widths = f"{min(self.half_widths):.2g} .. {max(self.half_widths):.2g}"
        verdict = self.level if self.level == "identifiable" else self.share
        return f"{label:28}{self.values[0]:12.5g}{interval:>26}{widths:>24}  {verdict}"


@dataclass(frozen=True, eq=False)
class ExpectedIntervals:
    """Result of `gs.identifiability`; `print` shows a table.

    Intervals assume that the scene has no errors except those declared with `roughly`.

    Example:
        `gs.identifiability(scene, frames=10, size=(32, 32)).intervals["cube.mass"]`
    """

    intervals: dict[str, ExpectedInterval]  # by coordinate: the path, with an index if it has several values
    undetermined_directions: tuple[str, ...]  # combinations that the recording does not determine, in words
    score: float  # geometric mean of the standard deviations, relative to the sizes of the values
    diverged: int = 0  # true values left out because the simulation diverges
    candidates: dict[str, ExpectedIntervals] = field(default_factory=dict)  # by name, best first

    @property
    def determined(self) -> bool:
        """Whether every unknown is identifiable at all true values."""
        return all(interval.level == "identifiable" for interval in self.intervals.values())

    @property
    def best(self) -> str:
        """Name of the candidate with the narrowest intervals; the given scene without candidates."""
        return next(iter(self.candidates), GIVEN)

    def __str__(self) -> str:
        heads = f"{'':28}{'guess':>12}{'expected 95 % interval':>26}{'half width over range':>24}"
        lines = [heads, *map(str, self.intervals.values())]
        lines += [f"  {text}" for text in self.undetermined_directions]
        if self.diverged:
            lines.append(f"  the simulation diverges at {self.diverged} of the sampled values: raise substeps")
        return "\n".join([*lines, *self._candidate_lines()])

    def _candidate_lines(self) -> list[str]:
        """One line for each candidate, best first."""
        if not self.candidates:
            return []
        width = 2 + max(map(len, self.candidates))
        lines = ["", f"{'candidate':{width}}{'typical half width':>20}  not identifiable everywhere"]
        for name, one in self.candidates.items():
            others = ", ".join(key for key, item in one.intervals.items() if item.level != "identifiable") or "none"
            lines.append(f"{name:{width}}{100 * NORMAL_95 * one.score:18.3g} %  {others}")
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = {
            name: {
                "unit": item.unit,
                "values": item.values,
                "low": item.low,
                "high": item.high,
                "identifiability": item.level,
                "levels": [verdict.level for verdict in item.verdicts],
                "reason": item.reason,
            }
            for name, item in self.intervals.items()
        }
        return {
            "parameters": rows,
            "undetermined directions": list(self.undetermined_directions),
            "score": self.score,
            "diverged": self.diverged,
            "candidates": {name: one.as_dict() for name, one in self.candidates.items()},
        }


def identifiability(
    scene: Scene,
    *,
    frames: int,
    fps: float | Unknown = Recording.fps,
    noise: Any = None,
    size: tuple[int, int] = Recording.size,
    observe: Observe = Pixels,
    offset: float | Unknown = 0.0,
    exposure: float | Unknown = 0.0,
    roughly: Sequence[str] = (),
    candidates: Mapping[str, Scene | Mapping[str, Any]] | None = None,
    samples: int = 5,
    seed: int = 0,
    substeps: int | None = None,
    integrator: Integrator | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> ExpectedIntervals:
    """Predicts what a recording of a scene would determine, before it is made.

    The intervals follow from the derivatives of the simulated observation with respect to the unknowns, at several true
    values: the guesses, and samples from the priors or from the ranges between the bounds.

    Example:
        `gs.identifiability(scene, frames=10, size=(32, 32), noise=0.01)`

    Args:
        scene: Scene with unknowns.
        frames: Number of frames.
        fps: Frames per second [1/s], known or unknown.
        noise: Standard deviation of an entry, in its unit; None for 0.01 (images) or 0.5 px (points). States of several
            units need one each: `{"position": 0.001, "rotation": 0.01}`.
        size: Height and width of the images [px].
        observe: What is recorded: `gs.Pixels` or `gs.Masks`; a list of points, such as `[gs.Center("ball")]`, tracked
            in the image; a list of states, such as `["cube.position"]`; or a function of a scene and its trajectory
            that returns observations with their noise.
        offset: Time from the start of the scene to the first frame [s], known or unknown.
        exposure: Time during which the shutter is open [s], known or unknown.
        roughly: What is known only roughly, as for `gs.estimate`; it widens the intervals.
        candidates: Other recordings by name, to be compared with this one: scenes with the same unknowns, or arguments
            of this function that differ, such as `{"fast": {"fps": 120.0, "frames": 80}, "pushed": other_scene}`.
        samples: Number of true values, with the guesses.
        seed: Seed of the samples.
        substeps: Time steps per frame; if None, chosen to be stable over the range of the unknowns.
        integrator: Time integrator.
        progress: Called with the name of each candidate before it is evaluated.

    Returns:
        Expected 95 % intervals and verdicts of all unknowns, for a scene without other errors.
    """
    samples, seed = checked_whole("samples", samples, high=MOST_SAMPLES), checked_seed(seed)
    if candidates is not None and not isinstance(candidates, Mapping):
        raise WrongType("candidates", abbreviate(candidates), "must be scenes, or changed values, by name")
    if not isinstance(roughly, (list, tuple)):
        raise WrongType("roughly", abbreviate(roughly), "must be a list, such as ['camera', 'start']")
    check_function("progress", progress, "the name of a candidate")
    recording = Recording(
        scene, frames, fps, size, noise, observe, offset, exposure, tuple(roughly), substeps, integrator
    )
    result = expected_intervals(recording, samples, seed)
    if not candidates:
        return result
    found = {GIVEN: result}
    for name, changes in candidates.items():
        progress(name)
        found[name] = expected_intervals(_candidate(recording, name, changes), samples, seed)
        _check_unknowns(name, result, found[name])
    return replace(result, candidates=dict(sorted(found.items(), key=lambda item: item[1].score)))


def expected_intervals(recording: Recording, samples: int, seed: int) -> ExpectedIntervals:
    """Returns the expected intervals of a planned recording."""
    problem = recording.problem()
    points: list[tuple[torch.Tensor, Uncertainty]] = []
    tried = true_values(problem, samples, seed)
    failure: Diverged | None = None
    for z in tried:
        try:
            points.append((z, recording.uncertainty(problem, z)))
        except Diverged as error:
            failure = error
    if not points and failure is not None:
        raise failure
    return _result(problem, points, len(tried) - len(points))


def true_values(problem: EstimationProblem, samples: int, seed: int) -> torch.Tensor:
    """Returns coordinates [samples, P] of true values, away from the bounds; those of nuisances are zero."""
    parameters, errors = problem.parameters, problem.nuisance_paths
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for unknown in parameters.unknowns:
        if unknown.path in errors:
            parts.append(torch.zeros(samples, unknown.size, dtype=parameters.dtype))
            continue
        drawn = unknown.sample(samples - 1, generator)
        parts.append(_inside(unknown, torch.cat([unknown.from_value(unknown.guess)[None], drawn])))
    return torch.cat(parts, -1)


def _inside(unknown: ScaledUnknown, z: torch.Tensor) -> torch.Tensor:
    """Returns coordinates that are not at a bound, where a value could only be estimated from one side."""
    if unknown.scale == "logit":
        largest = math.log(1 / SAMPLE_MARGIN - 1)
        return z.clamp(-largest, largest)
    low, high = unknown.bounds()
    span = high - low
    margin = SAMPLE_MARGIN * torch.where(torch.isfinite(span), span, 1.0)
    return z.clamp(low + margin, high - margin)


def _result(
    problem: EstimationProblem, points: list[tuple[torch.Tensor, Uncertainty]], diverged: int
) -> ExpectedIntervals:
    errors = problem.nuisance_paths
    rows: dict[str, ExpectedInterval] = {}
    for unknown, part in problem.parameters.items():
        if unknown.path not in errors:
            rows |= {row.name: row for row in _rows(unknown, part, points)}
    wanted = [name not in errors for name in problem.parameters.names]
    texts = Counter(text for _, uncertainty in points for text in uncertainty.undetermined_directions)
    count = len(points)
    directions = [text if n == count else f"{text}, at {n} of {count} values" for text, n in texts.items()]
    return ExpectedIntervals(rows, tuple(directions), score(problem.parameters, points, wanted), diverged)


def score(parameters: Parameters, points: Sequence[tuple[torch.Tensor, Uncertainty]], wanted: Sequence[bool]) -> float:
    """Returns the geometric mean of the standard deviations, relative to the sizes by which they are judged."""
    chosen = torch.tensor(wanted)
    logs = [(u.standard_deviation / value_scales(parameters, z))[chosen].log().mean() for z, u in points]
    return math.exp(float(torch.stack(logs).mean()))


def _rows(
    unknown: ScaledUnknown, part: slice, points: list[tuple[torch.Tensor, Uncertainty]]
) -> list[ExpectedInterval]:
    """Returns a row for each coordinate of an unknown; rotations are rotation vectors from the guess [rad]."""
    bounds = unknown.bounds()
    columns = []
    for z, uncertainty in points:
        margin = NORMAL_95 * uncertainty.standard_deviation[part]
        ends = [z[part], *((z[part] + side * margin).clamp(*bounds) for side in (-1, 1))]
        if unknown.scale != "rotation":
            ends = [unknown.to_value(end).reshape(-1) for end in ends]
        columns.append((*(end.tolist() for end in ends), uncertainty.identifiability[part]))
    unit = "rad" if unknown.scale == "rotation" else unknown.unit
    rows = []
    for k in range(unknown.size):
        name = unknown.path if unknown.size == 1 else f"{unknown.path}[{k}]"
        values, low, high, verdicts = (tuple(column[i][k] for column in columns) for i in range(4))
        rows.append(ExpectedInterval(name, unit, values, low, high, verdicts))
    return rows


def _candidate(recording: Recording, name: str, changes: Scene | Mapping[str, Any]) -> Recording:
    """Returns the recording of a candidate: another scene, or other arguments."""
    if isinstance(changes, Scene):
        return replace(recording, scene=changes)
    if not isinstance(changes, Mapping):
        raise WrongType(f"candidates[{name!r}]", type(changes).__name__, "must be a gs.Scene or arguments by name")
    known = vars(recording)
    for key in changes:
        if key not in known:
            raise InvalidInput(f"candidates[{name!r}]", repr(key), f"the arguments are {', '.join(known)}")
    return replace(recording, **changes)


def _check_unknowns(name: str, given: ExpectedIntervals, other: ExpectedIntervals) -> None:
    if list(given.intervals) != list(other.intervals):
        listed = ", ".join(other.intervals)
        remedy = f"must have the unknowns of the given scene, {', '.join(given.intervals)}"
        raise InvalidInput(f"candidates[{name!r}]", listed, remedy)
