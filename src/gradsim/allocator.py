"""Settings of the C library's memory allocator, for processes that belong to gradsim."""

from __future__ import annotations

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # parameters of mallopt
LARGEST = 2**31 - 1


def keep_freed_memory() -> None:
    """Lets the process reuse the memory of freed images instead of returning it to the system.

    A fit allocates and frees tensors of some ten megabytes all the time. The system has to clear every page it gives
    out, which takes about as long as the arithmetic. Does nothing where the C library has no such settings. The command
    line calls it; a library would impose it on programs of others.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(MMAP_MAX, 0)
    mallopt(TRIM_THRESHOLD, LARGEST)
