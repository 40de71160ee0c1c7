"""Suggestions for misspelt names in error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns a suggestion such as "did you mean 'cube.mass'? ", or "" if no known name is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {matches[0]!r}? " if matches else ""
