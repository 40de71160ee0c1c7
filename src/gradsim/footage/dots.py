"""A coloured dot on an object, followed through a video to a fraction of a pixel."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.footage.exposure import srgb_light
from gradsim.footage.pictures import open_pictures
from gradsim.scene.errors import NoMarker, OutOfRange, WrongShape
from gradsim.video.load import Frames

TOLERANCE = 30.0  # largest distance to the colour in CIE L*a*b*, with half the weight on lightness
LUMINANCE_WEIGHT = 0.5  # weight of differences of lightness: shading changes it more than the hue
MIN_AREA = 6  # [px]
MARGIN = 0.8  # of the window around a dot, in its diameters
RING = 0.3  # distance from the dot at which the background is taken, in its diameters


@dataclass(frozen=True, eq=False)
class DotTrack:
    """A dot in the frames in which it is found.

    Args:
        color: Given colour [3], in [0, 1].
        frames: Numbers of the frames in the file [N].
        times: Times of the frames [N] [s]; the numbers of the images for a folder.
        centers: Centres [N, 2] [px]; the first pixel covers the square from 0 to 1.
        areas: Areas [N] [px^2].
    """

    color: NDArray[np.float64]
    frames: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    centers: NDArray[np.float64] = field(repr=False)
    areas: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.frames)

    def plot(self, axes: Any) -> None:
        """Draws both coordinates of the centre over time on matplotlib axes."""
        axes.plot(self.times, self.centers[:, 0], ".", label="x, right")
        axes.plot(self.times, self.centers[:, 1], ".", label="y, down")
        axes.set_xlabel("time [s]")
        axes.set_ylabel("centre of the dot [px]")
        axes.legend()


def track_dot(
    path: str | os.PathLike[str], color: ArrayLike, *, tolerance: float = TOLERANCE, frames: Frames = None
) -> DotTrack:
    """Follows a dot of one colour through a video: the largest spot of the colour, or the one nearest to the last.

    Args:
        path: A video file, an image, or a folder of images.
        color: Colour of the dot as sRGB values [3], in [0, 1].
        tolerance: Largest distance to the colour in CIE L*a*b*, where 100 is from black to white; lightness has half
            the weight.
        frames: Frames to read: a slice or a pair (start, stop). All if None.

    Raises:
        NoMarker: No frame shows a spot of the colour.
    """
    wanted = _checked_color(color)
    if not tolerance > 0:
        raise OutOfRange("tolerance", tolerance, "must be > 0")
    numbers: list[int] = []
    times: list[float] = []
    dots: list[NDArray[np.float64]] = []
    source = open_pictures(path, frames=frames)
    for picture in source.read():
        last = dots[-1][:2] if dots else None
        dot = _find_dot(picture.image, wanted, tolerance, last)
        if dot is not None:
            numbers.append(picture.number)
            times.append(float(picture.number) if picture.time is None else picture.time)
            dots.append(dot)
    if not dots:
        text = ", ".join(f"{value:.2f}" for value in wanted)
        remedy = "give the colour that the dot has in the picture, or a larger tolerance"
        raise NoMarker(os.fspath(path), f"no spot of colour ({text}) in {len(source)} frames", remedy)
    found = np.array(dots)
    return DotTrack(wanted, np.array(numbers), np.array(times), found[:, :2], found[:, 2])


def _find_dot(
    image: NDArray[np.uint8], color: NDArray[np.float64], tolerance: float, last: NDArray[np.float64] | None
) -> NDArray[np.float64] | None:
    """Returns x, y and area of the dot in a picture [H, W, 3]; None if no spot of the colour is large enough."""
    distance = _color_distance(image, color)
    count, labels, stats, centers = cv2.connectedComponentsWithStats((distance < tolerance).astype(np.uint8))
    large = [k for k in range(1, count) if stats[k, cv2.CC_STAT_AREA] >= MIN_AREA]
    if not large:
        return None
    if last is None:
        best = max(large, key=lambda k: int(stats[k, cv2.CC_STAT_AREA]))
    else:
        best = min(large, key=lambda k: float(np.linalg.norm(centers[k] + 0.5 - last)))
    return _measure(image, labels == best, stats[best])


def _color_distance(image: NDArray[np.uint8], color: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns the distance of every pixel [H, W] to a colour in CIE L*a*b*, with less weight on lightness."""
    lab = cv2.cvtColor(image.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    own = cv2.cvtColor(color.astype(np.float32).reshape(1, 1, 3), cv2.COLOR_RGB2LAB)
    return np.asarray(np.linalg.norm((lab - own) * np.array([LUMINANCE_WEIGHT, 1, 1], np.float32), axis=-1), np.float32)


def _measure(image: NDArray[np.uint8], spot: NDArray[np.bool_], stats: NDArray[np.int32]) -> NDArray[np.float64]:
    """Returns x, y and area of a spot from the part of each pixel that it covers, in linear light."""
    left, top, width, height = (int(number) for number in stats[:4])
    diameter = max(width, height)
    margin = int(np.ceil(MARGIN * diameter)) + 2
    rows = slice(max(0, top - margin), top + height + margin)
    columns = slice(max(0, left - margin), left + width + margin)
    light, mask = srgb_light()[image[rows, columns]], spot[rows, columns].astype(np.uint8)
    outside = cv2.distanceTransform(1 - mask, cv2.DIST_L2, 5)
    inside = cv2.distanceTransform(mask, cv2.DIST_L2, 5)
    dot = np.median(light[inside >= 0.6 * inside.max()], 0)
    ring = outside > RING * diameter + 2
    background = np.median(light[ring], 0) if ring.any() else np.zeros(3)
    contrast = dot - background
    alpha = ((light - background) @ contrast) / max(float(contrast @ contrast), 1e-9)
    near = outside <= 0.5 * (RING * diameter + 2) + 1
    weight = np.clip(alpha, 0, 1) * near
    y, x = np.indices(weight.shape) + 0.5
    total = float(weight.sum())
    center = (columns.start + float((weight * x).sum()) / total, rows.start + float((weight * y).sum()) / total)
    return np.array([*center, total])


def _checked_color(color: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(color, np.float64)
    if values.shape != (3,):
        raise WrongShape("color", f"shape {values.shape}", "must be three numbers: red, green, blue")
    if not ((values >= 0) & (values <= 1)).all():
        raise OutOfRange("color", values.tolist(), "must be in [0, 1]: divide 8-bit values by 255")
    return values
