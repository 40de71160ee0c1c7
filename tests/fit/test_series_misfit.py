"""Tracks of a body's centre: right models with the errors of real trackers, and wrong scenes."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.fit.paths import (
    COUNT,
    FPS,
    GRAVITY,
    HEIGHT,
    RADIUS,
    WIDTH,
    dropped_ball,
    positions,
    project,
    projected_path,
    smooth_errors,
    times,
)

import gradsim as gs
from gradsim.fit.misfit import MAX_CENTER_ERROR, MIN_EXPLAINED_TRACKS, Misfit

CENTER = [gs.Center("ball")]


def fitted(pixels, scene=None, *, noise=None, frame_times=None, **options):
    tracks = gs.Tracks(CENTER, pixels, (HEIGHT, WIDTH), noise=noise)
    timing = {"fps": FPS} if frame_times is None else {"times": frame_times}
    return gs.estimate(gs.Trial(scene or unknown_gravity(), tracks, **timing), **options)


def unknown_gravity(**scene):
    return dropped_ball(gravity=(0.0, gs.unknown(-9.0, low=-20.0, high=-1.0), 0.0), **scene)


@pytest.mark.parametrize("noise", [None, 0.5])
@pytest.mark.parametrize("seed", range(3))
def test_smooth_errors_of_a_tracker_are_no_error_of_the_scene(seed, noise):
    """Errors of half a pixel that last several frames: independent noise of this size would not look like this."""
    fit = fitted(projected_path(noise=0.05, seed=seed) + smooth_errors(0.5, 10 + seed), noise=noise)
    assert fit.status == "converged", (fit.status, fit.advice)
    low, high = fit.intervals["scene.gravity[1]"]
    assert abs(float(fit.values["scene.gravity[1]"]) + 9.81) < float(high - low)  # two half widths
    assert fit.misfit.explained > 0.99
    assert fit.misfit.center_error < 0.1


def test_a_yaw_of_the_camera_is_named():
    """A turned camera is a drift in the image that depends on the height: gravity and velocity do not explain it."""
    scene = dropped_ball()
    fit = fitted(projected_path(noise=0.1, seed=0, yaw=4.0), scene, noise=0.1, corrections=0)
    assert fit.status == "does not explain the observations"
    assert fit.misfit.causes
    assert fit.misfit.causes[0].group in ("camera", "tilt")


@pytest.mark.parametrize("noise", [None, 0.3])
def test_a_wrong_direction_of_gravity_is_named(noise):
    tilted = (9.81 * np.sin(np.deg2rad(1.5)), -9.81 * np.cos(np.deg2rad(1.5)), 0.0)
    fit = fitted(projected_path(noise=0.3, seed=0, gravity=tilted), noise=noise, corrections=0)
    assert fit.status == "does not explain the observations"
    assert fit.misfit.causes[0].path in ("scene.gravity.tilt_x", "camera.roll")
    corrected = fitted(projected_path(noise=0.3, seed=0, gravity=tilted), noise=noise)
    assert corrected.status == "converged with corrections"


def test_motion_without_gravity_does_not_explain_a_throw():
    scene = dropped_ball(gravity=(0.0, gs.unknown(-0.01, low=-0.02, high=-0.001), 0.0))
    fit = fitted(projected_path(noise=0.3, seed=0), scene, corrections=0)
    assert fit.misfit.explained < 0.5
    assert fit.misfit.nonsense
    assert fit.misfit.center_error > MAX_CENTER_ERROR


def test_explained_motion_uses_the_times_of_the_frames():
    """Uniform motion at uneven times is explained by uniform motion: it shows no change that a scene could explain."""
    t = np.concatenate([np.linspace(0.0, 0.2, 20), np.linspace(0.3, 1.1, 12)])
    scene = dropped_ball(gravity=(0.0, 0.0, 0.0))
    noise = 0.3 * np.random.default_rng(0).standard_normal((len(t), 1, 2))
    straight = project(positions(t, (0.0, 0.0, 0.0)))[:, None] + noise
    uniform = fitted(torch.as_tensor(straight), scene, noise=0.3, frame_times=t, corrections=0)
    assert np.isnan(uniform.misfit.explained)
    thrown = project(positions(t))[:, None] + noise
    fit = fitted(torch.as_tensor(thrown), noise=0.3, frame_times=t, corrections=0)
    assert fit.misfit.explained > 0.99


def test_the_residual_of_a_centre_is_relative_to_the_apparent_diameter():
    """An error of known size that no unknown absorbs: every second frame is off to the left."""
    path = projected_path(noise=0.0, seed=0)
    shift = 5.0
    path[::2, :, 0] -= shift
    fit = fitted(path, noise=0.1, corrections=0)
    focal = HEIGHT / 2 / np.tan(np.deg2rad(22.5))
    diameter = 2 * RADIUS * focal / 4.0
    assert fit.misfit.center_error == pytest.approx(shift / 2 / diameter, rel=0.05)
    assert not fit.misfit.ok


def test_limits_of_tracks():
    right = Misfit(1.0, 1.0, 0.93, 1.0, 1.0, center_error=0.05)
    assert right.ok
    (reason,) = dataclasses.replace(right, explained_limit=MIN_EXPLAINED_TRACKS).reasons
    assert "explains 93 %" in reason
    (reason,) = dataclasses.replace(right, center_error=0.14).reasons
    assert "14 % of the apparent diameter" in reason
    assert right.as_dict()["center_error"] == 0.05


def test_the_closed_form_is_that_of_the_scene():
    scene = dropped_ball()
    filled = scene.with_values(
        {"ball.velocity[0]": 1.2, "ball.velocity[1]": 4.6, "ball.position[0]": -0.9, "ball.position[1]": -0.5}
    )
    motion = gs.simulate(filled, frames=COUNT, fps=FPS, substeps=8)
    assert np.allclose(motion["ball"].center_of_mass, positions(times(), GRAVITY), atol=1e-9)
