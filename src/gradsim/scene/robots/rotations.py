"""Quaternions (x, y, z, w) of single rotations, as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def xyzw(q: Any) -> np.ndarray:
    """Returns a quaternion of MuJoCo, whose real part comes first, in the order of gradsim."""
    return np.array([q[1], q[2], q[3], q[0]], dtype=np.float64)


def matrix(q: np.ndarray) -> np.ndarray:
    """Returns the matrix of a quaternion, [3, 3]."""
    x, y, z, w = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def rotated(q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Rotates a vector [3]."""
    return np.asarray(matrix(q) @ x)


def product(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Returns the rotation by q followed by that by p."""
    vector = np.cross(p[:3], q[:3]) + p[:3] * q[3] + q[:3] * p[3]
    return np.append(vector, p[3] * q[3] - p[:3] @ q[:3])
