"""Contact points of rigid bodies in blocks of neighbours, as the native rollout takes them."""

from __future__ import annotations

import numpy as np

from gradsim.simulate.engine.structures import SIZES


def point_blocks(points: np.ndarray, width: int) -> np.ndarray:
    """Points [N, 3] in blocks of neighbours [blocks, rows, width]: x, y, z, offset of the depth, bounding sphere."""
    blocks = np.zeros((-(-len(points) // width), SIZES.point_block_rows, width))
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
