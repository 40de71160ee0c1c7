"""Amounts in words."""

from __future__ import annotations

import math
from collections.abc import Callable

Text = Callable[[float], str]


def number(value: float) -> str:
    """Returns a number with two or three digits, without an exponent where that is readable."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def of(phrase: str, unit: str = "", *, factor: float = 1.0) -> Text:
    """Returns "a camera yaw of 0.5 degrees"."""

    def text(amount: float) -> str:
        value = amount * factor
        plural = "s" if unit in ("degree", "frame") and number(value) != "1" else ""
        return f"{article(phrase)} {phrase} of {number(value)}{' ' if unit else ''}{unit}{plural}"

    return text


def larger(phrase: str, *, log_unit: float = 0.01, words: tuple[str, str] = ("larger", "smaller")) -> Text:
    """Returns "a 1.2 % larger scale of box" for the change of a logarithm, in multiples of `log_unit`."""

    def text(amount: float) -> str:
        percent = 100.0 * math.expm1(amount * log_unit)
        first = number(abs(percent))
        return f"{'an' if first.startswith(('8', '11', '18')) else 'a'} {first} % {words[percent < 0]} {phrase}"

    return text


def shifted(phrase: str, axis: str, unit: str) -> Text:
    """Returns "a start of box off by 0.01 m along +x"."""
    return lambda amount: (
        f"{article(phrase)} {phrase} off by {number(abs(amount))} {unit} along {'-+'[amount >= 0]}{axis}"
    )


def article(phrase: str) -> str:
    return "an" if phrase[0] in "aeiou" else "a"


def shifted_by(phrase: str, unit: str) -> Text:
    """Returns "an angle of rod at the start 1 degrees larger"."""
    return lambda a: f"{article(phrase)} {phrase} {number(abs(a))} {unit} {'larger' if a >= 0 else 'smaller'}"
