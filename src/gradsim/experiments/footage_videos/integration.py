"""Trajectories by the classical Runge-Kutta method with impacts, independent of gradsim's simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Derivative = Callable[[Array], Array]

STEP = 1e-3  # [s]
BISECTIONS = 40


@dataclass(frozen=True, eq=False)
class Impact:
    """An instantaneous change of the state where a distance reaches zero from above.

    Args:
        distance: Distance from a surface as a function of the state [m].
        rebound: State after the impact as a function of the state before.
    """

    distance: Callable[[Array], float]
    rebound: Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Solution:
    """States at the nodes of an integration. An impact has two nodes at the same time.

    Args:
        times: Times of the nodes [N] [s].
        states: States [N, S].
        rates: Derivatives of the states [N, S].
        impacts: Indices of the nodes right before impacts.
    """

    times: Array
    states: Array
    rates: Array
    impacts: tuple[int, ...] = ()

    def __call__(self, times: Array) -> Array:
        """Returns the states [M, S] at times [M] by cubic Hermite interpolation; up to 20 ms outside is accurate."""
        last = np.searchsorted(self.times, self.times[-1], side="left") - 1
        first = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, last)
        step = (self.times[first + 1] - self.times[first])[:, None]
        s = (np.asarray(times) - self.times[first])[:, None] / step
        a, b = self.states[first], self.states[first + 1]
        da, db = self.rates[first] * step, self.rates[first + 1] * step
        return a + s * (da + s * (3 * (b - a) - 2 * da - db + s * (2 * (a - b) + da + db)))


def integrate(derivative: Derivative, state: Array, duration: float, impact: Impact | None = None) -> Solution:
    """Integrates from time 0 to `duration` [s] with steps of 1 ms."""
    nodes = [(0.0, np.asarray(state, float))]
    impacts: list[int] = []
    while nodes[-1][0] < duration:
        time, before = nodes[-1]
        after = runge_kutta(derivative, before, STEP)
        if impact is None or impact.distance(after) >= 0:
            nodes.append((time + STEP, after))
            continue
        step = _time_of_impact(derivative, before, impact)
        contact = runge_kutta(derivative, before, step)
        impacts.append(len(nodes))
        nodes += [(time + step, contact), (time + step, impact.rebound(contact))]
    times, states = np.array([node[0] for node in nodes]), np.array([node[1] for node in nodes])
    return Solution(times, states, np.array([derivative(own) for own in states]), tuple(impacts))


def runge_kutta(derivative: Derivative, state: Array, step: float) -> Array:
    """Returns the state after one step of the classical fourth-order method."""
    k1 = derivative(state)
    k2 = derivative(state + step / 2 * k1)
    k3 = derivative(state + step / 2 * k2)
    k4 = derivative(state + step * k3)
    return np.asarray(state + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4))


def _time_of_impact(derivative: Derivative, state: Array, impact: Impact) -> float:
    """Returns the largest step that ends above the surface, found by bisection [s]."""
    low, high = 0.0, STEP
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if impact.distance(runge_kutta(derivative, state, middle)) >= 0:
            low = middle
        else:
            high = middle
    return low
