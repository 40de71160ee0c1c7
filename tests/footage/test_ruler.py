"""The view on a plane from one known length: exact in an ideal world, and honest in a noisy one."""

import math

import numpy as np
import pytest

from gradsim.footage.lens import Lens, pinhole_lens
from gradsim.footage.measured import Measured
from gradsim.footage.ruler import attitude, view_from_ruler, world_axes
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape

FOCAL = Measured(1000.0, 20.0, "px")
LENS = pinhole_lens((720, 1280), FOCAL)


def pixels_of(points, *, roll=0.0, pitch=0.0, distance=2.5, focal=1000.0):
    """Pixels [..., 2] of points (x, y) in a vertical plane, by a rotation written out by hand.

    The camera looks along -z, is then pitched up, then rolled; y of the picture points down.
    """
    x, y = np.moveaxis(np.asarray(points, float), -1, 0)
    up, ahead = y * math.cos(pitch) - distance * math.sin(pitch), y * math.sin(pitch) + distance * math.cos(pitch)
    right = x * math.cos(roll) - up * math.sin(roll)
    up = x * math.sin(roll) + up * math.cos(roll)
    return np.stack([640 + focal * right / ahead, 360 - focal * up / ahead], -1)


VERTICALS = np.array([[[x, -0.7], [x, 0.7]] for x in (-1.1, -0.2, 1.2)])
RULER = np.array([[0.3, -0.4], [0.3, 0.6]])


def test_distance_is_focal_length_times_length_over_pixels():
    view = view_from_ruler(LENS, [[700.0, 500.0], [700.0, 100.0]], 1.0)
    assert view.distance.value == pytest.approx(1000 * 1.0 / 400)
    assert view.pixels_per_metre.value == pytest.approx(400)
    assert view.plane_points([[640.0, 360.0], [700.0, 100.0]]) == pytest.approx(np.array([[0, 0], [0.15, 0.65]]))
    assert view.eye == pytest.approx([0, 0, 2.5])


@pytest.mark.parametrize(("roll", "pitch"), [(0.0, 0.0), (0.1, 0.0), (0.0, -0.2), (-0.15, 0.25)])
def test_verticals_give_roll_and_pitch(roll, pitch):
    angles = {"roll": roll, "pitch": pitch}
    ends, verticals = pixels_of(RULER, **angles), pixels_of(VERTICALS, **angles)
    free = Measured(0.0, 10.0)
    view = view_from_ruler(LENS, ends, 1.0, verticals=verticals, pixel_sd=0.01, roll=free, pitch=free)
    assert view.roll.value == pytest.approx(roll, abs=1e-4)
    assert view.pitch.value == pytest.approx(pitch, abs=1e-4)
    assert view.distance.value == pytest.approx(2.5, rel=1e-4)
    points = np.array([[0.5, 0.3], [-0.8, -0.2], [0.0, 0.0]])
    assert view.plane_points(pixels_of(points, **angles)) == pytest.approx(points, abs=1e-3)
    assert view.pixels(points) == pytest.approx(pixels_of(points, **angles), abs=0.1)


def test_the_camera_is_that_of_the_scene():
    """eye, target and up of gs.Camera describe the axes of the view."""
    view = view_from_ruler(
        LENS, pixels_of(RULER, roll=0.1, pitch=-0.2), 1.0, roll=Measured(0.1, 0.01), pitch=Measured(-0.2, 0.01)
    )
    camera = view.camera()
    eye, target, up = (np.asarray(own) for own in (camera.eye, camera.target, camera.up))
    forward = (target - eye) / np.linalg.norm(target - eye)
    right = np.cross(forward, up)
    right /= np.linalg.norm(right)
    down = np.cross(forward, right)
    point = np.array([0.4, -0.3, 0.0]) - eye
    shown = 1000 * np.array([point @ right, point @ down]) / (point @ forward) + [640, 360]
    assert shown == pytest.approx(pixels_of([0.4, -0.3], roll=0.1, pitch=-0.2), abs=1e-6)


def test_one_vertical_gives_the_roll_and_keeps_the_prior_of_the_pitch():
    line = pixels_of(VERTICALS[1:2], roll=0.08)
    view = view_from_ruler(LENS, pixels_of(RULER, roll=0.08), 1.0, verticals=line)
    assert view.roll.value == pytest.approx(0.08, abs=0.01)
    assert view.roll.sd < math.radians(1.0)
    assert view.pitch.sd > math.radians(4)


def test_intervals_cover_the_truth():
    """Ruler, clicks, focal length and attitude drawn from what is stated: 95 % intervals contain distance and scale."""
    inside = []
    for seed in range(150):
        random = np.random.default_rng(seed)
        roll, pitch = random.normal(0, math.radians(2)), random.normal(0, math.radians(5))
        focal = random.normal(1000, 20)
        ends = pixels_of(RULER, roll=roll, pitch=pitch, focal=focal) + random.standard_normal((2, 2))
        length = 1.0 + 0.01 * random.standard_normal()
        view = view_from_ruler(LENS, ends, length, length_sd=0.01)
        inside.append(abs(view.distance.value - 2.5) < 1.96 * view.distance.sd)
    assert 0.9 < np.mean(inside) <= 1.0


def test_what_each_source_contributes():
    view = view_from_ruler(LENS, [[700.0, 500.0], [700.0, 100.0]], 1.0, length_sd=0.005, depth_sd=0.05, pixel_sd=2.0)
    assert view.distance_parts["ruler length"] == pytest.approx(0.005)
    assert view.distance_parts["focal length"] == pytest.approx(0.02, rel=1e-4)
    assert view.distance_parts["depth"] == pytest.approx(0.05 / 2.5)
    assert view.distance_parts["pixels"] == pytest.approx(2 * math.sqrt(2) / 400, rel=1e-3)
    assert view.scale_parts["pixels"] == pytest.approx(2 * math.sqrt(2) / 400)
    assert "focal length" not in view.scale_parts
    assert view.distance.relative_sd == pytest.approx(math.hypot(*view.distance_parts.values()))
    assert view.pixels_per_metre.log_normal().sd == pytest.approx(view.pixels_per_metre.relative_sd)


def test_distortion_is_removed():
    lens = Lens(1000.0, 1000.0, 640.0, 360.0, (720, 1280), k1=-0.2)
    plain = pixels_of(RULER)
    rays = (plain - [640, 360]) / 1000
    distorted = 1000 * rays * (1 - 0.2 * (rays**2).sum(-1, keepdims=True)) + [640, 360]
    assert view_from_ruler(lens, distorted, 1.0).distance.value == pytest.approx(2.5, rel=1e-6)


def test_axes_are_orthonormal_and_right_handed():
    axes = world_axes(0.3, -0.4)
    assert axes @ axes.T == pytest.approx(np.eye(3))
    assert np.linalg.det(axes) == pytest.approx(1)


def test_attitude_without_verticals_is_the_prior():
    angles, spread = attitude(LENS, None, 1.0, Measured(0.1, 0.02), Measured(-0.1, 0.03))
    assert angles == pytest.approx([0.1, -0.1])
    assert np.sqrt(np.diag(spread)) == pytest.approx([0.02, 0.03])


BAD_RULERS = {
    "one end": ([[1.0, 2.0]], 1.0, {}, WrongShape, "ends"),
    "equal ends": ([[5.0, 5.0], [5.0, 5.5]], 1.0, {}, InvalidInput, "two ends of the ruler"),
    "no length": ([[5.0, 5.0], [5.0, 500.0]], 0.0, {}, OutOfRange, "length"),
    "negative depth": ([[5.0, 5.0], [5.0, 500.0]], 1.0, {"depth_sd": -1.0}, OutOfRange, "depth_sd"),
    "NaN": ([[5.0, 5.0], [5.0, math.nan]], 1.0, {}, InvalidInput, "finite"),
    "flat verticals": ([[5.0, 5.0], [5.0, 500.0]], 1.0, {"verticals": [1.0, 2.0]}, WrongShape, "verticals"),
    "an attitude without sd": ([[5.0, 5.0], [5.0, 500.0]], 1.0, {"roll": Measured(0, 0)}, OutOfRange, "roll/pitch"),
}


@pytest.mark.parametrize("case", BAD_RULERS)
def test_bad_rulers(case):
    ends, length, options, error, message = BAD_RULERS[case]
    with pytest.raises(error, match=message):
        view_from_ruler(LENS, ends, length, **options)
