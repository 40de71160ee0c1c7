"""Pixel-wise distance between two videos."""

from __future__ import annotations

import torch

from gradsim.scene.errors import InvalidInput, WrongShape, WrongType
from gradsim.video.video import Video


def mse(
    video: torch.Tensor | Video, observed: torch.Tensor | Video, *, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean squared difference of two videos.

    Example:
        `gs.mse(gs.render(scene, trajectory, (32, 32)), video)`

    Args:
        video: [..., T, H, W, C]; leading dimensions are a batch of worlds.
        observed: Same shape; batch dimensions broadcast.
        mask: Weights >= 0 or booleans: one per pixel [H, W], per pixel and frame [T, H, W], or per frame [T, 1, 1].
            Batch dimensions broadcast.

    Returns:
        A scalar for one world, [...] for a batch.
    """
    a, b = matching_frames(video, observed)
    squares = ((a - b) ** 2).mean(-1)
    if mask is None:
        return squares.mean((-3, -2, -1))
    weights = _weights(mask, squares)
    return (weights * squares).sum((-3, -2, -1)) / weights.sum((-3, -2, -1))


def matching_frames(video: torch.Tensor | Video, observed: torch.Tensor | Video) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the frames of two videos, which must have equal shapes apart from batch dimensions."""
    a, b = _frames("video", video), _frames("observed", observed)
    shapes = f"shapes {tuple(a.shape)} and {tuple(b.shape)}"
    if a.shape[-4:] != b.shape[-4:]:
        dimensions = zip(("frames", "height", "width", "channels"), a.shape[-4:], b.shape[-4:], strict=True)
        unequal = ", ".join(f"{name} {m} and {n}" for name, m, n in dimensions if m != n)
        raise WrongShape("video and observed", shapes, f"must be equal in the last four dimensions, but have {unequal}")
    try:
        torch.broadcast_shapes(a.shape[:-4], b.shape[:-4])
    except RuntimeError:
        raise WrongShape("video and observed", shapes, "must have batch dimensions that broadcast") from None
    return a, b


def _frames(name: str, video: torch.Tensor | Video) -> torch.Tensor:
    frames = video.frames if isinstance(video, Video) else video
    if not isinstance(frames, torch.Tensor) or not frames.is_floating_point():
        kind = getattr(frames, "dtype", type(frames).__name__)
        raise WrongType(name, kind, "must be a gs.Video or a floating-point tensor [..., T, H, W, C]")
    if frames.ndim < 4 or 0 in frames.shape:
        raise WrongShape(
            name, f"shape {tuple(frames.shape)}", "must be [..., T, H, W, C]; pass a single image as image[None]"
        )
    return frames


def _weights(mask: torch.Tensor, squares: torch.Tensor) -> torch.Tensor:
    """Returns the mask broadcast to the shape of the squares, [..., T, H, W]."""
    try:
        weights = mask.to(squares).expand(torch.broadcast_shapes(mask.shape, squares.shape))
        fits = weights.shape[-3:] == squares.shape[-3:]
    except RuntimeError:
        fits = False
    if not fits:
        wanted = f"must broadcast to the pixels [..., T, H, W] = {tuple(squares.shape)}, without channels"
        raise WrongShape("mask", f"shape {tuple(mask.shape)}", wanted)
    smallest, sums = float(weights.min()), weights.sum((-3, -2, -1))
    if not (smallest >= 0 and bool((sums > 0).all())):
        raise InvalidInput(
            "mask", f"smallest weight {smallest:g}", "must hold weights >= 0, at least one > 0 in every world"
        )
    return weights
