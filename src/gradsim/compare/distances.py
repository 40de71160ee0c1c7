"""Distances between images and a goal, as residuals whose sum of squares is the distance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch

from gradsim.compare.pixels import matching_frames
from gradsim.scene.arguments import check_flag, checked_number
from gradsim.video.video import Video

MIN_AREA = 1e-6  # fraction of the image area; a channel with less has no defined centroid


class Distance(Protocol):
    """Compares images [..., T, H, W, C] in which the objects are brighter than a black background."""

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        """Returns residuals [..., N]; their sum of squares is the distance."""


@dataclass(frozen=True)
class Cumulative:
    """Cumulative row and column sums: the area above each row and left of each column.

    The pixel-wise difference of two silhouettes that do not overlap is constant, so its gradient is zero. The
    cumulative sums still depend on the distance between the silhouettes, so their gradient is not.

    Example:
        `gs.control(scene, image, frames=30, stages=[(gs.Cumulative(normalize=True), gs.Adam())])`

    Args:
        normalize: Divide by the area of the silhouette instead of the area of the image. The distance then depends on
            position and shape but not on size.
    """

    normalize: bool = False

    def __post_init__(self) -> None:
        check_flag("Cumulative.normalize", self.normalize)

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        """Returns residuals [..., N]; their sum of squares is the distance."""
        a, b = matching_frames(video, goal)
        above, left = (x - y for x, y in zip(self._sums(a), self._sums(b), strict=True))
        return torch.cat([r / math.sqrt(math.prod(r.shape[-3:])) for r in (above, left)], -2).flatten(-3)

    def _sums(self, video: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns cumulative sums over rows [..., T, H, C] and over columns [..., T, W, C]."""
        height, width = video.shape[-3:-1]
        rows, columns = video.mean(-2) / height, video.mean(-3) / width
        if self.normalize:
            area = rows.sum(-2, keepdim=True).clamp_min(MIN_AREA)
            rows, columns = rows / area, columns / area
        return rows.cumsum(-2), columns.cumsum(-2)


@dataclass(frozen=True)
class Moments:
    """Centroid and size of each channel, and optionally its second moments, in units of the image height.

    The few residuals suit the first iterations of a search and optimizers that require few residuals.

    Example:
        `gs.control(scene, image, frames=30, stages=[(gs.Moments(second_moments=True), gs.GaussNewton())])`

    Args:
        size: Weight of the size (square root of the area); 0 ignores it.
        height: Weight of the vertical coordinate of the centroid; 0 ignores it.
        second_moments: Also compare the standard deviations along x and y and the covariance.
    """

    size: float = 1.0
    height: float = 1.0
    second_moments: bool = False

    def __post_init__(self) -> None:
        checked_number("Moments.size", self.size, low=0.0)
        checked_number("Moments.height", self.height, low=0.0)
        check_flag("Moments.second_moments", self.second_moments)

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        """Returns residuals [..., N]; their sum of squares is the distance."""
        a, b = matching_frames(video, goal)
        difference = self._moments(a) - self._moments(b)  # [..., T, C, M]
        return difference.flatten(-3) / math.sqrt(difference.shape[-3] * difference.shape[-2])

    def _moments(self, video: torch.Tensor) -> torch.Tensor:
        """Returns the moments [..., T, C, M] of a video [..., T, H, W, C]."""
        height, width = video.shape[-3:-1]
        x = (torch.arange(width, dtype=video.dtype, device=video.device) + 0.5) / height
        y = (torch.arange(height, dtype=video.dtype, device=video.device) + 0.5) / height
        rows, columns = video.sum(-2).mT, video.sum(-3).mT  # [..., T, C, H], [..., T, C, W]
        area = rows.sum(-1).clamp_min(MIN_AREA * height * width)
        cx, cy = (columns * x).sum(-1) / area, (rows * y).sum(-1) / area
        moments = [cx]
        if self.height > 0.0:
            moments.append(self.height * cy)
        if self.size > 0.0:
            moments.append(self.size * area.sqrt() / height)
        if self.second_moments:
            dx, dy = x - cx[..., None], y - cy[..., None]
            var_x, var_y = (columns * dx * dx).sum(-1) / area, (rows * dy * dy).sum(-1) / area
            covariance = torch.einsum("...hwc,...cw,...ch->...c", video, dx, dy) / area
            std_x, std_y = ((variance + MIN_AREA).sqrt() for variance in (var_x, var_y))
            moments += [std_x, std_y, covariance / (std_x * std_y).sqrt()]
        return torch.stack(moments, -1)


@dataclass(frozen=True)
class Blur:
    """Pixel-wise difference of images blurred by a Gaussian.

    Example:
        `gs.control(scene, image, frames=30, stages=[(gs.Blur(0.02), gs.GaussNewton())])`

    Args:
        sigma: Standard deviation of the Gaussian as a fraction of the image height; 0 compares the unblurred pixels.
    """

    sigma: float = 0.0

    def __post_init__(self) -> None:
        checked_number("Blur.sigma", self.sigma, low=0.0)

    def residuals(self, video: torch.Tensor | Video, goal: torch.Tensor | Video) -> torch.Tensor:
        """Returns residuals [..., N]; their sum of squares is the distance."""
        a, b = matching_frames(video, goal)
        difference = a - b
        if self.sigma > 0.0:
            height, width = difference.shape[-3:-1]
            rows, columns = (_gaussian_matrix(n, self.sigma * height, difference) for n in (height, width))
            difference = torch.einsum("ih,...hwc,jw->...ijc", rows, difference, columns)
        count = math.prod(difference.shape[-4:])
        return difference.flatten(-4) / math.sqrt(count)


def _gaussian_matrix(count: int, sigma: float, like: torch.Tensor) -> torch.Tensor:
    """Returns the convolution with a Gaussian as a matrix [count, count]; sigma in pixels."""
    pixels = torch.arange(count, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * ((pixels[:, None] - pixels) / sigma) ** 2)
    return weights / (sigma * math.sqrt(2 * math.pi))
