"""Work on many frames in threads: NumPy, OpenCV and PyAV release the interpreter lock in arrays of some size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

MAX_THREADS = 8


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Returns the results of a function for all items, in their order."""
    work = list(items)
    threads = min(len(work), MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 4)
    if threads < 2:
        return [function(item) for item in work]
    with ThreadPoolExecutor(threads, thread_name_prefix="gradsim-footage") as pool:
        return list(pool.map(function, work))
