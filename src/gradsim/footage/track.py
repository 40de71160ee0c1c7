"""The measured track of an object: centres, sizes and masks in the pixels of the full picture."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.recording import Recording


@dataclass(frozen=True)
class Window:
    """A rectangle of the full picture [px]."""

    left: int
    top: int
    width: int
    height: int

    @staticmethod
    def clipped(low: NDArray[np.int64], high: NDArray[np.int64], size: tuple[int, int]) -> Window:
        """Returns the window from `low` to `high` (x, y), cut at the edges of a picture of `size` (H, W)."""
        left, top = (int(max(0, number)) for number in low)
        right, bottom = min(int(high[0]), size[1]), min(int(high[1]), size[0])
        return Window(left, top, right - left, bottom - top)

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of the window in an image [H, W, ...]."""
        return slice(self.top, self.top + self.height), slice(self.left, self.left + self.width)

    def inside(self, other: Window) -> tuple[slice, slice]:
        """Index of the window in an image of another window that contains it."""
        return Window(self.left - other.left, self.top - other.top, self.width, self.height).slices


@dataclass(frozen=True, eq=False)
class ObjectTrack:
    """An object in the frames in which all of it is visible.

    Args:
        recording: The recording.
        frames: Indices of the frames in the recording [N].
        times: Times of the frames [N] [s].
        centers: Centroids of alpha [N, 2], x right and y down [px of the full picture]; the first pixel covers the
            square from 0 to 1. If the camera shakes, they are positions in the first frame.
        diameters: Diameters of discs of the same area [N] [px of the full picture].
        color: Median colour of the object [3], in [0, 1].
        windows: Windows around the object, one for each frame.
        alphas: Part of each pixel of the window that the object covers [height, width], in [0, 1].
    """

    recording: Recording
    frames: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    centers: NDArray[np.float64] = field(repr=False)
    diameters: NDArray[np.float64] = field(repr=False)
    color: NDArray[np.float64]
    windows: tuple[Window, ...] = field(repr=False)
    alphas: tuple[NDArray[np.float32], ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def diameter(self) -> float:
        """Median diameter [px of the full picture]."""
        return float(np.median(self.diameters))

    @property
    def diameter_spread(self) -> float:
        """Relative deviation of the diameters: 1.48 median absolute deviations over the median.

        Motion blur and an object that comes nearer raise it.
        """
        return 1.4826 * float(np.median(np.abs(self.diameters - self.diameter))) / self.diameter

    def plot(self, axes: Any) -> None:
        """Draws both coordinates of the centres over time on matplotlib axes."""
        axes.plot(self.times, self.centers[:, 0], ".", label="x, right")
        axes.plot(self.times, self.centers[:, 1], ".", label="y, down")
        axes.set_xlabel("time [s]")
        axes.set_ylabel("centre [px]")
        axes.legend()

    def save_overlay(self, path: str | os.PathLike[str]) -> None:
        """Writes an image of the first frame, at the size of the reduced copy, with the outline of every mask."""
        cv2.imwrite(os.fspath(path), overlay(self)[..., ::-1])


def overlay(track: ObjectTrack) -> NDArray[np.uint8]:
    """Returns the darkened first frame [h, w, 3] with the object of each frame pasted in and its outline drawn."""
    recording = track.recording
    picture = recording.reduced[0] // 2
    height, width = picture.shape[:2]
    for frame, window, alpha in zip(track.frames, track.windows, track.alphas, strict=True):
        full = np.zeros(recording.size, np.float32)
        full[window.slices] = alpha
        mask = cv2.resize(full, (width, height), interpolation=cv2.INTER_AREA)
        picture = np.where(mask[..., None] > 0.5, recording.reduced[frame], picture)
        outlines, _ = cv2.findContours((mask > 0.5).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outlines, -1, (255, 255, 0), 1)
    return picture
