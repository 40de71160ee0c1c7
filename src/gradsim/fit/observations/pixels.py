"""Videos, compared by their colours."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch

from gradsim.fit.observations.base import Adjust, brief
from gradsim.fit.observations.images import ImageObservation, checked_images, exposed
from gradsim.fit.observations.noise import is_8_bit, video_noise
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import WrongShape, WrongType
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.video.video import Encoding, Video

LUMA = ((0.299, 0.587, 0.114),)  # weights of red, green and blue


class Pixels(ImageObservation):
    """A video, compared pixel by pixel.

    Example:
        `gs.estimate(scene, gs.Pixels(video, noise=0.01))`

    Args:
        video: Colours [T, H, W, 3], NaN where missing, or a `gs.Video`. A compressed one is compared by luma: its
            colours are stored at half the resolution.
        mask: Weights of the pixels, [H, W] or [T, H, W]; pixels with weight 0 are ignored.
        renderer: Renderer of the scene.
        channels: Linear map of the colours applied before the comparison, [C, 3], such as luma.
        brightness: Fit a brightness factor to each frame.
        options: `noise`, `robust`, `frames`, `offset` and `camera`; see `Observation`.
    """

    unit = "1"
    video: torch.Tensor  # colours [T, H, W, 3]
    channels: torch.Tensor | None
    brightness: bool
    encoding: Encoding | None  # how the video was stored; None for a tensor
    fps: float | None  # frames per second of the video; None for a tensor

    def __init__(
        self,
        video: torch.Tensor | Video,
        *,
        mask: torch.Tensor | None = None,
        renderer: Rasterizer = Exact(),
        channels: Any = None,
        brightness: bool = False,
        **options: Any,
    ):
        stored = video if isinstance(video, Video) else None
        images = checked_images("video", video if stored is None else stored.frames, "[T, H, W, 3]")
        arguments = {"mask": mask, "renderer": renderer, "channels": channels, "brightness": brightness}
        super().__init__(images, options, {"video": video, **arguments})
        if not isinstance(brightness, bool):
            raise WrongType("brightness", brief(brightness), "must be True or False")
        if channels is None and stored is not None and stored.lossy:
            channels = LUMA
        vars(self).update(
            video=images,
            channels=None if channels is None else _checked_channels(channels),
            encoding=None if stored is None else stored.encoding,
            fps=None if stored is None else stored.fps,
        )

    @property
    def channel_count(self) -> int:
        return 3 if self.channels is None else len(self.channels)

    def mix_channels(self, images: torch.Tensor) -> torch.Tensor:
        """Applies `channels` to colours [..., 3]."""
        return images if self.channels is None else images @ self.channels.to(images.dtype).T

    def difference(
        self,
        scene: Scene,
        trajectory: Trajectory,
        level: int,
        *,
        samples: int = 1,
        readouts: int = 1,
        adjust: Adjust | None = None,
    ) -> torch.Tensor:
        rendered = render(self.view(scene), trajectory, self.sizes[level], self.renderer)
        rendered = exposed(rendered, samples, readouts)
        if adjust is not None:
            rendered = adjust(rendered)
        rendered = self.mix_channels(rendered)
        if self.brightness:
            rendered = rendered * self._brightness_factors(rendered, level)
        return self.compared(rendered, level)

    def _brightness_factors(self, rendered: torch.Tensor, level: int) -> torch.Tensor:
        """Least-squares factors of the frames of rendered channels [..., T', H, W, C], [..., T', 1, 1, 1]."""
        count, weights = rendered.shape[-4], self.pixel_weights[level]
        weighted = rendered if weights is None else rendered * weights[:count]
        square = (weighted * rendered).sum((-3, -2, -1), True)
        product = (weighted * self.targets[level][:count]).sum((-3, -2, -1), True)
        return torch.where(square > 0, product / torch.where(square > 0, square, 1.0), 1.0)

    @cached_property
    def is_8_bit(self) -> bool:
        """Whether the colours are whole multiples of 1 / 255."""
        return is_8_bit(self.video)

    def estimated_noise(self) -> float | None:
        """Standard deviation of a compared channel, from pixels that are static and not saturated.

        None if there are too few of them, and for compressed videos, whose errors hardly change between frames.
        """
        if self.encoding is not None and self.encoding.lossy:
            return None
        frames = slice(None) if self.included is None else sorted(set(self.included))
        weights = self.pixel_weights[-1]
        usable = None if weights is None else weights[frames, ..., 0] > 0
        return video_noise(self.video[frames], self.channels, usable)


def _checked_channels(channels: Any) -> torch.Tensor:
    matrix = torch.as_tensor(channels, dtype=torch.float64)
    if matrix.ndim != 2 or matrix.shape[1] != 3:
        raise WrongShape("channels", f"shape {tuple(matrix.shape)}", "must be [C, 3], a linear map of the colours")
    return matrix


def median_image(video: torch.Tensor) -> torch.Tensor:
    """Returns the lower median of a video [T, ...] over time, [...]; several times faster than `torch.median`."""
    middle = (len(video) - 1) // 2
    columns = np.ascontiguousarray(video.detach().reshape(len(video), -1).numpy().T)
    return torch.from_numpy(np.partition(columns, middle, axis=1)[:, middle].copy()).view(video.shape[1:])
