"""The contact points of rigid bodies in blocks of near ones, as the native march wants them."""

from __future__ import annotations

import numpy as np

WORLDS_IN_LANES = 2  # worlds of a batch from which on lanes hold worlds and not points of one body


def point_blocks(points: np.ndarray, width: int) -> np.ndarray:
    """Points [N, 3] in blocks of near ones [blocks, 5, width]; see `Points` in kernels/native/touch.h."""
    blocks = np.zeros((-(-len(points) // width), 5, width))
    for block, index in zip(blocks, _near(points, np.arange(len(points)), width), strict=True):
        own = points[index]
        middle = (own.min(0) + own.max(0)) / 2
        block[:3] = own[np.minimum(np.arange(width), len(own) - 1)].T
        block[3, len(own) :] = -1e30
        block[4, :4] = *middle, 1.001 * np.linalg.norm(own - middle, axis=1).max()
    return blocks


def _near(points: np.ndarray, index: np.ndarray, width: int) -> list[np.ndarray]:
    """Indices of points in blocks of `width`, only the last of which may be smaller, by halving the longest axis."""
    if len(index) <= width:
        return [index]
    order = index[np.argsort(points[index, np.ptp(points[index], axis=0).argmax()], kind="stable")]
    half = -(-len(order) // (2 * width)) * width
    return _near(points, order[:half], width) + _near(points, order[half:], width)
