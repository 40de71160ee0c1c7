"""Result of control: the best control found, its motion, and the history of the search."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.fit.goals import Goal
from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput
from gradsim.scene.html import to_html
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory

MAX_JSON_VALUES = 64  # longest array that is written as JSON


@dataclass(frozen=True)
class Iterate:
    """One iterate of the search."""

    number: int  # from 0, over all stages
    stage: int
    loss: float  # of its stage
    seconds: float  # since the start of the search
    metric: float | None = None  # value of the user's metric


@dataclass(frozen=True, eq=False)
class EvaluatedControl:
    """The control of one iterate and the motion it causes."""

    number: int  # of the iterate
    loss: float
    values: dict[str, torch.Tensor]  # unknowns and weights of policies, by path
    policy_outputs: dict[str, torch.Tensor]  # at the frames, by path, [K, ...]
    scene: Scene  # with values and policy outputs filled in
    trajectory: Trajectory
    metric: float | None = None


@dataclass(frozen=True, eq=False)
class Plan:
    """Result of `gs.control`: the best control found.

    `plan.best` is the iterate with the lowest loss of the last stage, `plan.last` is the last iterate. `plan.scene` and
    `plan.trajectory` are those of the best.

    Example:
        `gs.control(scene, goal, frames=30).trajectory["cube"].position[-1]`
    """

    best: EvaluatedControl
    last: EvaluatedControl
    history: tuple[Iterate, ...] = field(repr=False)  # all iterates
    status: str  # "converged", "stalled", "out of iterations", "diverged", "interrupted"
    advice: str  # remedy for the status
    goals: tuple[Goal, ...] = field(repr=False)  # what was to be reached
    policies: Mapping[str, torch.nn.Module] = field(repr=False)  # copies with the best weights, by path
    time: Time  # frames and steps of the rollouts
    seconds: float  # that the search took [s]

    @property
    def scene(self) -> Scene:
        """The scene with the best control."""
        return self.best.scene

    @property
    def trajectory(self) -> Trajectory:
        """The motion under the best control."""
        return self.best.trajectory

    @property
    def loss(self) -> float:
        """Loss of the best control."""
        return self.best.loss

    def __str__(self) -> str:
        first = self.history[0]
        lines = [f"{path} = {_short(value)}" for path, value in self.best.values.items()]
        lines.append(
            f"loss {first.loss:.6g} -> {self.best.loss:.6g} at iterate {self.best.number} of {self.last.number}"
        )
        if self.best.metric is not None:
            lines.append(f"metric {first.metric:.6g} -> {self.best.metric:.6g}, last {self.last.metric:.6g}")
        lines.append(f"{self.status}: {self.advice}" if self.advice else self.status)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return to_html(self)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON, without long arrays; `save` writes all."""
        return {
            "status": self.status,
            "advice": self.advice,
            "best": {"iterate": self.best.number, "loss": self.best.loss, "metric": self.best.metric},
            "last": {"iterate": self.last.number, "loss": self.last.loss, "metric": self.last.metric},
            "values": {path: v.tolist() for path, v in self.best.values.items() if v.numel() <= MAX_JSON_VALUES},
            "history": [
                {"iterate": i.number, "stage": i.stage, "loss": i.loss, "seconds": i.seconds, "metric": i.metric}
                for i in self.history
            ],
            "frames": self.time.frames,
            "fps": self.time.fps,
            "substeps": self.time.substeps,
            "seconds": self.seconds,
        }

    def save(self, folder: str | Path) -> None:
        """Writes plan.json and control.npz (values and policy outputs by path) into a folder, each atomically."""
        target_folder = checked_path("folder", folder)
        target_folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.as_dict(), indent=2) + "\n"
        write_atomically(target_folder / "plan.json", lambda target: target.write_text(text), InvalidInput)
        arrays = {path: value.numpy() for path, value in self.best.values.items()}
        arrays |= {f"{path} (policy output)": value.numpy() for path, value in self.best.policy_outputs.items()}

        def write(target: Path) -> None:
            with target.open("wb") as stream:
                np.savez(stream, **arrays)  # type: ignore[arg-type]

        write_atomically(target_folder / "control.npz", write, InvalidInput)


def _short(value: torch.Tensor) -> str:
    return str(value.tolist()) if value.numel() <= 4 else f"{tuple(value.shape)} values"
