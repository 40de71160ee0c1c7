"""The text of the page: one self-contained file with the facts about the recording in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from pathlib import Path
from string import Template

from gradsim.footage.choices import Choices
from gradsim.footage.recording import Recording

HERE = Path(__file__).parent
SCRIPTS = ("picture.js", "choices.js", "page.js")


def page_text(shown: Recording, choices: Choices, motions: Mapping[str, str], nonce: str) -> str:
    """Returns the HTML of the page.

    Args:
        shown: The frames that the page shows.
        choices: What is chosen when the page opens.
        motions: Kinds of motion to choose from: name and description.
        nonce: Marks style and script as the page's own, for the content security policy.
    """
    return Template(_read("page.html")).substitute(
        nonce=nonce,
        title=escape(shown.path.name),
        style=_read("page.css"),
        data=_embedded_json(_facts(shown, choices, motions)),
        script="\n".join(map(_read, SCRIPTS)),
    )


def _facts(shown: Recording, choices: Choices, motions: Mapping[str, str]) -> dict[str, object]:
    height, width = shown.size
    times = (round(float(time), 4) for time in shown.times)
    return {
        "file": str(shown.path),
        "width": width,
        "height": height,
        "frames": [{"number": number, "time": time} for number, time in zip(shown.numbers, times, strict=True)],
        "motions": list(motions.items()),
        "choices": asdict(choices),
    }


def _embedded_json(facts: dict[str, object]) -> str:
    """Returns JSON that cannot end the script element it stands in, whatever the names contain."""
    return json.dumps(facts).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
