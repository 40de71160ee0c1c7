"""HTML of objects in notebooks."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from typing import Any


@singledispatch
def to_html(value: Any) -> str:
    """Returns an object as HTML, for `_repr_html_`; `gradsim.report.notebook` registers a function for each class."""
    return f"<pre>{escape(str(value))}</pre>"
