"""Texts of error messages: suggestions for misspelt names, and values in few characters."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

SHORT = 60  # characters of an abbreviated value

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother = 4, SHORT, SHORT
_REPR.maxlist = _REPR.maxtuple = _REPR.maxdict = _REPR.maxset = 12


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a suggestion such as "did you mean 'cube.mass'? ", or "" if no known name is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {matches[0]!r}? " if matches else ""


def abbreviate(value: Any) -> str:
    """Returns the repr of a value, cut to 60 characters. The repr of a large value is not computed as a whole."""
    text = _REPR.repr(value)
    return text if len(text) <= SHORT else f"{text[: SHORT - 3]}..."
