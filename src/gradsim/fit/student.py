"""Half widths of 95 % intervals, in standard deviations."""

from __future__ import annotations

NORMAL_95 = 1.959964  # of a normal distribution
_STUDENT_95 = {
    1: 12.7062,
    2: 4.3027,
    3: 3.1824,
    4: 2.7764,
    5: 2.5706,
    6: 2.4469,
}  # of Student's distribution by degrees of freedom


def student_95(freedom: int) -> float:
    """Half width of the 95 % interval of Student's distribution, to 0.05 %; a series beyond 6 degrees of freedom."""
    series = NORMAL_95 + 2.3723 / freedom + 2.8225 / freedom**2 + 2.5558 / freedom**3 + 1.5895 / freedom**4
    return _STUDENT_95.get(freedom, series)
