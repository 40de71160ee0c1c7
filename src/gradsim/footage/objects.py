"""Blobs: connected regions of one frame that differ from the background plate and are not shadows."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.exposure import ExposureDrift
from gradsim.footage.plate import Plate, largest_channel
from gradsim.footage.threads import map_in_threads

NOISE_FACTOR = 6.0  # a pixel differs from the plate if it is this many standard deviations away,
MIN_DIFFERENCE = 0.04  # and by this part of full scale
MIN_NOISE = 1.5 / 255  # rounding and compression
SHADOW = (0.5, 1.08)  # brightness of shadows and reflections relative to the plate
SHADOW_COLOR = 0.03  # largest deviation of a shadow from the colour of the plate, or 3 standard deviations
DARK = 0.15  # the colour of a darker plate is too uncertain to recognize a shadow
THIN = 0.45  # half width of what counts as a thread, relative to that of the thickest part of a region
MIN_RADIUS = 2  # of what is left out: nothing of a small region [px]
MIN_SOLID = 0.9  # part of a region without threads that is not thin
MIN_AREA = 10  # [px of the reduced copy]
MAX_CUT = 0.35  # length at the edge of the picture of a blob that is still whole, in diameters
MAX_BLOBS = 30  # largest ones of a frame


@dataclass(frozen=True, eq=False)
class Blob:
    """A region of one frame. Lengths are in pixels of the reduced copy, x right and y down.

    Args:
        frame: Index of the frame in the recording.
        center: Centroid weighted by the difference from the plate (x, y); pixel (0, 0) covers the square from 0 to 1.
        area: Number of pixels.
        box: Left, top, width and height.
        contrast: Mean difference from the plate, as a part of full scale.
        at_edge: Whether the edge of the picture cuts it, so that a part of it is missing.
        mask: Pixels of the box that belong to it [height, width].
    """

    frame: int
    center: tuple[float, float]
    area: int
    box: tuple[int, int, int, int]
    contrast: float
    at_edge: bool
    mask: NDArray[np.bool_] = field(repr=False)

    @property
    def diameter(self) -> float:
        """Diameter of a disc of the same area."""
        return float(np.sqrt(4 * self.area / np.pi))

    @property
    def compactness(self) -> float:
        """Area over that of a disc as long as the box: 1 for a disc, less for an arm or a smear."""
        return min(1.0, 4 * self.area / (np.pi * max(self.box[2:]) ** 2))

    def distance(self, point: NDArray[np.float64]) -> float:
        """Distance of a point (x, y) from the box [px of the reduced copy]; zero inside."""
        low = np.array(self.box[:2])
        outside = np.maximum(np.maximum(low - point, point - low - self.box[2:]), 0)
        return float(np.hypot(*outside))


def find_blobs(
    frames: NDArray[np.uint8],
    plate: Plate,
    *,
    exposure: ExposureDrift | None = None,
    ignored: NDArray[np.bool_] | None = None,
) -> list[list[Blob]]:
    """Returns the blobs of each frame, largest first.

    Args:
        frames: Frames of a still camera [T, h, w, 3].
        plate: Background.
        exposure: Gains of the frames; constant exposure if None.
        ignored: Pixels that belong to no blob [h, w].
    """
    exposure = exposure or ExposureDrift.none(len(frames))
    noise = np.maximum(cv2.medianBlur(plate.noise, 5), MIN_NOISE)
    limit = np.maximum(NOISE_FACTOR * noise, np.float32(MIN_DIFFERENCE))
    if ignored is not None:
        limit[ignored] = np.inf

    def blobs(k: int) -> list[Blob]:
        return _blobs_of(k, exposure.values(frames[k], k), plate.color, noise, limit)

    return map_in_threads(blobs, range(len(frames)))


def _blobs_of(
    frame: int,
    image: NDArray[np.float32],
    color: NDArray[np.float32],
    noise: NDArray[np.float32],
    limit: NDArray[np.float32],
) -> list[Blob]:
    difference = largest_channel(cv2.absdiff(image, color))
    changed = difference > limit
    changed[changed] = ~is_shadow(image[changed], color[changed], noise[changed])
    opened = cv2.morphologyEx(changed.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    closed = cv2.morphologyEx(opened, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    solid = without_threads(np.asarray(closed, np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(solid, connectivity=8)
    areas = stats[:, cv2.CC_STAT_AREA]
    largest = sorted(range(1, count), key=lambda n: -areas[n])[:MAX_BLOBS]
    return [
        _blob(frame, np.asarray(labels, np.int32), n, stats[n], difference) for n in largest if areas[n] >= MIN_AREA
    ]


def without_threads(mask: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Returns a mask [h, w] without the thin parts of its regions: the thread of a pendulum moves unlike its bob."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
    result = mask.copy()
    for n in range(1, count):
        left, top, width, height, area = (int(number) for number in stats[n])
        if area < MIN_AREA:
            continue
        place = (slice(top, top + height), slice(left, left + width))
        own = np.pad((labels[place] == n).astype(np.uint8), 1)
        radius = int(THIN * cv2.distanceTransform(own, cv2.DIST_L2, 3).max())
        if radius >= MIN_RADIUS:
            disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
            thick = cv2.morphologyEx(own, cv2.MORPH_OPEN, disc)
            if thick.sum() < MIN_SOLID * area:
                result[place] = np.where(own[1:-1, 1:-1] > 0, thick[1:-1, 1:-1], result[place])
    return result


def is_shadow(image: NDArray[np.float32], color: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Returns which pixels [...] have the colour of the plate [..., 3] at another brightness."""
    ratio = (image * color).sum(-1) / np.maximum((color * color).sum(-1), 1e-4)
    deviation = largest_channel(np.abs(image - ratio[..., None] * color))
    same_color = deviation < np.maximum(3 * noise, SHADOW_COLOR)
    return (ratio > SHADOW[0]) & (ratio < SHADOW[1]) & same_color & (color.max(-1) > DARK)


def _blob(
    frame: int, labels: NDArray[np.int32], label: int, stats: NDArray[np.int32], difference: NDArray[np.float32]
) -> Blob:
    left, top, width, height, area = (int(number) for number in stats)
    place = (slice(top, top + height), slice(left, left + width))
    mask = labels[place] == label
    weight = mask * difference[place]
    total = float(weight.sum())
    x = left + float(weight.sum(0) @ (np.arange(width) + 0.5)) / total
    y = top + float(weight.sum(1) @ (np.arange(height) + 0.5)) / total
    at_edge = _cut_length(labels, label) > MAX_CUT * np.sqrt(4 * area / np.pi)
    return Blob(frame, (x, y), area, (left, top, width, height), total / area, bool(at_edge), mask)


def _cut_length(labels: NDArray[np.int32], label: int) -> int:
    """Returns how many pixels of a blob lie at an edge of the picture, for the edge with the most."""
    return max(int((line == label).sum()) for line in (labels[0], labels[-1], labels[:, 0], labels[:, -1]))
