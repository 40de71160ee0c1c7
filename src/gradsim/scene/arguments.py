"""Checks of single arguments: whole numbers, real numbers, truth values and functions."""

from __future__ import annotations

import math
import operator
import os
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.spelling import abbreviate

MOST = 10**9  # of anything that is counted


def checked_whole(name: str, value: Any, low: int = 1, high: int = MOST) -> int:
    """Returns a whole number from `low` to `high`.

    Raises:
        OutOfRange: It is another number, or none.
    """
    try:
        number = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except (TypeError, RuntimeError):  # RuntimeError of tensors
        number = None
    if number is None or not low <= number <= high:
        raise OutOfRange(name, abbreviate(value), f"must be a whole number from {low} to {high}")
    return number


def checked_number(name: str, value: Any, *, low: float = -math.inf, above: float = -math.inf) -> float:
    """Returns a finite number that is at least `low` and larger than `above`.

    Raises:
        WrongType: It is not a real number.
        OutOfRange: It is out of range, infinite or NaN.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.floating, np.integer)):
        raise WrongType(name, abbreviate(value), "must be a number")
    if not (low <= value < math.inf and value > above):
        bounds = [f">= {low:g}"] if low > -math.inf else []
        bounds += [f"> {above:g}"] if above > -math.inf else []
        raise OutOfRange(name, abbreviate(value), f"must be {' and '.join([*bounds, 'finite'])}")
    return float(value)


def check_flag(name: str, value: Any) -> None:
    """Raises WrongType unless a value is True or False."""
    if not isinstance(value, bool):
        raise WrongType(name, abbreviate(value), "must be True or False")


def check_function(name: str, value: Any, arguments: str) -> None:
    """Raises WrongType unless a value can be called; `arguments` states with what."""
    if not callable(value):
        raise WrongType(name, abbreviate(value), f"must be a function of {arguments}")


def checked_path(name: str, value: Any) -> Path:
    """Returns the path of a file or folder.

    Raises:
        WrongType: The value is no path.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        raise WrongType(name, abbreviate(value), "must be the path of a file or folder, a text or pathlib.Path")
    return Path(text)
