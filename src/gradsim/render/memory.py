"""Large tensors in memory that was used before: fresh pages cost more than the pixels that are written to them.

The system hands out pages one by one, cleared, at their first touch, to all threads of a process one after another. An
optimization renders videos of one size again and again, so what a video leaves behind serves the next one.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

import numpy as np
import torch

LARGE = 1 << 20  # smaller tensors are left to Torch [bytes]
IDLE = 1 << 28  # kept at most for later [bytes]

_idle: list[np.ndarray] = []  # the last used last
_leases: dict[int, Any] = {}
_lock = threading.RLock()  # memory may come back while this very thread holds it


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """An uninitialized tensor on the CPU; its memory comes back once nothing refers to it any more."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size < LARGE:
        return torch.empty(shape, dtype=dtype)
    block = _take(size)
    lease = block[:size]
    key = id(lease)
    with _lock:
        _leases[key] = weakref.ref(lease, lambda _: _give_back(key, block))
    return torch.from_numpy(lease).view(dtype).view(shape)


def _take(size: int) -> np.ndarray:
    """The block used last that is large enough, and not much too large."""
    with _lock:
        for place in reversed(range(len(_idle))):
            if size <= _idle[place].nbytes <= size + size // 4:
                return _idle.pop(place)
    return np.empty(size, dtype=np.uint8)


def _give_back(key: int, block: np.ndarray) -> None:
    with _lock:
        del _leases[key]
        _idle.append(block)
        while sum(one.nbytes for one in _idle) > IDLE:
            _idle.pop(0)
