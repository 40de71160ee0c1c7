"""Accuracy of calibration and of tags on rendered videos, over many seeds.

`python -m tests.footage.accuracy boards 0:10` and `... tags 0:10` print tables.
"""

import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from tests.footage.board_videos import TrueLens, chessboard, image_texture, picture, rotation, save_phone, tour
from tests.footage.videos import save

from gradsim.footage.boards import Chessboard
from gradsim.footage.calibration import calibrate_lens
from gradsim.footage.dictionaries import aruco_dictionary, module_count
from gradsim.footage.lens import PARAMETERS, Lens, rays_of, undistort_points
from gradsim.footage.markers import tag_poses, track_tags
from gradsim.footage.pose import rotation_angle

BOARD = Chessboard(9, 6, 0.025)
BOARD_LENS = TrueLens()
BOARD_FRAMES = 24

TAG_LENS = TrueLens(size=(320, 400), fx=1400, fy=1400, cx=206, cy=157, k1=-0.1, k2=0.05)
TAG_FRAMES = 20


def board_video(path, seed, frames=BOARD_FRAMES):
    """A video of a chessboard on a tour of the picture, one frame of it out of focus."""
    poses = tour(BOARD_LENS, 0.2, 0.125, frames, seed=seed)
    texture = chessboard(9, 6, 0.025)
    images = [picture(BOARD_LENS, texture, pose, seed=1000 * seed + k) for k, pose in enumerate(poses)]
    images[7] = cv2.blur(images[7], (25, 25))
    return save(path, np.stack(images))


def undistortion_error(lens, true):
    """Errors [px] of the undistorted picture over all of it, up to a rotation of the camera and its focal length."""
    height, width = true.size
    pixels = np.stack(np.meshgrid(np.linspace(0, width, 25), np.linspace(0, height, 15)), -1).reshape(-1, 2)
    found, ideal = rays_of(lens, undistort_points(lens, pixels)), true.undistort(pixels)
    ideal = np.concatenate([ideal, np.ones((len(ideal), 1))], -1)
    found[:, :2] *= lens.fy / true.fy  # in pixels of each picture: the focal length is judged by itself
    left, _, right = np.linalg.svd(
        (found / np.linalg.norm(found, axis=-1, keepdims=True)).T
        @ (ideal / np.linalg.norm(ideal, axis=-1, keepdims=True))
    )
    turned = ideal @ (left @ right).T
    return true.fy * np.linalg.norm(found[:, :2] - turned[:, :2] / turned[:, 2:], axis=-1)


def tag_texture(dictionary, number, side):
    modules = module_count(dictionary)
    image = cv2.aruco.generateImageMarker(aruco_dictionary(dictionary), number, modules)
    return image_texture(image, side, detail=24)


def tag_pose(frame, side, seed=0):
    """A tag that moves past about 1 m away and turns, tilted by 20 to 50 degrees, with up to 2 px of motion blur.

    Returns the pose of the print (y down from its upper left corner) as a function of the time in the exposure, the
    centre of the tag, and its rotation.
    """
    start = np.random.default_rng(seed).uniform(0, 2 * np.pi, 3) if seed else np.array([0.0, 1.0, 0.5])

    def place(time):
        phase = (frame + 0.3 * time) / 20
        return np.array([0.08 * phase - 0.04, 0.1 * (phase - 0.5) ** 2 - 0.02, 1.0 + 0.02 * np.sin(3 * phase)])

    def turn(time):
        phase = (frame + 0.3 * time) / 20
        tilt, azimuth = np.radians(35 + 15 * np.sin(4 * phase + start[0])), start[1] + 2.5 * phase
        return rotation((tilt * np.cos(azimuth), tilt * np.sin(azimuth), start[2] + phase))

    def pose(time):
        return turn(time), place(time) - turn(time) @ np.array([side / 2, side / 2, 0.0])

    return pose, place(0.0), turn(0.0) @ np.diag([1.0, -1.0, -1.0])


def tag_video(path, side, seed=0, frames=TAG_FRAMES):
    """A video of a tag of a side [m] at 1 m, focal length 1400 px; returns its true positions and rotations."""
    texture = tag_texture("4X4_50", 7, side)
    made = [tag_pose(k, side, seed) for k in range(frames)]
    images = [picture(TAG_LENS, texture, own[0], side=3, seed=1000 * seed + k) for k, own in enumerate(made)]
    save_phone(path, np.stack(images))
    return np.array([own[1] for own in made]), np.array([own[2] for own in made])


def lens_of(true):
    return Lens(**{name: getattr(true, name) for name in PARAMETERS}, size=true.size)


def tag_errors(poses, positions, rotations):
    """Distances [m] and angles [rad] of poses from the truth [N]."""
    distance = np.linalg.norm(poses.positions - positions, axis=-1)
    angle = np.array([rotation_angle(a, b) for a, b in zip(poses.rotations, rotations, strict=True)])
    return distance, angle


def _rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def _board_table(seeds, folder):
    print("seed  views  fx [%]  fy [%]  undistorted: mean, worst [px]  reprojection [px]")
    for seed in seeds:
        found = calibrate_lens(board_video(folder / "board.mp4", seed), BOARD)
        lens, error = found.lens, undistortion_error(found.lens, BOARD_LENS)
        focal = [100 * (getattr(lens, n) / getattr(BOARD_LENS, n) - 1) for n in ("fx", "fy")]
        row = f"{seed:4}  {len(found.views):5}  {focal[0]:6.3f}  {focal[1]:6.3f}"
        print(f"{row}  {error.mean():13.3f}  {error.max():5.3f}  {found.error:24.3f}", flush=True)


def _tag_table(seeds, folder):
    print("side [cm]  seed  position: rms, worst [mm]  rotation: rms, worst [degrees]  normalized errors below 1.96")
    for side in (0.05, 0.08):
        for seed in seeds:
            positions, rotations = tag_video(folder / "tag.mp4", side, seed)
            (track,) = track_tags(folder / "tag.mp4")
            poses = tag_poses(track, lens_of(TAG_LENS), side)
            distance, angle = tag_errors(poses, positions[track.frames], rotations[track.frames])
            inside = np.mean(np.abs(poses.positions - positions[track.frames]) < 1.96 * poses.position_sd)
            row = f"{100 * side:9.0f}  {seed:4}  {1e3 * _rms(distance):13.2f}  {1e3 * distance.max():5.2f}"
            print(f"{row}  {np.degrees(_rms(angle)):20.3f}  {np.degrees(angle.max()):5.3f}  {inside:24.2f}", flush=True)


if __name__ == "__main__":
    first, last = (int(number) for number in sys.argv[2].split(":"))
    table = {"boards": _board_table, "tags": _tag_table}[sys.argv[1]]
    with tempfile.TemporaryDirectory() as temporary:
        table(range(first, last), Path(temporary))
