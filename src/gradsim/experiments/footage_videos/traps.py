"""Videos from which no physics can be estimated: moving cameras, unrelated motion, cuts, nothing that moves.

Each must be reported as what it is. A status that does not claim certainty is right for all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.conditions import Conditions
from gradsim.experiments.footage_videos.recording import Scene, Shot, frames_of, write_video
from gradsim.experiments.footage_videos.setup import MARGIN, MotionDraw, Setup, make_setup
from gradsim.experiments.footage_videos.trap_motions import (
    balloon,
    bird,
    foliage,
    gesturing_hand,
    motor_cart,
    no_motion,
    two_balls,
)
from gradsim.experiments.footage_videos.truth import SyntheticTruth
from gradsim.experiments.footage_videos.videos import MOTIONS, truth_of
from gradsim.scene.errors import UnknownName

Array = NDArray[np.float64]
Frames = Iterable[NDArray[np.uint8]]
Footage = tuple[Setup, Frames, SyntheticTruth]

FIRST_SEED = 1000
SIZE = (480, 640)  # [px]
LEAF = (0.05, 0.18, 0.04)  # linear RGB
PAN = 260  # [px]
FLICKER = 0.2
JUMP = (0.35, 0.6)  # part of a video that a jump cut removes
HIDDEN = (0.15, 0.85)  # part of the width behind which a body is hidden


def _steady(conditions: Conditions) -> Conditions:
    """Returns conditions in which nothing but the trap is unusual."""
    return replace(conditions, k1=0.0, shake=0.0, drift=0.0, variable_rate=False)


def _setup(seed: int, kind: str, draw: MotionDraw | None = None, margin: int = MARGIN) -> Setup:
    draw = MOTIONS[kind] if draw is None else draw
    return make_setup(seed, kind, draw, adjust=_steady, size=SIZE, hands=False, margin=margin)


def _footage(setup: Setup) -> Footage:
    return setup, frames_of(setup.shot), truth_of(setup, Path(), name="")


def _with_shot(setup: Setup, change: Callable[[Shot], Shot]) -> Setup:
    return replace(setup, shot=change(setup.shot))


def _with_scene(setup: Setup, change: Callable[[Scene], Scene]) -> Setup:
    return _with_shot(setup, lambda shot: replace(shot, scene=change(shot.scene)))


def pan(seed: int) -> Footage:
    """The camera follows a thrown ball."""
    setup = _setup(seed, "throw", margin=PAN + 20)

    def turn(shot: Shot) -> Shot:
        phase = np.linspace(0, 1, len(shot.times))
        side = np.sign(shot.scene.motion.values["velocity_x"])
        return replace(shot, shifts=np.stack([-side * PAN * phase, 0 * phase], -1))

    return _footage(_with_shot(setup, turn))


def handheld(seed: int) -> Footage:
    """The camera is held in a hand: it sways by tens of pixels."""

    def sway(shot: Shot) -> Shot:
        random, t = np.random.default_rng(seed), shot.times[:, None, None]
        rates, phases = random.uniform(0.4, 2.5, (4, 2)), random.uniform(0, 6, (4, 2))
        shifts = 25 * np.sin(2 * np.pi * rates * t + phases).mean(1)
        return replace(shot, shifts=shifts, zooms=1 + 0.012 * np.sin(5 * shot.times))

    return _footage(_with_shot(_setup(seed, "bounce", margin=60), sway))


def zoom(seed: int) -> Footage:
    """The camera zooms in on a pendulum."""
    return _footage(
        _with_shot(_setup(seed, "pendulum"), lambda shot: replace(shot, zooms=np.linspace(1, 1.3, len(shot.times))))
    )


def flicker(seed: int) -> Footage:
    """Nothing moves, but the light flickers."""

    def lamp(shot: Shot) -> Shot:
        return replace(shot, exposures=1 + FLICKER * np.sin(2 * np.pi * 3.1 * shot.times))

    return _footage(_with_shot(_setup(seed, "throw", no_motion), lamp))


def walking_hand(seed: int) -> Footage:
    """Only a hand moves."""
    setup = _setup(seed, "throw", no_motion)
    hand = gesturing_hand(np.random.default_rng(seed), setup.view)
    return _footage(_with_scene(setup, lambda scene: replace(scene, hand=hand)))


def equal_balls(seed: int) -> Footage:
    """Two equal balls are thrown towards each other."""
    setup = _setup(seed, "throw", two_balls)
    return _footage(_with_scene(setup, lambda scene: replace(scene, looks=scene.looks[:1] * 2)))


def swaying_foliage(seed: int) -> Footage:
    """Leaves in the wind."""
    setup = _setup(seed, "throw", foliage)
    leaf = replace(setup.shot.scene.looks[0], colors=(LEAF,))
    return _footage(_with_scene(setup, lambda scene: replace(scene, looks=(leaf,) * len(scene.looks))))


def reversed_bounce(seed: int) -> Footage:
    """A bouncing ball, played backwards."""
    setup, frames, truth = _footage(_setup(seed, "bounce"))
    order = np.arange(len(truth.times))[::-1]
    return setup, list(frames)[::-1], _reordered(truth, order)


def jump_cut(seed: int) -> Footage:
    """A pendulum from which a part in the middle was cut out."""
    setup, frames, truth = _footage(_setup(seed, "pendulum"))
    count = len(truth.times)
    order = np.array([k for k in range(count) if not JUMP[0] * count <= k < JUMP[1] * count])
    images = list(frames)
    return setup, [images[k] for k in order], _reordered(truth, order)


def _reordered(truth: SyntheticTruth, order: NDArray[np.int64]) -> SyntheticTruth:
    """Returns the truth of a video with chosen frames, shown at the times of the first ones."""
    return replace(
        truth,
        times=truth.times[: len(order)],
        centers=truth.centers[order],
        diameters=truth.diameters[order],
        visible=truth.visible[order],
        shake=truth.shake[order],
        free=(0, len(order)),
    )


def cut(seed: int) -> Footage:
    """Two scenes one after the other."""
    setup, first, truth = _footage(_setup(seed, "throw"))
    _, second, after = _footage(_setup(seed + 500, "rolling"))
    half, rest = len(truth.times) // 2, len(truth.times) - len(truth.times) // 2
    if len(after.times) < rest:
        rest = len(after.times)
    frames = list(first)[:half] + list(second)[:rest]
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(truth, name)[:half], getattr(after, name)[:rest]])
        for name in ("centers", "diameters", "visible", "shake")
    }
    return setup, frames, replace(truth, times=truth.times[: half + rest], free=(0, half + rest), **joined)


def hidden(seed: int) -> Footage:
    """A ball that passes behind something for most of its way."""
    setup, frames, truth = _footage(_setup(seed, "throw"))
    scene = setup.shot.scene
    empty = replace(setup.shot, scene=replace(scene, motion=no_motion(np.random.default_rng(0), setup.view), looks=()))
    left, right = (int(part * setup.shot.conditions.size[1]) for part in HIDDEN)
    inside = (truth.centers[..., 0] > left) & (truth.centers[..., 0] < right)
    return setup, _covered(frames, frames_of(empty), left, right), replace(truth, visible=truth.visible & ~inside)


def _covered(frames: Frames, cover: Frames, left: int, right: int) -> Iterator[NDArray[np.uint8]]:
    for image, front in zip(frames, cover, strict=True):
        image[:, left:right] = front[:, left:right]
        yield image


def white_noise(seed: int) -> Footage:
    """Independent random pixels, smoothed a little."""
    setup = _setup(seed, "throw", no_motion)
    random = np.random.default_rng(seed)
    height, width = setup.shot.conditions.size
    frames = (
        random.integers(0, 256, (height // 4, width // 4, 3), np.uint8).repeat(4, 0).repeat(4, 1)
        for _ in setup.shot.times
    )
    return setup, frames, truth_of(setup, Path(), name="")


def _other_motion(kind: str, draw: MotionDraw) -> Callable[[int], Footage]:
    """Returns the maker of a video of a motion in the view of another kind."""
    return lambda seed: _footage(_setup(seed, kind, draw))


@dataclass(frozen=True)
class Trap:
    """A kind of trap.

    Args:
        make: Makes the video from a seed.
        refusal: What must be reported, alternatives separated by "|".
    """

    make: Callable[[int], Footage]
    refusal: str


TRAPS = {
    "pan": Trap(pan, "moving camera"),
    "handheld": Trap(handheld, "moving camera|stabilized"),
    "zoom": Trap(zoom, "moving camera"),
    "bird": Trap(_other_motion("throw", bird), "no model fits"),
    "walking_hand": Trap(walking_hand, "no model fits|no moving object"),
    "reversed_bounce": Trap(reversed_bounce, "no model fits"),
    "still": Trap(_other_motion("throw", no_motion), "no moving object"),
    "flicker": Trap(flicker, "no moving object"),
    "cut": Trap(cut, "cut|moving camera|no model fits"),
    "jump_cut": Trap(jump_cut, "cut|no model fits"),
    "two_balls": Trap(equal_balls, "several objects"),
    "motor_cart": Trap(_other_motion("rolling", motor_cart), "no model fits"),
    "balloon": Trap(_other_motion("drop", balloon), "no model fits"),
    "foliage": Trap(swaying_foliage, "no model fits|no moving object|several objects"),
    "white_noise": Trap(white_noise, "no moving object|moving camera|no model fits"),
    "hidden": Trap(hidden, "hidden|no moving object|no model fits"),
}


def trap_video(kind: str, path: str | os.PathLike[str]) -> SyntheticTruth:
    """Writes the video of a trap as H.264 and returns what is true of it, with the expected `refusal`.

    Args:
        kind: A key of TRAPS.
        path: File to write, with the extension .mp4.
    """
    if kind not in TRAPS:
        raise UnknownName("kind", kind, f"must be one of {', '.join(TRAPS)}")
    trap, file = TRAPS[kind], Path(path)
    setup, frames, truth = trap.make(FIRST_SEED + list(TRAPS).index(kind))
    write_video(file, frames, truth.times, setup.shot.conditions)
    return replace(truth, name=f"trap {kind}", kind=kind, path=file, judged=(), refusal=trap.refusal)
