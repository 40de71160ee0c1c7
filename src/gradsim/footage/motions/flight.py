"""Free flight: a body that falls or is thrown, and touches nothing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import BODY, Draft, ball, draft_scene
from gradsim.footage.motions.path import ImagePath, MotionFit, Predict, fit_motion, point
from gradsim.footage.motions.view import View

NAME = "flight"


def fit_flight(path: ImagePath) -> MotionFit | None:
    """Fits constant acceleration to a path."""
    return fit_motion(NAME, path, _fit, 6)


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    t = path.times - path.times[0]
    if len(path) < 4:
        return None
    weights = 1.0 / path.tolerance[:, None]
    basis = np.stack([np.ones_like(t), t, 0.5 * t * t], 1)
    x = np.linalg.lstsq(basis * weights, path.points * weights, rcond=None)[0]

    def predict(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([np.ones_like(times), times, 0.5 * times * times], 1) @ x

    names = [f"{name}_{axis}" for name in ("start", "speed", "acceleration") for axis in "xy"]
    return predict, dict(zip(names, x.ravel().tolist(), strict=True))


def draft_flight(fit: MotionFit, view: View) -> Draft:
    """Returns a scene in which a ball flies; gravity is estimated if the scale of the picture is known."""
    fall = fit.numbers["acceleration_y"]
    view = view.scaled_by_gravity(fall)
    body = ball(view, point(fit, "start"), point(fit, "speed"))
    wanted = (f"{BODY}.velocity[0]", f"{BODY}.velocity[1]")
    camera = view.camera(lens_varies=True)  # perspective shows motion along the view
    return draft_scene(view, body, wanted, gravity=view.gravity_quantity(fall), camera=camera)
