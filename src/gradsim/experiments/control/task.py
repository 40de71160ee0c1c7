"""A task of control, declared: the scene, what may be chosen, the goal as a picture and as a state."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch

from gradsim.fit.control import Stage, control
from gradsim.fit.goals import Goal
from gradsim.fit.plan import Iterate, Plan
from gradsim.fit.policies import Policy
from gradsim.render.render import render
from gradsim.scene.errors import ContactWarning, StabilityWarning
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.rollout import simulate


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
    about: str = ""  # what is asked, in words

    def run(self, method: Method = Method.IMAGE, progress: Callable[[Iterate], None] = lambda iterate: None) -> Plan:
        """Search, as the method is told."""
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
                stages=self.stages[method],
                watch=self.watch,
                starts=1 if method is Method.RANDOM else self.starts,
                seed=self.seed,
                integrator=self.integrator,
                dtype=self.dtype,
                progress=progress,
            )


def portrait(scene: Scene, size: tuple[int, int], *, colours: bool = False) -> torch.Tensor:
    """A picture of a scene as it stands: its silhouette [H, W, 1], or colours and silhouette [H, W, 4]."""
    image = render(scene, simulate(scene, frames=1), size, alpha=True)[0]
    return image if colours else image[..., 3:]
