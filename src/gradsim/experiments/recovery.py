"""Recovery of known parameters: a scene is simulated and recorded, then its parameters are estimated from the video."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsim.experiments.experiment import Case, Claim, Column, Progress, Row, largest
from gradsim.experiments.protocol import fit_video, record_video, relative_errors
from gradsim.scene.integrators import Integrator, Midpoint
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
    """A scene and its unknowns, which are keyword arguments of the function that builds the scene."""

    name: str
    scene: Callable[..., Scene]
    truth: Mapping[str, Any]  # by keyword
    start: Mapping[str, Any]
    bounds: tuple[float, float]
    paths: Mapping[str, str]  # path of each keyword
    frames: int
    substeps: int  # per frame
    fps: float = 30.0
    integrator: Integrator = Midpoint()
    side: int = 64  # frame height and width [px]
    paper: str = ""

    def case(self) -> Case:
        return Case(self.name, self.row)

    def row(self, progress: Progress) -> Row:
        true = self.scene(**self.truth)
        (video,) = record_video(true, Time(self.frames, self.fps, self.substeps, self.integrator), self.side)
        low, high = self.bounds
        guess = self.scene(**{name: unknown(value, low=low, high=high) for name, value in self.start.items()})
        options: dict[str, Any] = {"fps": self.fps, "substeps": self.substeps, "integrator": self.integrator}
        fit = fit_video(guess, video, progress, **options)
        errors = relative_errors(fit, {self.paths[name]: value for name, value in self.truth.items()})
        return {
            "scene": self.name,
            "unknowns": ", ".join(self.truth),
            "paper": self.paper,
            "relative errors": ", ".join(f"{error:.1e}" for error in errors.values()),
            "worst": max(errors.values()),
            "status": fit.status,
            "seconds": fit.seconds,
        }


def max_error_claim(allowed: float) -> Callable[[Sequence[Row]], list[Claim]]:
    """Returns the claim that no relative error exceeds a bound."""
    return lambda rows: [Claim("largest relative error", largest(rows, "worst"), at_most=allowed)]
