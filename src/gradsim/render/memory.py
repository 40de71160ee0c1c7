"""Large tensors in recycled memory: page faults of fresh memory cost more than writing the pixels.

The system provides pages one by one and zeroed at their first use, serially for all threads of a process. An
optimization renders videos of one size again and again, so the memory of one video is reused for the next.
"""

from __future__ import annotations

import math
import threading
import weakref
from typing import Any

import numpy as np
import torch

from gradsim.forks import after_fork

LARGE = 1 << 20  # smaller tensors are allocated by Torch [bytes]
MAX_IDLE = 1 << 28  # of memory kept for reuse [bytes]

_idle: list[np.ndarray] = []  # most recently used last
_in_use: dict[int, Any] = {}  # weak references to the arrays behind tensors
_lock = threading.RLock()  # reentrant: garbage collection may release memory in a thread that holds the lock


@after_fork
def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


def empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Returns an uninitialized tensor on the CPU. Its memory is recycled once nothing refers to it any more."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size < LARGE:
        return torch.empty(shape, dtype=dtype)
    block = _acquire(size)
    array = block[:size]
    key = id(array)
    with _lock:
        _in_use[key] = weakref.ref(array, lambda _: _release(key, block))
    return torch.from_numpy(array).view(dtype).view(shape)


def _acquire(size: int) -> np.ndarray:
    """Returns the most recently used idle block that fits and is at most a quarter too large, or a new one."""
    with _lock:
        for place in reversed(range(len(_idle))):
            if size <= _idle[place].nbytes <= size + size // 4:
                return _idle.pop(place)
    return np.empty(size, dtype=np.uint8)


def _release(key: int, block: np.ndarray) -> None:
    with _lock:
        del _in_use[key]
        _idle.append(block)
        while sum(idle.nbytes for idle in _idle) > MAX_IDLE:
            _idle.pop(0)
