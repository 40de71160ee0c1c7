"""Whether a recording is one take: a cut changes most of the picture from one frame to the next."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.recording import Recording
from gradsim.scene.errors import SceneCut

PIXELS = 3000  # that are compared
MIN_CHANGE = 0.06  # of full scale, of a pixel that shows something else
MIN_CHANGED = 0.3  # part of the pixels
STEADY = 0.35  # of the change at a cut: between the frames before and after it, less changes
NEIGHBORS = 5  # frames on either side


def check_one_take(recording: Recording) -> None:
    """Raises if the picture changes at once.

    Raises:
        SceneCut: Between two frames most of the picture changes, and little between the frames before and after.
    """
    cuts = find_cuts(recording.reduced)
    if not cuts:
        return
    first, last = recording.numbers[0], recording.numbers[-1] + 1
    edges = [first, *(recording.numbers[k] for k in cuts), last]
    takes = sorted(pairwise(edges), key=lambda own: own[0] - own[1])
    found = f"the picture changes at once before frame {', '.join(str(edge) for edge in edges[1:-1][:5])}"
    remedy = f"needs one take: select frames=({takes[0][0]}, {takes[0][1]}), the longest one"
    raise SceneCut(str(recording.path), found, remedy)


def find_cuts(frames: NDArray[np.uint8]) -> list[int]:
    """Returns the indices of frames [T, h, w, 3] that show another scene than the frame before."""
    changed = _changed_parts(frames)
    return [k + 1 for k, part in enumerate(changed) if part > MIN_CHANGED and _is_alone(changed, k)]


def _is_alone(changed: NDArray[np.float64], k: int) -> bool:
    others = np.concatenate([changed[max(0, k - NEIGHBORS) : k], changed[k + 1 : k + 1 + NEIGHBORS]])
    return bool(len(others)) and float(others.max()) < STEADY * changed[k]


def _changed_parts(frames: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Returns the part of the pixels that change from each frame to the next [T - 1], at equal brightness."""
    step = max(1, int(np.sqrt(frames.shape[1] * frames.shape[2] / PIXELS)))
    grey = frames[:, ::step, ::step].mean(-1, dtype=np.float32) / 255
    before, after = grey[:-1], grey[1:]
    ratio = np.median(after / np.maximum(before, 0.05), (1, 2), keepdims=True)
    return (np.abs(after - ratio * before) > MIN_CHANGE).mean((1, 2))
