"""Pictures made smaller: each pixel is the mean of the area it covers, as in the exact renderer."""

from __future__ import annotations

import math

import torch

from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import OutOfRange, WrongShape


def reduced(video: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Average pictures over areas, exactly also where the sizes are no multiples of each other. Differentiable.

    Args:
        video: Pictures [..., H, W, C].
        size: New height and width [px], neither above the old one.

    Returns:
        Pictures [..., *size, C].
    """
    height, width = checked_pixels("size", size)
    if video.ndim < 3:
        raise WrongShape("video", f"shape {tuple(video.shape)}", "must be pictures [..., H, W, C]")
    if height > video.shape[-3] or width > video.shape[-2]:
        old = tuple(video.shape[-3:-1])
        raise OutOfRange("size", (height, width), f"must not exceed the pictures' own size {old}")
    return _averaged(_averaged(video, -3, height), -2, width)


def _averaged(video: torch.Tensor, axis: int, count: int) -> torch.Tensor:
    length = video.shape[axis]
    if length == count:
        return video
    if length % count == 0:
        return video.unflatten(axis, (count, length // count)).mean(axis)
    return torch.movedim(torch.movedim(video, axis, -1) @ _shares(length, count, video), -1, axis)


def _shares(length: int, count: int, like: torch.Tensor) -> torch.Tensor:
    """How much of each new pixel each old one covers, [length, count]."""
    scale = math.gcd(length, count)
    old, new = length // scale, count // scale  # whole numbers, so that the shares come out exact
    starts = torch.arange(length, device=like.device)[:, None] * new
    cells = torch.arange(count, device=like.device) * old
    overlap = torch.minimum(starts + new, cells + old) - torch.maximum(starts, cells)
    return overlap.clamp(min=0).to(like.dtype) / old
