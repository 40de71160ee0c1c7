"""The image of a disc that moves during the exposure.

The image of a moving disc is the mean of the disc over the exposure. Across the motion it is as wide as the disc; along
it the disc is longer by the smear, the way it moves during the exposure. The centre is the mean over the exposure.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

OFFSETS = np.array([-0.375, -0.125, 0.125, 0.375], np.float32)  # lines across the motion within a pixel


def disc_image(size: tuple[int, int], parameters: NDArray[np.float64], softness: float) -> NDArray[np.float32]:
    """Returns the alpha [h, w] of a disc that moves during the exposure; see `disc_images`."""
    return disc_images(size, parameters[None], softness)[0]


def disc_images(size: tuple[int, int], parameters: NDArray[np.float64], softness: float) -> NDArray[np.float32]:
    """Returns the alphas [B, h, w] of discs that move during the exposure.

    Args:
        size: Height and width [px].
        parameters: Centre x and y, radius, smear x and y [px], and alpha in the interior [B, 6].
        softness: Standard deviation of the point spread [px].
    """
    x, y, radius, smear_x, smear_y, level = (own[:, None, None] for own in parameters.T)
    length = np.hypot(smear_x, smear_y)
    moves = length > 1e-9
    unit_x, unit_y = np.where(moves, smear_x, 1.0), np.where(moves, smear_y, 0.0)
    along_x, along_y = (own / np.where(moves, length, 1.0) for own in (unit_x, unit_y))
    dx = np.arange(size[1]) + (0.5 - x)
    dy = np.arange(size[0])[:, None] + (0.5 - y)
    along = (dx * along_x).astype(np.float32) + (dy * along_y).astype(np.float32)
    across = (dy * along_x).astype(np.float32) - (dx * along_y).astype(np.float32)
    reach = (np.sqrt(length**2 + 1) / 2).astype(np.float32)  # half of the smear and of a pixel
    square = (radius**2).astype(np.float32)
    front, back = along + reach, along - reach
    image = np.zeros_like(along)
    for offset in OFFSETS:
        chord = across + offset
        chord *= chord
        np.subtract(square, chord, out=chord)
        np.sqrt(np.maximum(chord, 0, out=chord), out=chord)
        image += np.minimum(np.maximum(front, -chord), chord)
        image -= np.minimum(np.maximum(back, -chord), chord)
    image *= (level / (2 * reach * len(OFFSETS))).astype(np.float32)
    if softness > 0.2:
        for own in image:
            cv2.GaussianBlur(own, (0, 0), softness, dst=own)
    return image


def stretched(alpha: NDArray[Any], levels: tuple[float, float]) -> NDArray[Any]:
    """Returns alpha with a range of levels stretched to 0 and 1."""
    return np.clip((alpha - levels[0]) / (levels[1] - levels[0]), 0, 1)
