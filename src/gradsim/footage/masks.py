"""The alpha masks of an object over time, their moments, and how far the object moves in a frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.smear import stretched
from gradsim.footage.window import Window

LEVELS = (0.3, 0.9)  # alpha that counts as none and as all
MAX_STEP = 3.5  # frames between two centres whose difference is a velocity
SAME_MOTION = 0.5  # largest relative difference of the motion before and after a frame: more is a bounce


@dataclass(frozen=True, eq=False)
class Masks:
    """Alpha masks in windows that are reduced by a whole factor.

    Args:
        factor: Pixels of the full picture per pixel of the masks.
        windows: Window of each frame, by the index of the frame.
        times: Times of all frames of the recording [T] [s].
        diameter: Estimated diameter of the object [px of the masks].
        alphas: Part of each pixel that the object covers [h, w], by frame.
        usable: Pixels that show the object or the background [h, w], by frame.
    """

    factor: int
    windows: dict[int, Window] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    diameter: float
    alphas: dict[int, NDArray[np.float64]] = field(repr=False)
    usable: dict[int, NDArray[np.bool_]] = field(repr=False)

    @property
    def frames(self) -> list[int]:
        """Indices of the frames, increasing."""
        return sorted(self.alphas)

    def origin(self, frame: int) -> NDArray[np.float64]:
        """Returns the corner (x, y) of the window of a frame [px of the masks]."""
        return np.array([self.windows[frame].left, self.windows[frame].top]) / self.factor

    def levels(self, frame: int) -> tuple[float, float]:
        """Returns the range of alpha that counts: less for an object so fast that it is faint everywhere."""
        brightest = float(np.percentile(self.alphas[frame], 99))
        return LEVELS[0] * min(1.0, brightest), LEVELS[1] * min(1.0, max(brightest, 0.1))

    def moments(self, frames: Sequence[int]) -> NDArray[np.float64]:
        """Returns the centroids (x, y) [px of the masks] and areas [px^2] in some frames [N, 3].

        Faint pixels, which may be shadows, do not count.
        """
        rows = [mask_moments(stretched(self.alphas[k], self.levels(k))) for k in frames]
        return np.array([(*(self.origin(k) + own[:2]), own[2]) for k, own in zip(frames, rows, strict=True)])


def mask_moments(alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the centroid (x, y) [px] and the area [px^2] of a mask [3]."""
    area = max(float(alpha.sum()), 1e-9)
    x = float(alpha.sum(0) @ (np.arange(alpha.shape[1]) + 0.5)) / area
    y = float(alpha.sum(1) @ (np.arange(alpha.shape[0]) + 0.5)) / area
    return np.array([x, y, area])


@dataclass(frozen=True, eq=False)
class Steps:
    """How far an object moves in the usual interval between frames, before and after each of its centres.

    Args:
        before: From the centre before to each centre [N, 2] [px].
        after: From each centre to the next [N, 2] [px].
    """

    before: NDArray[np.float64]
    after: NDArray[np.float64]

    @property
    def mean(self) -> NDArray[np.float64]:
        """Mean of both [N, 2]."""
        return (self.before + self.after) / 2

    @property
    def steady(self) -> NDArray[np.bool_]:
        """Whether both are similar [N]: else the object bounces."""
        largest = np.maximum(np.linalg.norm(self.before, axis=1), np.linalg.norm(self.after, axis=1))
        return np.linalg.norm(self.after - self.before, axis=1) < SAME_MOTION * largest + 0.5

    def candidates(self, n: int) -> list[NDArray[np.float64]]:
        """Returns the motions [2] that the n-th centre may have."""
        return [self.mean[n]] if self.steady[n] else [self.before[n], self.after[n]]


def measured_steps(times: NDArray[np.float64], centers: NDArray[np.float64]) -> Steps:
    """Returns the steps of centres [N, 2] at times [N]."""
    intervals = np.diff(times)
    usual = float(np.median(intervals))
    steps = np.diff(centers, axis=0) * (usual / intervals)[:, None]
    near = intervals < MAX_STEP * usual
    before, after = np.concatenate([steps[:1], steps]), np.concatenate([steps, steps[-1:]])
    no_before, no_after = np.append(~near[:1], ~near), np.append(~near, ~near[-1:])
    return Steps(
        np.where((no_before & ~no_after)[:, None], after, before),
        np.where((no_after & ~no_before)[:, None], before, after),
    )
