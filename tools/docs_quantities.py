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
    """Replaces defaults of the parameters of dataclasses."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Visits all classes once the package is loaded and the parameters of dataclasses are known."""
        self._visit(pkg)

    def _visit(self, item: Any) -> None:
        for member in item.members.values():
            if member.is_alias:
                continue
            if member.is_class:
                self._replace(member)
            if member.is_class or member.is_module:
                self._visit(member)

    def _replace(self, item: Any) -> None:
        init = item.members.get("__init__")
        if init is None or init.is_alias:
            return
        for parameter in init.parameters:
            if parameter.default is not None:
                parameter.default = shown_default(str(parameter.default))
