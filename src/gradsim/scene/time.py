"""When a scene is looked at, and how it steps from one look to the next."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler


@dataclass(frozen=True)
class Time:
    """The frames of a video of a scene, and the steps between them.

    Args:
        frames: States, at times i / fps, the first being the start.
        fps: Frames a second [1/s].
        substeps: Steps between two frames; as many as stability asks for if None.
        integrator: `Midpoint()` or `SymplecticEuler()`.
    """

    frames: int = 60
    fps: float = 30.0
    substeps: int | None = None
    integrator: Integrator = Midpoint()

    def __post_init__(self) -> None:
        _check_whole("time.frames", self.frames)
        if self.substeps is not None:
            _check_whole("time.substeps", self.substeps)
        if isinstance(self.fps, bool) or not isinstance(self.fps, (int, float)):
            raise WrongType("time.fps", repr(self.fps), "must be a number [1/s]")
        if not 0.0 < self.fps < float("inf"):
            raise OutOfRange("time.fps", self.fps, "must be > 0 and finite [1/s]")
        integrator: Any = self.integrator
        if not isinstance(integrator, (Midpoint, SymplecticEuler)):
            raise WrongType("time.integrator", repr(integrator), "must be gs.Midpoint() or gs.SymplecticEuler()")


def _check_whole(name: str, value: Any) -> None:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise OutOfRange(name, repr(value), "must be a whole number >= 1")
