"""A double pendulum: a bob that swings on a rod, and a second one that hangs from the first.

Rods are taken as light first. If such a pendulum does not follow the path, their masses are fitted too: two bars with
marks on them have no bobs at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import BODY, Draft, double_pendulum_body, draft_scene
from gradsim.footage.motions.integration import integrate
from gradsim.footage.motions.path import ImagePath, MotionFit, Predict, fit_motion, gauss_newton
from gradsim.footage.motions.view import View

NAME = "double_pendulum"
NUMBERS = (
    *("pivot_x", "pivot_y", "length_1", "length_2", "angle_1", "angle_2", "speed_1", "speed_2"),
    *("gravity", "log_ratio", "damping", "log_rod_1", "log_rod_2"),
)  # [px], [rad], [rad/s], [px/s^2], logarithms of the second mass over the first and of rods over their bobs, [1/s]
STEP = 0.25  # largest time step, in square roots of length over gravity
MAX_RATIO = 20.0  # of the masses
LIGHT, HEAVY = np.log(1e-3), np.log(0.5)  # rods that are not fitted, and those that a fit begins with
RODS = 2  # numbers at the end that describe the rods
USUAL = np.array([0.0, 0.0, HEAVY, HEAVY])  # the last four numbers, which short parts of a path hardly determine
USUAL_SD = np.array([1.5, 0.5, 2.0, 2.0])  # their standard deviations in a fit
TURN = np.pi  # of a path around its pivot that shows the pivot wherever it is [rad]
MAX_DAMPING = 2.0  # [1/s]
MAX_SPEED = 60.0  # of a rod in a fit [rad/s]: a trial step beyond it overflows
ACCELERATION_TIME = 0.22  # over which an acceleration is measured [s]
ACCELERATION_FRAMES = (7, 21)  # least and most of them
HORIZONS = (0.25, 0.5)  # parts of a path that are fitted first
SHARES = (0.7,)  # of a path, of the parts that are tried
MAX_EXCESS = 4.0  # mean squared residual in tolerances beyond which another first guess is tried
LIGHT_EXCESS = 0.5  # and beyond which rods are not taken as light

Array = NDArray[np.float64]


def fit_double_pendulum(path: ImagePath) -> MotionFit | None:
    """Fits a double pendulum to the paths of its lower and its upper bob."""
    return fit_motion(NAME, path, _fit, len(NUMBERS), SHARES)


def bobs(numbers: Array, times: Array) -> Array:
    """Returns the positions of the lower and the upper bob (x, y, x, y), y down [..., N, 4] [px].

    Args:
        numbers: Values of NUMBERS [..., 13].
        times: Increasing times [N] [s]; the first may be negative.
    """
    x, y, first, second = (numbers[..., k, None] for k in range(4))
    a, b = np.moveaxis(_angles(numbers, times), -1, 0)
    upper = np.stack([x + first * np.sin(a), y + first * np.cos(a)], -1)
    lower = upper + np.stack([second * np.sin(b), second * np.cos(b)], -1)
    return np.concatenate([lower, upper], -1)


def _angles(numbers: Array, times: Array) -> Array:
    """Returns both angles from straight down [..., N, 2] [rad]."""
    shortest = max(float(np.abs(numbers[..., 2:4]).min()), 1e-3)
    rate = np.sqrt(max(float(np.abs(numbers[..., 8]).max()), 1e-6) / shortest)
    states = integrate(lambda state: _slope(numbers, state), numbers[..., 4:8], times, STEP / rate)
    return states[..., :2]


def _slope(numbers: Array, state: Array) -> Array:
    """Returns the derivative of both angles and their rates [..., 4], for point masses on uniform rods."""
    first, second, gravity = numbers[..., 2], numbers[..., 3], numbers[..., 8]
    limit = np.log(MAX_RATIO)
    ratio, rod, other = np.moveaxis(np.exp(np.clip(numbers[..., [9, 11, 12]], -2.5 * limit, limit)), -1, 0)
    other = ratio * other
    damping = np.clip(numbers[..., 10], -MAX_DAMPING, MAX_DAMPING)
    a, b, u, v = np.moveaxis(state, -1, 0)
    u, v = np.clip(u, -MAX_SPEED, MAX_SPEED), np.clip(v, -MAX_SPEED, MAX_SPEED)
    cos, sin = np.cos(a - b), np.sin(a - b)
    # upper l1 a'' + lever l2 cos b'' = p,  lever l1 cos a'' + lower l2 b'' = q
    upper, lever, lower = 1 + ratio + other + rod / 3, ratio + other / 2, ratio + other / 3
    p = -lever * second * sin * v * v - (1 + ratio + other + rod / 2) * gravity * np.sin(a)
    q = lever * (first * sin * u * u - gravity * np.sin(b))
    inertia = upper * lower - (lever * cos) ** 2
    bend_a = (lower * p - lever * cos * q) / (first * inertia)
    bend_b = (upper * q - lever * cos * p) / (second * inertia)
    return np.stack([u, v, bend_a - damping * u, bend_b - damping * v], -1)


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    if len(path) < 2 * ACCELERATION_FRAMES[0]:
        return None
    t, weights = path.times - path.times[0], np.repeat(1.0 / path.tolerance, 4)

    def residual(numbers: Array, count: int = len(t)) -> Array:
        difference = bobs(numbers, t[:count]) - path.points[:count]
        return difference.reshape(*numbers.shape[:-1], -1) * weights[: 4 * count]

    def objective(numbers: Array, count: int = len(t)) -> Array:
        return np.concatenate([residual(numbers, count), (numbers[..., -4:] - USUAL) / USUAL_SD], -1)

    def light(numbers: Array, count: int = len(t)) -> Array:
        return objective(_with_light_rods(numbers), count)

    parts = [max(2 * ACCELERATION_FRAMES[0], int(share * len(t))) for share in HORIZONS]
    tried = []
    for guess in _first_guesses(t, path.points):
        numbers = guess
        for part in parts:
            numbers = gauss_newton(partial(light, count=part), numbers, 8, batched=True)
        tried.append(_rated(_with_light_rods(gauss_newton(light, numbers, 15, batched=True)), residual))
        if tried[-1][0] < LIGHT_EXCESS:
            break
        numbers = np.concatenate([guess, np.full(RODS, HEAVY)])
        for part in (*parts, len(t)):
            numbers = gauss_newton(partial(objective, count=part), numbers, 15, batched=True)
        tried.append(_rated(numbers, residual))
        if min(tried[-1][0], tried[-2][0]) < MAX_EXCESS:
            break
    misfit, best = min(tried, key=lambda own: own[0], default=(np.inf, np.zeros(0)))
    if not np.isfinite(misfit):
        return None
    return lambda times: bobs(best, times), dict(zip(NUMBERS, best.tolist(), strict=True))


def _with_light_rods(numbers: Array) -> Array:
    """Returns the numbers of a pendulum whose rods have nearly no mass [..., 13]."""
    return np.concatenate([numbers, np.full((*numbers.shape[:-1], RODS), LIGHT)], -1)


def _rated(numbers: Array, residual: Callable[[Array], Array]) -> tuple[float, Array]:
    """Returns the mean squared residual of numbers, infinite if they are impossible, and the numbers."""
    misfit = float((residual(numbers) ** 2).mean())
    return (misfit if np.isfinite(misfit) and _is_possible(numbers) else np.inf), numbers


def _is_possible(numbers: Array) -> bool:
    first, second, gravity, log_ratio = numbers[2], numbers[3], numbers[8], numbers[9]
    swings = np.abs(numbers[4:6]).max() < np.pi
    return bool(min(first, second, gravity) > 0 and abs(log_ratio) < np.log(MAX_RATIO) and swings)


def _first_guesses(t: Array, points: Array) -> Iterator[Array]:
    """Yields guesses of the numbers from the accelerations of the bobs.

    The lower bob is pulled by gravity and along its rod, so that its acceleration across the rod gives gravity. The
    upper one is pulled along both rods, so that its acceleration across its own rod gives the ratio of the masses. The
    length of the first rod is the radius of a circle through the path of the upper bob, or similar to the second.
    """
    lower, upper = points[:, :2], points[:, 2:]
    rod = lower - upper
    second, b = float(np.median(np.hypot(*rod.T))), np.unwrap(np.arctan2(rod[:, 0], rod[:, 1]))
    pull_lower, pull_upper = _accelerations(t, lower), _accelerations(t, upper)
    along, across = _directions(b)
    gravity = -_slope_of((pull_lower * across).sum(1), np.sin(b))
    if not gravity > 0:
        return
    tension = ((np.array([0.0, gravity]) - pull_lower) * along).sum(1)  # of the second rod over the second mass
    for pivot, first in _pivots(upper, second):
        a = np.unwrap(np.arctan2(upper[:, 0] - pivot[0], upper[:, 1] - pivot[1]))
        normal = _directions(a)[1]
        left = (pull_upper * normal).sum(1) + gravity * np.sin(a)
        ratio = float(np.clip(_slope_of(left, tension * (along * normal).sum(1)), 0.2, 5.0))
        starts = [float(np.polyval(np.polyfit(t[:5], own[:5], 2), 0.0)) for own in (a, b)]
        speeds = [float(np.polyfit(t[:5], own[:5], 2)[1]) for own in (a, b)]
        yield np.array([*pivot, first, second, *starts, *speeds, gravity, np.log(ratio), 0.02])


def _directions(angle: Array) -> tuple[Array, Array]:
    """Returns the directions along and across a rod [N, 2], y down."""
    sin, cos = np.sin(angle), np.cos(angle)
    return np.stack([sin, cos], 1), np.stack([cos, -sin], 1)


def _slope_of(y: Array, x: Array) -> float:
    """Returns the factor between two series, by least squares."""
    return float(x @ y / max(float(x @ x), 1e-12))


def _accelerations(t: Array, points: Array) -> Array:
    """Returns the accelerations of a path [N, 2], each from a polynomial through the frames around it."""
    count = int(np.clip(round(ACCELERATION_TIME / float(np.median(np.diff(t)))) + 1, *ACCELERATION_FRAMES))
    count, found = min(count, len(t)), []
    for k in range(len(t)):
        first = int(np.clip(k - count // 2, 0, len(t) - count))
        near = slice(first, first + count)
        found.append(2 * np.polyfit(t[near] - t[k], points[near], 4)[2])
    return np.array(found)


def _pivots(upper: Array, second: float) -> list[tuple[Array, float]]:
    """Returns pivots (x, y) and lengths of the first rod that a path [N, 2] of its bob may have."""
    x, y = upper.T
    (a, b, c), *_ = np.linalg.lstsq(np.stack([2 * x, 2 * y, np.ones_like(x)], 1), x * x + y * y, rcond=None)
    radius = float(np.sqrt(max(c + a * a + b * b, 1.0)))
    found = [(np.array([np.median(x), y.max() - second]), second)]
    turn = np.ptp(np.unwrap(np.arctan2(x - a, y - b)))
    if (b < y.mean() or turn > TURN) and 0.2 * second < radius < 5 * second:
        found.insert(0, (np.array([a, b]), radius))
    return found


def draft_double_pendulum(fit: MotionFit, view: View) -> Draft:
    """Returns a scene with a double pendulum; its lengths and the ratio of its masses are estimated."""
    gravity, scale = view.local_gravity, fit.numbers["gravity"] / view.gravity_or_standard
    view = view.with_scale_guess(scale)
    body, camera = double_pendulum_body(view, fit.numbers, scale), view.camera(faces=False)
    wanted = (f"{BODY}.lengths[0]", f"{BODY}.lengths[1]", f"{BODY}.masses[{0 if view.mass else 1}]")
    return draft_scene(view, body, wanted, gravity=gravity, camera=camera)
