"""Texture coordinates of the corners of a surface."""

from __future__ import annotations

import numpy as np

from gradsim.render.edges import face_normals


def box_projection(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Projects each face onto a side of the bounding box, along the axis its normal is closest to.

    Returns:
        Row of each corner's texture coordinates, [F, 3], and the coordinates, [6 V, 2].
    """
    normals = face_normals(points, faces)
    axis = np.abs(normals).argmax(axis=1)
    low, extent = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-300)
    x, y, z = ((points - low) / extent).T
    views = [(z, y), (1 - z, y), (x, z), (x, 1 - z), (1 - x, y), (x, y)]  # from -x, x, -y, y, -z, z: not mirrored
    side = 2 * axis + (np.take_along_axis(normals, axis[:, None], 1)[:, 0] > 0)
    return faces + side[:, None] * len(points), np.concatenate([np.stack(view, 1) for view in views])
