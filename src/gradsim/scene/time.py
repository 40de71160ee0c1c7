"""Frames of a rollout and the time steps between them."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.integrators import Integrator, Midpoint


@dataclass(frozen=True)
class Time:
    """Frames of a rollout and the time steps between them.

    Example:
        `gs.view(scene, time=gs.Time(frames=60, fps=30.0, substeps=64))`

    Args:
        frames: Number of states, at times i / fps; the first is the initial state.
        fps: Frames per second [1/s].
        substeps: Time steps between two frames; None chooses as many as stability requires.
        integrator: Time integrator.
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
        check_integrator("time.integrator", self.integrator)

    @property
    def steps(self) -> int:
        """Time steps from the first frame to the last."""
        return (self.frames - 1) * self.steps_per_frame

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return 1.0 / (self.fps * self.steps_per_frame)

    @property
    def steps_per_frame(self) -> int:
        """Time steps between two frames, which must be known."""
        if self.substeps is None:
            raise OutOfRange("time.substeps", None, "must be a whole number >= 1 before time steps can be counted")
        return self.substeps


def check_integrator(name: str, integrator: Any) -> None:
    """Raise unless the value is an integrator object."""
    if not isinstance(integrator, Integrator):
        kinds = ", ".join(f"gs.{kind.__name__}()" for kind in Integrator.kinds)
        raise WrongType(name, repr(integrator), f"must be an integrator: {kinds}")


def _check_whole(name: str, value: Any) -> None:
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise OutOfRange(name, repr(value), "must be a whole number >= 1")
