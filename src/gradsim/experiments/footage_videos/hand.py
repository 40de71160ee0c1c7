"""A hand with a forearm, which releases a body or comes into the picture later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.camera import TrueCamera
from gradsim.experiments.footage_videos.motion import Motion, Trajectory, View, capsule
from gradsim.experiments.footage_videos.raster import Polygon

Array = NDArray[np.float64]
Random = np.random.Generator

SKIN = np.array([[0.78, 0.57, 0.45], [0.55, 0.36, 0.26], [0.87, 0.69, 0.58]]) ** 2.2  # linear RGB
SLEEVES = np.array([[0.2, 0.24, 0.35], [0.5, 0.5, 0.52], [0.35, 0.15, 0.16]]) ** 2.2
PALM, FOREARM, FINGER = 0.085, 0.065, 0.019  # widths [m]
FINGER_LENGTH, ARM_LENGTH, SLEEVE_START = 0.07, 2.5, 0.2  # [m]
FINGER_ANGLES = (-0.38, -0.13, 0.13, 0.38, 1.0)  # from the direction of the hand, the thumb last [rad]
SWING_TIME = 0.22  # in which a hand accelerates a body to its speed [s]
RETREAT = 2.0  # acceleration of the hand after the release [m/s^2]
CLEARANCE = 0.15  # least distance of a hand that enters from the body [m]


@dataclass(frozen=True, eq=False)
class Hand:
    """A hand that moves in the plane of motion.

    Args:
        palm: Position of the middle of the palm (x, y) [m] as a function of time.
        heading: Unit vector (x, y) along the arm to the palm.
        skin, sleeve: Linear RGB [3].
    """

    palm: Callable[[float], Array]
    heading: Array
    skin: Array
    sleeve: Array

    def layers(self, camera: TrueCamera, time: float) -> list[Polygon]:
        """Returns the hand in the picture."""
        palm = self.palm(time)
        shoulder, cuff, wrist = (palm - length * self.heading for length in (ARM_LENGTH, SLEEVE_START, 0.02))
        parts = [(cuff, wrist, (FOREARM, 0.8 * FOREARM), self.skin), (wrist, palm, (0.8 * PALM, PALM), self.skin)]
        for angle in FINGER_ANGLES:
            start = palm + 0.4 * PALM * _turned(self.heading, angle)
            end = start + FINGER_LENGTH * _turned(self.heading, 0.7 * angle)
            parts.append((start, end, (1.15 * FINGER, FINGER), self.skin))
        parts.append((shoulder, cuff, (1.5 * FOREARM, 1.2 * FOREARM), self.sleeve))
        return [layer for part in parts for layer in _limb(camera, *part)]


def _limb(camera: TrueCamera, start: Array, end: Array, widths: tuple[float, float], color: Array) -> list[Polygon]:
    """Returns a rounded limb with a brighter middle."""
    a, b = camera.project(np.array([(*start, 0.02), (*end, 0.02)]))
    wide = (widths[0] * camera.scale, widths[1] * camera.scale)
    core = capsule(a, b, (0.5 * wide[0], 0.5 * wide[1]))
    return [Polygon(capsule(a, b, wide), 0.8 * color), Polygon(core, 1.1 * color, opacity=0.6)]


def _turned(vector: Array, angle: float) -> Array:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]])


def draw_colors(random: Random) -> tuple[Array, Array]:
    """Returns the colours of skin and sleeve."""
    return SKIN[random.integers(len(SKIN))], SLEEVES[random.integers(len(SLEEVES))]


def held(motion: Motion, release: float) -> Motion:
    """Returns a motion whose body rests in a hand, is accelerated and then released at the time `release` [s]."""
    (position, after), _ = motion.trajectory(np.array([0.0, 1e-4]))
    velocity = (after - position) / 1e-4

    def trajectory(times: Array) -> tuple[Array, Array]:
        positions, angles = motion.trajectory(np.maximum(times - release, 0.0))
        before = np.clip(times - release, -SWING_TIME, 0.0)[:, None, None]
        return positions + velocity * (before + before**2 / (2 * SWING_TIME)), angles

    return replace(motion, trajectory=trajectory, duration=motion.duration + release)


def releasing_hand(random: Random, motion: Motion, release: float) -> Hand:
    """Returns the hand that holds the body of a motion until the time `release` [s]."""
    velocity = _velocity(motion.trajectory, release)
    side = -1.0 if motion.trajectory(np.array([release]))[0][0, 0, 0] > 0 else 1.0
    heading = _turned(np.array([side, 0.0]), side * random.uniform(-0.2, 0.5))
    grip = (motion.shapes[0].diameter / 2 + 0.4 * PALM) * heading

    def palm(time: float) -> Array:
        position = motion.trajectory(np.array([min(time, release)]))[0][0, 0, :2] - grip
        after = max(time - release, 0.0)
        follow = 0.5 * velocity * 0.08 * (1 - np.exp(-after / 0.08))
        return np.asarray(position + follow - heading * (0.35 * after + RETREAT * after**2 / 2))

    return Hand(palm, heading, *draw_colors(random))


def _velocity(trajectory: Trajectory, time: float) -> Array:
    positions, _ = trajectory(np.array([time, time + 1e-4]))
    return np.asarray((positions[1, 0, :2] - positions[0, 0, :2]) / 1e-4)


def entering_hand(random: Random, motion: Motion, view: View) -> tuple[Hand, float] | None:
    """Returns a hand that comes in from a side, away from the bodies, and its time [s]; None if there is no place."""
    start = motion.duration * random.uniform(0.4, 0.65)
    positions, _ = motion.trajectory(np.linspace(start, motion.duration, 40))
    bodies = positions[..., :2].reshape(-1, 2)
    side, height = random.choice([-1.0, 1.0], 24), view.height * random.uniform(-0.4, 0.4, 24)
    depth = view.width * random.uniform(0.08, 0.2, 24)
    places = np.stack([side * (view.width / 2 - depth), height], -1)
    clearances = np.linalg.norm(places[:, None] - bodies, axis=-1).min(1) - max(own.diameter for own in motion.shapes)
    best = int(np.argmax(clearances))
    if clearances[best] < CLEARANCE:
        return None
    heading = _turned(np.array([-side[best], 0.0]), random.uniform(-0.3, 0.3))

    def palm(time: float) -> Array:
        phase = np.clip((time - start) / 0.5, 0.0, 1.0)
        smooth = phase * phase * (3 - 2 * phase)
        sway = 0.012 * np.array([np.sin(7 * time), np.cos(5 * time)])
        return np.asarray(places[best] - (1 - smooth) * (depth[best] + 0.25) * heading + sway)

    return Hand(palm, heading, *draw_colors(random)), float(start)
