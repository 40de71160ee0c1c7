"""How far the picture turns, zooms or shifts as a whole, by features of it that are followed from frame to frame."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

FEATURES = 160
QUALITY = 0.002  # of a feature, relative to the best one: a ruler has far better ones than a plain wall
DISTANCE = 7  # of two features [px]
WINDOW, LEVELS = (15, 15), 3  # of the pyramidal Lucas-Kanade method [px]
MAX_RETURN = 0.5  # distance from its start of a feature that is followed forth and back [px]
MIN_FEATURES = 12
TOLERANCE = 1.0  # distance of a feature from the common motion [px]
MIN_AGREEING = 0.6  # part of the features that follow the common motion
STILL = 1.0  # motion of a feature that stays [px]
MAX_STAYING = 0.25  # part of the features that stay: of a still camera, most do
MIN_SPREAD = 0.25  # part of the picture within the outline of the agreeing features: an object is smaller


def common_motion(frames: NDArray[np.uint8]) -> float:
    """Returns how far the picture as a whole moves from the first frame, in a quarter of the frames at least.

    Args:
        frames: Frames [T, h, w, 3].

    Returns:
        Median motion of the features [px]; zero where features stay, disagree, are few or close together.
    """
    grey = [np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8) for image in frames]
    found: Any = cv2.goodFeaturesToTrack(grey[0], FEATURES, QUALITY, DISTANCE)
    if found is None or len(found) < MIN_FEATURES:
        return 0.0
    start: NDArray[np.float32] = np.asarray(found, np.float32)
    motions = np.zeros(len(frames))
    places = start
    for k in range(1, len(frames)):
        places, good = _followed(grey[k - 1], grey[k], places)
        start, places = start[good], places[good]
        if len(places) < MIN_FEATURES:
            break
        motions[k:] = _common_motion(start[:, 0], places[:, 0], frames.shape[1:3])
    return float(np.percentile(motions, 75))


def _followed(
    before: NDArray[np.uint8], after: NDArray[np.uint8], places: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Returns where features [N, 1, 2] are in the next frame, and which of them can be followed back."""
    options = {"winSize": WINDOW, "maxLevel": LEVELS}
    moved, found, _ = cv2.calcOpticalFlowPyrLK(before, after, places, None, **options)  # type: ignore[call-overload]
    back, found_back, _ = cv2.calcOpticalFlowPyrLK(after, before, moved, None, **options)  # type: ignore[call-overload]
    near = np.linalg.norm(np.asarray(back) - places, axis=-1)[:, 0] < MAX_RETURN
    return np.asarray(moved, np.float32), near & (found[:, 0] == 1) & (found_back[:, 0] == 1)


def _common_motion(start: NDArray[np.float32], end: NDArray[np.float32], size: tuple[int, ...]) -> float:
    """Returns the median motion of features [N, 2] by a shift, turn and zoom that most of them follow; else zero."""
    motion = np.linalg.norm(end - start, axis=-1)
    if (motion < STILL).mean() > MAX_STAYING:
        return 0.0
    _, inside = cv2.estimateAffinePartial2D(start, end, ransacReprojThreshold=TOLERANCE)
    agreeing = np.asarray(inside, np.bool_).ravel()
    if agreeing.mean() < MIN_AGREEING or agreeing.sum() < MIN_FEATURES:
        return 0.0
    spread = float(cv2.contourArea(cv2.convexHull(start[agreeing]))) / (size[0] * size[1])
    return float(np.median(motion[agreeing])) if spread > MIN_SPREAD else 0.0
