"""Contact points of rigid bodies in blocks of neighbours, for the native rollout."""

from __future__ import annotations

import numpy as np

from gradsim.simulate.engine.structures import SIZES


def point_blocks(points: np.ndarray, width: int, weights: np.ndarray | None = None) -> np.ndarray:
    """Divides points [N, 3] into blocks [blocks, rows, width]; rows are x, y, z, depth offset and bounding sphere.

    With weights [N], these are in the row of the depth offset, zero in lanes without a point.
    """
    blocks = np.zeros((-(-len(points) // width), SIZES.point_block_rows, width))
    for block, index in zip(blocks, _divide(points, np.arange(len(points)), width), strict=True):
        own = points[index]
        middle = (own.min(0) + own.max(0)) / 2
        block[:3] = own[np.minimum(np.arange(width), len(own) - 1)].T
        if weights is None:
            block[3, len(own) :] = -1e30  # lanes without a point are never in contact
        else:
            block[3, : len(own)] = weights[index]
        block[4, :4] = *middle, 1.001 * np.linalg.norm(own - middle, axis=1).max()
    return blocks


def point_order(points: np.ndarray, width: int) -> np.ndarray:
    """Returns the index of the point in every lane of these blocks, [blocks * width]; -1 in lanes without a point."""
    order = np.full(-(-len(points) // width) * width, -1, np.int32)
    order[: len(points)] = np.concatenate(_divide(points, np.arange(len(points)), width))
    return order


def _divide(points: np.ndarray, index: np.ndarray, width: int) -> list[np.ndarray]:
    """Divides point indices along the longest axis into blocks of `width`; only the last may be smaller."""
    if len(index) <= width:
        return [index]
    order = index[np.argsort(points[index, np.ptp(points[index], axis=0).argmax()], kind="stable")]
    half = -(-len(order) // (2 * width)) * width
    return _divide(points, order[:half], width) + _divide(points, order[half:], width)
