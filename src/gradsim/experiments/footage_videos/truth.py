"""What is true of a synthetic video, and what somebody who recorded it would know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.conditions import Conditions

Array = NDArray[np.float64]
Point = tuple[float, float]  # (x, y) [px]
Line = tuple[float, float, float, float]  # (x1, y1, x2, y2) [px]

TUNING_SEEDS = 60


@dataclass(frozen=True)
class Known:
    """What a user knows about a video and passes on the command line, with the errors of doing so.

    None stands for what the user does not know. Pixels are those of the picture, with its lens distortion.

    Args:
        diameter: Of the object, or the longest side of a box [m]; 1 % error.
        distance: Of the camera from the object [m]; 10 % error.
        fov: Vertical field of view [degrees]; 2 % error.
        length: Ends of the ruler (x1, y1, x2, y2) [px] and its length [m]. Its scale has an error of about 1 %.
        k1: Lens distortion, where there is some; 10 % error.
        floor: Line that the object touches; 1 px error.
        angle: Of the incline [rad]; 0.3 degrees error.
        pivot: Fixed point of a pendulum, a spring or a beam, where it is in the picture; 1 px error.
        object: A point of the object, in the frame `frame`.
        frame: Index of a frame.
        frames: First frame and the one after the last, about, without a hand near the object.
        gravity: [m/s^2].
    """

    diameter: float
    distance: float
    fov: float
    length: tuple[float, float, float, float, float] | None = None
    k1: float | None = None
    floor: Line | None = None
    angle: float | None = None
    pivot: Point | None = None
    object: Point | None = None
    frame: int = 0
    frames: tuple[int, int] | None = None
    gravity: float = 9.81


@dataclass(frozen=True, eq=False)
class SyntheticTruth:
    """What is true of a video with T frames and K objects.

    Args:
        name: Such as "seed 7" or "trap pan".
        seed: Of the video; None for traps.
        kind: Kind of motion.
        path: The file.
        values: Physical values, in SI units.
        judged: Names of the values that an estimate is judged on; none for traps.
        known: What a user would state.
        times: Presentation times [T] [s]: the middles of the exposures.
        centers: Projected centres [T, K, 2], x right and y down [px]; the first pixel covers the square from 0 to 1.
        diameters: Diameters of discs with the areas of the projected objects [T, K] [px].
        visible: Whether an object is wholly in the picture and not behind a hand [T, K].
        free: First frame and the one after the last in which no hand moves the object.
        shake: Shifts of the picture by the camera [T, 2] [px], contained in `centers`.
        camera: The camera.
        conditions: Of the recording.
        hand: "release", "enter" or "none".
        refusal: What must be reported instead of an estimate, alternatives separated by "|"; None for a good video.
    """

    name: str
    seed: int | None
    kind: str
    path: Path
    values: Mapping[str, float]
    judged: tuple[str, ...]
    known: Known
    times: Array = field(repr=False)
    centers: Array = field(repr=False)
    diameters: Array = field(repr=False)
    visible: NDArray[np.bool_] = field(repr=False)
    free: tuple[int, int]
    shake: Array = field(repr=False)
    camera: TrueCamera
    conditions: Conditions
    hand: str = "none"
    refusal: str | None = None

    @property
    def good(self) -> bool:
        """Whether an estimate is expected."""
        return self.refusal is None

    @property
    def held_out(self) -> bool:
        """Whether the video must not be used for tuning."""
        return self.seed is not None and self.seed >= TUNING_SEEDS
