"""Drift of exposure and white balance: the gain of each channel in each frame, against the background plate."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.footage.plate import Plate
from gradsim.footage.threads import map_in_threads
from gradsim.video.srgb import linear_to_srgb, srgb_to_linear

PIXELS = 6000  # of the background that are compared
USABLE = (0.12, 0.92)  # values of the plate that are neither too dark nor saturated
INLIER = 0.12  # relative difference of a pixel that shows the background
MIN_INLIERS = 0.3  # part of the usable pixels: fewer mean that something covers the picture
MIN_PIXELS = 200


@dataclass(frozen=True, eq=False)
class ExposureDrift:
    """Gains of the frames against the plate.

    Args:
        gains: Linear light of the background in each frame over that of the plate, for each channel [T, 3].
    """

    gains: NDArray[np.float64] = field(repr=False)

    @staticmethod
    def none(count: int) -> ExposureDrift:
        """Returns gains of one for `count` frames."""
        return ExposureDrift(np.ones((count, 3)))

    @property
    def largest(self) -> float:
        """Largest deviation of a gain from one."""
        return float(np.abs(self.gains - 1).max())

    def values(self, image: NDArray[np.uint8], frame: int) -> NDArray[np.float32]:
        """Returns the sRGB values of an image [h, w, 3] of a frame, in [0, 1], as the plate's exposure records them."""
        light = srgb_light()[:, None] / self.gains[frame]
        table = linear_to_srgb(torch.from_numpy(light)).numpy().astype(np.float32)
        return np.asarray(cv2.LUT(np.ascontiguousarray(image), table[None]), np.float32)

    def light(self, image: NDArray[np.uint8], frame: int) -> NDArray[np.float32]:
        """Returns the linear light of an image [h, w, 3] of a frame, as the plate's exposure records it."""
        table = (srgb_light()[:, None] / self.gains[frame]).astype(np.float32)
        return np.asarray(cv2.LUT(np.ascontiguousarray(image), table[None]), np.float32)

    def plot(self, axes: Any) -> None:
        """Draws the gains over the frames on matplotlib axes."""
        for channel, name in enumerate(("red", "green", "blue")):
            axes.plot(self.gains[:, channel], color=name, label=name)
        axes.set_xlabel("frame")
        axes.set_ylabel("gain of linear light")
        axes.legend()


@cache
def srgb_light() -> NDArray[np.float64]:
    """Returns the linear light of the 8-bit sRGB values [256]."""
    return srgb_to_linear(torch.arange(256, dtype=torch.float64) / 255).numpy()


def exposure_drift(frames: NDArray[np.uint8], plate: Plate) -> ExposureDrift:
    """Measures the gains of frames [T, h, w, 3] over those pixels that show the background of the plate."""
    step = max(1, int(np.sqrt(plate.noise.size / PIXELS)))
    color = plate.color[::step, ::step].reshape(-1, 3)
    usable = np.flatnonzero((color.min(-1) > USABLE[0]) & (color.max(-1) < USABLE[1]))
    if len(usable) < MIN_PIXELS:
        return ExposureDrift.none(len(frames))
    base = srgb_to_linear(torch.from_numpy(color[usable])).numpy().astype(np.float64)
    table = srgb_light()

    def gain(image: NDArray[np.uint8]) -> NDArray[np.float64]:
        return _gain(table[image[::step, ::step].reshape(-1, 3)[usable]], base)

    gains = np.array(map_in_threads(gain, frames))
    return ExposureDrift(gains / np.median(gains, 0))


def _gain(light: NDArray[np.float64], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the gain of each channel [3]: the mean over pixels [N, 3] that deviate little from it."""
    gain = np.median(light / base, 0)
    for _ in range(2):
        inlier = (np.abs(light / gain - base) < INLIER * base + 0.01).all(-1)
        if inlier.mean() < MIN_INLIERS:
            return np.ones(3)
        gain = light[inlier].sum(0) / base[inlier].sum(0)
    return gain
