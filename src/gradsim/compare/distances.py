"""Ways to say how far a picture is from a goal: residuals whose squares add up to the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from gradsim.compare.pixels import pair
from gradsim.scene.errors import OutOfRange
from gradsim.video.video import Video

EMPTY = 1e-6  # area, as a share of the picture, below which a channel has no place


class Distance(Protocol):
    """Compares pictures [..., T, H, W, C]; what they show stands out from black."""

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        """[..., N]: the distance is the sum of their squares."""


@dataclass(frozen=True)
class Cumulative:
    """Cumulative row and column sums: the area above each row and left of each column.

    Where a silhouette and its goal do not overlap, the pixels' difference stays the same while one moves, and its
    gradient vanishes. These areas do change, and pull across empty space.

    Args:
        shares: Count areas as shares of the silhouette's own instead of the picture's: its place matters, its size not.
    """

    shares: bool = False

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        a, b = pair(video, goal)
        above, left = (x - y for x, y in zip(self._sums(a), self._sums(b), strict=True))
        return torch.cat([r / math.sqrt(math.prod(r.shape[-3:])) for r in (above, left)], -2).flatten(-3)

    def _sums(self, video: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[..., T, H, C] and [..., T, W, C]."""
        height, width = video.shape[-3:-1]
        rows, columns = video.mean(-2) / height, video.mean(-3) / width
        if self.shares:
            area = rows.sum(-2, keepdim=True).clamp_min(EMPTY)
            rows, columns = rows / area, columns / area
        return rows.cumsum(-2), columns.cumsum(-2)


@dataclass(frozen=True)
class Moments:
    """Centroid and size of each channel; with `spread`, its widths and slant too.

    A few numbers, in units of the picture's height: for methods that want few residuals, and for the first steps.

    Args:
        size: Weight of the size; 0 to look at the place alone.
        height: Weight of the centroid's height; 0 to look at the place from left to right alone.
        spread: Also compare the second moments.
    """

    size: float = 1.0
    height: float = 1.0
    spread: bool = False

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        a, b = pair(video, goal)
        found = self._of(a) - self._of(b)  # [..., T, C, M]
        return found.flatten(-3) / math.sqrt(found.shape[-3] * found.shape[-2])

    def _of(self, video: torch.Tensor) -> torch.Tensor:
        height, width = video.shape[-3:-1]
        x = (torch.arange(width, dtype=video.dtype, device=video.device) + 0.5) / height
        y = (torch.arange(height, dtype=video.dtype, device=video.device) + 0.5) / height
        rows, columns = video.sum(-2).mT, video.sum(-3).mT  # [..., T, C, H], [..., T, C, W]
        area = rows.sum(-1).clamp_min(EMPTY * height * width)
        cx, cy = (columns * x).sum(-1) / area, (rows * y).sum(-1) / area
        found = [cx]
        if self.height > 0.0:
            found.append(self.height * cy)
        if self.size > 0.0:
            found.append(self.size * area.sqrt() / height)
        if self.spread:
            dx, dy = x - cx[..., None], y - cy[..., None]
            wide, high = (columns * dx * dx).sum(-1) / area, (rows * dy * dy).sum(-1) / area
            slant = torch.einsum("...hwc,...cw,...ch->...c", video, dx, dy) / area
            widths = [(w + EMPTY).sqrt() for w in (wide, high)]
            found += [*widths, slant / (widths[0] * widths[1]).sqrt()]
        return torch.stack(found, -1)


@dataclass(frozen=True)
class Blur:
    """Pixel by pixel, after both pictures are blurred.

    Args:
        sigma: Width of the blur as a share of the picture's height; 0 for the pixels themselves.
    """

    sigma: float = 0.0

    def __post_init__(self) -> None:
        if not self.sigma >= 0.0:
            raise OutOfRange("Blur.sigma", self.sigma, "must be >= 0, a share of the picture's height")

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        a, b = pair(video, goal)
        difference = a - b
        if self.sigma > 0.0:
            height, width = difference.shape[-3:-1]
            rows, columns = (_kernel(n, self.sigma * height, difference) for n in (height, width))
            difference = torch.einsum("ih,...hwc,jw->...ijc", rows, difference, columns)
        count = math.prod(difference.shape[-4:])
        return difference.flatten(-4) / math.sqrt(count)


def _kernel(count: int, sigma: float, like: torch.Tensor) -> torch.Tensor:
    """A Gaussian as a matrix [count, count]."""
    places = torch.arange(count, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * ((places[:, None] - places) / sigma) ** 2)
    return weights / (sigma * math.sqrt(2 * math.pi))
