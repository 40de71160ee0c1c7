"""Tags and coloured dots in rendered videos."""

import cv2
import numpy as np
import pytest
from tests.footage.accuracy import TAG_FRAMES, TAG_LENS, lens_of, tag_errors, tag_pose, tag_texture, tag_video
from tests.footage.board_videos import picture
from tests.footage.videos import save

from gradsim.footage.alignment import align_pattern
from gradsim.footage.dictionaries import aruco_dictionary, dictionary_names, marker_cells
from gradsim.footage.dots import track_dot
from gradsim.footage.markers import CORNERS, tag_poses, track_tags
from gradsim.footage.pose import rotation_angle
from gradsim.scene.errors import NoMarker, OutOfRange, UnknownName, WrongShape

TRUE, LENS = TAG_LENS, lens_of(TAG_LENS)
SIDE = 0.08  # [m]
FRAMES = TAG_FRAMES


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A video of an 8 cm tag at 1 m, focal length 1400 px, and its true positions and rotations."""
    path = tmp_path_factory.mktemp("tags") / "tag.mp4"
    return path, *tag_video(path, SIDE)


def test_a_tag_has_its_pose_to_half_a_millimetre_and_a_third_of_a_degree(tagged):
    path, positions, rotations = tagged
    (track,) = track_tags(path)
    assert track.id == 7
    assert list(track.frames) == list(range(FRAMES))
    poses = tag_poses(track, LENS, SIDE)
    distance, angle = tag_errors(poses, positions, rotations)
    assert 1e3 * np.sqrt((distance**2).mean()) < 0.5
    assert np.degrees(np.sqrt((angle**2).mean())) < 0.3
    ratio = (poses.positions - positions) / poses.position_sd
    assert np.mean(np.abs(ratio) < 1.96) > 0.8


def test_a_small_tag_has_its_pose(tmp_path):
    positions, rotations = tag_video(tmp_path / "tag.mp4", 0.05, frames=8)
    (track,) = track_tags(tmp_path / "tag.mp4")
    distance, angle = tag_errors(tag_poses(track, LENS, 0.05), positions, rotations)
    assert 1e3 * np.sqrt((distance**2).mean()) < 0.5
    assert np.degrees(np.sqrt((angle**2).mean())) < 0.2


def test_a_detector_that_is_half_a_module_off():
    """Alignment finds the corners from a rough start, and refuses a pattern that is not there."""
    cells = marker_cells("4X4_50", 7)
    pose, place, turn = tag_pose(3, SIDE)
    gray = picture(TRUE, tag_texture("4X4_50", 7, SIDE), lambda time: pose(0.0), side=3)[..., 0]
    true = TRUE.project(SIDE * CORNERS @ turn.T + place)
    rough = true + np.array([[9.0, -6.0], [0.5, 0.5], [-0.5, 1.0], [0.0, 0.0]])
    found = align_pattern(gray, rough, cells)
    assert np.abs(found.corners - true).max() < 0.05
    assert np.sqrt(np.diag(found.covariance)).max() < 0.05
    assert align_pattern(gray, rough, np.rot90(cells)) is None
    assert align_pattern(gray, (true - true.mean(0)) / 10 + true.mean(0), cells) is None


def test_centers_and_times_of_a_track(tagged):
    path, positions, _ = tagged
    (track,) = track_tags(path, frames=(4, 12))
    assert list(track.frames) == list(range(4, 12))
    assert track.times == pytest.approx(np.arange(4, 12) / 30)
    assert track.centers == pytest.approx(TRUE.project(positions[4:12]), abs=0.1)


def test_april_tags_and_several_tags_of_a_folder(tmp_path):
    texture = tag_texture("APRILTAG_36h11", 12, SIDE)
    pose, place, turn = tag_pose(3, SIDE)
    other = aruco_dictionary("APRILTAG_36h11")
    image = picture(TRUE, texture, pose)
    image[5:105, 290:390] = 220
    image[15:95, 300:380] = cv2.aruco.generateImageMarker(other, 30, 80)[..., None]
    cv2.imwrite(str(tmp_path / "0.png"), image)
    first, second = track_tags(tmp_path, dictionary="apriltag_36h11")
    assert (first.id, second.id) == (12, 30)
    poses = tag_poses(first, LENS, SIDE)
    assert 1e3 * np.linalg.norm(poses.positions[0] - place) < 1.5
    assert np.degrees(rotation_angle(poses.rotations[0], turn)) < 0.5
    assert second.corners[0] == pytest.approx(np.array([[300, 15], [380, 15], [380, 95], [300, 95]]), abs=0.06)


def test_errors_of_tags(tagged):
    path, _, _ = tagged
    with pytest.raises(NoMarker, match="no tag of APRILTAG_25h9 in 3 frames"):
        track_tags(path, dictionary="APRILTAG_25h9", frames=(0, 3))
    with pytest.raises(UnknownName, match="must be one of"):
        track_tags(path, dictionary="nothing")
    (track,) = track_tags(path, frames=(0, 1))
    with pytest.raises(OutOfRange, match="side"):
        tag_poses(track, LENS, 0.0)
    with pytest.raises(WrongShape, match="lens.scaled"):
        tag_poses(track, LENS.scaled((160, 200)), SIDE)
    assert "4X4_50" in dictionary_names()


COLORS = {"red": (0.85, 0.1, 0.15), "green": (0.1, 0.7, 0.2), "orange": (0.95, 0.5, 0.05)}


def dot_video(path, color, radius=6.0, count=12, size=(180, 240)):
    """A dot on a textured wall with a gradient, blurred, noisy, in H.264; returns its centres [px]."""
    random = np.random.default_rng(0)
    times = np.arange(count)
    centers = np.stack([30.3 + 14.7 * times, 120.2 - 13.1 * times + 0.9 * times**2], -1)
    wall = 0.3 + 0.1 * np.linspace(0, 1, size[1])[None, :, None] + 0.05 * random.standard_normal((*size, 1))
    wall = cv2.GaussianBlur(np.broadcast_to(wall, (*size, 3)).copy(), (0, 0), 2)
    y, x = np.indices((4 * size[0], 4 * size[1])) / 4 + 0.125
    linear = np.array(color) ** 2.2
    images = []
    for center in centers:
        fine = (np.hypot(x - center[0], y - center[1]) < radius).astype(np.float64)
        alpha = cv2.GaussianBlur(fine.reshape(size[0], 4, size[1], 4).mean((1, 3)), (0, 0), 0.7)[..., None]
        light = np.clip(alpha * linear + (1 - alpha) * wall, 0, 1) ** (1 / 2.2)
        images.append(np.clip(light + 0.01 * random.standard_normal(light.shape), 0, 1))
    save(path, (255 * np.array(images)).round().astype(np.uint8))
    return centers


@pytest.mark.parametrize("color", COLORS)
def test_a_dot_is_followed_to_a_fraction_of_a_pixel(tmp_path, color):
    centers = dot_video(tmp_path / "dot.mp4", COLORS[color])
    track = track_dot(tmp_path / "dot.mp4", COLORS[color])
    assert len(track) == len(centers)
    error = np.linalg.norm(track.centers - centers, axis=-1)
    assert np.sqrt((error**2).mean()) < 0.2
    assert np.median(track.areas) == pytest.approx(np.pi * 36, rel=0.15)


def test_errors_of_dots(tmp_path):
    dot_video(tmp_path / "dot.mp4", COLORS["red"], count=4)
    with pytest.raises(NoMarker, match=r"no spot of colour \(0.10, 0.10, 0.90\) in 4 frames"):
        track_dot(tmp_path / "dot.mp4", (0.1, 0.1, 0.9))
    with pytest.raises(OutOfRange, match="divide 8-bit values by 255"):
        track_dot(tmp_path / "dot.mp4", (200, 10, 10))
    with pytest.raises(WrongShape, match="red, green, blue"):
        track_dot(tmp_path / "dot.mp4", (0.1, 0.2))
    with pytest.raises(OutOfRange, match="tolerance"):
        track_dot(tmp_path / "dot.mp4", (0.1, 0.2, 0.3), tolerance=0)
