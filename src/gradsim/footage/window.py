"""Rectangles of the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Window:
    """A rectangle of the full picture [px]."""

    left: int
    top: int
    width: int
    height: int

    @staticmethod
    def clipped(low: NDArray[np.int64], high: NDArray[np.int64], size: tuple[int, int], step: int = 1) -> Window:
        """Returns the window from `low` to `high` (x, y), cut at the edges of a picture of `size` (H, W).

        Its edges are multiples of `step`.
        """
        ends = [length // step for length in size[::-1]]
        first = [min(max(0, int(own) // step), end - 1) for own, end in zip(low, ends, strict=True)]
        last = [
            max(min(-(-int(own) // step), end), start + 1) for own, end, start in zip(high, ends, first, strict=True)
        ]
        left, top, right, bottom = (step * own for own in (*first, *last))
        return Window(left, top, right - left, bottom - top)

    @staticmethod
    def around(windows: Sequence[Window]) -> Window:
        """Returns the smallest window that contains all others."""
        low = np.min([(own.left, own.top) for own in windows], 0)
        high = np.max([(own.left + own.width, own.top + own.height) for own in windows], 0)
        return Window(int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1]))

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of the window in an image [H, W, ...]."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    def inside(self, other: Window, step: int = 1) -> tuple[slice, slice]:
        """Index of the window in an image of another window that contains it, reduced by a whole factor `step`."""
        left, top = (self.left - other.left) // step, (self.top - other.top) // step
        return Window(left, top, self.width // step, self.height // step).slices
