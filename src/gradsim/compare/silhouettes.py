"""How far two silhouettes are apart, also across empty space."""

from __future__ import annotations

import torch

from gradsim.compare.distances import Cumulative
from gradsim.video.video import Video


def cumulative(video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
    """Mean squared difference of the cumulative row and column sums of two silhouettes.

    Where a silhouette and its goal do not overlap, the pixels' difference stays the same while one moves, and its
    gradient vanishes. The area above each row and left of each column does change, and pulls across empty space.

    Args:
        video: Coverage [..., T, H, W, C], such as the fourth channel of `gs.render(..., alpha=True)[..., 3:]`. Colours
            will do before a black background; each channel counts on its own.
        goal: Likewise; batch dimensions broadcast.

    Returns:
        A scalar for one world, [...] for a batch: over frames, channels and lines across the image, the mean squared
        difference of the area on one side of the line, as a share of the image's, rows and columns added.
    """
    return (Cumulative().residuals(video, goal) ** 2).sum(-1)
