"""Poses from known points: exact without noise, with covariances that cover the truth."""

import numpy as np
import pytest
from tests.footage.board_videos import TrueLens, rotation

from gradsim.footage.lens import PARAMETERS, Lens
from gradsim.footage.pose import rotation_angle, solve_pose
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape

TRUE = TrueLens(size=(1080, 1920), fx=1400, fy=1398, cx=970, cy=530)
LENS = Lens(**{name: getattr(TRUE, name) for name in PARAMETERS}, size=TRUE.size)
BOX = 0.1 * np.array([[x, y, z] for x in (-1, 1) for y in (-0.5, 0.5) for z in (-0.7, 0.7)])
SQUARE = 0.2 * np.array([[-0.5, 0.5, 0], [0.5, 0.5, 0], [0.5, -0.5, 0], [-0.5, -0.5, 0]])


def pixels_of(points, turn, shift, noise=0.0, seed=0):
    exact = TRUE.project(points @ turn.T + shift)
    return exact + noise * np.random.default_rng(seed).standard_normal(exact.shape)


@pytest.mark.parametrize("points", [BOX, SQUARE, BOX[[0, 3, 5, 6]]], ids=["box", "square", "four corners"])
def test_exact_points_give_the_exact_pose(points):
    turn, shift = rotation((2.5, 0.4, 0.3)), np.array([0.1, -0.05, 1.2])
    pose = solve_pose(LENS, points, pixels_of(points, turn, shift))
    assert rotation_angle(turn, pose.rotation) < 1e-7
    assert pose.translation == pytest.approx(shift, abs=1e-7)
    assert pose.error < 1e-6
    assert not pose.is_ambiguous
    assert pose.eye == pytest.approx(-turn.T @ shift, abs=1e-6)


def test_camera_of_a_pose_projects_like_the_lens():
    turn, shift = rotation((0.3, -0.4, 0.1)), np.array([0.05, 0.02, 1.0])
    camera = solve_pose(LENS, BOX, pixels_of(BOX, turn, shift)).camera(LENS)
    pose = np.asarray(camera.pose)
    assert pose[:3, :3] == pytest.approx(turn.T, abs=1e-7)
    assert pose[:3, 3] == pytest.approx(-turn.T @ shift, abs=1e-7)
    assert float(camera.fov) == pytest.approx(LENS.fov.value)


def normalized_errors(points, tilt, count=60, noise=0.3, lens=LENS):
    """Errors of rotation and translation over their standard deviations [count, 6]."""
    errors = []
    for seed in range(count):
        random = np.random.default_rng(seed)
        turn, shift = rotation((np.pi + tilt, 0.3, random.uniform(-1, 1))), np.array([0.1, 0.1, random.uniform(0.7, 2)])
        pose = solve_pose(lens, points, pixels_of(points, turn, shift, noise, seed), noise=noise)
        difference = pose.rotation @ turn.T
        small = np.array([difference[2, 1], difference[0, 2], difference[1, 0]])
        errors.append([*(small / pose.rotation_sd), *((pose.translation - shift) / pose.translation_sd)])
    return np.array(errors)


@pytest.mark.parametrize("points", [BOX, SQUARE], ids=["box", "square"])
def test_covariances_cover_the_truth(points):
    share = np.mean(np.abs(normalized_errors(points, 0.6)) < 1.96, axis=0)
    assert share.min() > 0.85, share


def test_the_uncertainty_of_the_lens_counts():
    covariance = np.zeros((9, 9))
    covariance[:2, :2] = 14.0**2  # both focal lengths together: the distance is proportional to them
    lens = Lens(**{name: getattr(TRUE, name) for name in PARAMETERS}, size=TRUE.size, covariance=covariance)
    turn, shift = rotation((2.5, 0.4, 0.3)), np.array([0.0, 0.0, 1.2])
    pose = solve_pose(lens, BOX, pixels_of(BOX, turn, shift), noise=1e-3)
    assert pose.translation_sd[2] == pytest.approx(0.012, rel=0.1)
    longer = Lens(**{**{n: getattr(TRUE, n) for n in PARAMETERS}, "fx": 1414, "fy": 1412}, size=TRUE.size)
    moved = solve_pose(longer, BOX, pixels_of(BOX, turn, shift)).translation[2] - shift[2]
    assert pose.translation_sd[2] == pytest.approx(moved, rel=0.1)


def test_standard_deviation_of_the_eye():
    turn = rotation((2.6, 0.3, 0.2))
    shift = np.array([0.1, 0.0, 1.5])
    poses = [solve_pose(LENS, BOX, pixels_of(BOX, turn, shift, 0.3, seed), noise=0.3) for seed in range(80)]
    spread = np.std([pose.eye for pose in poses], axis=0)
    assert poses[0].eye_sd == pytest.approx(spread, rel=0.3)


def test_a_small_square_from_the_front_is_ambiguous():
    small, turn = 0.1 * SQUARE, rotation((np.pi - 0.15, 0.0, 0.0))
    shift = np.array([0.0, 0.0, 1.5])
    pose = solve_pose(LENS, small, pixels_of(small, turn, shift, 0.1), noise=0.1)
    assert pose.is_ambiguous
    nearest = min(rotation_angle(turn, own.rotation) for own in (pose, pose.alternative))
    assert nearest < 0.2


def test_a_covariance_weights_the_points():
    """Points with large errors that are stated count little; equal variances give the pose of the plain noise."""
    turn, shift = rotation((2.5, 0.4, 0.3)), np.array([0.1, -0.05, 1.2])
    pixels = pixels_of(BOX, turn, shift, 0.05)
    plain = solve_pose(LENS, BOX, pixels, noise=0.05)
    same = solve_pose(LENS, BOX, pixels, noise=0.05**2 * np.eye(16))
    assert same.translation == pytest.approx(plain.translation, abs=1e-10)
    assert same.translation_sd == pytest.approx(plain.translation_sd, rel=1e-9)
    pixels[0] += 5.0
    variances = np.full(16, 0.05**2)
    variances[:2] = 5.0**2
    weighted = solve_pose(LENS, BOX, pixels, noise=np.diag(variances))
    assert rotation_angle(turn, weighted.rotation) < 0.1 * rotation_angle(turn, solve_pose(LENS, BOX, pixels).rotation)
    with pytest.raises(WrongShape, match="covariance"):
        solve_pose(LENS, BOX, pixels, noise=np.eye(3))
    with pytest.raises(OutOfRange, match="covariance"):
        solve_pose(LENS, BOX, pixels, noise=np.zeros((16, 16)))


BAD_POINTS = {
    "three points": (SQUARE[:3], np.zeros((3, 2)), OutOfRange, "at least 4"),
    "a line": (np.outer(np.arange(5.0), [1, 0, 0]), np.zeros((5, 2)), InvalidInput, "one line"),
    "other counts": (SQUARE, np.zeros((5, 2)), WrongShape, r"\(4, 2\)"),
    "flat points": (SQUARE[:, :2], np.zeros((4, 2)), WrongShape, r"\[N, 3\]"),
    "NaN": (SQUARE, np.full((4, 2), np.nan), InvalidInput, "finite"),
}


@pytest.mark.parametrize("case", BAD_POINTS)
def test_bad_points(case):
    points, pixels, error, message = BAD_POINTS[case]
    with pytest.raises(error, match=message):
        solve_pose(LENS, points, pixels)
    with pytest.raises(OutOfRange, match="noise"):
        solve_pose(LENS, SQUARE, pixels_of(SQUARE, rotation((3, 0, 0)), np.array([0, 0, 1.0])), noise=0.0)
