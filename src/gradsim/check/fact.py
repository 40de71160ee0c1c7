"""One line of a check: what was expected, what came out, and how far apart they may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A measured number beside the number it should be."""

    topic: str  # what was simulated
    name: str  # what was measured
    expected: float
    got: float
    error: float  # as the check defines it, relative where that makes sense
    tolerance: float

    @property
    def ok(self) -> bool:
        return bool(self.error <= self.tolerance)  # False for NaN

    def as_dict(self) -> dict[str, str | float | bool]:
        """Plain values, for JSON."""
        numbers = {name: float(getattr(self, name)) for name in ("expected", "got", "error", "tolerance")}
        return {"topic": self.topic, "name": self.name, **numbers, "ok": self.ok}


def relative(topic: str, name: str, expected: float, got: float, tolerance: float) -> Fact:
    """A fact judged by its relative error."""
    return Fact(topic, name, expected, got, abs(got - expected) / abs(expected), tolerance)


def small(topic: str, name: str, got: float, tolerance: float) -> Fact:
    """A fact that should be zero, `got` already being a ratio to its natural scale."""
    return Fact(topic, name, 0.0, got, abs(got), tolerance)
