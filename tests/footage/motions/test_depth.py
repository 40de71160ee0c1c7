"""Motion along the view is found from the perspective of a path."""

import math

import numpy as np
import pytest

from gradsim.footage.measured import Measured
from gradsim.footage.motions.depth import flight_drift
from gradsim.footage.motions.flight import fit_flight
from gradsim.footage.motions.path import ImagePath
from gradsim.footage.motions.view import View

SIZE, FOCAL, DISTANCE = (480, 640), 600.0, 3.0  # [px], [px], [m]
SCALE = FOCAL / DISTANCE


def view(focal=FOCAL, **options):
    known = Measured(SCALE, 0.015 * SCALE, "px/m")
    return View(SIZE, Measured(focal, 0.15 * focal, "px"), known, 30.0, **options)


def thrown(speed_along_view, *, duration=0.8, velocity=(1.5, 3.9), noise=0.1, pitch=0.0, seed=0):
    """Path of a body that passes the plane of the ruler in the middle of its motion."""
    t = np.linspace(0, duration, 25)
    x = velocity[0] * (t - duration / 2)
    y = velocity[1] * t - 9.81 / 2 * t**2 - 0.4
    z = speed_along_view * (t - duration / 2)
    depth = DISTANCE - y * math.sin(pitch) - z * math.cos(pitch)
    up = y * math.cos(pitch) - z * math.sin(pitch)
    points = np.stack([SIZE[1] / 2 + FOCAL * x / depth, SIZE[0] / 2 - FOCAL * up / depth], -1)
    points += noise * np.random.default_rng(seed).standard_normal(points.shape)
    return ImagePath(t, points, 30.0, np.full(len(t), noise), float(np.ptp(points, axis=0).max()))


@pytest.mark.parametrize("speed", [-0.4, 0.0, 0.6])
@pytest.mark.parametrize("assumed", [FOCAL, 1.3 * FOCAL])
def test_the_speed_is_found_whatever_the_focal_length(speed, assumed):
    path = thrown(speed)
    drift = flight_drift(path, fit_flight(path), view(assumed))
    assert drift.sd < 0.03
    assert abs(drift.value - speed / DISTANCE) < 2.5 * drift.sd


def test_standard_deviations_cover_the_truth():
    scores = []
    for seed in range(12):
        path = thrown(0.3, seed=seed, noise=0.3)
        drift = flight_drift(path, fit_flight(path), view())
        scores.append((drift.value - 0.1) / drift.sd)
    assert np.mean(np.abs(scores) < 2) > 0.9


def test_a_pitched_camera_is_not_taken_for_motion_along_the_view():
    path = thrown(0.0, pitch=0.12)
    pitched = flight_drift(path, fit_flight(path), view(pitch=math.radians(8)))
    assert abs(pitched.value) < 2.5 * pitched.sd


def test_a_short_path_leaves_the_prior():
    path = thrown(0.6, duration=0.15, velocity=(0.2, 0.0), noise=0.5)
    drift = flight_drift(path, fit_flight(path), view())
    assert 0.04 < drift.sd < 0.07
    assert abs(drift.value) < 0.05


def test_the_scale_is_that_at_the_start():
    """A body that comes 8 % closer until the scale was measured began 8 % farther away."""
    at_start = view().at_start(Measured(0.2, 0.01, "1/s"), 0.4)
    assert at_start.scale.value == pytest.approx(SCALE / 1.08)
    assert at_start.scale.relative_sd == pytest.approx(math.hypot(0.015, 0.004 / 1.08))
    assert at_start.radius == pytest.approx(view().radius)
    assert view().at_start(Measured(9.0, 0.1, "1/s"), 1.0).scale.value > SCALE / 2


def test_an_uncertain_focal_length_is_a_nuisance():
    """Its prior is that of the focal length; the scale does not depend on it."""
    camera = view().camera(lens_varies=True)
    assert camera.fov.nuisance
    ends = [math.degrees(2 * math.atan(SIZE[0] / 2 / (FOCAL * factor))) for factor in (0.99, 1.01)]
    assert float(camera.fov.prior.sd) == pytest.approx(0.15 * math.log(ends[0] / ends[1]) / 0.02, rel=1e-3)
    assert float(camera.fov.high) < 180
    assert float(camera.view_height.guess) == pytest.approx(SIZE[0] / SCALE)


def test_a_known_focal_length_is_no_unknown():
    calibrated = View(SIZE, Measured(FOCAL, 0.0, "px"), Measured(SCALE, 1.0, "px/m"), 30.0)
    for camera in (calibrated.camera(lens_varies=True), view().camera()):
        assert float(camera.fov) == pytest.approx(math.degrees(2 * math.atan(SIZE[0] / 2 / FOCAL)))
