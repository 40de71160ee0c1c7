"""A mass on a spring: damped oscillation along a straight line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import BODY, Draft, draft_scene, spring_body
from gradsim.footage.motions.path import ImagePath, MotionFit, Predict, fit_motion, gauss_newton
from gradsim.footage.motions.view import View

NAME = "oscillation"
MIN_TURN = 0.6  # part of a period that the path must show


def fit_oscillation(path: ImagePath) -> MotionFit | None:
    """Fits a damped oscillation along a straight line."""
    return fit_motion(NAME, path, _fit, 7)


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    t = path.times - path.times[0]
    if len(path) < 6:
        return None
    center = path.points.mean(0)
    _, _, axes = np.linalg.svd(path.points - center, full_matrices=False)
    along, weights = axes[0], 1.0 / path.tolerance
    s = (path.points - center) @ along
    start = _first_guess(t, s)
    numbers = gauss_newton(lambda own: (displacements(own, t) - s) * weights, start)
    middle, _, _, rate, decay = numbers
    if abs(rate) * t[-1] < MIN_TURN * 2 * np.pi or decay < -0.5 / max(t[-1], 1e-9):
        return None

    def predict(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return center + displacements(numbers, times)[:, None] * along

    rest = center + middle * along
    names = ("middle", "cosine", "sine", "rate", "decay")
    values = dict(zip(names, numbers.tolist(), strict=True))
    values |= {"rest_x": float(rest[0]), "rest_y": float(rest[1]), "along_x": float(along[0])}
    return predict, values | {"along_y": float(along[1])}


def displacements(numbers: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns middle + (cosine cos(rate t) + sine sin(rate t)) exp(-decay t) [N] [px]."""
    middle, cosine, sine, rate, decay = numbers
    envelope = np.exp(np.clip(-decay * times, -20.0, 20.0))
    return middle + (cosine * np.cos(rate * times) + sine * np.sin(rate * times)) * envelope


def _first_guess(t: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    best, found = np.inf, np.zeros(5)
    for rate in 2 * np.pi / t[-1] * np.geomspace(MIN_TURN, max(2.0, len(t) / 4), 150):
        basis = np.stack([np.ones_like(t), np.cos(rate * t), np.sin(rate * t)], 1)
        own = np.linalg.lstsq(basis, s, rcond=None)[0]
        misfit = float(((basis @ own - s) ** 2).sum())
        if misfit < best:
            best, found = misfit, np.array([*own, rate, 0.05 / t[-1]])
    return found


def draft_oscillation(fit: MotionFit, view: View) -> Draft:
    """Returns a scene with a mass on a spring; its stiffness is estimated, for the given mass."""
    view = view.with_any_scale()
    body, camera = spring_body(view, fit.numbers)
    wanted = (f"{BODY}.stiffness", f"{BODY}.damping")
    return draft_scene(view, body, wanted, gravity=(0.0, 0.0, 0.0), camera=camera)
