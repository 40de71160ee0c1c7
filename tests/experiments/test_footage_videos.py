"""Synthetic videos: the same every time, with pictures and physics that agree with the stated truth."""

from dataclasses import replace

import av
import numpy as np
import pytest

from gradsim.experiments.footage_videos import KINDS, TRAPS, kind_of, synthetic_video, trap_video
from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.flights import flight
from gradsim.experiments.footage_videos.integration import Impact, integrate
from gradsim.experiments.footage_videos.recording import frames_of
from gradsim.experiments.footage_videos.setup import make_setup
from gradsim.experiments.footage_videos.shapes import Ball
from gradsim.experiments.footage_videos.videos import MOTIONS, projected_objects
from gradsim.scene.errors import OutOfRange, UnknownName

SMALL = (240, 320)


def ideal(conditions):
    """Conditions without errors of the sensor."""
    return replace(
        conditions, noise=0.0, vignette=0.0, drift=0.0, shake=0.0, k1=0.0, shutter=0.01, darkness=0.0, fps=30.0,
        variable_rate=False,
    )  # fmt: skip


def small_setup(seed, kind, adjust=ideal):
    return make_setup(seed, kind, MOTIONS[kind], adjust=adjust, size=SMALL, hands=False)


def first_frames(shot, count):
    return replace(shot, times=shot.times[:count], shifts=shot.shifts[:count], zooms=shot.zooms[:count])


def decoded_times(path):
    with av.open(str(path)) as file:
        return np.array([frame.time for frame in file.decode(video=0)])


def test_a_seed_gives_the_same_file_and_truth(tmp_path):
    seed = next(seed for seed in range(30) if kind_of(seed) == "drop")
    first, second = (synthetic_video(seed, tmp_path / f"{k}.mp4") for k in range(2))
    assert (tmp_path / "0.mp4").read_bytes() == (tmp_path / "1.mp4").read_bytes()
    assert first.values == second.values
    assert first.known == second.known
    np.testing.assert_array_equal(first.centers, second.centers)
    times = decoded_times(tmp_path / "0.mp4")
    np.testing.assert_allclose(times - times[0], first.times - first.times[0], atol=2e-5)


def test_the_kinds_take_turns():
    kinds = [kind_of(seed) for seed in range(60)]
    assert set(kinds) == set(MOTIONS)
    assert kinds[: len(KINDS)] != kinds[len(KINDS) : 2 * len(KINDS)]
    with pytest.raises(OutOfRange, match="seed = -1"):
        kind_of(-1)


@pytest.mark.parametrize("kind", ["throw", "bounce"])
def test_the_picture_shows_the_ball_at_the_stated_centre(kind):
    setup = small_setup(3, kind)
    shot = first_frames(setup.shot, 6)
    empty = replace(shot.scene, motion=replace(shot.scene.motion, shapes=(), trajectory=nothing), looks=())
    # A black ball on a white wall: alpha is one minus the brightness.
    look = replace(shot.scene.looks[0], colors=((0.0, 0.0, 0.0),), gloss=0.0)
    white = np.ones_like(shot.scene.background)
    scene = replace(shot.scene, looks=(look,), background=white)
    assert not any(frame.min() < 250 for frame in frames_of(replace(shot, scene=replace(empty, background=white))))
    centers, diameters, visible = projected_objects(shot)
    for frame, image in enumerate(frames_of(replace(shot, scene=scene))):
        if not visible[frame, 0]:
            continue
        alpha = 1 - (image.mean(-1) / 255) ** 2.2
        y, x = np.mgrid[: SMALL[0], : SMALL[1]] + 0.5
        center = np.array([(alpha * x).sum(), (alpha * y).sum()]) / alpha.sum()
        np.testing.assert_allclose(center, centers[frame, 0], atol=0.1)
        assert 2 * np.sqrt(alpha.sum() / np.pi) == pytest.approx(diameters[frame, 0], rel=0.01)
    assert visible.any()


def nothing(times):
    return np.zeros((len(times), 0, 3)), np.zeros((len(times), 0))


def test_a_throw_falls_with_gravity_in_the_picture():
    setup = small_setup(5, "throw", lambda own: replace(ideal(own), fps=60.0))
    shot = setup.shot
    motion = shot.scene.motion
    camera = replace(shot.camera, pitch=0.0, roll=0.0)
    positions, _ = motion.trajectory(shot.times)
    height = (camera.center[1] - camera.project(positions[:, 0])[:, 1]) / camera.focal
    height = height * (camera.distance - positions[:, 0, 2])
    acceleration = -2 * np.polyfit(shot.times, height, 2)[0]
    drag = motion.values["drag"] * np.hypot(motion.values["velocity_x"], motion.values["velocity_y"]) ** 2
    assert abs(acceleration - 9.81) < drag + 0.01
    assert acceleration > 5


def test_bounces_have_the_restitution_of_the_truth():
    motion = small_setup(2, "bounce").shot.scene.motion
    times = np.linspace(0, motion.duration, 20_000)
    height = motion.trajectory(times)[0][:, 0, 1]
    speed = np.diff(height) / np.diff(times)
    impacts = np.flatnonzero((speed[:-3] < 0) & (speed[3:] > 0.3) & (np.diff(speed)[:-2] > 0.1))
    first = impacts[np.diff(impacts, prepend=-100) > 10]  # an impact lies within a few intervals
    ratios = -speed[first + 4] / speed[first - 2]
    assert len(ratios) == motion.values["bounces"]
    assert np.mean(ratios) == pytest.approx(motion.values["restitution"], rel=0.01)


def test_a_pendulum_swings_with_the_period_of_its_length():
    motion = small_setup(4, "pendulum").shot.scene.motion
    times = np.linspace(0, motion.duration, 4000)
    angle = motion.trajectory(times)[1][:, 0]
    crossings = times[:-1][(angle[:-1] > 0) & (angle[1:] <= 0)]
    amplitude = np.abs(angle).max()
    period = 2 * np.pi * np.sqrt(motion.values["length"] / 9.81) * (1 + amplitude**2 / 16)
    assert np.diff(crossings).mean() == pytest.approx(period, rel=0.006)


def test_integration_is_exact_for_a_parabola_with_bounces():
    impact = Impact(lambda own: float(own[1]), lambda own: own * (1, 1, 1, 1, -0.5, 1))
    solution = integrate(flight(0.0), np.array([0, 1.0, 0, 1.0, 0, 0]), 1.0, impact)
    fall = np.sqrt(2 / 9.81)
    times = np.array([-0.01, 0.3, fall + 0.2])
    after = 0.5 * 9.81 * fall * 0.2 - 9.81 * 0.02
    expected = [1 - 4.905e-4, 1 - 4.905 * 0.09, after]
    np.testing.assert_allclose(solution(times)[:, 1], expected, atol=1e-9)
    np.testing.assert_allclose(solution(times)[:, 0], times, atol=1e-9)


def test_drag_reaches_the_terminal_velocity():
    solution = integrate(flight(0.5), np.zeros(6), 3.0)
    terminal = np.sqrt(9.81 / 0.5)
    expected = -terminal * np.tanh(9.81 * 1.2 / terminal)
    assert solution(np.array([1.2]))[0, 4] == pytest.approx(expected, rel=1e-8)


def test_the_camera_distorts_as_opencv():
    cv2 = pytest.importorskip("cv2")
    camera = TrueCamera((480, 640), 600.0, 2.0, (320.0, 240.0), pitch=0.02, roll=-0.03, k1=0.07)
    points = np.array([[0.3, 0.2, 0.1], [-0.5, 0.4, -0.3]])
    plain = (replace(camera, k1=0.0).project(points) - 320 + (0, 80)) / 600
    matrix = np.array([[600.0, 0, 320], [0, 600, 240], [0, 0, 1]])
    rays = np.concatenate([plain, np.ones((2, 1))], 1)
    expected, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), matrix, np.array([0.07, 0, 0, 0]))
    np.testing.assert_allclose(camera.project(points), expected[:, 0], atol=1e-9)


def test_the_outline_of_a_ball_is_that_of_its_tangent_cone():
    camera = TrueCamera((480, 640), 600.0, 1.0, (320.0, 240.0))
    outline = Ball(0.4).outline(camera, np.zeros(3), 0.0)
    radius = 600 * np.tan(np.arcsin(0.2))
    np.testing.assert_allclose(np.linalg.norm(outline - (320, 240), axis=1), radius, rtol=1e-12)


def test_a_trap_states_what_must_be_reported(tmp_path):
    assert len(TRAPS) >= 12
    truth = trap_video("still", tmp_path / "still.mp4")
    assert (truth.good, truth.judged, truth.refusal) == (False, (), "no moving object")
    assert truth.centers.shape == (len(truth.times), 0, 2)
    assert len(decoded_times(truth.path)) == len(truth.times)
    with pytest.raises(UnknownName, match="kind = wrong"):
        trap_video("wrong", tmp_path / "wrong.mp4")
