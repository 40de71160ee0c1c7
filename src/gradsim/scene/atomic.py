"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from gradsim.scene.errors import InvalidInput


def write_atomically(path: Path, write: Callable[[Path], object], error: type[InvalidInput]) -> None:
    """Write a file or folder beside its place, then move it there, so that no reader meets half of it.

    Args:
        path: Where it shall be. What is there is replaced, a folder with all it holds.
        write: Called with a path of the same name, in a folder of its own, to write to.
        error: Raised where there is no folder to write in.
    """
    if not path.parent.is_dir():
        raise error(str(path), "no such folder", "needs an existing folder: create it first")
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.stem}-") as folder:
        target = Path(folder) / path.name
        write(target)
        if path.is_dir():
            path.rename(Path(folder) / "replaced")  # goes with the temporary folder
        os.replace(target, path)
