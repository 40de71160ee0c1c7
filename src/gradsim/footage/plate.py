"""The background plate: what each pixel shows without the moving object, and how much it varies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLES = 61  # frames of a median
STRIP = 64  # rows that are sorted at once
CHUNK = 50_000  # pixels that are sorted at once
DEVIATION = 1.4826  # standard deviation of a normal distribution over its median absolute deviation
HIDDEN = 256  # above all 8-bit values


@dataclass(frozen=True, eq=False)
class Plate:
    """The background of a recording with a still camera.

    Args:
        color: Temporal median of each pixel [h, w, 3], in [0, 1].
        noise: Standard deviation of each pixel over time, of the channel that varies most [h, w], as a part of full
            scale. It is computed from the median absolute deviation, so a passing object does not count.
        known: Whether the pixel shows the background in some frame [h, w].
    """

    color: NDArray[np.float32] = field(repr=False)
    noise: NDArray[np.float32] = field(repr=False)
    known: NDArray[np.bool_] = field(repr=False)

    @property
    def noise_level(self) -> float:
        """Median of the noise over the pixels, as a part of full scale."""
        return float(np.median(self.noise))

    def plot(self, axes: Any) -> None:
        """Draws the plate on matplotlib axes."""
        axes.imshow(self.color)
        axes.set_title(f"background plate, noise {self.noise_level:.4f} of full scale")


def sample_numbers(count: int, samples: int = SAMPLES) -> NDArray[np.int64]:
    """Returns the indices of at most `samples` frames, evenly spread over `count` frames."""
    return np.unique(np.linspace(0, count - 1, min(samples, count)).astype(np.int64))


def largest_channel(image: NDArray[Any]) -> NDArray[Any]:
    """Returns the maximum over the channels of an image [..., 3]."""
    return np.maximum(np.maximum(image[..., 0], image[..., 1]), image[..., 2])


def background_plate(frames: NDArray[np.uint8], hidden: NDArray[np.bool_] | None = None) -> Plate:
    """Computes the plate of frames from a still camera.

    Args:
        frames: Frames [T, h, w, 3]; `sample_numbers` selects enough of them.
        hidden: Pixels in which an object hides the background [T, h, w]. They do not count, unless a pixel is hidden in
            all frames.
    """
    height, width = frames.shape[1:3]
    color = np.empty((height, width, 3), np.float32)
    noise = np.empty((height, width), np.float32)
    known = np.ones((height, width), np.bool_)
    for top in range(0, height, STRIP):
        rows = slice(top, top + STRIP)
        part = None if hidden is None else hidden[:, rows]
        color[rows], noise[rows], known[rows] = _strip(frames[:, rows], part)
    return Plate(color, noise, known)


def masked_median(values: NDArray[np.floating], hidden: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Returns the median of each pixel over the frames in which it is not hidden, or over all if it always is.

    Args:
        values: Values of pixels [T, N, 3].
        hidden: Which are hidden [T, N].
    """
    median = np.empty(values.shape[1:], np.float32)
    for first in range(0, values.shape[1], CHUNK):
        part = slice(first, first + CHUNK)
        covered = hidden[:, part] & ~hidden[:, part].all(0)
        own = np.where(covered[..., None], np.float32(np.inf), values[:, part].astype(np.float32))
        median[part] = _median(own, (~covered).sum(0)[..., None])
    return median


def _strip(
    frames: NDArray[np.uint8], hidden: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.bool_]]:
    """Returns color, noise and known of some rows."""
    if hidden is None:
        hidden = np.zeros(frames.shape[:3], np.bool_)
    known = ~hidden.all(0)
    hidden = hidden & known
    values = frames.astype(np.int16)
    color = _median(np.where(hidden[..., None], HIDDEN, values), (~hidden).sum(0)[..., None])
    deviation = largest_channel(np.abs(values - color))
    noise = _median(np.where(hidden, np.float32(HIDDEN), deviation), (~hidden).sum(0))
    return color / np.float32(255), noise * np.float32(DEVIATION / 255), np.asarray(known)


def _median(values: NDArray[Any], count: NDArray[np.int64]) -> NDArray[np.float32]:
    """Returns the median over the first axis of the `count` smallest values, of which there is at least one."""
    ordered = np.sort(np.moveaxis(values, 0, -1), axis=-1)
    count = np.broadcast_to(count, ordered.shape[:-1])[..., None]
    low = np.take_along_axis(ordered, (count - 1) // 2, -1)
    high = np.take_along_axis(ordered, count // 2, -1)
    return ((low.astype(np.float32) + high) / 2)[..., 0]
