"""Observations by images, compared pixel by pixel over an image pyramid."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch

from gradsim.fit.observations.base import Observation, measurements
from gradsim.render.raster import Rasterizer
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.video.downsample import downsample

MIN_PYRAMID_SIZE = 16  # shorter side of the coarsest level [px]


class ImageObservation(Observation):
    """Images of T frames with C channels. NaN marks missing pixels.

    A pixel of a coarse level is the mean of its measured part, and weighs as much as that part.
    """

    renderer: Rasterizer
    mask: torch.Tensor | None  # weights of the pixels, [H, W] or [T, H, W]

    def __init__(self, images: torch.Tensor, options: Mapping[str, Any], arguments: Mapping[str, Any]):
        """Stores images [T, H, W, C]; `arguments` has a mask and a renderer."""
        super().__init__(len(images), options, arguments)
        if not isinstance(self.renderer, Rasterizer):
            raise WrongType("renderer", repr(self.renderer), "must be gs.Exact(), gs.SoftRas() or gs.DIBR()")
        mask = None if self.mask is None else _checked_mask(self.mask, tuple(images.shape[:3]))
        vars(self).update(_images=images, mask=mask)

    @property
    def images(self) -> torch.Tensor:
        """Measured images [T, H, W, C], NaN where missing."""
        images: torch.Tensor = vars(self)["_images"]
        return images

    @property
    def size(self) -> tuple[int, int]:
        """Height and width [px]."""
        return self.images.shape[1], self.images.shape[2]

    @cached_property
    def sizes(self) -> list[tuple[int, int]]:
        """Heights and widths of the pyramid [px], coarsest first; sizes are halved while they are even."""
        height, width = self.size
        sizes = [(height, width)]
        while height % 2 == 0 and width % 2 == 0 and min(height, width) // 2 >= MIN_PYRAMID_SIZE:
            height, width = height // 2, width // 2
            sizes.append((height, width))
        return sizes[::-1]

    @property
    def levels(self) -> int:
        return len(self.sizes)

    def entries(self, level: int) -> int:
        height, width = self.sizes[level]
        return height * width * self.channel_count

    @property
    def channel_count(self) -> int:
        """Number of channels that are compared."""
        return self.images.shape[-1]

    @cached_property
    def _measured(self) -> torch.Tensor | None:
        """1 where a pixel was measured and 0 elsewhere, [T, H, W, 1]; None if all were."""
        missing = torch.isnan(self.images).any(-1, keepdim=True)
        return (~missing).to(self.images.dtype) if bool(missing.any()) else None

    @cached_property
    def measured_shares(self) -> list[torch.Tensor | None]:
        """Measured share of each pixel at each level, [T, H, W, 1]; None if all were measured."""
        measured = self._measured
        return [None if measured is None else downsample(measured, size) for size in self.sizes]

    @cached_property
    def targets(self) -> list[torch.Tensor]:
        """Observed channels at each level, [T, H, W, C]; 0 where missing."""
        if self._measured is None:
            return [self.mix_channels(downsample(self.images, size)) for size in self.sizes]
        filled = torch.where(self._measured > 0, self.images, 0.0)
        means = [
            downsample(filled, size) / share.clamp_min(torch.finfo(share.dtype).tiny)
            for size, share in zip(self.sizes, self.measured_shares, strict=True)
            if share is not None
        ]
        return [self.mix_channels(mean) for mean in means]

    def mix_channels(self, images: torch.Tensor) -> torch.Tensor:
        """Returns the channels that are compared."""
        return images

    @cached_property
    def pixel_weights(self) -> list[torch.Tensor | None]:
        """Weights of the pixels at each level, [T, H, W, 1]; None if all are 1."""
        weights = self._measured
        if self.mask is not None:
            mask = self.mask.expand(self.frames, *self.size)[..., None]
            weights = mask if weights is None else mask * weights
        return [None if weights is None else downsample(weights, size) for size in self.sizes]

    def entry_weights(self, level: int) -> torch.Tensor | None:
        weights = self.pixel_weights[level]
        return None if weights is None else weights.expand(-1, -1, -1, self.channel_count).flatten(1)

    def compared(self, rendered: torch.Tensor, level: int) -> torch.Tensor:
        """Returns rendered [..., T', H, W, C] minus observed channels as [..., T', N], 0 where missing."""
        count = rendered.shape[-4]
        difference = rendered - self.targets[level][:count]
        share = self.measured_shares[level]
        if share is not None:
            difference = torch.where(share[:count] > 0, difference, 0.0)
        return difference.flatten(-3)


def exposed(images: torch.Tensor, samples: int, readouts: int = 1) -> torch.Tensor:
    """Averages images over the exposure of a frame and combines the rows of its readouts.

    Args:
        images: [..., T readouts samples, H, W, C].
        samples: Images that are averaged.
        readouts: Images of a frame from the time of its first row to that of its last; a row is interpolated between
            the two next to its time.

    Returns:
        Images [..., T, H, W, C].
    """
    averaged = images if samples == 1 else images.unflatten(-4, (-1, samples)).mean(-4)
    if readouts == 1:
        return averaged
    height = images.shape[-3]
    place = (torch.arange(height, dtype=images.dtype) + 0.5) / height * (readouts - 1)
    weights = (1.0 - (place - torch.arange(readouts, dtype=images.dtype)[:, None]).abs()).clamp_min(0.0)  # [R, H]
    return (averaged.unflatten(-4, (-1, readouts)) * weights[..., None, None]).sum(-4)


def checked_images(name: str, values: Any, shape: str) -> torch.Tensor:
    """Returns images as a float64 tensor with as many dimensions as `shape` names, such as "[T, H, W]"."""
    images = measurements(name, values)
    if images.ndim != shape.count(",") + 1 or 0 in images.shape or (shape.endswith("3]") and images.shape[-1] != 3):
        raise WrongShape(name, f"shape {tuple(images.shape)}", f"must be {shape}")
    return images


def _checked_mask(mask: Any, shape: tuple[int, ...]) -> torch.Tensor:
    weights = measurements("mask", mask)
    if tuple(weights.shape) not in (shape, shape[1:]):
        raise WrongShape("mask", f"shape {tuple(weights.shape)}", f"must be {shape[1:]} or {shape}")
    if not float(weights.min()) >= 0:
        raise OutOfRange("mask", f"smallest weight {float(weights.min()):g}", "weights must be >= 0")
    return weights
