"""Puts a motion in front of a camera: view, room, colours, hand, and what the user would state about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.clutter import GAMMA, clutter
from gradsim.experiments.footage_videos.conditions import (
    Conditions,
    draw_conditions,
    draw_size,
    exposure_path,
    frame_times,
    has,
    shake_path,
)
from gradsim.experiments.footage_videos.hand import Hand, entering_hand, held, releasing_hand
from gradsim.experiments.footage_videos.motion import Motion, View
from gradsim.experiments.footage_videos.raster import Image
from gradsim.experiments.footage_videos.recording import Scene, Shot
from gradsim.experiments.footage_videos.shapes import Look, Room
from gradsim.experiments.footage_videos.stage import Ruler, draw_ruler, draw_supports

Array = NDArray[np.float64]
Random = np.random.Generator
MotionDraw = Callable[[Random, View], Motion]

POSE_ERROR = np.radians(0.5)  # standard deviation of pitch and roll
VIEW_HEIGHTS = {
    "throw": (1.4, 2.6),
    "drop": (1.5, 2.4),
    "bounce": (1.0, 1.9),
    "pendulum": (0.5, 1.1),
    "double_pendulum": (0.7, 1.2),
    "incline": (0.9, 1.5),
    "spring": (0.5, 0.9),
    "beam": (0.4, 0.7),
    "rolling": (0.7, 1.3),
    "box": (1.4, 2.4),
}  # of the plane of motion in the picture [m]
FIELDS_OF_VIEW = (34.0, 52.0)  # vertical, or horizontal of upright pictures [degrees]
COLORS = (
    (0.85, 0.2, 0.12), (0.93, 0.5, 0.1), (0.85, 0.85, 0.15), (0.12, 0.5, 0.2), (0.1, 0.3, 0.75), (0.45, 0.15, 0.55),
    (0.95, 0.95, 0.93), (0.1, 0.1, 0.12), (0.9, 0.35, 0.55), (0.15, 0.6, 0.65),
)  # encoded RGB  # fmt: skip
MIN_CONTRAST = 0.2  # of full scale, in most places of the path
TEXTURE_SHARE, RULER_SHARE = 0.4, 0.67
MARGIN = 4  # of the background, for the shake [px]


@dataclass(frozen=True, eq=False)
class Setup:
    """A shot, and what a user may know of it.

    Args:
        shot: What is recorded.
        view: Extent of the picture in the plane of motion.
        ruler: In the picture; None if there is none.
        hand: "release", "enter" or "none".
        hand_time: When the hand releases the body or enters [s].
    """

    shot: Shot
    view: View
    ruler: Ruler | None = None
    hand: str = "none"
    hand_time: float = 0.0


def make_setup(
    seed: int,
    kind: str,
    draw_motion: MotionDraw,
    *,
    adjust: Callable[[Conditions], Conditions] = lambda own: own,
    size: tuple[int, int] | None = None,
    hands: bool = True,
    margin: int = MARGIN,
) -> Setup:
    """Draws everything about a video of a kind of motion.

    Args:
        seed: Of all that is random. Camera, motion, background and conditions have generators of their own.
        kind: A key of VIEW_HEIGHTS.
        draw_motion: Draws the motion.
        adjust: Replaces conditions that were drawn.
        size: Height and width of the picture [px]; drawn if None.
        hands: Whether a hand may appear.
        margin: Of the background around the picture [px].
    """
    streams = np.random.SeedSequence([2026, seed]).spawn(6)
    placing, moving, recording, painting, helping, timing = (np.random.default_rng(own) for own in streams)
    drawn = draw_size(placing, kind)
    size = drawn if size is None else size
    view, camera, depth = _draw_camera(placing, kind, size)
    motion = draw_motion(moving, view)
    motion, hand, hand_name, hand_time = _draw_hand(helping, motion, view if hands and has(seed, "hand") else None)
    conditions = adjust(draw_conditions(recording, seed, size, motion.duration))
    camera = replace(camera, k1=conditions.k1)
    times = frame_times(timing, conditions, motion.duration)
    room = _draw_room(placing, motion, view, depth)
    ruler = draw_ruler(placing, view, camera.distance) if placing.uniform() < RULER_SHARE else None
    background = _paint(painting, camera.padded(margin), room, motion, view, ruler)
    looks = _draw_looks(painting, motion, background, camera.padded(margin))
    scene = Scene(motion, looks, room, background, margin, hand)
    shifts, exposures = shake_path(timing, conditions, times), exposure_path(timing, conditions, times)
    shot = Shot(scene, camera, conditions, times, shifts, np.ones(len(times)), exposures, seed)
    return Setup(shot, view, ruler, hand_name, hand_time)


def _draw_camera(random: Random, kind: str, size: tuple[int, int]) -> tuple[View, TrueCamera, float]:
    """Returns the view, the camera and the depth of the room behind the plane of motion [m]."""
    extent = random.uniform(*VIEW_HEIGHTS[kind])
    fov = np.radians(random.uniform(*FIELDS_OF_VIEW))
    focal = min(size) / 2 / np.tan(fov / 2)
    height, width = size
    distance = float(extent * focal / height)
    view = View(float(extent), float(extent * width / height))
    pitch, roll = POSE_ERROR * random.normal(size=2)
    camera = TrueCamera(size, float(focal), distance, (width / 2, height / 2), float(pitch), float(roll))
    return view, camera, float(extent * random.uniform(0.15, 0.7))


def _draw_room(random: Random, motion: Motion, view: View, depth: float) -> Room:
    below = view.height * random.uniform(0.46, 0.75)
    floor = None if motion.kind == "drop" else -below
    return Room(motion.floor if motion.floor is not None else floor, -depth)


def _draw_hand(random: Random, motion: Motion, view: View | None) -> tuple[Motion, Hand | None, str, float]:
    """Returns the motion, possibly begun by a hand, the hand, what it does, and when [s]."""
    if view is None:
        return motion, None, "none", 0.0
    if motion.can_be_held and random.uniform() < 0.7:
        release = float(random.uniform(0.3, 0.6))
        motion = held(motion, release)
        return motion, releasing_hand(random, motion, release), "release", release
    entering = entering_hand(random, motion, view)
    if entering is None:
        return motion, None, "none", 0.0
    return motion, entering[0], "enter", entering[1]


def _paint(random: Random, camera: TrueCamera, room: Room, motion: Motion, view: View, ruler: Ruler | None) -> Image:
    """Returns the background, encoded with gamma."""
    image = clutter(random, camera, room)
    draw_supports(image, camera, motion, view)
    if ruler is not None:
        ruler.draw(image, camera)
    return np.asarray(np.clip(image, 0, 1) ** np.float32(1 / GAMMA), np.float32)


def _draw_looks(random: Random, motion: Motion, background: Image, camera: TrueCamera) -> tuple[Look, ...]:
    """Returns looks that differ from the background along the path; several bodies have different colours."""
    light = np.array([random.uniform(-0.5, 0.5), -1.0, -random.uniform(0.35, 0.8)])
    x, y, z = light / np.linalg.norm(light)
    ambient, gloss = random.uniform(0.45, 0.65), random.uniform(0.0, 0.25)
    positions, _ = motion.trajectory(np.linspace(0, motion.duration, 60))
    looks = []
    free = list(random.permutation(np.array(COLORS)))
    for k in range(len(motion.shapes)):
        pixels = camera.project(positions[:, k])
        best = _contrasting(free, background, pixels)
        colors = [free.pop(best)]
        free = free if len(free) > 1 else [np.array(color) for color in COLORS]
        if random.uniform() < TEXTURE_SHARE:
            colors.append(free.pop(_contrasting(free, background, pixels)))
        linear = tuple((float(r), float(g), float(b)) for r, g, b in np.array(colors) ** GAMMA)
        looks.append(Look(linear, (float(x), float(y), float(z)), float(ambient), float(gloss)))
    return tuple(looks)


def _contrasting(colors: list[Array], background: Image, pixels: Array) -> int:
    """Returns the index of the first colour that differs enough from the background at pixels, or of the best one."""
    height, width = background.shape[:2]
    inside = (pixels >= 0).all(1) & (pixels < (width, height)).all(1)
    x, y = pixels[inside].astype(int).T
    if len(x) == 0:
        return 0
    differences = [np.percentile(np.abs(background[y, x] - color).max(1), 20) for color in colors]
    return next((k for k, own in enumerate(differences) if own > MIN_CONTRAST), int(np.argmax(differences)))
