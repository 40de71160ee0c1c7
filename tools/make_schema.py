"""Writes the JSON schema of scene files, which editors use; run it after a scene object has changed."""

from __future__ import annotations

import json
from pathlib import Path

import gradsim as gs

FILE = Path(gs.__file__).parent / "scenes" / "scene.schema.json"


def schema_text() -> str:
    """Returns the text of the file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **gs.scene_schema(), "title": "gradsim scene"}
    return json.dumps(schema, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(schema_text(), encoding="utf-8")
    print(FILE)
