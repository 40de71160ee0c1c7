"""Observations of a motion, and the residuals of a simulated motion with respect to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch

from gradsim.render.camera import projection
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.downsample import downsample

MIN_PYRAMID_SIZE = 16  # shorter side of the coarsest level [px]


class Observation(Protocol):
    """Measurements of a motion at several levels of detail; level 0 is the coarsest."""

    @property
    def frames(self) -> int:
        """Number of frames T."""

    @property
    def levels(self) -> int:
        """Number of levels of detail."""

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        """Returns differences [B, T', N] for a trajectory of the first T' <= T frames."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """A video, compared pixel by pixel over an image pyramid.

    Args:
        video: Colours [T, H, W, 3].
        mask: Weights of the pixels from 0 to 1, [H, W] or [T, H, W].
        renderer: Renderer of the scene.
        channels: Linear map of the colours applied before the comparison, [C, 3], such as luma.
        included: Indices of the frames that are compared; all if None.
        robust: Threshold of the Huber loss; larger differences contribute linearly. None for a quadratic loss.
        brightness: Fit a brightness factor to each frame.
    """

    video: torch.Tensor
    mask: torch.Tensor | None = None
    renderer: Rasterizer = field(default_factory=Exact)
    channels: torch.Tensor | None = None
    included: Sequence[int] | None = None
    robust: float | None = None
    brightness: bool = False

    def __post_init__(self) -> None:
        if self.video.ndim != 4 or self.video.shape[-1] != 3:
            raise WrongShape("video", f"shape {tuple(self.video.shape)}", "must be [T, H, W, 3]")
        if self.mask is not None and self.mask.shape[-2:] != self.video.shape[1:3]:
            raise WrongShape("mask", f"shape {tuple(self.mask.shape)}", f"must be {tuple(self.video.shape[1:3])}")
        for frame in self.included or ():
            if not 0 <= frame < len(self.video):
                raise OutOfRange("frames", frame, f"must be >= 0 and < {len(self.video)}, the number of frames")
        if self.robust is not None and not self.robust > 0:
            raise OutOfRange("robust", self.robust, "must be > 0, a difference of colours")

    @property
    def frames(self) -> int:
        return len(self.video)

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """Heights and widths of the pyramid [px], coarsest first; sizes are halved while they are even."""
        height, width = self.video.shape[1:3]
        sizes = [(height, width)]
        while height % 2 == 0 and width % 2 == 0 and min(height, width) // 2 >= MIN_PYRAMID_SIZE:
            height, width = height // 2, width // 2
            sizes.append((height, width))
        return sizes[::-1]

    @property
    def levels(self) -> int:
        return len(self.sizes)

    @cached_property
    def targets(self) -> list[torch.Tensor]:
        """Observed channels at each level, [T, H, W, C]."""
        return [self.mix_channels(downsample(self.video, size)) for size in self.sizes]

    @cached_property
    def _weights(self) -> list[torch.Tensor] | None:
        """Square roots of the weights at each level, [T, H, W, 1] or [T, 1, 1, 1]; None if all are 1."""
        if self.mask is None and self.included is None:
            return None
        frames = torch.ones(self.frames, 1, 1, 1, dtype=self.video.dtype)
        if self.included is not None:
            frames = torch.zeros_like(frames)
            frames[list(self.included)] = 1.0
        if self.mask is None:
            return [frames] * self.levels
        mask = self.mask.to(self.video.dtype).expand(self.frames, *self.video.shape[1:3])[..., None]
        return [(downsample(mask, size) * frames).sqrt() for size in self.sizes]

    def mix_channels(self, video: torch.Tensor) -> torch.Tensor:
        """Applies `channels` to colours [..., 3]."""
        return video if self.channels is None else video @ self.channels.T

    def residual(self, scene: Scene, trajectory: Trajectory, level: int) -> torch.Tensor:
        rendered = self.mix_channels(render(scene, trajectory, self.sizes[level], self.renderer))
        count = len(trajectory)
        target = self.targets[level][:count]
        if self.brightness:  # least-squares factor of each frame
            scale = (rendered * target).sum((-3, -2, -1), True) / (rendered * rendered).sum((-3, -2, -1), True)
            rendered = rendered * scale
        difference = rendered - target
        if self._weights is not None:
            difference = difference * self._weights[level][:count]
        if self.robust is not None:
            size = difference.abs()
            linear = (2 * self.robust * size - self.robust**2).clamp_min(0.0).sqrt()
            difference = torch.where(size <= self.robust, difference, difference.sign() * linear)
        return difference.flatten(-3)


@dataclass(frozen=True, eq=False)
class Masks:
    """Silhouettes of all bodies together, [T, H, W] from 0 to 1, compared with the rendered coverage."""

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
        return (coverage - self._pixels.targets[level][: len(trajectory), ..., 0]).flatten(-2)


@dataclass(frozen=True, eq=False)
class Tracks:
    """Image positions of points of a body over time.

    Args:
        body: Name of the body.
        vertices: Indices of the tracked vertices, [K].
        pixels: Positions (x, y) from the upper left corner [px], [T, K, 2]; NaN where a vertex is not visible.
        size: Height and width of the video [px].
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
        """Returns differences in units of the image height."""
        if scene.camera is None:
            raise InvalidInput("scene.camera", None, "gs.Tracks needs a camera: set the camera of the scene")
        points = trajectory[self.body].vertices[..., list(self.vertices), :]
        matrix, eye = projection(scene.camera, self.size, points.dtype, points.device)
        image = (points - eye[..., None, None, :]) @ matrix[..., None, :, :].mT
        difference = image[..., :2] / image[..., 2:] - self.pixels[: len(trajectory)]
        return (torch.where(torch.isnan(difference), 0.0, difference) / self.size[0]).flatten(-2)


@dataclass(frozen=True, eq=False)
class States:
    """Measured states by body and attribute of its motion, such as `{"cube.position": [T, 3]}`."""

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
        differences = []
        for path, target in self.values.items():
            body, _, name = path.partition(".")
            motion = trajectory[body]
            if not hasattr(motion, name):
                raise InvalidInput("States", path, f"the motion of {body!r} has no {name!r}")
            value: torch.Tensor = getattr(motion, name)
            value_dims = target.ndim - 1
            differences.append((value - target[: len(trajectory)]).flatten(value.ndim - value_dims))
        return torch.cat(differences, -1)
