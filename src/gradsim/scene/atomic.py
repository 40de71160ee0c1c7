"""Atomic writing of files and folders, and removal of what processes that were killed left unfinished."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gradsim.scene.errors import InvalidInput

fcntl: Any = None  # a system without file locks: unfinished folders are then known by their age
with suppress(ImportError):
    fcntl = importlib.import_module("fcntl")

MARK = ".gradsim-"  # in the names of temporary folders
STEM = 32  # characters of the name of a file in that of its temporary folder
LOCK, REPLACED = ".lock", ".replaced"  # files and folders in a temporary folder
OLD = 86400.0  # age from which a temporary folder is unfinished where locks are not available [s]
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)  # another process has written the same folder

_cleaned: set[Path] = set()  # folders from which this process has removed unfinished ones


def write_atomically(
    path: Path, write: Callable[[Path], object], error: type[InvalidInput], *, keep: bool = False
) -> None:
    """Writes a file or folder atomically: to a temporary folder beside its destination, then moved into place.

    The first write to a folder removes temporary folders of processes that were killed. Several processes may write to
    the same folder and to the same destination.

    Args:
        path: Destination. An existing file, or folder with its contents, is replaced; behind a link, too.
        write: Called with the temporary path to write to, which has the same name as the destination.
        error: Raised if the parent folder of the destination does not exist.
        keep: Keep a folder that another process has written to the destination meanwhile.

    Raises:
        OSError: The disk is full or the folder read-only; names the destination.
    """
    destination = _checked_destination(path, error)
    try:
        place = destination.parent.resolve()
        if place not in _cleaned:
            _cleaned.add(place)
            remove_unfinished(place)
        with _temporary_folder(destination) as folder:
            target = folder / path.name
            write(target)
            if path.name != destination.name:  # of a link, whose name has the extension that `write` needs
                target = target.rename(folder / destination.name)
            _move(target, destination, folder, keep=keep)
    except OSError as failure:
        raise OSError(failure.errno, failure.strerror or str(failure), str(path)) from failure


def _checked_destination(path: Path, error: type[InvalidInput]) -> Path:
    """Returns the path that is to be replaced, which is that behind a link.

    Raises:
        InvalidInput: Its folder does not exist, or it is a device, a pipe or a socket, which must not be replaced.
    """
    destination = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not destination.parent.is_dir():
        raise error(str(path), "no such folder", "needs an existing folder: create it first")
    if destination.exists() and not (destination.is_file() or destination.is_dir()):
        raise error(str(path), "a device or pipe", "needs the name of a file, which is replaced as a whole")
    return destination


def remove_unfinished(folder: Path) -> None:
    """Removes the temporary folders of processes that no longer exist; those of running ones stay.

    A folder whose replacement was complete, but not yet in place when its process was killed, is put in place.
    """
    for unfinished in folder.glob(f".*{MARK}*"):
        with _locked(folder) as locked:
            abandoned = _is_abandoned(unfinished, alone=locked)
        if abandoned:
            _finish_replacement(unfinished)
            shutil.rmtree(unfinished, ignore_errors=True)


def _move(target: Path, path: Path, folder: Path, *, keep: bool) -> None:
    """Moves a file or folder to its destination; a folder that is there already is moved away first."""
    while True:
        try:
            os.replace(target, path)
        except OSError as failure:
            if failure.errno not in TAKEN:
                raise
            if keep:
                return
            try:
                path.rename(Path(tempfile.mkdtemp(dir=folder, prefix=REPLACED)) / path.name)
            except FileNotFoundError:  # moved away by another process
                continue
        else:
            return


def _finish_replacement(unfinished: Path) -> None:
    """Moves a complete folder to its destination if the former one was already moved away."""
    for former in unfinished.glob(f"{REPLACED}*/*"):
        complete = unfinished / former.name
        if complete.exists() and not (unfinished.parent / former.name).exists():
            os.replace(complete, unfinished.parent / former.name)


@contextmanager
def _temporary_folder(path: Path) -> Iterator[Path]:
    """Makes a folder beside a path, which is locked as long as its process lives, and removes it at the end."""
    with _locked(path.parent):  # nobody may see the folder before it is locked
        folder = tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem[:STEM]}{MARK}")
        lock = os.open(Path(folder.name) / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        _try_lock(lock)
    try:
        with folder as name:
            yield Path(name)
    finally:
        os.close(lock)


@contextmanager
def _locked(folder: Path) -> Iterator[bool]:
    """Holds a lock on a folder; yields whether the file system has such locks."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            locked = True
        except OSError:
            locked = False
        yield locked
    finally:
        os.close(handle)


def _is_abandoned(folder: Path, *, alone: bool) -> bool:
    """Whether the process that made a temporary folder no longer exists; `alone` if none can make one at present."""
    try:
        lock = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:  # its process was killed before it had a lock, or has just removed the folder
        return alone or _age(folder) > OLD
    except OSError:  # of another user
        return False
    try:
        return _age(folder) > OLD if (free := _try_lock(lock)) is None else free
    finally:
        os.close(lock)


def _try_lock(handle: int) -> bool | None:
    """Locks an open file. Returns False if another process holds the lock, None if locks are not available."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
