"""Atomic writing of files and folders."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from gradsim.scene.errors import InvalidInput


def write_atomically(path: Path, write: Callable[[Path], object], error: type[InvalidInput]) -> None:
    """Writes a file or folder atomically: to a temporary folder beside its destination, then moved into place.

    Args:
        path: Destination. An existing file, or folder with its contents, is replaced.
        write: Called with the temporary path to write to, which has the same name as the destination.
        error: Raised if the parent folder of the destination does not exist.

    Raises:
        OSError: The disk is full or the folder read-only; names the destination.
    """
    if not path.parent.is_dir():
        raise error(str(path), "no such folder", "needs an existing folder: create it first")
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as folder:
            target = Path(folder) / path.name
            write(target)
            if path.is_dir():
                path.rename(Path(folder) / "replaced")  # deleted with the temporary folder
            os.replace(target, path)
    except OSError as failure:
        raise OSError(failure.errno, failure.strerror or str(failure), str(path)) from failure
