"""Validation of the options of rasterizers."""

from __future__ import annotations

from gradsim.scene.errors import OutOfRange, WrongType


def check_option(name: str, value: object, *, low: float, high: float) -> None:
    """Raises unless an option is a number from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WrongType(name, repr(value), f"must be a number from {low:g} to {high:g}")
    if not low <= value <= high:
        raise OutOfRange(name, value, f"must be from {low:g} to {high:g}")
