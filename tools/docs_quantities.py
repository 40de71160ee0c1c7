"""Extension of Griffe for the reference: defaults of quantities are shown as values, units beside their descriptions.

`mass: Quantity = quantity(1.0, "kg", low=0.0)` has the default 1.0; the call only declares its unit and range.
"""

from __future__ import annotations

import ast
from typing import Any

import griffe

DECLARATION = "quantity"


def shown_default(default: str) -> str:
    """Returns the value of a default that is declared with its unit and range; any other default unchanged."""
    try:
        call: Any = ast.parse(default, mode="eval").body
    except SyntaxError:
        return default
    if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != DECLARATION or not call.args:
        return default
    return ast.unparse(call.args[0])


class QuantityDefaults(griffe.Extension):
    """Replaces the defaults of fields, before parameters of dataclasses are made of them."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Visits a field or another attribute."""
        if attr.value is not None:
            shown = shown_default(str(attr.value))
            if shown != str(attr.value):
                attr.value = shown
