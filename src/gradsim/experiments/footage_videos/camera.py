"""The perspective camera with lens distortion that records synthetic videos."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TrueCamera:
    """A camera at (0, 0, distance) that looks along -z at the plane of motion z = 0; y points up.

    Args:
        size: Height and width of the picture [px].
        focal: Focal length [px].
        distance: From the plane of motion [m].
        center: Principal point (x, y) [px]; the first pixel covers the square from 0 to 1.
        pitch: Angle by which the camera looks up [rad].
        roll: Angle by which the picture turns clockwise [rad].
        k1: First radial distortion coefficient, as in OpenCV, for coordinates divided by the focal length.
    """

    size: tuple[int, int]
    focal: float
    distance: float
    center: tuple[float, float]
    pitch: float = 0.0
    roll: float = 0.0
    k1: float = 0.0

    @property
    def eye(self) -> Array:
        """Position [m], [3]."""
        return np.array([0.0, 0.0, self.distance])

    @property
    def scale(self) -> float:
        """Pixels per metre in the plane of motion, at the principal point."""
        return self.focal / self.distance

    def project(self, points: NDArray) -> Array:
        """Returns the pixels (x, y) [..., 2] of points [..., 3] [m]."""
        x, y, depth = np.moveaxis(np.asarray(points, float) - self.eye, -1, 0) * np.array([1, 1, -1]).reshape(
            -1, *[1] * (np.ndim(points) - 1)
        )
        cos, sin = np.cos(self.pitch), np.sin(self.pitch)
        y, depth = cos * y - sin * depth, cos * depth + sin * y
        x, y = x / depth, y / depth
        cos, sin = np.cos(self.roll), np.sin(self.roll)
        x, y = cos * x + sin * y, cos * y - sin * x
        stretch = self.focal * (1 + self.k1 * (x * x + y * y))
        return np.stack([self.center[0] + stretch * x, self.center[1] - stretch * y], -1)

    def shifted(self, shift: tuple[float, float], zoom: float = 1.0) -> TrueCamera:
        """Returns the camera whose picture is enlarged by `zoom` about its middle, then moved by `shift` [px]."""
        middle = (self.size[1] / 2, self.size[0] / 2)
        x, y = (m + zoom * (c - m) + s for m, c, s in zip(middle, self.center, shift, strict=True))
        return replace(self, center=(x, y), focal=self.focal * zoom)

    def padded(self, margin: int) -> TrueCamera:
        """Returns the camera of a picture with a margin on all sides [px]."""
        height, width = self.size
        x, y = self.center
        return replace(self, size=(height + 2 * margin, width + 2 * margin), center=(x + margin, y + margin))
