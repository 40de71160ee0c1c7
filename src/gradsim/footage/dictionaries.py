"""Dictionaries of ArUco and AprilTag markers, by name."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.scene.errors import UnknownName
from gradsim.scene.spelling import did_you_mean

PREFIX = "DICT_"
DISTANCE = 0.02  # of two outlines, relative to their length: with more, the edge of a white margin hides the tag in it


def dictionary_names() -> tuple[str, ...]:
    """Returns the known names, such as "4X4_50" and "APRILTAG_36h11"."""
    return tuple(sorted(name.removeprefix(PREFIX) for name in dir(cv2.aruco) if name.startswith(PREFIX)))


def aruco_dictionary(name: str) -> cv2.aruco.Dictionary:
    """Returns OpenCV's dictionary of markers. Capital letters do not matter."""
    known = {own.upper(): own for own in dictionary_names()}
    stored = known.get(name.upper().removeprefix(PREFIX))
    if stored is None:
        valid = f"{did_you_mean(name.upper(), known)}must be one of {', '.join(known.values())}"
        raise UnknownName("dictionary", name, valid)
    return cv2.aruco.getPredefinedDictionary(getattr(cv2.aruco, PREFIX + stored))


def module_count(name: str) -> int:
    """Returns how many modules a marker has along a side, with its black border."""
    return int(aruco_dictionary(name).markerSize) + 2


def marker_cells(name: str, number: int) -> NDArray[np.bool_]:
    """Returns which modules of a marker are light [n, n], with its black border, from the upper left."""
    image = cv2.aruco.generateImageMarker(aruco_dictionary(name), number, module_count(name))
    return np.asarray(image) > 127


def marker_detector(name: str) -> cv2.aruco.ArucoDetector:
    """Returns a detector of the markers of a dictionary, with corners refined to a fraction of a pixel."""
    parameters = cv2.aruco.DetectorParameters()
    parameters.cornerRefinementMethod = cv2.aruco.CORNER_REFINE_SUBPIX
    parameters.minMarkerDistanceRate = DISTANCE
    return cv2.aruco.ArucoDetector(aruco_dictionary(name), parameters)
