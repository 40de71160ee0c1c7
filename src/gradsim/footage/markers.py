"""Tags on objects: ArUco and AprilTag markers in every frame, and their poses relative to the camera."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.alignment import align_pattern
from gradsim.footage.dictionaries import marker_cells, marker_detector
from gradsim.footage.lens import Lens
from gradsim.footage.pictures import open_pictures
from gradsim.footage.pose import Pose, rotation_angle, solve_pose
from gradsim.scene.errors import NoMarker, WrongShape
from gradsim.scene.validation import check_positive_length
from gradsim.video.load import Frames

DICTIONARY = "4X4_50"
SD_UNREFINED = 0.2  # of the corners of the detector [px], where the tag is too small or covered
USUAL_TURN = 0.1  # of a tag from frame to frame [rad]
MAX_TURN_COST = 25.0  # of a turn of any size: a sudden one is possible
FREEDOM = 2  # coordinates of four corners beyond the six numbers of a pose
CORNERS = np.array([[-0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.5, -0.5, 0.0], [-0.5, -0.5, 0.0]])  # of a tag of side 1


@dataclass(frozen=True, eq=False)
class Tag:
    """A tag in one picture.

    Args:
        id: Number of the tag in its dictionary.
        corners: Outer corners of its black border [4, 2] [px], clockwise from the printed tag's upper left.
        covariance: Covariance of their coordinates x0, y0, x1, ... [8, 8] [px^2].
    """

    id: int
    corners: NDArray[np.float64]
    covariance: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True, eq=False)
class TagTrack:
    """A tag in the frames in which it is found.

    Args:
        id: Number of the tag in its dictionary.
        size: Height and width of the pictures [px].
        frames: Numbers of the frames in the file [N].
        times: Times of the frames [N] [s]; the numbers of the images for a folder.
        corners: Outer corners of the black border [N, 4, 2] [px], clockwise from the printed tag's upper left.
        covariances: Covariance of their coordinates x0, y0, x1, ... [N, 8, 8] [px^2].
    """

    id: int
    size: tuple[int, int]
    frames: NDArray[np.int64] = field(repr=False)
    times: NDArray[np.float64] = field(repr=False)
    corners: NDArray[np.float64] = field(repr=False)
    covariances: NDArray[np.float64] = field(repr=False)

    def __len__(self) -> int:
        return len(self.frames)

    @property
    def centers(self) -> NDArray[np.float64]:
        """Centre of the tag, where its diagonals meet [N, 2] [px]."""
        a, b, c, d = np.moveaxis(self.corners, 1, 0)
        first, second = c - a, d - b
        cross = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
        along = ((b - a)[:, 0] * second[:, 1] - (b - a)[:, 1] * second[:, 0]) / cross
        return np.asarray(a + along[:, None] * first)

    @property
    def sd(self) -> NDArray[np.float64]:
        """Standard deviation of the corners along each axis [N] [px]."""
        return np.sqrt(np.trace(self.covariances, axis1=1, axis2=2) / 8)

    def plot(self, axes: Any) -> None:
        """Draws both coordinates of the centre over time on matplotlib axes."""
        axes.plot(self.times, self.centers[:, 0], ".", label="x, right")
        axes.plot(self.times, self.centers[:, 1], ".", label="y, down")
        axes.set_xlabel("time [s]")
        axes.set_ylabel(f"centre of tag {self.id} [px]")
        axes.legend()


@dataclass(frozen=True, eq=False)
class TagPoses:
    """Poses of a tag of known size relative to the camera.

    The tag's axes: x to the right and y up on the printed tag, z out of it; its origin is the centre. Camera axes: x to
    the right, y down, z forward.

    Args:
        track: The track.
        poses: Pose in each frame, with covariance.
    """

    track: TagTrack
    poses: tuple[Pose, ...] = field(repr=False)

    @property
    def positions(self) -> NDArray[np.float64]:
        """Centre of the tag in camera axes [N, 3] [m]."""
        return np.array([own.translation for own in self.poses])

    @property
    def position_sd(self) -> NDArray[np.float64]:
        """Standard deviations of the positions [N, 3] [m]."""
        return np.array([own.translation_sd for own in self.poses])

    @property
    def rotations(self) -> NDArray[np.float64]:
        """Rotation matrices from the tag's to the camera axes [N, 3, 3]."""
        return np.array([own.rotation for own in self.poses])

    @property
    def rotation_sd(self) -> NDArray[np.float64]:
        """Standard deviations of the rotation about the camera axes [N, 3] [rad]."""
        return np.array([own.rotation_sd for own in self.poses])

    @property
    def is_ambiguous(self) -> NDArray[np.bool_]:
        """Whether another rotation explains the corners about as well [N]; the one that turns less was taken."""
        return np.array([own.is_ambiguous for own in self.poses])


def detect_tags(gray: NDArray[np.uint8], dictionary: str = DICTIONARY) -> tuple[Tag, ...]:
    """Finds the tags of a dictionary in a picture [H, W], with corners refined along their edges."""
    found, ids, _ = marker_detector(dictionary).detectMarkers(gray)
    tags = []
    for number, corners in zip(np.ravel(np.asarray(ids)) if len(found) else (), found, strict=True):
        rough = np.asarray(corners, np.float64).reshape(4, 2) + 0.5
        aligned = align_pattern(gray, rough, marker_cells(dictionary, int(number)))
        if aligned is None:
            tags.append(Tag(int(number), rough, SD_UNREFINED**2 * np.eye(8)))
        else:
            tags.append(Tag(int(number), aligned.corners, aligned.covariance))
    return tuple(sorted(tags, key=lambda tag: tag.id))


def track_tags(
    path: str | os.PathLike[str], *, dictionary: str = DICTIONARY, frames: Frames = None
) -> tuple[TagTrack, ...]:
    """Finds tags in every frame of a video, or in a folder of images.

    A tag is followed by its number; of several tags with one number in a picture, the largest counts.

    Args:
        path: A video file, an image, or a folder of images.
        dictionary: Dictionary of the tags, such as "4X4_50", "6X6_250" or "APRILTAG_36h11".
        frames: Frames to read: a slice or a pair (start, stop). All if None.

    Raises:
        NoMarker: No frame shows a tag.
    """
    source = open_pictures(path, frames=frames)
    found: dict[int, list[tuple[int, float, Tag]]] = {}
    size = (0, 0)
    for picture in source.read():
        gray = np.asarray(cv2.cvtColor(picture.image, cv2.COLOR_RGB2GRAY), np.uint8)
        size = (gray.shape[0], gray.shape[1])
        time = float(picture.number) if picture.time is None else picture.time
        largest = {tag.id: tag for tag in sorted(detect_tags(gray, dictionary), key=_area)}
        for tag in largest.values():
            found.setdefault(tag.id, []).append((picture.number, time, tag))
    if not found:
        remedy = "needs tags of this dictionary with a white margin, sharp and at least 25 px large"
        raise NoMarker(os.fspath(path), f"no tag of {dictionary} in {len(source)} frames", remedy)
    return tuple(_track(own, size) for _, own in sorted(found.items()))


def tag_poses(track: TagTrack, lens: Lens, side: float) -> TagPoses:
    """Returns the poses of a tag of known size.

    Args:
        track: The track.
        lens: The lens, for pictures of the same size.
        side: Side of the black border of the tag, from outer edge to outer edge [m].
    """
    check_positive_length("side", side)
    if lens.size != track.size:
        remedy = f"must be that of the video, {track.size[0]} x {track.size[1]}: use lens.scaled({track.size})"
        raise WrongShape("lens.size", f"{lens.size[0]} x {lens.size[1]}", remedy)
    solved = [
        _solved(lens, side, corners, covariance)
        for corners, covariance in zip(track.corners, track.covariances, strict=True)
    ]
    return TagPoses(track, tuple(_continuous(solved)))


def _solved(lens: Lens, side: float, corners: NDArray[np.float64], covariance: NDArray[np.float64]) -> Pose:
    """Returns the pose of a tag. Its corners are those of straight edges: what the lens bends them by is undone."""
    pose = solve_pose(lens, side * CORNERS, corners, noise=covariance)
    bend = _bend(lens, side, pose)
    return solve_pose(lens, side * CORNERS, corners - bend, noise=covariance) if np.abs(bend).max() > 1e-4 else pose


def _bend(lens: Lens, side: float, pose: Pose) -> NDArray[np.float64]:
    """Returns how far the corners [4, 2] of the nearest picture of a tag with straight edges are from its own [px]."""
    y, x = np.mgrid[-0.5:0.5:9j, -0.5:0.5:9j]
    grid = np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], -1)
    points = side * np.concatenate([CORNERS, grid])
    found, _ = cv2.projectPoints(
        points @ pose.rotation.T + pose.translation, np.zeros(3), np.zeros(3), lens.matrix, lens.distortion
    )
    pixels = np.asarray(found, np.float64).reshape(-1, 2)
    homography, _ = cv2.findHomography(grid[:, :2], pixels[4:])
    straight = cv2.perspectiveTransform(CORNERS[:, None, :2], homography).reshape(4, 2)
    return np.asarray(straight - pixels[:4], np.float64)


def _continuous(poses: Sequence[Pose]) -> list[Pose]:
    """Returns the poses or their alternatives: those that explain the corners best and turn least (Viterbi algorithm).

    So a frame in which the tilt is ambiguous takes it from the frames before and after it.
    """
    options = [_options(pose) for pose in poses]
    totals = [own.chi2 for own in options[0]]
    origins: list[list[int]] = []
    for before, here in pairwise(options):
        costs = [[total + _turn_cost(a, b) for total, a in zip(totals, before, strict=True)] for b in here]
        origins.append([int(np.argmin(own)) for own in costs])
        least = min(own.chi2 for own in here)
        scale = max(1.0, least / FREEDOM)
        totals = [min(own) + (b.chi2 - least) / scale for own, b in zip(costs, here, strict=True)]
    chosen = [int(np.argmin(totals))]
    for origin in reversed(origins):
        chosen.append(origin[chosen[-1]])
    return [own[k] for own, k in zip(options, reversed(chosen), strict=True)]


def _options(pose: Pose) -> list[Pose]:
    """Returns a pose and its alternative, each as the alternative of the other."""
    other = pose.alternative
    if other is None:
        return [pose]
    return [pose, replace(other, alternative=replace(pose, alternative=None), is_ambiguous=pose.is_ambiguous)]


def _turn_cost(before: Pose, after: Pose) -> float:
    """Returns the cost of a turn between two frames, in units of chi^2."""
    return float(min((rotation_angle(before.rotation, after.rotation) / USUAL_TURN) ** 2, MAX_TURN_COST))


def _track(found: list[tuple[int, float, Tag]], size: tuple[int, int]) -> TagTrack:
    numbers, times, tags = zip(*found, strict=True)
    corners = np.array([tag.corners for tag in tags])
    covariances = np.array([tag.covariance for tag in tags])
    return TagTrack(tags[0].id, size, np.array(numbers), np.array(times), corners, covariances)


def _area(tag: Tag) -> float:
    return float(cv2.contourArea(tag.corners.astype(np.float32)))
