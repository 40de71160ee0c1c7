"""Synthetic videos of eight kinds of motion, one for each seed."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.flights import bounce, drop, throw, tumbling_box
from gradsim.experiments.footage_videos.motion import Motion
from gradsim.experiments.footage_videos.oscillations import beam, double_pendulum, pendulum, spring
from gradsim.experiments.footage_videos.recording import Shot, frames_of, write_video
from gradsim.experiments.footage_videos.setup import MotionDraw, Setup, make_setup
from gradsim.experiments.footage_videos.slides import incline, rolling
from gradsim.experiments.footage_videos.truth import Known, Line, Point, SyntheticTruth
from gradsim.scene.errors import OutOfRange

Array = NDArray[np.float64]
Random = np.random.Generator

KINDS = ("throw", "drop", "bounce", "pendulum", "double_pendulum", "incline", "oscillator", "ground")
MOTIONS: dict[str, MotionDraw] = {
    "throw": throw,
    "drop": drop,
    "bounce": bounce,
    "pendulum": pendulum,
    "double_pendulum": double_pendulum,
    "incline": incline,
    "spring": spring,
    "beam": beam,
    "rolling": rolling,
    "box": tumbling_box,
}
VARIANTS = {"oscillator": ("spring", "beam"), "ground": ("rolling", "box")}
CLICK = 0.7  # standard deviation of points that a user picks [px]


def kind_of(seed: int) -> str:
    """Returns the kind of motion of a seed, a key of MOTIONS. Two of the eight kinds have two variants in turn."""
    if seed < 0:
        raise OutOfRange("seed", seed, "must be 0 or larger: 0 to 59 are for tuning, those from 60 on are held out")
    kind = KINDS[seed % len(KINDS)]
    variants = VARIANTS.get(kind, (kind,))
    return variants[seed // len(KINDS) % len(variants)]


def setup_of(seed: int) -> Setup:
    """Returns the setup of a video."""
    kind = kind_of(seed)
    return make_setup(seed, kind, MOTIONS[kind])


def synthetic_video(seed: int, path: str | os.PathLike[str]) -> SyntheticTruth:
    """Writes the video of a seed as H.264 and returns what is true of it.

    Args:
        seed: 0 or larger; 0 to 59 are for tuning, those from 60 on are held out.
        path: File to write, with the extension .mp4.
    """
    setup = setup_of(seed)
    file = Path(path)
    shot = setup.shot
    write_video(file, frames_of(shot), shot.times, shot.conditions)
    return truth_of(setup, file, name=f"seed {seed}", seed=seed)


def truth_of(
    setup: Setup, path: Path, *, name: str, seed: int | None = None, refusal: str | None = None
) -> SyntheticTruth:
    """Returns what is true of the video of a setup."""
    shot = setup.shot
    motion = shot.scene.motion
    centers, diameters, visible = projected_objects(shot)
    free = (int(np.searchsorted(shot.times, setup.hand_time)) if setup.hand == "release" else 0, len(shot.times))
    random = np.random.default_rng([18, shot.seed])
    return SyntheticTruth(
        name=name,
        seed=seed,
        kind=motion.kind,
        path=path,
        values=dict(motion.values),
        judged=motion.judged if refusal is None else (),
        known=_known(random, setup, centers, visible, free),
        times=shot.times,
        centers=centers,
        diameters=diameters,
        visible=visible,
        free=free,
        shake=shot.shifts,
        camera=shot.camera,
        conditions=shot.conditions,
        hand=setup.hand,
        refusal=refusal,
    )


def projected_objects(shot: Shot) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Returns the centres [T, K, 2] [px] and diameters [T, K] [px] of the bodies, and whether they are visible."""
    motion = shot.scene.motion
    positions, angles = motion.trajectory(shot.times)
    count = len(motion.shapes)
    centers, diameters = np.zeros((len(shot.times), count, 2)), np.zeros((len(shot.times), count))
    visible = np.zeros((len(shot.times), count), bool)
    for frame in range(len(shot.times)):
        camera = shot.camera_of(frame)
        centers[frame] = camera.project(positions[frame]) if count else 0.0
        for k, shape in enumerate(motion.shapes):
            outline = shape.outline(camera, positions[frame, k], float(angles[frame, k]))
            diameters[frame, k] = 2 * np.sqrt(cv2.contourArea(outline.astype(np.float32)) / np.pi)
            visible[frame, k] = (outline >= 0).all() and (outline <= np.array(camera.size)[::-1]).all()
    return centers, diameters, visible


def _known(random: Random, setup: Setup, centers: Array, visible: NDArray[np.bool_], free: tuple[int, int]) -> Known:
    """Returns what the user states, with the errors of doing so."""
    shot, motion = setup.shot, setup.shot.scene.motion
    camera, conditions = shot.camera, shot.conditions
    errors = random.normal(size=5)
    fov = 2 * np.degrees(np.arctan(camera.size[0] / 2 / camera.focal))
    frame, point = _object(random, centers, visible, free)
    return Known(
        diameter=float(motion.shapes[-1].diameter * (1 + 0.01 * errors[0])) if motion.shapes else 0.1,
        distance=float(camera.distance * np.exp(0.1 * np.clip(errors[1], -2, 2))),
        fov=float(fov * (1 + 0.02 * errors[2])),
        length=_length(random, setup),
        k1=float(conditions.k1 * (1 + 0.1 * errors[3])) if conditions.k1 else None,
        floor=_picked_line(random, shot, motion.surface) if motion.surface is not None else None,
        angle=float(motion.angle + np.radians(0.3) * errors[4]) if motion.angle is not None else None,
        pivot=_picked_pivot(random, shot, motion),
        object=point,
        frame=frame,
        frames=_hand_free_frames(setup),
    )


def _object(
    random: Random, centers: Array, visible: NDArray[np.bool_], free: tuple[int, int]
) -> tuple[int, Point | None]:
    """Returns the first frame in which the last body is visible and free, and a point on it [px]."""
    if centers.shape[1] == 0:
        return 0, None
    candidates = [k for k in range(*free) if visible[k, -1]]
    frame = candidates[0] if candidates else free[0]
    x, y = centers[frame, -1] + 2 * random.normal(size=2)
    return frame, (float(x), float(y))


def _length(random: Random, setup: Setup) -> tuple[float, float, float, float, float] | None:
    if setup.ruler is None:
        return None
    return (*_picked_line(random, setup.shot, setup.ruler.ends), setup.ruler.length)


def _picked_line(random: Random, shot: Shot, ends: Array) -> Line:
    """Returns the pixels of the ends of a line [2, 3] [m], as picked by hand in the first frame."""
    pixels = shot.camera_of(0).project(ends) + CLICK * random.normal(size=(2, 2))
    (x1, y1), (x2, y2) = pixels.tolist()
    return x1, y1, x2, y2


def _picked_pivot(random: Random, shot: Shot, motion: Motion) -> Point | None:
    if motion.pivot is None:
        return None
    x, y = shot.camera_of(0).project(motion.pivot) + CLICK * random.normal(size=2)
    inside = 0 <= x <= shot.camera.size[1] and 0 <= y <= shot.camera.size[0]
    return (float(x), float(y)) if inside else None


def _hand_free_frames(setup: Setup) -> tuple[int, int] | None:
    """Returns the frames in which the hand is not near the object, about; None without a hand."""
    times = setup.shot.times
    frame = int(np.searchsorted(times, setup.hand_time))
    if setup.hand == "release":
        return min(frame + 2, len(times)), len(times)
    return (0, frame) if setup.hand == "enter" else None
