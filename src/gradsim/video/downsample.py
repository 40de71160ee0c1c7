"""Area downsampling of images: each output pixel is the mean of the area it covers, as in the exact renderer."""

from __future__ import annotations

import math

import torch

from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import OutOfRange, WrongShape


def downsample(video: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Averages images over areas. Exact for any ratio of sizes, and differentiable.

    Args:
        video: Images [..., H, W, C].
        size: New height and width [px], at most the current ones.

    Returns:
        Images [..., *size, C].
    """
    height, width = checked_pixels("size", size)
    if video.ndim < 3:
        raise WrongShape("video", f"shape {tuple(video.shape)}", "must be images [..., H, W, C]")
    if height > video.shape[-3] or width > video.shape[-2]:
        old = tuple(video.shape[-3:-1])
        raise OutOfRange("size", (height, width), f"must not exceed the image size {old}")
    return _average(_average(video, -3, height), -2, width)


def _average(video: torch.Tensor, axis: int, count: int) -> torch.Tensor:
    length = video.shape[axis]
    if length == count:
        return video
    if length % count == 0:
        return video.unflatten(axis, (count, length // count)).mean(axis)
    return torch.movedim(torch.movedim(video, axis, -1) @ _weights(length, count, video), -1, axis)


def _weights(length: int, count: int, like: torch.Tensor) -> torch.Tensor:
    """Fraction of each output pixel that each input pixel covers, [length, count]."""
    scale = math.gcd(length, count)
    old, new = length // scale, count // scale  # integer coordinates keep the overlaps exact
    starts = torch.arange(length, device=like.device)[:, None] * new
    cells = torch.arange(count, device=like.device) * old
    overlap = torch.minimum(starts + new, cells + old) - torch.maximum(starts, cells)
    return overlap.clamp(min=0).to(like.dtype) / old
