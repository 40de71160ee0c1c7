"""Output folders and JSON files."""

from __future__ import annotations

import json
from pathlib import Path

from gradsim.cli.console import console, stderr
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput


def make_folder(folder: Path) -> None:
    """Creates a folder and its parents. Raises InvalidInput if that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("output", str(folder), f"the folder cannot be created ({error.strerror})") from error


def write_json(path: Path, content: object) -> None:
    """Writes JSON to a file, creating its folder, or to the standard output if the path is "-"."""
    text = json.dumps(content, indent=2) + "\n"
    if str(path) == "-":
        console.print_line(text.removesuffix("\n"))
        return
    make_folder(path.parent)
    write_atomically(path, lambda target: target.write_text(text), InvalidInput)
    stderr.print_line(f"wrote {path}")
