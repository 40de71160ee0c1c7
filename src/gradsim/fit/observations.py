"""What was observed, and how far a scene's motion and picture are from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import torch

from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.rollout import simulate
from gradsim.video.area import reduced

COARSEST = 16  # [px], shorter side


class Observation(Protocol):
    """Something seen of a trajectory, at several levels of detail, coarsest first."""

    @property
    def frames(self) -> int: ...
    @property
    def levels(self) -> int: ...

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        """Differences [B, T', N], T' being the frames the trajectory has."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """A video, compared pixel by pixel."""

    video: torch.Tensor  # [T, H, W, 3]
    mask: torch.Tensor | None = None  # [H, W] or [T, H, W], weights from 0 to 1
    renderer: Rasterizer = field(default_factory=Exact)
    channels: torch.Tensor | None = None  # mixes colours before they are compared, [C, 3]

    def __post_init__(self) -> None:
        if self.video.ndim != 4 or self.video.shape[-1] != 3:
            raise WrongShape("video", f"shape {tuple(self.video.shape)}", "must be [T, H, W, 3]")
        if self.mask is not None and self.mask.shape[-2:] != self.video.shape[1:3]:
            raise WrongShape("mask", f"shape {tuple(self.mask.shape)}", f"must be {tuple(self.video.shape[1:3])}")

    @property
    def frames(self) -> int:
        return len(self.video)

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """Sizes of the pyramid, coarsest first: halves of halves, as long as they come out even."""
        height, width = self.video.shape[1:3]
        found = [(height, width)]
        while height % 2 == 0 and width % 2 == 0 and min(height, width) // 2 >= COARSEST:
            height, width = height // 2, width // 2
            found.append((height, width))
        return found[::-1]

    @property
    def levels(self) -> int:
        return len(self.sizes)

    @cached_property
    def _targets(self) -> list[torch.Tensor]:
        return [self._mixed(reduced(self.video, size)) for size in self.sizes]

    @cached_property
    def _weights(self) -> list[torch.Tensor] | None:
        if self.mask is None:
            return None
        mask = self.mask.expand(self.frames, *self.video.shape[1:3])[..., None]
        return [reduced(mask, size).sqrt() for size in self.sizes]

    def _mixed(self, video: torch.Tensor) -> torch.Tensor:
        return video if self.channels is None else video @ self.channels.T

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        seen = self._mixed(render(scene, trajectory, self.sizes[level], self.renderer))
        count = len(trajectory)
        difference = seen - self._targets[level][:count]
        if self._weights is not None:
            difference = difference * self._weights[level][:count]
        return difference.flatten(-3)


@dataclass(frozen=True, eq=False)
class States:
    """Known states, as `{"cube.position": [T, 3]}`: the name of a body, and of a tensor its motion has."""

    values: Mapping[str, torch.Tensor]

    def __post_init__(self) -> None:
        lengths = {len(value) for value in self.values.values()}
        if len(lengths) != 1:
            raise WrongShape("States", f"lengths {sorted(lengths)}", "all must have the same number of frames")

    @property
    def frames(self) -> int:
        return len(next(iter(self.values.values())))

    @property
    def levels(self) -> int:
        return 1

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        found = []
        for path, target in self.values.items():
            body, _, name = path.partition(".")
            motion = trajectory[body]
            if not hasattr(motion, name):
                raise InvalidInput("States", path, f"the motion of {body!r} has no {name!r}")
            value: torch.Tensor = getattr(motion, name)
            trailing = target.ndim - 1
            found.append((value - target[: len(trajectory)]).flatten(value.ndim - trailing))
        return torch.cat(found, -1)


@dataclass(frozen=True)
class Clock:
    """How a scene is let move: `substeps` None takes what is stable over all the unknowns may be."""

    fps: float
    substeps: int
    integrator: Integrator = Midpoint()

    def run(self, scene: Scene, frames: int) -> Trajectory:
        return simulate(scene, frames=frames, fps=self.fps, substeps=self.substeps, integrator=self.integrator)


@dataclass(frozen=True, eq=False)
class Trial:
    """A scene, with unknowns, and what was observed of it."""

    scene: Scene
    observation: Any  # Observation
    clock: Clock

    def residual(self, values: Mapping[str, torch.Tensor], level: int, frames: int) -> torch.Tensor:
        """[B, N], each frame's differences divided by the root of their number: its square is a mean over a frame."""
        mine = {path: value for path, value in values.items() if path in self.scene.unknowns}
        scene = self.scene.with_values(mine)
        trajectory = self.clock.run(scene, min(frames, self.observation.frames))
        level = max(0, self.observation.levels - 1 - level)
        difference = self.observation.residual(scene, trajectory, level)
        return difference.flatten(-2) / math.sqrt(difference.shape[-1])

    def shortened(self, frames: int) -> Trial:
        if frames < 1:
            raise OutOfRange("frames", frames, "must be >= 1")
        return replace(self, observation=self.observation)
