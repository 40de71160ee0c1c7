"""Two objects that a rod links: they keep their distance while the line between them turns."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gradsim.footage.detection import Detection
from gradsim.footage.track import ObjectTrack
from gradsim.footage.tracklets import Tracklet

CANDIDATES = 8  # tracklets that are compared
MIN_COMMON = 0.6  # part of the frames of the shorter tracklet in which both are seen
MIN_FRAMES = 14  # in which both are seen
MAX_STRETCH = 0.05  # relative deviation of the distance
MIN_TURN = 0.15  # of the line between both [rad]


def linked_pair(detection: Detection) -> tuple[Tracklet, Tracklet] | None:
    """Returns the lower and the upper one of two objects that keep their distance; None if there are none.

    If an object was chosen by a point, it must be one of them. Of several pairs the one with the best scores counts.
    """
    pairs = [pair for pair in combinations(detection.tracklets[:CANDIDATES], 2) if _is_linked(*pair)]
    if detection.chosen:
        pairs = [pair for pair in pairs if detection.best in pair]
    if not pairs:
        return None
    first, second = max(pairs, key=lambda pair: min(own.score for own in pair))
    return (first, second) if first.centers[:, 1].mean() > second.centers[:, 1].mean() else (second, first)


def _is_linked(first: Tracklet, second: Tracklet) -> bool:
    _, one, two = np.intersect1d(first.frames, second.frames, return_indices=True)
    if len(one) < max(MIN_FRAMES, MIN_COMMON * min(len(first), len(second))):
        return False
    apart = second.centers[two] - first.centers[one]
    distance = np.hypot(*apart.T)
    usual = float(np.median(distance))
    stretch = 1.4826 * float(np.median(np.abs(distance - usual))) / usual
    turn = np.ptp(np.percentile(np.unwrap(np.arctan2(*apart.T)), (5, 95)))
    return bool(stretch < MAX_STRETCH and turn > MIN_TURN and usual > (first.diameter + second.diameter) / 2)


def common_tracks(first: ObjectTrack, second: ObjectTrack) -> tuple[ObjectTrack, ObjectTrack]:
    """Returns the tracks of two objects in the frames in which both are measured."""
    _, one, two = np.intersect1d(first.frames, second.frames, return_indices=True)
    return first.picked(one), second.picked(two)
