"""How a synthetic video is recorded: picture, timing, sensor and compression, drawn for each seed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Random = np.random.Generator

TICKS = 90_000  # of the clock of the files per second: all rates below are whole numbers of ticks per frame
RATES = (24.0, 25.0, 30.0, 30000 / 1001, 50.0, 60.0)
FRAMES = (14, 125)  # least and most frames of a video, where a rate allows it
SIZES = {(480, 640): 0.3, (480, 854): 0.17, (540, 960): 0.25, (720, 1280): 0.25, (1080, 1920): 0.03}
SHARES = {"distortion": 1 / 3, "variable_rate": 1 / 6, "hand": 0.3, "drift": 0.3, "shake": 0.2, "shadow": 0.8}
ROOTS = dict(zip(SHARES, np.sqrt([2, 3, 5, 7, 11, 13]), strict=True))  # independent over the rational numbers
PORTRAIT = ("drop", "pendulum", "spring")  # kinds that a phone may record upright


@dataclass(frozen=True)
class Conditions:
    """Conditions of a recording.

    Args:
        size: Height and width [px].
        fps: Nominal frames per second.
        shutter: Exposure time, as a part of 1 / fps.
        noise: Standard deviation of the noise at medium brightness, as a part of full scale.
        crf: Quality of H.264, lower is better.
        vignette: Loss of light in the corners, as a part.
        drift: Amplitude of slow changes of the exposure, as a part.
        shake: Amplitude of the camera's shake [px].
        k1: Lens distortion, see `TrueCamera`.
        variable_rate: Whether frames come at uneven times, some missing.
        darkness: Of shadows near the body, as a part.
    """

    size: tuple[int, int] = (480, 640)
    fps: float = 30.0
    shutter: float = 0.3
    noise: float = 0.01
    crf: int = 22
    vignette: float = 0.1
    drift: float = 0.0
    shake: float = 0.0
    k1: float = 0.0
    variable_rate: bool = False
    darkness: float = 0.3


def has(seed: int, feature: str) -> bool:
    """Whether the video of a seed has a feature, a key of SHARES.

    Multiples of an irrational number are evenly spread: any range of seeds has nearly the intended share.
    """
    return float((seed + 1) * ROOTS[feature] % 1) < SHARES[feature]


def draw_conditions(random: Random, seed: int, size: tuple[int, int], duration: float) -> Conditions:
    """Returns random conditions of the video of a seed, of the given size (H, W) [px] and duration [s]."""
    return Conditions(
        size=size,
        fps=_rate(random, duration),
        shutter=float(random.uniform(0.1, 0.6)),
        noise=float(random.uniform(0.005, 0.02)),
        crf=int(random.integers(18, 29)),
        vignette=float(random.uniform(0.0, 0.3)),
        drift=float(random.uniform(0.01, 0.04)) if has(seed, "drift") else 0.0,
        shake=float(random.uniform(0.2, 0.8)) if has(seed, "shake") else 0.0,
        k1=float(random.uniform(-0.08, 0.08)) if has(seed, "distortion") else 0.0,
        variable_rate=has(seed, "variable_rate"),
        darkness=float(random.uniform(0.2, 0.5)) if has(seed, "shadow") else 0.0,
    )


def draw_size(random: Random, kind: str) -> tuple[int, int]:
    """Returns a random size of the picture (H, W) [px]."""
    height, width = list(SIZES)[random.choice(len(SIZES), p=list(SIZES.values()))]
    upright = kind in PORTRAIT and random.uniform() < 0.3
    return (width, height) if upright else (height, width)


def _rate(random: Random, duration: float) -> float:
    fitting = [rate for rate in RATES if FRAMES[0] <= duration * rate <= FRAMES[1]]
    if fitting:
        return float(random.choice(fitting))
    return max(RATES) if duration * min(RATES) < FRAMES[0] else min(RATES)


def frame_times(random: Random, conditions: Conditions, duration: float) -> Array:
    """Returns the times of the frames from 0 to `duration` [s], whole numbers of ticks apart."""
    count = min(int(duration * conditions.fps) + 1, FRAMES[1])
    times = np.arange(count) / conditions.fps
    if conditions.variable_rate:
        times[1:] += np.clip(0.08 * random.normal(size=count - 1), -0.25, 0.25) / conditions.fps
        times = times[(random.uniform(size=count) > 0.06) | (np.arange(count) < 2)]
    return np.round(times * TICKS) / TICKS


def shake_path(random: Random, conditions: Conditions, times: Array) -> Array:
    """Returns the shifts of the picture by a trembling camera [T, 2] [px], at most `shake` along each axis."""
    rates, phases = random.uniform(0.5, 5.0, (3, 2)), random.uniform(0, 2 * np.pi, (3, 2))
    waves = np.sin(2 * np.pi * rates * times[:, None, None] + phases)
    return np.asarray(conditions.shake * waves.mean(1))


def exposure_path(random: Random, conditions: Conditions, times: Array) -> Array:
    """Returns the relative exposures of the frames [T]."""
    rate, phase = random.uniform(0.1, 0.8), random.uniform(0, 2 * np.pi)
    return np.asarray(1 + conditions.drift * np.sin(2 * np.pi * rate * times + phase))
