"""Pendula: periods at large amplitudes, normal modes, decay, energy, and convergence in the time step."""

from __future__ import annotations

import math

import numpy as np
import torch

from gradsim.check.physics.measure import G, PhysicsCheck, convergence_order
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import PendulumMotion
from gradsim.simulate.simulate import simulate

DT = 1 / 2000  # [s]

# Amplitude a [deg] -> period in units of that at small amplitudes, (2 / pi) K(sin^2(a / 2)).
PERIOD_RATIOS = {30: 1.017409, 60: 1.073182, 90: 1.180341, 120: 1.372881, 150: 1.762204}


def zero_crossings(time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Returns the times at which samples [T] change sign, by linear interpolation.

    The error is of third order in the sampling interval if the curvature is zero at the crossing too.
    """
    k = np.flatnonzero(values[1:] * values[:-1] < 0)
    return time[k] + (time[k + 1] - time[k]) * values[k] / (values[k] - values[k + 1])


def swing(body: AnyPendulum, *, duration: float, fps: float, dt: float = DT) -> tuple[np.ndarray, PendulumMotion]:
    """Simulates a pendulum; returns the times of the frames [s] and the motion."""
    motion = simulate(Scene([body]), frames=round(duration * fps) + 1, fps=fps, substeps=round(1 / (fps * dt)))
    return motion.time.numpy(), motion[body.name]


def energy(motion: PendulumMotion, lengths: tuple[float, ...], masses: tuple[float, ...]) -> np.ndarray:
    """Returns the total energy [J], [..., T]; the potential energy is zero at the height of the pivot."""
    height, velocity, total = torch.zeros(()), torch.zeros(2), torch.zeros(())
    for k, (length, mass) in enumerate(zip(lengths, masses, strict=True)):
        angle, rate = motion.angle[..., k], motion.rate[..., k]
        height = height - length * torch.cos(angle)
        velocity = velocity + length * rate[..., None] * torch.stack([torch.cos(angle), torch.sin(angle)], -1)
        total = total + mass * (0.5 * (velocity**2).sum(-1) + G * height)
    return total.numpy()


def periods() -> list[CheckResult]:
    """Checks the period at large amplitudes, an elliptic integral."""
    length = 0.7
    angles = torch.deg2rad(torch.tensor(list(PERIOD_RATIOS), dtype=torch.float64))
    time, motion = swing(Pendulum("bob", length=length, angle=angles), duration=4.0, fps=200.0)
    small_period = 2 * math.pi * math.sqrt(length / G)
    results = []
    for world, (degrees, expected) in enumerate(PERIOD_RATIOS.items()):
        first, _, third = zero_crossings(time, motion.angle[world, :, 0].numpy())[:3]
        name, ratio = f"period at {degrees} deg / at small amplitudes", (third - first) / small_period
        results.append(expect_close("pendulum", name, expected, ratio, 1e-5))
    return results


def pendulum_energy() -> list[CheckResult]:
    """Checks the energy drift of the fourth-order rule in 60 s, relative to the potential energy at the start."""
    angles = torch.deg2rad(torch.tensor(list(PERIOD_RATIOS), dtype=torch.float64))
    _, motion = swing(Pendulum("bob", angle=angles), duration=60.0, fps=10.0)
    total = energy(motion, (1.0,), (1.0,))
    drift = np.abs(total - total[:, :1]).max(1) / (G * (1.0 - np.cos(angles.numpy())))
    return [
        expect_zero("pendulum", f"energy drift in 60 s at {degrees} deg, dt = 1/2000 s", float(value), 1e-11)
        for degrees, value in zip(PERIOD_RATIOS, drift, strict=True)
    ]


def decay() -> list[CheckResult]:
    """Checks a damped pendulum at small amplitudes: decay exp(-c t / (2 m l^2)) and a reduced frequency."""
    length, mass, damping = 1.5, 2.0, 0.9
    rate = damping / (2 * mass * length**2)
    frequency = math.sqrt(G / length - rate**2)
    bob = Pendulum("bob", length=length, mass=mass, damping=damping, angle=1e-4)
    time, motion = swing(bob, duration=20.0, fps=100.0)
    a, w = motion.angle[:, 0].numpy(), motion.rate[:, 0].numpy()
    envelope = np.hypot(frequency * a, w + rate * a)
    zeros = zero_crossings(time, a)
    return [
        expect_close(
            "damped pendulum", "decay rate c / 2 m l^2 [1/s]", rate, -np.polyfit(time, np.log(envelope), 1)[0], 1e-6
        ),
        expect_close("damped pendulum", "frequency [rad/s]", frequency, math.pi / np.diff(zeros).mean(), 1e-5),
    ]


def heavy_rods() -> list[CheckResult]:
    """Checks rods with mass: a bar without a bob at small amplitudes, w^2 = 3 g / 2 l, and with drag of its end."""
    length, rod, light, drag = 0.7, 0.8, 1e-9, 0.05
    inertia = rod * length**2 / 3
    rate = drag * length**2 / (2 * inertia)
    frequency = math.sqrt(1.5 * G / length - rate**2)
    bar = Pendulum("bar", length=length, mass=light, rod_mass=rod, drag=drag, angle=1e-4)
    time, motion = swing(bar, duration=20.0, fps=100.0)
    a, w = motion.angle[:, 0].numpy(), motion.rate[:, 0].numpy()
    envelope = np.hypot(frequency * a, w + rate * a)
    decayed = -np.polyfit(time, np.log(envelope), 1)[0]
    found = math.pi / np.diff(zero_crossings(time, a)).mean()
    return [
        expect_close("pendulum", "frequency of a heavy rod [rad/s]", frequency, found, 1e-5),
        expect_close("pendulum", "decay rate by drag, 3 k / 2 m [1/s]", rate, decayed, 1e-6),
    ]


def normal_modes() -> list[CheckResult]:
    """Checks two equal links at small amplitudes: w^2 = (2 -+ sqrt 2) g / l, amplitude ratio +- sqrt 2."""
    length, root, results = 0.7, math.sqrt(2.0), []
    for name, ratio in (("in phase", root), ("in antiphase", -root)):
        expected = math.sqrt((2.0 - ratio) * G / length)
        body = DoublePendulum("links", lengths=(length, length), angles=(1e-4, 1e-4 * ratio))
        time, motion = swing(body, duration=10.0, fps=200.0)
        zeros = zero_crossings(time, motion.angle[:, 0].numpy())
        results.append(
            expect_close("double pendulum", f"{name} [rad/s]", expected, math.pi / np.diff(zeros).mean(), 1e-4)
        )
        shape = (motion.angle[:, 1] - ratio * motion.angle[:, 0]).abs().max() / 1e-4
        results.append(expect_zero("double pendulum", f"{name}: change of the mode shape in 10 s", float(shape), 1e-4))
    return results


def chaotic_energy() -> list[CheckResult]:
    """Checks the energy of chaotic motion: conserved without damping, dissipated at the known rate with damping."""
    lengths, masses = (1.0, 0.8), (1.0, 0.7)
    links = DoublePendulum("links", lengths=lengths, masses=masses, angles=(2.5, 2.0))
    _, motion = swing(links, duration=20.0, fps=50.0)
    total = energy(motion, lengths, masses)
    lowest = -G * (sum(masses) * lengths[0] + masses[1] * lengths[1])
    drift = np.abs(total - total[0]).max() / (total[0] - lowest)
    results = [
        expect_zero("double pendulum", "energy drift in 20 s of chaotic motion, dt = 1/2000 s", float(drift), 1e-8)
    ]

    damping = np.array([[0.3, 0.0], [0.0, 0.3], [0.2, 0.1]])
    links = DoublePendulum(
        "links", lengths=lengths, masses=masses, angles=(2.5, 2.0), damping=torch.from_numpy(damping)
    )
    _, motion = swing(links, duration=20.0, fps=50.0)
    total = energy(motion, lengths, masses)
    # A joint dissipates its damping torque times its relative angular velocity.
    relative_rate = np.diff(motion.rate.numpy(), axis=-1, prepend=0.0)
    power = np.einsum("wk,wtk->wt", damping, relative_rate**2)
    dissipated = (power[:, 1:] + power[:, :-1]).sum(1) / 100.0
    for k, name in enumerate(("upper joint", "lower joint", "both joints")):
        gained = max(float(np.diff(total[k]).max()), 0.0) / (total[k, 0] - lowest)
        lost = float(total[k, 0] - total[k, -1])
        results.append(expect_zero("double pendulum", f"damping of {name}: energy gain between frames", gained, 0.0))
        title = f"damping of {name}: energy loss in 20 s [J]"
        results.append(expect_close("double pendulum", title, float(dissipated[k]), lost, 1e-3))
    return results


def order_in_time() -> list[CheckResult]:
    """Checks fourth-order convergence, against a rollout with much smaller steps."""
    cases: list[tuple[str, AnyPendulum, float, list[int]]] = [
        ("pendulum", Pendulum("body", angle=2.0, damping=0.1), 2.0, [80, 160, 320, 640]),
        (
            "double pendulum",
            DoublePendulum("body", angles=(1.2, 0.4), damping=(0.1, 0.05)),
            1.0,
            [160, 320, 640, 1280],
        ),
    ]
    results = []
    for name, body, duration, counts in cases:
        ends = [
            swing(body, duration=duration, fps=1 / duration, dt=duration / steps)[1].angle[-1]
            for steps in (*counts, 16 * counts[-1])
        ]
        errors = [float((end - ends[-1]).norm()) for end in ends[:-1]]
        order = convergence_order(1.0 / np.array(counts), np.array(errors))
        results.append(CheckResult(name, "order of convergence in dt", 4.0, order, abs(order - 4.0), 0.2))
    return results


CHECKS = (
    PhysicsCheck("pendulum: periods", periods),
    PhysicsCheck("pendulum: energy", pendulum_energy),
    PhysicsCheck("pendulum: decay", decay),
    PhysicsCheck("pendulum: heavy rod, drag", heavy_rods),
    PhysicsCheck("double pendulum: modes", normal_modes),
    PhysicsCheck("double pendulum: energy", chaotic_energy),
    PhysicsCheck("pendula: order of convergence in dt", order_in_time),
)
