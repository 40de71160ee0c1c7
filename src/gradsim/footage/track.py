"""The measured track of an object: centres, sizes and masks in the pixels of the full picture."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.recording import Recording
from gradsim.footage.window import Window as Window

SLOW = 0.35  # smear of a frame whose diameter counts [diameters]
EDGE_BIAS = 0.35  # of a diameter by the unknown point spread and tone curve [px of the windows]


class Undistorting(Protocol):
    """A lens that removes its distortion from points."""

    def undistort_points(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns where points [N, 2] [px] would be without distortion."""


PointMap: TypeAlias = "Undistorting | Callable[[NDArray[np.float64]], NDArray[np.float64]]"


@dataclass(frozen=True, eq=False)
class ObjectTrack:
    """An object in the frames in which all of it is visible.

    Args:
        recording: The recording.
        frames: Indices of the frames in the recording [N].
        times: Times of the frames [N] [s].
        centers: Centres, averaged over the exposure [N, 2], x right and y down [px of the full picture]; the first
            pixel covers the square from 0 to 1. If the camera shakes, they are positions in the first frame.
        center_std: Standard deviations of the centres [N, 2] [px].
        diameters: Apparent diameters [N] [px]: across the motion for a disc, else of a disc of the same area.
        diameter_std: Standard deviations of the diameters [N] [px].
        smears: Motion during the exposure [N, 2] [px].
        color: Colour of the object [3], sRGB in [0, 1].
        windows: Windows around the object, one for each frame.
        covers: Part of each pixel of the window that the object covers [h, w], in [0, 1], reduced by a whole factor.
        is_round: Whether the outline is a disc.
        shutter: Exposure time over the interval of the frames; None if the object is nowhere fast enough to tell.
        shutter_std: Its standard deviation.
        angles: Rotation in the picture [N] [rad], from x towards y, continuous over time; None if it cannot be seen.
        angle_std: Standard deviations of the angles [N] [rad].
        free_ranges: Ranges (start, stop) of frames in which nothing larger is next to the object, longest first.
        remarks: Sentences about what limits the measurement.
    """

    recording: Recording
    frames: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    centers: NDArray[np.float64] = field(repr=False)
    center_std: NDArray[np.float64] = field(repr=False)
    diameters: NDArray[np.float64] = field(repr=False)
    diameter_std: NDArray[np.float64] = field(repr=False)
    smears: NDArray[np.float64] = field(repr=False)
    color: NDArray[np.float64]
    windows: tuple[Window, ...] = field(repr=False)
    covers: tuple[NDArray[np.float32], ...] = field(repr=False)
    is_round: bool
    shutter: float | None = None
    shutter_std: float | None = None
    angles: NDArray[np.float64] | None = field(repr=False, default=None)
    angle_std: NDArray[np.float64] | None = field(repr=False, default=None)
    free_ranges: tuple[tuple[int, int], ...] = ()
    remarks: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def alphas(self) -> tuple[NDArray[np.float32], ...]:
        """Part of each pixel of the window that the object covers [height, width], in [0, 1], at full resolution."""
        return tuple(self.alpha(k) for k in range(len(self)))

    def alpha(self, k: int) -> NDArray[np.float32]:
        """Returns the alpha of the window of the k-th centre [height, width]."""
        size = (self.windows[k].width, self.windows[k].height)
        return np.asarray(cv2.resize(self.covers[k], size, interpolation=cv2.INTER_LINEAR), np.float32)

    @property
    def diameter(self) -> float:
        """Median diameter [px of the full picture], of the frames with little smear if there are some."""
        return float(np.median(self.diameters[self._slow]))

    @property
    def diameter_uncertainty(self) -> float:
        """Standard deviation of `diameter` [px]: of the median, and of the position of the outline in soft edges."""
        slow = self.diameters[self._slow]
        spread = 1.4826 * float(np.median(np.abs(slow - np.median(slow))))
        factor = self.windows[0].width / self.covers[0].shape[1]
        return float(np.hypot(1.25 * spread / np.sqrt(len(slow)), EDGE_BIAS * factor))

    @property
    def diameter_spread(self) -> float:
        """Relative deviation of the diameters: 1.48 median absolute deviations over the median.

        An object that comes nearer raises it.
        """
        return 1.4826 * float(np.median(np.abs(self.diameters - self.diameter))) / self.diameter

    @property
    def _slow(self) -> NDArray[np.bool_]:
        slow = np.linalg.norm(self.smears, axis=1) < SLOW * np.median(self.diameters)
        return slow if slow.sum() >= min(5, len(self)) else np.ones(len(self), np.bool_)

    def select(self, start: int, stop: int) -> ObjectTrack:
        """Returns the track in the frames of the recording from `start` to `stop`, such as a free range."""
        return self.picked(np.flatnonzero((self.frames >= start) & (self.frames < stop)))

    def picked(self, picked: NDArray[np.int64]) -> ObjectTrack:
        """Returns the track of some of its frames, by their indices in the track."""
        arrays = ("frames", "times", "centers", "center_std", "diameters", "diameter_std", "smears")
        parts: dict[str, Any] = {name: getattr(self, name)[picked] for name in arrays}
        parts |= {name: tuple(getattr(self, name)[k] for k in picked) for name in ("windows", "covers")}
        if self.angles is not None and self.angle_std is not None:
            parts |= {"angles": self.angles[picked], "angle_std": self.angle_std[picked]}
        return replace(self, **parts)

    def undistorted(self, lens: PointMap) -> ObjectTrack:
        """Returns the track with centres, diameters and smears as a lens without distortion would show them.

        Windows and masks remain those of the picture. Angles are not corrected.

        Args:
            lens: An object with a method `undistort_points`, or such a function: [N, 2] to [N, 2] [px].
        """
        undistort: Callable[[NDArray[np.float64]], NDArray[np.float64]] = getattr(lens, "undistort_points", lens)  # type: ignore[arg-type]
        ends = [self.centers + sign * own for own in self._radii() for sign in (1, -1)]
        centers = undistort(self.centers)
        moved = [undistort(end) for end in ends]
        across, down, along = (
            np.linalg.norm(plus - minus, axis=1) for plus, minus in zip(moved[::2], moved[1::2], strict=True)
        )
        scale = np.sqrt(across * down) / self.diameters
        stretch = along / np.maximum(np.linalg.norm(self.smears, axis=1), 1e-9)
        return replace(
            self,
            centers=centers,
            center_std=self.center_std * scale[:, None],
            diameters=self.diameters * scale,
            diameter_std=self.diameter_std * scale,
            smears=self.smears * np.where(stretch > 0, stretch, 1.0)[:, None],
        )

    def _radii(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Returns half a diameter along x, half a diameter along y, and half the smear [N, 2]."""
        radius = self.diameters[:, None] / 2
        return radius * np.array([1.0, 0.0]), radius * np.array([0.0, 1.0]), self.smears / 2

    def plot(self, axes: Any) -> None:
        """Draws both coordinates of the centres with their standard deviations over time on matplotlib axes."""
        axes.errorbar(self.times, self.centers[:, 0], self.center_std[:, 0], fmt=".", label="x, right")
        axes.errorbar(self.times, self.centers[:, 1], self.center_std[:, 1], fmt=".", label="y, down")
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
    for k, (frame, window) in enumerate(zip(track.frames, track.windows, strict=True)):
        full = np.zeros(recording.size, np.float32)
        full[window.slices] = track.alpha(k)
        mask = cv2.resize(full, (width, height), interpolation=cv2.INTER_AREA)
        picture = np.where(mask[..., None] > 0.5, recording.reduced[frame], picture)
        outlines, _ = cv2.findContours((mask > 0.5).astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
        cv2.drawContours(picture, outlines, -1, (255, 255, 0), 1)
    return picture
