"""Bodies in free flight: thrown and dropped balls, bouncing balls, tumbling boxes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.integration import Derivative, Impact, Solution, integrate
from gradsim.experiments.footage_videos.motion import GRAVITY, Motion, Trajectory, View
from gradsim.experiments.footage_videos.shapes import Ball, Box

Array = NDArray[np.float64]
Random = np.random.Generator

MAX_DRAG = 0.05  # of the acceleration over the square of the speed [1/m]
DEPTH_VELOCITY = 0.03  # standard deviation of the velocity along the view, relative to the mean speed
BALL_SIZE = (0.045, 0.09)  # diameter relative to the shorter side of the view
BOUNCES = 3
RESTITUTION = (0.55, 0.85)
RESTITUTION_SLOPE = (0.0, 0.03)  # relative decrease per speed [s/m]
RESTITUTION_SPEED = 3.0  # at which the drawn restitution holds [m/s]


def flight(drag: float) -> Derivative:
    """Returns the derivative of position and velocity [6] under gravity and quadratic drag [1/m]."""

    def derivative(state: Array) -> Array:
        velocity = state[3:]
        acceleration = -drag * np.linalg.norm(velocity) * velocity
        acceleration[1] -= GRAVITY
        return np.concatenate([velocity, acceleration])

    return derivative


def spinning(solution: Solution, angle: float, rate: float) -> Trajectory:
    """Returns the trajectory of one body that spins at a constant rate [rad/s]."""

    def trajectory(times: Array) -> tuple[Array, Array]:
        return solution(times)[:, None, :3], (angle + rate * times)[:, None]

    return trajectory


def draw_ball(random: Random, view: View) -> Ball:
    """Returns a ball of a size that suits the view, with a random axis of its colours."""
    axis = random.normal((0.0, 0.0, 0.7))
    x, y, z = axis / np.linalg.norm(axis)
    return Ball(view.short * random.uniform(*BALL_SIZE), (float(x), float(y), float(z)))


def throw(random: Random, view: View) -> Motion:
    """Returns a ball thrown from one side of the view to the other."""
    return _thrown(random, view, "throw", draw_ball(random, view), rate=random.uniform(-12, 12))


def tumbling_box(random: Random, view: View) -> Motion:
    """Returns a thrown box that turns about an axis along the view."""
    size = view.height * random.uniform(0.09, 0.13)
    sides = (size, size * random.uniform(0.55, 0.9), size * random.uniform(0.3, 0.8))
    pitch, yaw = np.radians(random.uniform(-25, 25, 2))
    tilt = _rotation_x(pitch) @ _rotation_y(yaw)
    return _thrown(random, view, "box", Box(sides, tilt), rate=random.choice([-1, 1]) * random.uniform(2, 9))


def _thrown(random: Random, view: View, kind: str, shape: Ball | Box, rate: float) -> Motion:
    start, apex, end = (view.height * random.uniform(*part) for part in ((-0.32, -0.1), (0.22, 0.36), (-0.35, -0.05)))
    rise = np.sqrt(2 * GRAVITY * (apex - start))
    duration = float(rise / GRAVITY + np.sqrt(2 * (apex - end) / GRAVITY))
    span = view.width * random.uniform(0.55, 0.8)
    side = random.choice([-1, 1])
    speed = np.hypot(rise, span / duration)
    velocity = np.array([side * span / duration, rise, DEPTH_VELOCITY * speed * random.normal()])
    middle = view.width * random.uniform(-0.05, 0.05)
    position = np.array([middle - side * span / 2, start, -velocity[2] * duration / 2])
    drag = random.uniform(0, MAX_DRAG)
    solution = integrate(flight(drag), np.concatenate([position, velocity]), duration)
    values = {
        "gravity": GRAVITY,
        "drag": drag,
        "diameter": shape.diameter,
        "velocity_x": float(velocity[0]),
        "velocity_y": float(velocity[1]),
        "velocity_z": float(velocity[2]),
        "angular_velocity": float(rate),
    }
    trajectory = spinning(solution, random.uniform(0, 6), float(rate))
    return Motion(kind, values, ("gravity",), duration, trajectory, (shape,), can_be_held=True)


def drop(random: Random, view: View) -> Motion:
    """Returns a ball that falls from near the top of the view, until it reaches the bottom or leaves it."""
    ball = draw_ball(random, view)
    height = view.height * random.uniform(0.32, 0.42)
    end = view.height * random.uniform(-0.56, -0.4)
    velocity = np.array([random.uniform(-0.3, 0.3), random.uniform(-0.4, 0.0), 0.06 * random.normal()])
    position = np.array([view.width * random.uniform(-0.15, 0.15), height, -velocity[2] * 0.3])
    drag = random.uniform(0, MAX_DRAG)
    speed = -velocity[1]
    duration = float((np.sqrt(speed**2 + 2 * GRAVITY * (height - end)) - speed) / GRAVITY)
    solution = integrate(flight(drag), np.concatenate([position, velocity]), duration)
    values = {
        "gravity": GRAVITY,
        "drag": drag,
        "diameter": ball.diameter,
        "velocity_x": float(velocity[0]),
        "velocity_y": float(velocity[1]),
    }
    trajectory = spinning(solution, random.uniform(0, 6), random.uniform(-6, 6))
    return Motion("drop", values, ("gravity",), duration, trajectory, (ball,), can_be_held=True)


def bounce(random: Random, view: View) -> Motion:
    """Returns a ball that falls on a floor and bounces several times.

    Its restitution falls slightly with the speed of impact. `restitution` in the values is the mean over the impacts of
    the video; the law is linear, so that it is also the restitution at the mean speed of impact.
    """
    ball = draw_ball(random, view)
    floor = view.height * random.uniform(-0.42, -0.3)
    drag, mean, slope = random.uniform(0, MAX_DRAG), random.uniform(*RESTITUTION), random.uniform(*RESTITUTION_SLOPE)
    grip = random.uniform(0.85, 1.0)  # of the horizontal velocity that an impact leaves
    height = view.height * random.uniform(0.25, 0.4)
    rest = floor + ball.diameter / 2
    duration = _bounce_duration(height - rest, mean)
    side = random.choice([-1, 1])
    speed = view.width * random.uniform(0.3, 0.6) / duration
    state = np.array([-side * speed * duration / 2, height, 0, side * speed, 0, 0.04 * random.normal()])
    impact = Impact(lambda own: float(own[1] - rest), _rebound(mean, slope, grip))
    solution = integrate(flight(drag), state, duration, impact)
    speeds = np.array([-solution.states[k][4] for k in solution.impacts])
    values = {
        "gravity": GRAVITY,
        "restitution": float(np.mean(_restitution(mean, slope, speeds))),
        "restitution_slope": mean * slope,
        "restitution_speed": float(speeds.mean()),
        "bounces": float(len(speeds)),
        "drag": drag,
        "diameter": ball.diameter,
        "velocity_x": side * speed,
    }
    surface = np.array([(-view.width / 2, floor, 0.0), (view.width / 2, floor, 0.0)])
    judged = ("gravity", "restitution")
    trajectory = spinning(solution, 0.0, random.uniform(-3, 3))
    return Motion(
        "bounce", values, judged, duration, trajectory, (ball,), floor=floor, surface=surface, can_be_held=True
    )


def _bounce_duration(height: float, restitution: float) -> float:
    """Returns the time from a drop to shortly before the impact after the last bounce [s]."""
    fall = np.sqrt(2 * height / GRAVITY)
    arcs = [2 * fall * restitution**k for k in range(1, BOUNCES + 1)]
    return float(fall + sum(arcs) - 0.3 * arcs[-1])


def _restitution(mean: float, slope: float, speed: Array) -> Array:
    return mean * (1 - slope * (speed - RESTITUTION_SPEED))


def _rebound(mean: float, slope: float, grip: float) -> Callable[[Array], Array]:
    def rebound(state: Array) -> Array:
        after = state.copy()
        after[4] = -state[4] * float(_restitution(mean, slope, -state[4:5])[0])
        after[3] *= grip
        return after

    return rebound


def _rotation_x(angle: float) -> Array:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])


def _rotation_y(angle: float) -> Array:
    cos, sin = np.cos(angle), np.sin(angle)
    return np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]])
