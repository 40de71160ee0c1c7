"""Finding the moving objects of a recording, and choosing one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.contested import filled_plate, settled_plate
from gradsim.footage.exposure import ExposureDrift
from gradsim.footage.objects import Blob, find_blobs
from gradsim.footage.plate import Plate, sample_numbers
from gradsim.footage.recording import Recording
from gradsim.footage.stabilization import CameraMotion, StillPicture, sampled_plate, still_picture
from gradsim.footage.takes import check_one_take
from gradsim.footage.tracklets import Tracklet, is_moved, link_blobs
from gradsim.scene.errors import AmbiguousObject, NoMovingObject, OutOfRange, SceneCut

AMBIGUOUS = 0.5  # score of the runner-up relative to the best one, from which on the choice is not clear
MIN_OVERLAP = (
    0.3  # part of the runner-up's frames in which the best one is also visible: else it may be the same object
)
MAX_GAIN = 0.85  # motion of what is attached to the best object, such as the coils of a spring, relative to its motion
MIN_FOLLOWING = 0.9  # part of the motion of something attached that follows that of the object
CLEARER = 1.5  # score of an object with the settled plate, relative to that with the median, from which it is used
MIN_PART_SCORE = 0.2  # score of a part of the motion of the best object, relative to that of the other part
REACH = 1.0  # distance of a chosen point from an object [diameters]
NEAR = 0.35  # distance of a larger blob that may hold the object [diameters]
LARGER = 1.5  # area of such a blob, relative to that of the object
MAX_GAP = 4  # frames without the object within a free range


@dataclass(frozen=True, eq=False)
class Detection:
    """The moving objects of a recording.

    Args:
        recording: The recording.
        camera: Motion of the camera.
        exposure: Gains of the frames against the plate.
        plate: Background at the size of the reduced copy, computed without the best object.
        tracklets: Moving objects, best first. The scores of the runners-up show how clear the choice is.
        blobs: All blobs of each frame.
        chosen: Whether the first of the tracklets was chosen by a point.
    """

    recording: Recording
    camera: CameraMotion
    exposure: ExposureDrift
    plate: Plate
    tracklets: tuple[Tracklet, ...] = field(repr=False)
    blobs: tuple[tuple[Blob, ...], ...] = field(repr=False)
    chosen: bool = False

    @property
    def best(self) -> Tracklet:
        """The chosen tracklet, or that with the highest score."""
        return self.tracklets[0]

    @property
    def runner_up(self) -> Tracklet | None:
        """The best of the other tracklets that are visible at the same time as the best one and move differently."""
        frames = self.best.frames
        others = (own for own in self.tracklets[1:] if np.isin(own.frames, frames).mean() > MIN_OVERLAP)
        return next((own for own in others if not _is_attached(own, self.best)), None)

    @property
    def ambiguity(self) -> float:
        """Score of the runner-up over that of the best tracklet; zero if there is none."""
        return 0.0 if self.runner_up is None else self.runner_up.score / max(self.best.score, 1e-12)

    @property
    def ambiguous(self) -> bool:
        """Whether another object moves about as well as the best one, and none was chosen by a point."""
        return not self.chosen and self.ambiguity > AMBIGUOUS

    def check_unambiguous(self) -> None:
        """Raises if it is not clear which object is meant.

        Raises:
            AmbiguousObject: Two objects have similar scores; the message has a point of each.
        """
        if self.ambiguous and self.runner_up is not None:
            points = [_middle(own, self.recording) for own in (self.best, self.runner_up)]
            scores = f"scores {self.best.score:.2g} and {self.runner_up.score:.2g}"
            found = f"two objects move alike: at {points[0]} and at {points[1]}, {scores}"
            remedy = "needs a choice: pass object_at=(x, y) of one, or ignore= rectangles around the other"
            raise AmbiguousObject(str(self.recording.path), found, remedy)

    def check_unbroken(self) -> None:
        """Raises if the best object vanishes and an equal one goes on elsewhere at once.

        Raises:
            SceneCut: Frames are missing within the motion; the message has the longer part.
        """
        for other in self.tracklets[1:]:
            before, after = sorted((self.best, other), key=lambda own: int(own.frames[0]))
            if other.score > MIN_PART_SCORE * self.best.score and is_moved(before, after):
                numbers = self.recording.numbers
                first, second = numbers[before.frames[-1]], numbers[after.frames[0]]
                found = f"the object jumps between frames {first} and {second}, as if frames were missing"
                longer = (numbers[0], first + 1) if len(before) > len(after) else (second, numbers[-1] + 1)
                remedy = f"needs one motion: select frames={longer}, the longer one, or choose the object"
                raise SceneCut(str(self.recording.path), found, remedy)

    def free_ranges(self, tracklet: Tracklet | None = None) -> list[tuple[int, int]]:
        """Returns the ranges (start, stop) of frames in which nothing larger is next to an object, longest first.

        Something larger may be a hand that holds it.
        """
        own = tracklet or self.best
        free = [blob.frame for blob in own.blobs if not _is_held(blob, self.blobs[blob.frame], own)]
        breaks = np.flatnonzero(np.diff(free) > MAX_GAP) + 1
        runs = [run for run in np.split(np.array(free, np.int64), breaks) if len(run)]
        return sorted(((int(run[0]), int(run[-1]) + 1) for run in runs), key=lambda run: run[0] - run[1])

    def plot(self, axes: Any) -> None:
        """Draws the paths of the best objects over the plate on matplotlib axes."""
        self.plate.plot(axes)
        for tracklet in self.tracklets[:4]:
            tracklet.plot(axes, label=f"score {tracklet.score:.2f}, {len(tracklet)} frames")
        axes.legend(fontsize="small")

    def save_overlay(self, path: str | os.PathLike[str]) -> None:
        """Writes `plot` to an image file."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 6), layout="constrained")
        self.plot(figure.add_subplot())
        figure.savefig(path)


def find_moving_objects(
    recording: Recording,
    *,
    object_at: tuple[float, float] | None = None,
    at_frame: int | None = None,
    ignore: Sequence[tuple[float, float, float, float]] = (),
) -> Detection:
    """Finds the objects that move through a recording of a still camera.

    The plate of a first pass contains an object that rests for more than half of the time. A second pass computes the
    plate without the best object of the first, and finds the objects again.

    Args:
        recording: The recording.
        object_at: A point (x, y) [px of the full picture] on the path of the object. The best one if None.
        at_frame: Number in the file of the frame in which the object is at that point; any frame if None.
        ignore: Rectangles (x1, y1, x2, y2) [px of the full picture] in which nothing is looked for.

    Raises:
        SceneCut: The recording consists of several takes.
        MovingCamera: The camera moves.
        NoMovingObject: No blob can be followed over four frames, or none passes the point.
    """
    check_one_take(recording)
    point = None if object_at is None else _checked_point(recording, object_at, at_frame)
    picture = still_picture(recording)
    ignored = _ignored(recording, ignore)
    blobs, tracklets = _first_found(recording, picture, ignored)
    if not tracklets:
        remedy = "needs an object that differs from the background and crosses at least a third of its size"
        raise NoMovingObject(str(recording.path), f"nothing moves in {len(recording)} frames", remedy)
    tracklets = tracklets if point is None else _with_first(tracklets, point, recording)
    hidden = _hidden(tracklets[0], sample_numbers(len(recording)), picture.frames.shape[1:3])
    plate = filled_plate(sampled_plate(picture.frames, picture.exposure, hidden))
    again, relinked = _found(recording, picture, plate, ignored)
    if relinked:
        blobs, tracklets = again, relinked if point is None else _with_first(relinked, point, recording)
    seen = tuple(tuple(own) for own in blobs)
    return Detection(recording, picture.camera, picture.exposure, plate, tuple(tracklets), seen, point is not None)


@dataclass(frozen=True)
class _Point:
    """A point (x, y) [px of the reduced copy] that the object passes, at a frame or at any."""

    place: NDArray[np.float64]
    frame: int | None


def _checked_point(recording: Recording, point: tuple[float, float], at_frame: int | None) -> _Point:
    height, width = recording.size
    if not (0 <= point[0] <= width and 0 <= point[1] <= height):
        raise OutOfRange("object_at", point, f"must be inside the picture of {width} x {height} px")
    if at_frame is not None and at_frame not in recording.numbers:
        first, last = recording.numbers[0], recording.numbers[-1]
        raise OutOfRange("at_frame", at_frame, f"must be one of the selected frames {first} to {last}")
    return _Point(np.array(point) / recording.scale, None if at_frame is None else recording.numbers.index(at_frame))


def _with_first(tracklets: list[Tracklet], point: _Point, recording: Recording) -> list[Tracklet]:
    """Returns the tracklets with the one first that passes a point most closely."""
    distances = [_distance(own, point) for own in tracklets]
    best = int(np.argmin(distances))
    if not distances[best] <= REACH:
        x, y = np.round(point.place * recording.scale).astype(int)
        paths = ", ".join(str(_middle(own, recording)) for own in tracklets[:3])
        remedy = f"needs a point on the path of an object: some pass {paths}"
        raise NoMovingObject(str(recording.path), f"no object passes ({x}, {y})", remedy)
    return [tracklets[best], *(own for k, own in enumerate(tracklets) if k != best)]


def _distance(tracklet: Tracklet, point: _Point) -> float:
    """Distance of a point from the blobs of a tracklet [diameters]; infinite if it has no blob near the frame."""
    near = [own for own in tracklet.blobs if point.frame is None or abs(own.frame - point.frame) <= MAX_GAP]
    if not near:
        return float("inf")
    if point.frame is not None:
        near = [min(near, key=lambda own: abs(own.frame - point.frame))]  # type: ignore[operator]
    centers = np.array([own.center for own in near])
    inside = min(own.distance(point.place) for own in near)
    tie = 0.01 * float(np.hypot(*(centers - point.place).T).min())  # of several boxes, the one with the nearest centre
    return (inside + tie) / tracklet.diameter


def _middle(tracklet: Tracklet, recording: Recording) -> tuple[int, int]:
    """Returns the centre (x, y) of a tracklet half way through its frames [px of the full picture]."""
    x, y = tracklet.centers[len(tracklet) // 2] * recording.scale
    return round(float(x)), round(float(y))


def _is_held(blob: Blob, blobs: Sequence[Blob], tracklet: Tracklet) -> bool:
    """Whether something larger than the object is next to a blob of it."""
    left, top, width, height = blob.box
    margin = NEAR * tracklet.diameter
    for other in blobs:
        x, y, other_width, other_height = other.box
        apart = max(x - left - width, left - x - other_width, y - top - height, top - y - other_height)
        if other is not blob and other.area > LARGER * blob.area and apart < margin:
            return True
    return False


def _is_attached(other: Tracklet, best: Tracklet) -> bool:
    """Whether something moves less than an object, but always with it, as the coils of a spring do with its mass."""
    _, one, two = np.intersect1d(best.frames, other.frames, return_indices=True)
    motion, following = (own - own.mean(0) for own in (best.centers[one], other.centers[two]))
    gain = float((motion * following).sum() / max(float((motion**2).sum()), 1e-9))
    left = float(((following - gain * motion) ** 2).sum())
    return 0 < gain < MAX_GAIN and left < (1 - MIN_FOLLOWING) * float((following**2).sum())


def _ignored(recording: Recording, rectangles: Sequence[tuple[float, float, float, float]]) -> NDArray[np.bool_] | None:
    """Returns the pixels of the reduced copy inside of rectangles of the full picture."""
    if not rectangles:
        return None
    mask = np.zeros(recording.reduced.shape[1:3], np.bool_)
    for x1, y1, x2, y2 in rectangles:
        if not (x1 < x2 and y1 < y2):
            raise OutOfRange("ignore", (x1, y1, x2, y2), "must be rectangles (x1, y1, x2, y2) with x1 < x2 and y1 < y2")
        low = np.floor(np.array([x1, y1]) / recording.scale).astype(int).clip(0)
        high = np.ceil(np.array([x2, y2]) / recording.scale).astype(int).clip(0)
        mask[low[1] : high[1], low[0] : high[0]] = True
    return mask


def _first_found(
    recording: Recording, picture: StillPicture, ignored: NDArray[np.bool_] | None
) -> tuple[list[list[Blob]], list[Tracklet]]:
    """Returns blobs and tracklets of the median plate, or of the settled one if an object is much clearer in it."""
    found = _found(recording, picture, picture.plate, ignored)
    settled = settled_plate(picture.frames, picture.exposure, picture.plate)
    if settled is picture.plate:
        return found
    other = _found(recording, picture, settled, ignored)
    scores = [own[1][0].score if own[1] else 0.0 for own in (found, other)]
    return other if scores[1] > CLEARER * scores[0] else found


def _found(
    recording: Recording, picture: StillPicture, plate: Plate, ignored: NDArray[np.bool_] | None
) -> tuple[list[list[Blob]], list[Tracklet]]:
    """Returns all blobs, and tracklets of those that are whole, or else of all."""
    blobs = find_blobs(picture.frames, plate, exposure=picture.exposure, ignored=ignored)
    return blobs, link_blobs(blobs, recording.times) or link_blobs(blobs, recording.times, at_edge=True)


def _hidden(tracklet: Tracklet, samples: NDArray[np.int64], size: tuple[int, ...]) -> NDArray[np.bool_]:
    """Returns the pixels [N, h, w] that the object hides in some frames, with a margin."""
    hidden = np.zeros((len(samples), *size), np.uint8)
    places = {int(frame): n for n, frame in enumerate(samples)}
    radius = max(2, int(0.25 * tracklet.diameter))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    for blob in tracklet.blobs:
        if blob.frame in places:
            left, top, width, height = blob.box
            image = hidden[places[blob.frame]]
            image[top : top + height, left : left + width] = blob.mask
            hidden[places[blob.frame]] = cv2.dilate(image, disc)
    return hidden.astype(np.bool_)
