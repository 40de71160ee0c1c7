"""Reasons why a motion that was fitted to a path cannot be what the recording shows.

A kind of motion may follow a path closely although the physics behind it is impossible: a video that is played
backwards, one from which frames were cut out, a bird, slow motion with the rate of its playback.
"""

from __future__ import annotations

import math

import numpy as np

from gradsim.footage.motions import bounce, double_pendulum, flight, oscillation, pendulum
from gradsim.footage.motions.draft import REVERSED
from gradsim.footage.motions.path import MIN_FRAMES, ImagePath, MotionFit
from gradsim.footage.motions.view import STANDARD_GRAVITY, View

MAX_RESTITUTION = 1.05  # of a ball whose bounces lose energy
MAX_GROWTH = 1.1  # of the amplitude of a swing during the recording
MAX_TILT = math.radians(25)  # of the acceleration of a flight against the vertical of the picture
GRAVITY_RANGE = (0.4, 2.2)  # of the gravity that follows from a known length, relative to that of the Earth
DIAMETER_RANGE = (0.002, 2.0)  # of an object whose size follows from gravity [m]
SAME_RATE = 0.1  # relative difference of the rates of two parts of one swing
FAST = 0.5  # speed of a frame that is not explained, relative to the usual one of those that are
MAX_UNEXPLAINED = 1.5  # number of such frames, relative to those that are explained
MIN_REST = 0.2  # part of the frames of a path


def objections(path: ImagePath, fit: MotionFit) -> list[str]:
    """Returns sentences that say why a fitted motion is impossible; none if it is not."""
    found = [_gained_energy(path, fit), _wrong_direction(fit), _second_swing(path, fit)]
    found = found if any(found) else [_mostly_unexplained(path, fit)]
    return [sentence for sentence in found if sentence is not None]


def _gained_energy(path: ImagePath, fit: MotionFit) -> str | None:
    if fit.kind == bounce.NAME and fit.numbers["restitution"] > MAX_RESTITUTION:
        ratio = fit.numbers["restitution"]
        return f"the ball leaves the floor {ratio:.2f} times as fast as it arrives: {REVERSED}"
    decay = {
        pendulum.NAME: lambda: fit.numbers["damping"] / 2,
        oscillation.NAME: lambda: fit.numbers["decay"],
        double_pendulum.NAME: lambda: fit.numbers["damping"] / 2,
    }.get(fit.kind, lambda: 0.0)()
    duration = float(path.times[fit.last] - path.times[fit.first])
    growth = math.exp(min(-decay * duration, 50.0))
    if growth > MAX_GROWTH:
        return f"the swing grows to {growth:.2f} times its width: it is driven, or {REVERSED}"
    return None


def _wrong_direction(fit: MotionFit) -> str | None:
    if fit.kind != flight.NAME:
        return None
    right, down = fit.numbers["acceleration_x"], fit.numbers["acceleration_y"]
    tilt = math.atan2(right, down)
    if abs(tilt) < MAX_TILT:
        return None
    towards = "to the right" if right > 0 else "to the left"
    towards = "up" if abs(tilt) > 3 * math.pi / 4 else towards
    return f"the object accelerates {towards} in the picture, and gravity points down: is the picture upright?"


def _second_swing(path: ImagePath, fit: MotionFit) -> str | None:
    """A swing that goes on, but not from where it was: frames are missing."""
    motion = {pendulum.NAME: pendulum.fit_pendulum, oscillation.NAME: oscillation.fit_oscillation}.get(fit.kind)
    if motion is None:
        return None
    for part in (slice(0, fit.first), slice(fit.last + 1, len(path))):
        rest = path.part(part)
        if len(rest) < max(2 * MIN_FRAMES, MIN_REST * len(path)):
            continue
        other = motion(rest)
        if other is None or other.explained < 0.9 or other.last - other.first + 1 < 0.7 * len(rest):
            continue
        rates = abs(fit.numbers["rate"]), abs(other.numbers["rate"])
        if abs(rates[1] / rates[0] - 1) < SAME_RATE:
            where = fit.first if part.start == 0 else fit.last + 1
            time = float(path.times[where] - path.times[0])
            return f"the swing jumps {time:.2f} s after the first frame with the object: are frames missing?"
    return None


def _mostly_unexplained(path: ImagePath, fit: MotionFit) -> str | None:
    """A bird, or a hand: a part of almost any path resembles some kind of motion."""
    speed = np.linalg.norm(np.gradient(path.points, path.times, axis=0), axis=1)
    inside = np.zeros(len(path), np.bool_)
    inside[fit.frames] = True
    moving = int((speed[~inside] > FAST * np.median(speed[inside])).sum())
    if moving <= MAX_UNEXPLAINED * inside.sum():
        return None
    return f"{fit.kind} explains only {inside.sum()} frames, and the object moves as fast in {moving} others (--frames)"


def scale_objection(fit: MotionFit, view: View, rate: float) -> str | None:
    """Returns why the acceleration of a fall and the size of the object cannot both be right; None if they can.

    Args:
        fit: The fitted motion.
        view: Camera and scale.
        rate: Frames per second.
    """
    names = {flight.NAME: "acceleration_y", bounce.NAME: "acceleration_y", double_pendulum.NAME: "gravity"}
    if fit.kind not in names or view.gravity is not None:
        return None
    acceleration = fit.numbers[names[fit.kind]]
    if view.scale is None:
        diameter = view.diameter_px * STANDARD_GRAVITY / abs(acceleration)
        if DIAMETER_RANGE[0] < diameter < DIAMETER_RANGE[1]:
            return None
        return (
            f"with gravity of 9.81 m/s^2 the object would be {diameter:.2g} m wide: was the video recorded at another "
            f"rate than {rate:.4g} fps (--fps)?"
        )
    ratio = abs(acceleration) / view.scale.value / STANDARD_GRAVITY
    if GRAVITY_RANGE[0] < ratio < GRAVITY_RANGE[1]:
        return None
    likely = rate / math.sqrt(ratio)
    return (
        f"gravity would be {ratio * STANDARD_GRAVITY:.2g} m/s^2: check the known length, or whether the video was "
        f"recorded at {likely:.0f} instead of {rate:.4g} fps (--fps)"
    )
