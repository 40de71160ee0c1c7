"""What control gives back: the control that was found, how it was found, and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.fit.goals import Goal
from gradsim.fit.rollout import Rhythm
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory


@dataclass(frozen=True)
class Iterate:
    """A moment of the way to the goal."""

    number: int  # from 0, over all stages
    stage: int
    loss: float  # of its stage
    seconds: float  # since the start
    watched: float | None = None  # what `watch` made of its motion


@dataclass(frozen=True, eq=False)
class Reached:
    """An iterate, whole."""

    number: int
    loss: float
    values: dict[str, torch.Tensor]  # unknowns and weights of policies by path
    signals: dict[str, torch.Tensor]  # what the policies said by path, [K, ...]
    scene: Scene  # with values and signals in place
    trajectory: Trajectory
    watched: float | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """The control that reaches a goal, as near as it was come.

    `plan.best` is the iterate with the least loss of the last stage, `plan.last` the last one; `plan.scene` and
    `plan.trajectory` are those of the best.
    """

    best: Reached
    last: Reached
    history: tuple[Iterate, ...] = field(repr=False)
    status: str  # "converged", "stalled", "out of iterations", "diverged", "interrupted"
    advice: str
    goals: tuple[Goal, ...] = field(repr=False)
    policies: Mapping[str, torch.nn.Module] = field(repr=False)  # copies with the best weights, by path
    rhythm: Rhythm
    frames: int
    seconds: float

    @property
    def scene(self) -> Scene:
        """The scene with the best control in place."""
        return self.best.scene

    @property
    def trajectory(self) -> Trajectory:
        """How it moves then."""
        return self.best.trajectory

    @property
    def loss(self) -> float:
        return self.best.loss

    def __str__(self) -> str:
        first = self.history[0]
        lines = [f"{path} = {_short(value)}" for path, value in self.best.values.items()]
        lines.append(
            f"loss {first.loss:.6g} -> {self.best.loss:.6g} at iterate {self.best.number} of {self.last.number}"
        )
        if self.best.watched is not None:
            lines.append(f"watched {first.watched:.6g} -> {self.best.watched:.6g}, last {self.last.watched:.6g}")
        lines.append(f"{self.status}: {self.advice}" if self.advice else self.status)
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; long arrays are left to `save`."""
        return {
            "status": self.status,
            "advice": self.advice,
            "best": {"iterate": self.best.number, "loss": self.best.loss, "watched": self.best.watched},
            "last": {"iterate": self.last.number, "loss": self.last.loss, "watched": self.last.watched},
            "values": {path: v.tolist() for path, v in self.best.values.items() if v.numel() <= 64},
            "history": [
                {"iterate": i.number, "stage": i.stage, "loss": i.loss, "seconds": i.seconds, "watched": i.watched}
                for i in self.history
            ],
            "frames": self.frames,
            "fps": self.rhythm.fps,
            "substeps": self.rhythm.substeps,
            "seconds": self.seconds,
        }

    def save(self, folder: str | Path) -> None:
        """Write plan.json and control.npz (values and signals by path) into a folder, each whole or not at all."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_dict(), indent=2) + "\n"
        write_atomically(place / "plan.json", lambda target: target.write_text(text), InvalidInput)
        arrays = {path: value.numpy() for path, value in self.best.values.items()}
        arrays |= {f"{path} (signal)": value.numpy() for path, value in self.best.signals.items()}

        def write(target: Path) -> None:
            with target.open("wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]

        write_atomically(place / "control.npz", write, InvalidInput)


def _short(value: torch.Tensor) -> str:
    return str(value.tolist()) if value.numel() <= 4 else f"{tuple(value.shape)} values"
