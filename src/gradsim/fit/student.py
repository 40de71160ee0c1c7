"""Half widths of 95 % intervals, in standard deviations."""

from __future__ import annotations

NORMAL_95 = 1.959964  # of a normal distribution
_STUDENT_95 = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228, 15: 2.131,
    20: 2.086, 30: 2.042, 60: 2.0, 120: 1.98,
}  # fmt: skip


def student_95(freedom: int) -> float:
    """Half width of the 95 % interval of Student's distribution; between tabulated degrees of freedom the wider."""
    return _STUDENT_95[max(k for k in _STUDENT_95 if k <= freedom)]
