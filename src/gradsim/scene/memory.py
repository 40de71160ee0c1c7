"""Memory that an input would take, checked before anything is allocated."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Any

from gradsim.scene.errors import OutOfMemory

TEXT_MEMORY = 20.0  # of the values in a text file, over its size
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


@functools.cache
def total_memory() -> int:
    """Memory of this machine [B]."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def memory_text(size: float) -> str:
    """Returns a number of bytes for people, such as "1.5 GB"."""
    power = min(int(math.log(max(size, 1.0), 1000.0)), len(UNITS) - 1)
    return f"{size / 1000.0**power:.3g} {UNITS[power]}"


def check_memory(name: str, value: Any, size: float, remedy: str) -> None:
    """Raises OutOfMemory if an input would take more than half of the machine's memory.

    Args:
        name: Path of the quantity that decides the size.
        value: Its value.
        size: Memory that it would take [B].
        remedy: What to give instead.
    """
    limit = total_memory() // 2
    if size > limit:
        raise OutOfMemory(
            name, value, f"would take {memory_text(size)} of memory, of at most {memory_text(limit)}: {remedy}"
        )


def check_file(name: str, file: Path, factor: float) -> None:
    """Raises OutOfMemory if the content of a file would take more than half of the machine's memory.

    Args:
        name: Path of the quantity that names the file.
        file: An existing file, or one whose absence is found later.
        factor: Memory over the size of the file.
    """
    if file.is_file():
        check_memory(name, str(file), factor * file.stat().st_size, "give a smaller file")
