"""Whole files in Warp's kernel cache: a power cut or a full disk can leave files that it would load and fail on."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
import time
from pathlib import Path

BUILD_FOLDER = re.compile(r"_p(\d+)_t\d+$")  # end of the name of a folder in which a process is compiling
BUILD_TIME = 3600.0  # after which a folder of a process that no longer exists is removed [s]
MODULE_SPACE = 20_000_000  # that the compilation of a module may need [bytes]
MOVING_TIME = 60.0  # by which a process has moved the metadata after the object [s]
ELF_HEADER = struct.Struct("<4s36xQ10xHH")  # magic number, offset of the section table, size and number of its entries


def remove_damaged_modules(folder: Path, pattern: str = "wp_gradsim.*") -> list[str]:
    """Removes compiled modules that are empty, cut off or without valid metadata, so that they are compiled again.

    Folders of processes that were killed while they compiled are removed after an hour.

    Args:
        folder: The kernel cache, with one folder a module.
        pattern: Names of the modules to check.

    Returns:
        The names of the modules removed.
    """
    removed = []
    for module in sorted(folder.glob(pattern)):
        if building := BUILD_FOLDER.search(module.name):
            if _is_abandoned(module, int(building[1])):
                shutil.rmtree(module, ignore_errors=True)
            continue
        objects, metadata = list(module.glob("*.o")), list(module.glob("*.meta"))
        if _are_whole(objects, metadata):
            continue
        for file in (*objects, *metadata):
            file.unlink(missing_ok=True)
        removed.append(module.name)
    return removed


def check_space(folder: Path, module: str) -> None:
    """Raises OSError if there is no space for a module that is not compiled yet: the compiler would end the process.

    Args:
        folder: The kernel cache.
        module: Name of the module.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:  # Warp makes the folder, or says why it cannot
        return
    if free < MODULE_SPACE and not any(folder.glob(f"wp_{module}_*/*.o")):
        remedy = f"the kernel cache needs {MODULE_SPACE // 10**6} MB, or WARP_CACHE_PATH the name of another folder"
        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {remedy}", str(folder))


def _is_abandoned(folder: Path, process: int) -> bool:
    """Whether the process that compiles in a folder was killed; on another machine it may live, and is given time."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        try:
            return time.time() - folder.stat().st_mtime > BUILD_TIME
        except OSError:
            return False
    except OSError:
        return False
    return False


def _are_whole(objects: list[Path], metadata: list[Path]) -> bool:
    """Whether the files of a module are complete; none at all are."""
    if objects and not metadata:
        return any(time.time() - file.stat().st_mtime < MOVING_TIME for file in objects)
    return all(map(_is_whole_object, objects)) and all(map(_is_whole_json, metadata))


def _is_whole_object(file: Path) -> bool:
    """Whether an object file has all its bytes; the section table of an ELF file is its end."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            start = stream.read(ELF_HEADER.size)
    except OSError:
        return True  # not readable, or just replaced: Warp says so
    if len(start) < ELF_HEADER.size:
        return False
    magic, offset, entry, count = ELF_HEADER.unpack(start)
    if magic != b"\x7fELF":
        return bool(start.strip(b"\0"))  # another format, of another system
    return bool(offset) and size >= offset + entry * count


def _is_whole_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except OSError:
        return True
    except ValueError:
        return False
    return True
