"""A pendulum: a bob that swings on a thread or a light rod."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import BODY, Draft, draft_scene, pendulum_body
from gradsim.footage.motions.integration import integrate
from gradsim.footage.motions.path import ImagePath, MotionFit, Predict, fit_motion, gauss_newton
from gradsim.footage.motions.view import View

NAME = "pendulum"
MIN_TURN = 0.35  # part of a period that the path must show
MAX_DAMPING = 5.0  # in a fit [1/s]
STEP = 0.02  # largest time step, in periods


def fit_pendulum(path: ImagePath) -> MotionFit | None:
    """Fits the motion of a damped pendulum to a path."""
    return fit_motion(NAME, path, _fit, 7)


def angles(numbers: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the angles of a pendulum [..., N] [rad].

    Args:
        numbers: Square root of gravity over length [rad/s], angle [rad] and speed [rad/s] at time 0, and decay rate of
            the speed [1/s], [..., 4].
        times: Increasing times [N] [s]; the first may be negative.
    """
    rate, angle, speed, damping = np.moveaxis(numbers, -1, 0)

    def slope(state: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([state[..., 1], -(rate**2) * np.sin(state[..., 0]) - damping * state[..., 1]], -1)

    step = 2 * np.pi * STEP / max(float(np.abs(rate).max()), 1e-6)
    return integrate(slope, np.stack([angle, speed], -1), times, step)[..., 0]


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    t, (x, y) = path.times - path.times[0], path.points.T
    start = _first_guess(t, x, y)
    if start is None:
        return None
    weights = np.repeat(1.0 / path.tolerance, 2)

    def positions(numbers: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
        limited = np.where(np.arange(4) == 3, np.clip(numbers[..., :4], -MAX_DAMPING, MAX_DAMPING), numbers[..., :4])
        pivot_x, pivot_y, length = (numbers[..., k, None] for k in (4, 5, 6))
        swing = angles(limited, times)
        return np.stack([pivot_x + length * np.sin(swing), pivot_y + length * np.cos(swing)], -1)

    def residual(numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return (positions(numbers, t) - path.points).reshape(*numbers.shape[:-1], -1) * weights

    numbers = gauss_newton(residual, start, batched=True)
    rate, angle, speed, _, _, _, length = numbers
    if not np.isfinite(numbers).all() or length <= 0 or abs(rate) * t[-1] < MIN_TURN * 2 * np.pi:
        return None
    if np.hypot(angle, speed / rate) > np.pi:
        return None
    names = ("rate", "angle", "speed", "damping", "pivot_x", "pivot_y", "length")
    return lambda times: positions(numbers, times), dict(zip(names, numbers.tolist(), strict=True))


def _first_guess(t: NDArray[np.float64], x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Returns rate, angle, speed, damping, pivot and length from the harmonic motion along x and the arc of the path.

    The rate is the best of a range of values; the length in pixels is the radius of a circle through the path.
    """
    if len(t) < 6 or np.ptp(x) < 2 or np.ptp(x) < 0.5 * np.ptp(y):
        return None
    rates = 2 * np.pi / t[-1] * np.geomspace(MIN_TURN, max(2.0, len(t) / 5), 120)
    misfits, fits = [], []
    for rate in rates:
        basis = np.stack([np.ones_like(t), np.cos(rate * t), np.sin(rate * t)], 1)
        own = np.linalg.lstsq(basis, x, rcond=None)[0]
        fits.append(own)
        misfits.append(float(((basis @ own - x) ** 2).sum()))
    best = int(np.argmin(misfits))
    rate, (center, cosine, sine) = rates[best], fits[best]
    # A circle x^2 + y^2 = 2 a x + 2 b y + c; its lowest point is below the pivot in the picture.
    basis = np.stack([2 * x, 2 * y, np.ones_like(x)], 1)
    a, b, c = np.linalg.lstsq(basis, x * x + y * y, rcond=None)[0]
    radius = float(np.sqrt(max(c + a * a + b * b, 1.0)))
    amplitude = float(np.hypot(cosine, sine))
    if b > y.mean() or radius < amplitude:
        radius = 3 * amplitude
        b = float(y.max() - radius)
    else:
        center = a
    return np.array([rate, cosine / radius, sine * rate / radius, 0.02, center, b, radius])


def draft_pendulum(fit: MotionFit, view: View) -> Draft:
    """Returns a scene with a pendulum; its length is estimated, with known gravity."""
    length = view.gravity_or_standard / fit.numbers["rate"] ** 2  # [m]
    gravity = view.local_gravity
    view = view.with_scale_guess(fit.numbers["length"] / length)
    body, camera = pendulum_body(view, fit.numbers, length), view.camera(faces=False)
    return draft_scene(view, body, (f"{BODY}.length", f"{BODY}.damping"), gravity=gravity, camera=camera)
