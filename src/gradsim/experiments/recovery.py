"""A scene with known values, a video of it, and the same values found again from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsim.experiments.table import Case, Claim, Column, Row, Told, errors, filmed, fitted, largest
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

COLUMNS = (
    Column("scene", "", 16),
    Column("unknowns", "", 18),
    Column("paper", "", 14),
    Column("relative errors", "", 18),
    Column("worst", ".1e", 8),
    Column("status", "", 16),
    Column("seconds", ".1f", 8),
)


@dataclass(frozen=True)
class Recovery:
    """One scene and its unknowns, as keywords of what makes the scene."""

    name: str
    scene: Callable[..., Scene]
    truth: Mapping[str, Any]  # by keyword
    start: Mapping[str, Any]
    bounds: tuple[float, float]
    paths: Mapping[str, str]  # of the keywords
    frames: int
    substeps: int  # a frame
    fps: float = 30.0
    side: int = 64  # of the pictures [px]
    paper: str = ""

    def case(self) -> Case:
        return Case(self.name, self.row)

    def row(self, told: Told) -> Row:
        true = self.scene(**self.truth)
        (video,) = filmed(true, Time(self.frames, self.fps, self.substeps), self.side)
        low, high = self.bounds
        guess = self.scene(**{name: unknown(value, low=low, high=high) for name, value in self.start.items()})
        fit = fitted(guess, video, told, fps=self.fps, substeps=self.substeps)
        off = errors(fit, {self.paths[name]: value for name, value in self.truth.items()})
        return {
            "scene": self.name,
            "unknowns": ", ".join(self.truth),
            "paper": self.paper,
            "relative errors": ", ".join(f"{error:.1e}" for error in off.values()),
            "worst": max(off.values()),
            "status": fit.status,
            "seconds": fit.seconds,
        }


def small_errors(allowed: float) -> Callable[[Sequence[Row]], list[Claim]]:
    """The claim that all errors are at most so large."""
    return lambda rows: [Claim("largest relative error", largest(rows, "worst"), most=allowed)]
