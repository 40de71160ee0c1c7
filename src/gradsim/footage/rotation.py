"""Rotation of an object in the picture: from its elongation, or from its texture.

An elongated object has a principal axis. A round one with texture is unrolled around its centre: rotation shifts the
unrolled texture along the angle, which correlation finds. Shading does not turn with the object: the mean over time is
removed, so that a texture that does not turn cannot be told from shading.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.crops import Crops
from gradsim.footage.masks import Masks
from gradsim.footage.outlines import Outlines

ELONGATED = 1.25  # ratio of the lengths along and across
ANGLES = 256  # of the unrolled texture
RADII = (0.25, 0.85)  # of the unrolled texture, relative to that of the object
RADIUS_STEPS = 12
MAX_TURN = 0.6  # between two frames [rad]
MIN_CORRELATION = 0.6  # of the texture in successive frames
MIN_TEXTURE = 0.04  # standard deviation of the texture, relative to the colour of the object
MIN_TRACKED = 0.8  # part of the frames

Angles = tuple[NDArray[np.float64], NDArray[np.float64]]


def measured_angles(crops: Crops, masks: Masks, outlines: Outlines) -> Angles | None:
    """Returns the rotation of an object and its standard deviation in each frame [N] [rad], or None if it cannot be
    seen. Angles are measured from x towards y; those of a texture start with zero."""
    if not outlines.is_round:
        return axis_angles([masks.alphas[int(k)] for k in outlines.frames], outlines.center_std / masks.factor)
    unrolled = [_unrolled(crops, masks, outlines, n) for n in range(len(outlines.frames))]
    return texture_angles(unrolled, np.diff(outlines.frames))


def axis_angles(alphas: Sequence[NDArray[np.float64]], center_std: NDArray[np.float64]) -> Angles | None:
    """Returns the angles of the principal axes of masks, continuous over time, or None if they are not elongated."""
    moments = np.array([_second_moments(alpha) for alpha in alphas])
    split = np.hypot(moments[:, 0] - moments[:, 1], 2 * moments[:, 2])
    total = moments[:, 0] + moments[:, 1]
    ratio = np.sqrt((total + split) / np.maximum(total - split, 1e-9))
    if np.median(ratio) < ELONGATED:
        return None
    twice = np.unwrap(np.arctan2(2 * moments[:, 2], moments[:, 0] - moments[:, 1]))
    # A shift of the ends of the axis against each other by the error of the centre turns it.
    std = np.sqrt(total / 2) * np.sqrt((center_std**2).mean(1)) / np.maximum(split / 2, 1e-9)
    return twice / 2, std


def _second_moments(alpha: NDArray[np.float64]) -> tuple[float, float, float]:
    """Returns the variances along x and y and the covariance of a mask [px^2]."""
    area = max(float(alpha.sum()), 1e-9)
    x, y = np.arange(alpha.shape[1]) + 0.5, np.arange(alpha.shape[0]) + 0.5
    x = x - float(alpha.sum(0) @ x) / area
    y = y - float(alpha.sum(1) @ y) / area
    return float(alpha.sum(0) @ x**2) / area, float(alpha.sum(1) @ y**2) / area, float(y @ alpha @ x) / area


def texture_angles(unrolled: Sequence[NDArray[np.float32]], steps: NDArray[np.int64]) -> Angles | None:
    """Returns the angles of unrolled textures [radii, angles, 3], or None if there is too little texture.

    Args:
        unrolled: Texture of each frame, without its mean.
        steps: Frames from each texture to the next [N - 1].
    """
    still = np.mean(unrolled, 0)  # shading and highlights, which do not turn with the object
    moving = [own - still for own in unrolled]
    if np.median([own.std() for own in moving]) < MIN_TEXTURE:
        return None
    turns = [_turn(first, second) for first, second in pairwise(moving)]
    tracked = np.array([own[1] for own in turns]) > MIN_CORRELATION
    if len(turns) == 0 or tracked.mean() < MIN_TRACKED:
        return None
    rates = np.array([own[0] for own in turns]) / steps
    rates = np.interp(np.arange(len(rates)), np.flatnonzero(tracked), rates[tracked])
    errors = np.where(tracked, np.array([own[2] for own in turns]), MAX_TURN)
    angles = np.concatenate([[0.0], np.cumsum(rates * steps)])
    return angles, np.concatenate([[0.0], np.sqrt(np.cumsum(errors**2))])


def _turn(first: NDArray[np.float32], second: NDArray[np.float32]) -> tuple[float, float, float]:
    """Returns the rotation from one unrolled texture to another [rad], their correlation, and its error [rad]."""
    spectrum = np.fft.rfft(second, axis=1) * np.conj(np.fft.rfft(first, axis=1))
    scale = np.sqrt(float((first**2).sum()) * float((second**2).sum())) + 1e-12
    correlation = np.fft.irfft(spectrum, ANGLES, axis=1).sum((0, 2)) / scale
    shifts = (np.arange(ANGLES) + ANGLES // 2) % ANGLES - ANGLES // 2
    reachable = np.abs(shifts) * (2 * np.pi / ANGLES) <= MAX_TURN
    best = int(np.argmax(np.where(reachable, correlation, -np.inf)))
    left, middle, right = (float(correlation[(best + k) % ANGLES]) for k in (-1, 0, 1))
    bend = max(2 * middle - left - right, 1e-9)
    shift = float(shifts[best]) + float(np.clip(0.5 * (right - left) / bend, -0.5, 0.5))
    # The correlation falls off by half its bend for a step; what is missing from one is noise of the texture.
    error = np.sqrt(max(1 - middle, 0.0) / bend / (RADIUS_STEPS * 6))
    return 2 * np.pi / ANGLES * shift, middle, 2 * np.pi / ANGLES * max(error, 0.1)


def _unrolled(crops: Crops, masks: Masks, outlines: Outlines, n: int) -> NDArray[np.float32]:
    """Returns the texture around the centre [radii, angles, 3] in values near sRGB, relative to its mean."""
    k = int(outlines.frames[n])
    image = np.sqrt(np.maximum(crops.light[k].astype(np.float32), 0))
    center = outlines.centers[n] / masks.factor - masks.origin(k)
    radius = outlines.diameters[n] / 2 / masks.factor
    angles = np.arange(ANGLES) * (2 * np.pi / ANGLES)
    radii = radius * np.linspace(*RADII, RADIUS_STEPS)[:, None]
    x = (center[0] - 0.5 + radii * np.cos(angles)).astype(np.float32)
    y = (center[1] - 0.5 + radii * np.sin(angles)).astype(np.float32)
    texture = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(texture - texture.mean((0, 1)), np.float32) / np.float32(max(float(texture.mean()), 1e-3))
