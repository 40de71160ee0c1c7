"""Background where an object stays for about half of the time, as one that swings by less than its size does.

The median over time of such a pixel is a matter of chance, and its deviation is large, so that the object is not seen.
What the pixels around show tells which of its two colours is the background.
"""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.exposure import ExposureDrift
from gradsim.footage.plate import Plate, background_plate, sample_numbers

MIN_NOISE = 0.04  # deviation of a contested pixel, as a part of full scale,
NOISE_FACTOR = 5.0  # and relative to the noise of the picture
MIN_PIXELS = 25
MAX_SHARE = 0.1  # of the picture: more is no object
RADIUS = 5.0  # from which colours are taken [px]


def settled_plate(frames: NDArray[np.uint8], exposure: ExposureDrift, plate: Plate) -> Plate:
    """Returns the plate with the background in pixels in which an object is as frequent; unchanged without any.

    Args:
        frames: Frames of a still camera [T, h, w, 3].
        exposure: Gains of the frames.
        plate: Temporal median of the frames.
    """
    contested = _contested(plate)
    if not contested.any():
        return plate
    around = _inpainted(plate.color, contested)
    numbers = sample_numbers(len(frames))
    values = np.stack([exposure.values(frames[k], int(k)) for k in numbers])
    distance = np.abs(values - around).max(-1)  # [N, h, w]
    near, far = np.percentile(distance[:, contested], (10, 90), axis=0)
    hidden = np.zeros(distance.shape, np.bool_)
    hidden[:, contested] = distance[:, contested] > (near + far) / 2
    settled = background_plate(np.clip(np.rint(255 * values), 0, 255).astype(np.uint8), hidden)
    foreground = np.median(values[hidden], 0)
    core = _between(contested) & (
        np.abs(plate.color - foreground).max(-1) < np.abs(plate.color - around).max(-1)
    )  # always covered
    color = np.where(core[..., None], around, settled.color).astype(np.float32)
    noise = np.where(core, np.float32(plate.noise_level), settled.noise)
    return Plate(color, noise, settled.known & ~core)


def filled_plate(plate: Plate) -> Plate:
    """Returns the plate with the colours around in pixels that never show the background."""
    if plate.known.all() or not plate.known.any():
        return plate
    return replace(plate, color=_inpainted(plate.color, ~plate.known))


def _contested(plate: Plate) -> NDArray[np.bool_]:
    """Returns the pixels [h, w] that vary much, unless there are few or too many of them."""
    varies = plate.noise > max(MIN_NOISE, NOISE_FACTOR * plate.noise_level)
    count = int(varies.sum())
    return varies & (MIN_PIXELS <= count <= MAX_SHARE * varies.size)


def _between(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns what lies between the regions of a mask that are near to each other [h, w], within their convex hulls."""
    reach = int(np.clip(0.25 * np.sqrt(mask.sum()), 1, 15))
    near = cv2.dilate(mask.astype(np.uint8), np.ones((2 * reach + 1, 2 * reach + 1), np.uint8))
    count, labels = cv2.connectedComponents(near)
    filled = np.zeros(mask.shape, np.uint8)
    for label in range(1, count):
        points = np.argwhere(mask & (labels == label))[:, ::-1].astype(np.int32)
        cv2.fillConvexPoly(filled, cv2.convexHull(points), 1)
    return (filled > 0) & ~mask


def _inpainted(color: NDArray[np.float32], mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Returns an image [h, w, 3] in [0, 1] whose masked pixels, and those between, continue what is around."""
    region = cv2.dilate((mask | _between(mask)).astype(np.uint8), np.ones((5, 5), np.uint8))
    image = np.clip(np.rint(255 * color), 0, 255).astype(np.uint8)
    painted = cv2.inpaint(image, region, RADIUS, cv2.INPAINT_TELEA)
    return np.where(region[..., None] > 0, painted / np.float32(255), color).astype(np.float32)
