"""Frames that repeat the one before: conversions to a higher rate and cameras that drop frames leave them.

A repeated frame shows a moving object at a wrong time. Nothing changes in it, neither where something moves in the
frames around it nor, but for the codec, in the noise of the rest.
"""

from __future__ import annotations

import itertools

import cv2
import numpy as np
from numpy.typing import NDArray

REACH = 3  # frames on either side, in which something moves
MAX_MOTION = 0.2  # of the largest change of a place, relative to that in frames on both sides
MAX_CHANGE = 0.35  # of the mean change of all pixels, likewise
PLACE = 5  # side of the squares whose change is compared [px of the reduced copy]


def repeated_frames(frames: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Returns which frames repeat the one before [T].

    Args:
        frames: Frames of the reduced copy [T, h, w, 3].
    """
    largest, mean = np.zeros(len(frames)), np.full(len(frames), np.inf)
    for k, pair in enumerate(itertools.pairwise(frames), 1):
        change = cv2.absdiff(*pair)
        largest[k], mean[k] = cv2.blur(change, (PLACE, PLACE)).max(), change.mean()
    return (largest < MAX_MOTION * _around(largest)) & (mean < MAX_CHANGE * _around(mean))


def _around(changes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the largest of the changes shortly before and after each frame [T], whichever is smaller.

    At the ends one side decides.
    """
    count = len(changes)
    padded = np.pad(changes, REACH, constant_values=np.inf)
    before = np.max([padded[k : k + count] for k in range(REACH)], 0)
    after = np.max([padded[REACH + 1 + k :][:count] for k in range(REACH)], 0)
    return np.asarray(np.minimum(before, after))
