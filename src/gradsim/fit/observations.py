"""What was observed, and how far a scene's motion and picture are from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch

from gradsim.render.camera import projection
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate
from gradsim.video.downsample import downsample

COARSEST = 16  # [px], shorter side
OFFSET = "video.offset"  # path of the time between the scene's start and the first frame [s]


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
    """A video, compared pixel by pixel.

    Args:
        video: [T, H, W, 3].
        mask: Weights of pixels from 0 to 1, [H, W] or [T, H, W].
        renderer: How the scene is drawn.
        channels: Mixes colours before they are compared, [C, 3]; luma, say.
        chosen: Frames that count; all if None.
        robust: Difference beyond which it counts by its size instead of its square (Huber); None for never.
        brightness: Whether each frame may have a brightness of its own.
    """

    video: torch.Tensor
    mask: torch.Tensor | None = None
    renderer: Rasterizer = field(default_factory=Exact)
    channels: torch.Tensor | None = None
    chosen: Sequence[int] | None = None
    robust: float | None = None
    brightness: bool = False

    def __post_init__(self) -> None:
        if self.video.ndim != 4 or self.video.shape[-1] != 3:
            raise WrongShape("video", f"shape {tuple(self.video.shape)}", "must be [T, H, W, 3]")
        if self.mask is not None and self.mask.shape[-2:] != self.video.shape[1:3]:
            raise WrongShape("mask", f"shape {tuple(self.mask.shape)}", f"must be {tuple(self.video.shape[1:3])}")
        for frame in self.chosen or ():
            if not 0 <= frame < len(self.video):
                raise OutOfRange("frames", frame, f"the video has {len(self.video)} frames")
        if self.robust is not None and not self.robust > 0:
            raise OutOfRange("robust", self.robust, "must be > 0, a difference of colours")

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
        return [self.mixed(downsample(self.video, size)) for size in self.sizes]

    @cached_property
    def _weights(self) -> list[torch.Tensor] | None:
        """Roots of the weights, [T, H, W, 1] or [T, 1, 1, 1], at each level."""
        if self.mask is None and self.chosen is None:
            return None
        counts = torch.ones(self.frames, 1, 1, 1, dtype=self.video.dtype)
        if self.chosen is not None:
            counts = torch.zeros_like(counts)
            counts[list(self.chosen)] = 1.0
        if self.mask is None:
            return [counts] * self.levels
        mask = self.mask.to(self.video.dtype).expand(self.frames, *self.video.shape[1:3])[..., None]
        return [(downsample(mask, size) * counts).sqrt() for size in self.sizes]

    def mixed(self, video: torch.Tensor) -> torch.Tensor:
        return video if self.channels is None else video @ self.channels.T

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        seen = self.mixed(render(scene, trajectory, self.sizes[level], self.renderer))
        count = len(trajectory)
        target = self._targets[level][:count]
        if self.brightness:  # the factor that fits best
            seen = seen * ((seen * target).sum((-3, -2, -1), True) / (seen * seen).sum((-3, -2, -1), True))
        difference = seen - target
        if self._weights is not None:
            difference = difference * self._weights[level][:count]
        if self.robust is not None:
            size = difference.abs()
            beyond = (2 * self.robust * size - self.robust**2).clamp_min(0.0).sqrt()
            difference = torch.where(size <= self.robust, difference, difference.sign() * beyond)
        return difference.flatten(-3)


@dataclass(frozen=True, eq=False)
class Masks:
    """Silhouettes of all bodies together, [T, H, W] from 0 to 1, compared with the coverage of the picture."""

    masks: torch.Tensor
    renderer: Rasterizer = field(default_factory=Exact)

    def __post_init__(self) -> None:
        if self.masks.ndim != 3:
            raise WrongShape("Masks", f"shape {tuple(self.masks.shape)}", "must be [T, H, W]")

    @property
    def frames(self) -> int:
        return len(self.masks)

    @cached_property
    def _pixels(self) -> Pixels:
        return Pixels(self.masks.to(torch.float64)[..., None].expand(-1, -1, -1, 3), renderer=self.renderer)

    @property
    def levels(self) -> int:
        return self._pixels.levels

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        coverage = render(scene, trajectory, self._pixels.sizes[level], self.renderer, alpha=True)[..., 3]
        return (coverage - self._pixels._targets[level][: len(trajectory), ..., 0]).flatten(-2)


@dataclass(frozen=True, eq=False)
class Tracks:
    """Points of a body followed in a video: pixels [T, K, 2] as (x, y) from the upper left corner.

    Args:
        body: Its name.
        vertices: Which of its vertices, [K].
        pixels: Where they were seen, [T, K, 2]; NaN where they were not.
        size: Height and width of the video.
    """

    body: str
    vertices: Sequence[int]
    pixels: torch.Tensor
    size: tuple[int, int]

    @property
    def frames(self) -> int:
        return len(self.pixels)

    @property
    def levels(self) -> int:
        return 1

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        """In heights of the picture."""
        if scene.camera is None:
            raise InvalidInput("scene.camera", None, "tracks are seen by a camera: give the scene one")
        points = trajectory[self.body].vertices[..., list(self.vertices), :]
        matrix, eye = projection(scene.camera, self.size, points.dtype, points.device)
        seen = (points - eye[..., None, None, :]) @ matrix[..., None, :, :].mT
        difference = seen[..., :2] / seen[..., 2:] - self.pixels[: len(trajectory)]
        return (torch.where(torch.isnan(difference), 0.0, difference) / self.size[0]).flatten(-2)


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
    """How a scene is let move."""

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

    def moved(self, values: Mapping[str, torch.Tensor], frames: int) -> tuple[Scene, Trajectory]:
        """The scene with values filled in, and how it moves at the times of the frames."""
        scene = self.scene.with_values({path: value for path, value in values.items() if path in self.scene.unknowns})
        if OFFSET in values:
            return scene, self.clock.run(scene, frames + 1).shifted(values[OFFSET])
        return scene, self.clock.run(scene, frames)

    def residual(self, values: Mapping[str, torch.Tensor], level: int, frames: int) -> torch.Tensor:
        """[B, N], each frame's differences divided by the root of their number: its square is a mean over a frame."""
        scene, trajectory = self.moved(values, min(frames, self.observation.frames))
        level = max(0, self.observation.levels - 1 - level)
        difference = self.observation.residual(scene, trajectory, level)
        return difference.flatten(-2).div_(math.sqrt(difference.shape[-1]))
