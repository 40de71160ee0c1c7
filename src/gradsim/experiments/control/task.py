"""A task of control, declared: the scene, what may be chosen, the goal as a picture and as a state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import torch

from gradsim.fit.control import Stage, control
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
    """What the search is told of the goal."""

    IMAGE = "image"  # one picture
    STATE = "state"  # 3D positions of all nodes, at every frame as in the paper
    RANDOM = "random"  # nothing: draws


@dataclass(frozen=True, eq=False)
class Task:
    """One goal of one experiment."""

    name: str
    seed: int
    scene: Scene  # may hold unknowns
    goals: Mapping[Method, Sequence[Goal]]
    stages: Mapping[Method, Sequence[Stage]]
    watch: Callable[[Trajectory], torch.Tensor]  # the error that tables show, [...]
    frames: int
    fps: float
    substeps: int
    controls: Mapping[str, Policy] = field(default_factory=dict)
    starts: int = 1
    dtype: torch.dtype = torch.float64
    integrator: Integrator = SymplecticEuler()
    speed: Callable[[Trajectory], torch.Tensor] | None = None  # at the end [m/s], where rest is asked for
    about: str = ""  # what is asked, in words
    truth: Mapping[str, torch.Tensor] = field(default_factory=dict)  # of unknowns by path, where they were hidden

    def iterates(self, method: Method) -> int:
        """How many a search has at most."""
        optimizers: list[Any] = [optimizer for _, optimizer in self._stages(method)]
        # These take a step after each; others take the start as an iterate of its own.
        return sum(o.iterations + (not isinstance(o, (Adam, RandomSearch, TorchOptimizer))) for o in optimizers)

    def shortened(self, iterations: int) -> Task:
        """The same with so many iterations in each stage."""
        stages = {
            method: [(distance, replace(optimizer, iterations=iterations)) for distance, optimizer in given]  # type: ignore[type-var]
            for method, given in self.stages.items()
        }
        return replace(self, stages=stages)

    def _stages(self, method: Method) -> Sequence[Stage]:
        if method not in self.stages:
            known = ", ".join(known.value for known in self.stages)
            raise InvalidInput("method", method.value, f"{self.name} has {known}")
        return self.stages[method]

    def run(self, method: Method = Method.IMAGE, progress: Callable[[Iterate], None] = lambda iterate: None) -> Plan:
        """Search, as the method is told."""
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
                watch=self.watch,
                starts=1 if method is Method.RANDOM else self.starts,
                seed=self.seed,
                integrator=self.integrator,
                dtype=self.dtype,
                progress=progress,
            )


def portrait(scene: Scene, size: tuple[int, int], *, colours: bool = False) -> torch.Tensor:
    """A picture of a scene as it stands: its silhouette [H, W, 1], or colours and silhouette [H, W, 4]."""
    image = render(scene, simulate(scene, frames=1, integrator=SymplecticEuler()), size, alpha=True)[0]
    return image if colours else image[..., 3:]
