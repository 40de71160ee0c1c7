"""Distance between two silhouettes whose gradient does not vanish where they do not overlap."""

from __future__ import annotations

import torch

from gradsim.compare.distances import Cumulative
from gradsim.video.video import Video


def cumulative(video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
    """Mean squared difference of the cumulative row and column sums of two silhouettes.

    The pixel-wise difference of two silhouettes that do not overlap is constant, so its gradient is zero. The area
    above each row and left of each column still depends on the distance between them, so its gradient is not.

    Example:
        `gs.cumulative(silhouettes, goal)`

    Args:
        video: Coverage [..., T, H, W, C], such as the fourth channel of `gs.render(..., alpha=True)[..., 3:]`. Colours
            on a black background also work; each channel is compared separately.
        goal: Coverage of the goal, same shape; batch dimensions broadcast.

    Returns:
        A scalar for one world, [...] for a batch: the mean over frames, channels and lines of the squared difference of
        the area on one side of the line, as a fraction of the image area; the means for rows and columns are added.
    """
    return (Cumulative().residuals(video, goal) ** 2).sum(-1)
