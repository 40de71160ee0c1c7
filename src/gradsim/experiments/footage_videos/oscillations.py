"""Bodies that swing: pendulum, double pendulum, a mass on a spring, the tip of a beam."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.integration import Derivative, Solution, integrate
from gradsim.experiments.footage_videos.motion import GRAVITY, Cantilever, Coil, Motion, Rod, Trajectory, View
from gradsim.experiments.footage_videos.shapes import Ball, Box

Array = NDArray[np.float64]
Random = np.random.Generator

YAW = np.radians(2.0)  # standard deviation of the angle between the plane of a swing and that of the picture
SPHERE = 0.4  # moment of inertia of a ball over mass and radius squared


def pendulum(random: Random, view: View) -> Motion:
    """Returns a ball on a thread. Its finite size, friction and drag make it differ slightly from a point mass."""
    length = view.height * random.uniform(0.55, 0.75)
    ball = Ball(view.short * random.uniform(0.07, 0.11))
    widest = np.degrees(np.arcsin(min(0.33 * view.width / length, 1.0)))  # such that the ball stays in the picture
    amplitude = np.radians(random.uniform(8, max(min(40.0, widest), 10.0))) * random.choice([-1, 1])
    damping, drag = random.uniform(0.0, 0.06), random.uniform(0, 0.05)
    pivot = np.array([view.width * random.uniform(-0.1, 0.1), view.height * random.uniform(0.36, 0.44), 0.0])
    inertia = length**2 + SPHERE * (ball.diameter / 2) ** 2  # over mass

    def derivative(state: Array) -> Array:
        angle, rate = state
        torque = -GRAVITY * length * np.sin(angle) - drag * length**3 * abs(rate) * rate
        return np.array([rate, torque / inertia - damping * rate])

    duration = 2.3 * 2 * np.pi * np.sqrt(length / GRAVITY)
    solution = integrate(derivative, np.array([amplitude, random.uniform(-0.3, 0.3)]), duration)
    values = {
        "length": length,
        "gravity": GRAVITY,
        "angle": float(amplitude),
        "damping": damping,
        "drag": drag,
        "diameter": ball.diameter,
    }
    rod = Rod(pivot, 0, view.height * random.uniform(0.003, 0.006))
    trajectory = _swing(solution, pivot, (length,), YAW * random.normal())
    return Motion("pendulum", values, ("length",), duration, trajectory, (ball,), (rod,), pivot=pivot)


def _swing(solution: Solution, pivot: Array, lengths: tuple[float, ...], yaw: float) -> Trajectory:
    """Returns the bobs of a chain of pendulums whose first states are the angles from the vertical."""

    def trajectory(times: Array) -> tuple[Array, Array]:
        angles = solution(times)[:, : len(lengths)]
        across = np.cumsum(np.array(lengths) * np.sin(angles), 1)
        down = np.cumsum(np.array(lengths) * np.cos(angles), 1)
        return pivot + np.stack([across * np.cos(yaw), -down, across * np.sin(yaw)], -1), angles

    return trajectory


def double_pendulum(random: Random, view: View) -> Motion:
    """Returns two balls on rods, hung one from the other, at moderate angles."""
    first, second = view.height * random.uniform(0.28, 0.38, 2)
    ratio = random.uniform(0.6, 1.6)  # of the second mass to the first
    angles = np.radians(random.uniform(15, 50, 2)) * random.choice([-1, 1], 2)
    damping = random.uniform(0.0, 0.05)
    pivot = np.array([view.width * random.uniform(-0.08, 0.08), view.height * random.uniform(0.34, 0.42), 0.0])
    size = view.height * random.uniform(0.06, 0.085)
    balls = (Ball(size), Ball(size * ratio ** (1 / 3)))
    duration = 2.0 * 2 * np.pi * float(np.sqrt((first + second) / GRAVITY))
    solution = integrate(_double_derivative(first, second, ratio, damping), np.array([*angles, 0, 0]), duration)
    values = {
        "length_1": float(first),
        "length_2": float(second),
        "mass_ratio": ratio,
        "gravity": GRAVITY,
        "angle_1": float(angles[0]),
        "angle_2": float(angles[1]),
        "damping": damping,
        "diameter": balls[1].diameter,
        "diameter_1": balls[0].diameter,
    }
    width = view.height * random.uniform(0.008, 0.014)
    rods = (Rod(pivot, 0, width), Rod(0, 1, width))
    trajectory = _swing(solution, pivot, (first, second), YAW * random.normal())
    judged = ("length_1", "length_2")
    return Motion("double_pendulum", values, judged, duration, trajectory, balls, rods, pivot=pivot)


def _double_derivative(first: float, second: float, ratio: float, damping: float) -> Derivative:
    """Returns the derivative of two angles from the vertical and their rates [4], for point masses 1 and `ratio`."""

    def derivative(state: Array) -> Array:
        a, b, da, db = state
        cos, sin = np.cos(a - b), np.sin(a - b)
        mass = np.array([[(1 + ratio) * first**2, ratio * first * second * cos], [0.0, ratio * second**2]])
        mass[1, 0] = mass[0, 1]
        force = np.array(
            [
                -ratio * first * second * sin * db**2 - (1 + ratio) * GRAVITY * first * np.sin(a),
                ratio * first * second * sin * da**2 - ratio * GRAVITY * second * np.sin(b),
            ]
        )
        rates = np.array([da, db])
        return np.concatenate([rates, np.linalg.solve(mass, force) - damping * rates])

    return derivative


def _damped(frequency: float, ratio: float) -> Derivative:
    """Returns the derivative of displacement and velocity [2] of a damped oscillator."""
    rate = 2 * np.pi * frequency

    def derivative(state: Array) -> Array:
        return np.array([state[1], -(rate**2) * state[0] - 2 * ratio * rate * state[1]])

    return derivative


def spring(random: Random, view: View) -> Motion:
    """Returns a mass that moves up and down on a spring."""
    size = view.short * random.uniform(0.08, 0.13)
    shape = Ball(size) if random.uniform() < 0.5 else Box((size, size * random.uniform(0.9, 1.3), size))
    frequency, damping = random.uniform(0.9, 2.0), random.uniform(0.005, 0.03)
    amplitude = view.height * random.uniform(0.1, 0.18)
    anchor = np.array([view.width * random.uniform(-0.15, 0.15), view.height * random.uniform(0.4, 0.47), 0.0])
    rest = view.height * random.uniform(-0.2, -0.1)
    sway = view.height * random.uniform(0.0, 0.006)
    duration = 3.2 / frequency
    solution = integrate(_damped(frequency, damping), np.array([amplitude, 0.0]), duration)

    def trajectory(times: Array) -> tuple[Array, Array]:
        y = rest + solution(times)[:, 0]
        x = anchor[0] + sway * np.sin(2 * np.pi * 0.7 * times)
        return np.stack([x, y, 0 * y], -1)[:, None], np.zeros((len(times), 1))

    values = {
        "frequency": frequency,
        "damping_ratio": damping,
        "amplitude": float(amplitude),
        "gravity": GRAVITY,
        "diameter": shape.diameter,
    }
    coil = Coil(anchor, 0, radius=0.3 * size, turns=int(random.integers(9, 16)), gap=0.45 * shape.diameter)
    return Motion("spring", values, ("frequency",), duration, trajectory, (shape,), (coil,), pivot=anchor)


def beam(random: Random, view: View) -> Motion:
    """Returns a ball at the tip of a thin clamped beam that vibrates up and down."""
    length = view.width * random.uniform(0.45, 0.6)
    side = float(random.choice([-1, 1]))
    root = np.array([-side * view.width * random.uniform(0.28, 0.36), view.height * random.uniform(-0.1, 0.1), 0.0])
    ball = Ball(view.height * random.uniform(0.07, 0.1))
    frequency, damping = random.uniform(1.5, 4.0), random.uniform(0.004, 0.02)
    amplitude = min(length * random.uniform(0.15, 0.25), 0.3 * view.height) * random.choice([-1, 1])
    yaw = YAW * random.normal()
    duration = max(6 / frequency, 1.5)
    solution = integrate(_damped(frequency, damping), np.array([amplitude, 0.0]), duration)

    def trajectory(times: Array) -> tuple[Array, Array]:
        y = solution(times)[:, 0]
        x = length - 0.6 * y**2 / length  # an inextensible beam, to second order
        path = root + np.stack([side * x * np.cos(yaw), y, x * np.sin(yaw)], -1)
        return path[:, None], np.zeros((len(times), 1))

    values = {
        "frequency": frequency,
        "damping_ratio": damping,
        "amplitude": float(abs(amplitude)),
        "length": float(length),
        "gravity": GRAVITY,
        "diameter": ball.diameter,
    }
    link = Cantilever(root, 0, width=0.012 * view.height)
    return Motion("beam", values, ("frequency",), duration, trajectory, (ball,), (link,), pivot=root)
