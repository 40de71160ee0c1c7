"""Motion along the view, from the perspective of a path.

An object that comes closer seems to move faster. The curvature of a thrown path then changes along it. Speeds along the
view are relative to the distance of the camera, because no picture shows more than that.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.measured import Measured
from gradsim.footage.motions.draft import AIR, DENSITY, DENSITY_SD, DEPTH_SPEED, DRAG_SD
from gradsim.footage.motions.integration import integrate
from gradsim.footage.motions.path import ImagePath, MotionFit, gauss_newton, point
from gradsim.footage.motions.view import View

Array = NDArray[np.float64]
CORRELATED = 2.0  # factor of the standard deviation, because errors of centres last for several frames
STEP = 1e-4  # of differences
SOURCE = "the perspective of the path"


def flight_drift(path: ImagePath, fit: MotionFit, view: View) -> Measured:
    """Returns the speed towards the camera of a thrown body at its start, over its distance [1/s].

    Args:
        path: Its path, in the frames of the motion.
        fit: The fit of a flight to it.
        view: Camera, and the mass of the body if that is known.
    """
    model = _Flight(path, view)
    fall = fit.numbers["acceleration_y"]
    start = np.array([*point(fit, "start"), *point(fit, "speed"), fall, 0.0, 0.0, 0.0, 0.0])
    start[:2] -= model.middle
    numbers = gauss_newton(model.residual, start, 15, batched=True)
    steps = STEP * np.maximum(np.abs(start), 1e-2)
    moved = [model.residual(numbers + sign * np.diag(steps)) for sign in (1, -1)]
    J = (moved[0] - moved[1]) / (2 * steps[:, None])
    left = model.residual(numbers)[: -len(model.deviations)]
    inflation = CORRELATED**2 * max(1.0, float(left @ left) / max(len(left) - 6, 1))
    data, priors = J[:, : len(left)], J[:, len(left) :]
    covariance = np.linalg.inv(data @ data.T / inflation + priors @ priors.T)
    return Measured(float(numbers[5]), math.sqrt(covariance[5, 5]), "1/s", SOURCE)


class _Flight:
    """Residuals of a flight with drag through a pitched and rolled camera, in pixels of the plane of the motion.

    Numbers: place and velocity at the start (x, y), gravity, speed towards the camera over the distance, roll, pitch,
    and the logarithm of the drag over its usual value.
    """

    def __init__(self, path: ImagePath, view: View) -> None:
        self.path, self.times = path, path.times - path.times[0]
        self.middle, self.focal = np.array([view.size[1] / 2, view.size[0] / 2]), view.focal.value
        self.sigma = np.maximum(path.sigma, 1e-3)[:, None]
        area = math.pi * (view.diameter_px / 2) ** 2
        if view.mass is None or view.scale is None:
            self.drag = AIR * area / (DENSITY * 4 / 3 * math.pi * (view.diameter_px / 2) ** 3)
            drag_sd = DENSITY_SD
        else:
            self.drag, drag_sd = AIR * area / view.scale.value**3 / view.mass, DRAG_SD
        speed = float(np.linalg.norm(np.ptp(path.points, axis=0))) / max(float(self.times[-1]), 1e-9)
        depth = DEPTH_SPEED * math.hypot(1.0, speed / self.focal)
        self.deviations = np.array([depth, view.tilt, view.pitch, drag_sd])

    def residual(self, numbers: Array) -> Array:
        """Residuals over their standard deviations [..., n], those of the priors last."""
        left = (self.predicted(numbers) - self.path.points) / self.sigma
        return np.concatenate([left.reshape(*numbers.shape[:-1], -1), numbers[..., 5:] / self.deviations], -1)

    def predicted(self, numbers: Array) -> Array:
        """Centres in the picture [..., N, 2] [px]; the body is in the plane of the motion in the middle of it."""
        x, y, u, v, gravity, depth, roll, pitch, log_drag = np.moveaxis(numbers, -1, 0)
        drag, ahead = self.drag * np.exp(np.clip(log_drag, -5.0, 5.0)), depth * self.focal
        pull = np.stack([gravity * np.sin(roll), gravity * np.cos(roll), np.zeros_like(gravity)], -1)

        def slope(state: Array) -> Array:
            velocity = state[..., 3:]
            speed = np.linalg.norm(velocity, axis=-1, keepdims=True)
            return np.concatenate([velocity, pull - drag[..., None] * speed * velocity], -1)

        start = np.stack([x, y, -ahead * self.times[-1] / 2, u, v, ahead], -1)
        x, y, z = np.moveaxis(integrate(slope, start, self.times, 0.1)[..., :3], -1, 0)
        sin, cos = np.sin(pitch)[..., None], np.cos(pitch)[..., None]
        larger = self.focal / (self.focal + y * sin - z * cos)
        return self.middle + np.stack([x * larger, (y * cos + z * sin) * larger], -1)
