"""Declaration of a control task: the scene, the controls, and the goal as an image and as a state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import torch

from gradsim.fit.control import ControlStage, control
from gradsim.fit.goals import Goal
from gradsim.fit.optimizers import Adam, RandomSearch, TorchOptimizer
from gradsim.fit.plan import Iterate, Plan
from gradsim.fit.policies import Policy
from gradsim.render.render import render
from gradsim.scene.errors import ContactWarning, InvalidInput, StabilityWarning
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate


class Method(str, Enum):
    """How the search uses the goal."""

    IMAGE = "image"  # gradients of the difference from one image
    STATE = "state"  # gradients of the distance from 3D states, at every frame as in the paper
    RANDOM = "random"  # random controls, without gradients


@dataclass(frozen=True, eq=False)
class Task:
    """One goal of one experiment."""

    name: str
    seed: int
    scene: Scene  # may contain unknowns
    goals: Mapping[Method, Sequence[Goal]]
    stages: Mapping[Method, Sequence[ControlStage]]
    watch: Callable[[Trajectory], torch.Tensor]  # the error shown in tables, [...]
    frames: int
    fps: float
    substeps: int
    controls: Mapping[str, Policy] = field(default_factory=dict)
    starts: int = 1
    dtype: torch.dtype = torch.float64
    integrator: Integrator = SymplecticEuler()
    final_speed: Callable[[Trajectory], torch.Tensor] | None = None  # [m/s], for goals at rest
    description: str = ""  # of the goal, as a phrase
    truth: Mapping[str, torch.Tensor] = field(default_factory=dict)  # hidden true values of unknowns by path

    def iterates(self, method: Method) -> int:
        """Returns the largest number of iterates of a search."""
        optimizers: list[Any] = [optimizer for _, optimizer in self._stages(method)]
        # These optimizers have one iterate per step; the others count the start as an iterate of its own.
        return sum(o.iterations + (not isinstance(o, (Adam, RandomSearch, TorchOptimizer))) for o in optimizers)

    def with_iterations(self, iterations: int) -> Task:
        """Returns the task with this number of iterations in each stage."""
        stages = {
            method: [(distance, replace(optimizer, iterations=iterations)) for distance, optimizer in given]  # type: ignore[type-var]
            for method, given in self.stages.items()
        }
        return replace(self, stages=stages)

    def _stages(self, method: Method) -> Sequence[ControlStage]:
        if method not in self.stages:
            known = ", ".join(known.value for known in self.stages)
            raise InvalidInput("method", method.value, f"must be one of {known} for {self.name}")
        return self.stages[method]

    def run(self, method: Method = Method.IMAGE, progress: Callable[[Iterate], None] = lambda iterate: None) -> Plan:
        """Searches for the control that reaches the goal."""
        stages = self._stages(method)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContactWarning)  # the paper's ground is soft
            warnings.simplefilter("ignore", StabilityWarning)
            return control(
                self.scene,
                self.goals[method],
                self.controls,
                frames=self.frames,
                fps=self.fps,
                substeps=self.substeps,
                stages=stages,
                metric=self.watch,
                starts=1 if method is Method.RANDOM else self.starts,
                seed=self.seed,
                integrator=self.integrator,
                dtype=self.dtype,
                progress=progress,
            )


def render_initial_state(scene: Scene, size: tuple[int, int], *, colours: bool = False) -> torch.Tensor:
    """Renders a scene at time 0: its silhouette [H, W, 1], or colours and silhouette [H, W, 4]."""
    image = render(scene, simulate(scene, frames=1, integrator=SymplecticEuler()), size, alpha=True)[0]
    return image if colours else image[..., 3:]
