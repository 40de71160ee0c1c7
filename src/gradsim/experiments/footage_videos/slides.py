"""Bodies on a surface: a block that slides down an incline, a ball that rolls to a halt."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.flights import draw_ball
from gradsim.experiments.footage_videos.motion import GRAVITY, Motion, Trajectory, View
from gradsim.experiments.footage_videos.shapes import Ball, Box

Array = NDArray[np.float64]
Random = np.random.Generator

YAW = np.radians(2.0)  # standard deviation of the angle between the path and the plane of the picture
MIN_EXCESS = 0.1  # of the incline's slope over friction


def _straight(start: Array, direction: Array, speed: float, acceleration: float, angle: Array) -> Trajectory:
    """Returns a body on a straight line; `angle` is its angle at the start and per distance [2] [rad], [rad/m]."""

    def trajectory(times: Array) -> tuple[Array, Array]:
        travel = speed * times + acceleration / 2 * times**2
        return (start + travel[:, None] * direction)[:, None], (angle[0] + angle[1] * travel)[:, None]

    return trajectory


def incline(random: Random, view: View) -> Motion:
    """Returns a block that slides down a plank with Coulomb friction."""
    angle = np.radians(random.uniform(15, 32))
    friction = random.uniform(0.08, max(np.tan(angle) - MIN_EXCESS, 0.1))
    side = float(random.choice([-1, 1]))
    size = view.height * random.uniform(0.1, 0.14)
    shape = Box((size, size * random.uniform(0.6, 0.9), size * random.uniform(0.6, 1.0)))
    yaw = YAW * random.normal()
    along = np.array([side * np.cos(angle) * np.cos(yaw), -np.sin(angle), np.cos(angle) * np.sin(yaw)])
    reach = min(0.72 * view.width / np.cos(angle), 0.6 * view.height / np.sin(angle))
    acceleration = GRAVITY * (np.sin(angle) - friction * np.cos(angle))
    speed = random.uniform(0.0, 0.3)
    duration = float((np.sqrt(speed**2 + 2 * acceleration * reach) - speed) / acceleration)
    normal = np.array([side * np.sin(angle), np.cos(angle), 0.0])
    start = -along * reach / 2 + 0.02 * view.height * random.normal() * normal
    foot = start - normal * shape.sides[1] / 2
    surface = np.array([foot - 0.1 * reach * along, foot + 1.12 * reach * along])
    values = {
        "friction": float(friction),
        "angle": float(angle),
        "gravity": GRAVITY,
        "velocity": float(speed),
        "diameter": shape.diameter,
    }
    turn = np.array([-side * angle, 0.0])
    trajectory = _straight(start, along, speed, float(acceleration), turn)
    return Motion("incline", values, ("friction",), duration, trajectory, (shape,), surface=surface, angle=float(angle))


def rolling(random: Random, view: View) -> Motion:
    """Returns a ball that rolls on a horizontal floor and is slowed down by rolling resistance."""
    ball = draw_ball(random, view)
    ball = Ball(1.3 * ball.diameter, ball.axis)
    floor = view.height * random.uniform(-0.32, -0.15)
    resistance = random.uniform(0.02, 0.07)
    span = view.width * random.uniform(0.65, 0.8)
    share = random.uniform(0.6, 0.95)  # of the way to the halt
    speed = float(np.sqrt(2 * resistance * GRAVITY * span / share))
    duration = float((speed - np.sqrt(speed**2 * (1 - share))) / (resistance * GRAVITY))
    side = float(random.choice([-1, 1]))
    yaw = YAW * random.normal()
    direction = np.array([side * np.cos(yaw), 0.0, np.sin(yaw)])
    start = np.array([0.0, floor + ball.diameter / 2, 0.0]) - direction * span / 2
    values = {
        "rolling_resistance": float(resistance),
        "gravity": GRAVITY,
        "velocity": speed,
        "diameter": ball.diameter,
    }
    turn = np.array([random.uniform(0, 6), -side * 2 / ball.diameter])
    trajectory = _straight(start, direction, speed, -float(resistance) * GRAVITY, turn)
    surface = np.array([(-view.width / 2, floor, 0.0), (view.width / 2, floor, 0.0)])
    judged = ("rolling_resistance",)
    return Motion("rolling", values, judged, duration, trajectory, (ball,), floor=floor, surface=surface)
