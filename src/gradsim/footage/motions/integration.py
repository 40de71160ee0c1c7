"""Integration of the equations of a swing over the times of the frames, for several sets of numbers at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
MAX_STEPS = 200  # between two frames


def integrate(slope: Callable[[Array], Array], state: Array, times: Array, step: float) -> Array:
    """Returns the states at some times [..., N, n], by the classical Runge-Kutta method.

    Args:
        slope: Time derivative of a state [..., n].
        state: At time 0 [..., n].
        times: Increasing times [N] [s]; the first may be negative.
        step: Largest time step [s].
    """
    now, found = 0.0, []
    for t in times:
        count = int(np.clip(np.ceil(abs(t - now) / step), 1, MAX_STEPS))
        h = (t - now) / count
        for _ in range(count if t != now else 0):
            k1 = slope(state)
            k2 = slope(state + h / 2 * k1)
            k3 = slope(state + h / 2 * k2)
            k4 = slope(state + h * k3)
            state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        now = t
        found.append(state)
    return np.stack(found, -2)
