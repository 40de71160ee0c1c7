"""A body that slides along a straight line: down an incline, or on a level floor until it stops."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import Draft, draft_scene, sliding_block
from gradsim.footage.motions.path import ImagePath, MotionFit, Predict, fit_motion
from gradsim.footage.motions.view import View

NAME = "slide"
MAX_ANGLE = math.radians(75)  # of an incline; steeper paths are falls


def fit_slide(path: ImagePath) -> MotionFit | None:
    """Fits motion with constant acceleration along a straight line."""
    return fit_motion(NAME, path, _fit, 5)


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    t = path.times - path.times[0]
    if len(path) < 4:
        return None
    weights = 1.0 / path.tolerance
    center = np.average(path.points, axis=0, weights=weights**2)
    _, _, axes = np.linalg.svd((path.points - center) * weights[:, None], full_matrices=False)
    along = axes[0] if (path.points[-1] - path.points[0]) @ axes[0] > 0 else -axes[0]
    angle = math.atan2(along[1], abs(along[0]))  # below the horizontal, positive downhill
    if abs(angle) > MAX_ANGLE:
        return None
    s = (path.points - center) @ along
    basis = np.stack([np.ones_like(t), t, 0.5 * t * t], 1)
    x = np.linalg.lstsq(basis * weights[:, None], s * weights, rcond=None)[0]

    def predict(times: NDArray[np.float64]) -> NDArray[np.float64]:
        places = np.stack([np.ones_like(times), times, 0.5 * times * times], 1) @ x
        return center + places[:, None] * along

    start = center + x[0] * along
    numbers = {"start_x": float(start[0]), "start_y": float(start[1]), "speed": float(x[1])}
    numbers |= {"acceleration": float(x[2]), "angle": angle, "right": float(np.sign(along[0]) or 1.0)}
    return predict, numbers


def draft_slide(fit: MotionFit, view: View) -> Draft:
    """Returns a scene with a block on an incline; its friction is estimated, with known gravity and scale."""
    body, ground, camera, gravity = sliding_block(view.required_scale(NAME), fit.numbers)
    return draft_scene(view, body, ("ground.mu",), gravity=gravity, ground=ground, camera=camera)
