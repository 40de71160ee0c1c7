"""The result of a check: an expected value, the computed value, and the tolerance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str], object]  # called with the name of a check before it runs


def no_progress(text: str) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class CheckResult:
    """A computed value and the value expected of it."""

    topic: str  # the scene or system
    name: str  # the quantity, with its unit
    expected: float
    got: float
    error: float  # as the check defines it, relative where possible
    tolerance: float

    @property
    def ok(self) -> bool:
        return bool(self.error <= self.tolerance)  # False for NaN

    def as_dict(self) -> dict[str, str | float | bool]:
        """Returns plain values, for JSON."""
        numbers = {name: float(getattr(self, name)) for name in ("expected", "got", "error", "tolerance")}
        return {"topic": self.topic, "name": self.name, **numbers, "ok": self.ok}


def expect_close(topic: str, name: str, expected: float, got: float, tolerance: float) -> CheckResult:
    """Returns a result with the relative error of `got`."""
    return CheckResult(topic, name, expected, got, abs(got - expected) / abs(expected), tolerance)


def expect_zero(topic: str, name: str, got: float, tolerance: float) -> CheckResult:
    """Returns a result whose expected value is zero; `got` is a ratio to its natural scale."""
    return CheckResult(topic, name, 0.0, got, abs(got), tolerance)
