"""What an estimate gives back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from gradsim.fit.observations import Trial
from gradsim.fit.parameters import Parameters
from gradsim.fit.uncertainty import Verdict
from gradsim.scene.scene import Scene


@dataclass(frozen=True)
class Stage:
    """A moment of the way to the answer."""

    name: str
    values: dict[str, Any]  # by path
    mean_square: float  # of a pixel's difference, at that stage's resolution
    seconds: float
    frames: int = 0  # the first ones, that were compared
    level: int = 0  # of detail: pictures are halved so many times


@dataclass(frozen=True, eq=False)
class Fit:
    """The physics that explains an observation.

    `print(fit)` shows a table; `fit.scene` is the scene with the values filled in.
    """

    values: dict[str, torch.Tensor]  # by path, in SI units
    intervals: dict[str, tuple[torch.Tensor, torch.Tensor]]  # that contain the truth in 95 of 100 cases
    verdicts: dict[str, Verdict]  # of each coordinate: a path, with an index where there are several values
    correlation: torch.Tensor  # of the coordinates, [P, P]
    directions: tuple[str, ...]  # what the observation does not determine, in words
    noise: float  # standard deviation of a pixel's difference
    method: str  # how the intervals were found
    status: str  # "converged", "not converged", "above the noise", "interrupted", "several answers"
    advice: str  # what to do about it
    scene: Scene
    trials: tuple[Trial, ...] = field(repr=False)  # what was fitted
    parameters: Parameters = field(repr=False)
    coordinates: torch.Tensor = field(repr=False)  # [P]
    deviation: torch.Tensor = field(repr=False)  # of the coordinates, [P]
    history: tuple[Stage, ...] = field(repr=False, default=())
    rivals: tuple[dict[str, torch.Tensor], ...] = ()  # other values that explain it as well
    starts: int = 1
    agreeing: int = 1  # starts that came to the same answer
    seconds: float = 0.0

    def with_record(self, *, history: tuple[Stage, ...], starts: int, agreeing: int, seconds: float) -> Fit:
        """The same with how it was found."""
        return replace(self, history=history, starts=starts, agreeing=agreeing, seconds=seconds)

    @property
    def certain(self) -> bool:
        """Whether the answer is one, at the noise, and all of it well determined by what was observed."""
        known = all(verdict.word == "identifiable" for verdict in self.verdicts.values())
        return self.status == "converged" and known

    def rows(self) -> list[tuple[str, str, float, float, float, Verdict]]:
        """Name, unit, value, ends of the interval and verdict of each single value."""
        found = []
        for c in self.parameters.coordinates:
            value, (low, high) = self.values[c.path].reshape(-1), self.intervals[c.path]
            low, high = low.reshape(-1), high.reshape(-1)
            for k in range(len(value)):
                name = c.path if len(value) == 1 else f"{c.path}[{k}]"
                verdict = self.verdicts.get(name, Verdict("identifiable"))
                found.append((name, c.unit, float(value[k]), float(low[k]), float(high[k]), verdict))
        return found

    def __str__(self) -> str:
        lines = [f"{'':28}{'value':>14}{'95 % interval':>30}"]
        for name, unit, value, low, high, verdict in self.rows():
            shown = f"{name} [{unit}]" if unit not in ("", "1") else name
            lines.append(f"{shown:28}{value:14.6g}{f'{low:.6g} .. {high:.6g}':>30}  {verdict.word}")
        lines += [f"  {text}" for text in self.directions]
        lines.append(f"{self.status}: {self.advice}" if self.advice else self.status)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = {
            name: {"value": value, "low": low, "high": high, "unit": unit, "verdict": v.word, "reason": v.reason}
            for name, unit, value, low, high, v in self.rows()
        }
        return {
            "parameters": rows,
            "names": self.parameters.names,
            "correlation": self.correlation.tolist(),
            "not determined": list(self.directions),
            "noise": self.noise,
            "intervals": self.method,
            "status": self.status,
            "advice": self.advice,
            "certain": self.certain,
            "rivals": [{path: value.tolist() for path, value in rival.items()} for rival in self.rivals],
            "starts": self.starts,
            "agreeing": self.agreeing,
            "seconds": self.seconds,
        }

    def save(self, path: str | Path) -> None:
        """Write the numbers as JSON."""
        file = Path(path)
        partial = file.with_name(file.name + ".partial")
        partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        partial.replace(file)
