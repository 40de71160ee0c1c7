"""Pendula: periods of large swings, normal modes, decay, energy, and the order in the time step."""

from __future__ import annotations

import math

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import Check, fitted_order
from gradsim.scene.pendula import AnyPendulum, DoublePendulum, Pendulum
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import PendulumMotion
from gradsim.simulate.simulate import simulate

G = 9.81  # [m/s^2]
DT = 1 / 2000  # [s]

# Start angle [deg] -> period over that of small swings, (2 / pi) K(sin^2(a / 2)).
STRETCHED = {30: 1.017409, 60: 1.073182, 90: 1.180341, 120: 1.372881, 150: 1.762204}


def crossings(time: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Times at which samples [T] change sign, linear between them: of third order where their curvature is zero too."""
    k = np.flatnonzero(values[1:] * values[:-1] < 0)
    return time[k] + (time[k + 1] - time[k]) * values[k] / (values[k] - values[k + 1])


def swing(body: AnyPendulum, *, duration: float, fps: float, dt: float = DT) -> tuple[np.ndarray, PendulumMotion]:
    """Times of the frames [s] and the motion of a pendulum alone."""
    motion = simulate(Scene([body]), frames=round(duration * fps) + 1, fps=fps, substeps=round(1 / (fps * dt)))
    return motion.time.numpy(), motion[body.name]


def energy(motion: PendulumMotion, lengths: tuple[float, ...], masses: tuple[float, ...]) -> np.ndarray:
    """Kinetic and potential energy [J], [..., T], the latter zero at the height of the pivot."""
    height, velocity, total = torch.zeros(()), torch.zeros(2), torch.zeros(())
    for k, (length, mass) in enumerate(zip(lengths, masses, strict=True)):
        angle, rate = motion.angle[..., k], motion.rate[..., k]
        height = height - length * torch.cos(angle)
        velocity = velocity + length * rate[..., None] * torch.stack([torch.cos(angle), torch.sin(angle)], -1)
        total = total + mass * (0.5 * (velocity**2).sum(-1) + G * height)
    return total.numpy()


def periods() -> list[Fact]:
    """The period grows with the swing, as the elliptic integral says."""
    length = 0.7
    angles = torch.deg2rad(torch.tensor(list(STRETCHED), dtype=torch.float64))
    time, motion = swing(Pendulum("bob", length=length, angle=angles), duration=4.0, fps=200.0)
    rest = 2 * math.pi * math.sqrt(length / G)
    facts = []
    for world, (degrees, expected) in enumerate(STRETCHED.items()):
        first, _, third = crossings(time, motion.angle[world, :, 0].numpy())[:3]
        facts.append(
            relative("pendulum", f"period at {degrees} deg / small one", expected, (third - first) / rest, 1e-5)
        )
    return facts


def pendulum_energy() -> list[Fact]:
    """What the fourth-order rule loses of the energy in a minute, over the depth of the swing."""
    angles = torch.deg2rad(torch.tensor(list(STRETCHED), dtype=torch.float64))
    _, motion = swing(Pendulum("bob", angle=angles), duration=60.0, fps=10.0)
    total = energy(motion, (1.0,), (1.0,))
    drift = np.abs(total - total[:, :1]).max(1) / (G * (1.0 - np.cos(angles.numpy())))
    return [
        small("pendulum", f"energy drift in 60 s at {degrees} deg, dt = 1/2000 s", float(lost), 1e-11)
        for degrees, lost in zip(STRETCHED, drift, strict=True)
    ]


def decay() -> list[Fact]:
    """A damped pendulum in small swings: exp(-c t / (2 m l^2)), at a frequency below the free one."""
    length, mass, damping = 1.5, 2.0, 0.9
    rate = damping / (2 * mass * length**2)
    frequency = math.sqrt(G / length - rate**2)
    bob = Pendulum("bob", length=length, mass=mass, damping=damping, angle=1e-4)
    time, motion = swing(bob, duration=20.0, fps=100.0)
    a, w = motion.angle[:, 0].numpy(), motion.rate[:, 0].numpy()
    envelope = np.hypot(frequency * a, w + rate * a)
    zeros = crossings(time, a)
    return [
        relative(
            "damped pendulum", "decay rate c / 2 m l^2 [1/s]", rate, -np.polyfit(time, np.log(envelope), 1)[0], 1e-6
        ),
        relative("damped pendulum", "frequency [rad/s]", frequency, math.pi / np.diff(zeros).mean(), 1e-5),
    ]


def normal_modes() -> list[Fact]:
    """Two equal links in small swings: w^2 = (2 -+ sqrt 2) g / l, the lower link swinging +- sqrt 2 times as far."""
    length, root, facts = 0.7, math.sqrt(2.0), []
    for name, ratio in (("in phase", root), ("in counter-phase", -root)):
        expected = math.sqrt((2.0 - ratio) * G / length)
        body = DoublePendulum("links", lengths=(length, length), angles=(1e-4, 1e-4 * ratio))
        time, motion = swing(body, duration=10.0, fps=200.0)
        zeros = crossings(time, motion.angle[:, 0].numpy())
        facts.append(relative("double pendulum", f"{name} [rad/s]", expected, math.pi / np.diff(zeros).mean(), 1e-4))
        shape = (motion.angle[:, 1] - ratio * motion.angle[:, 0]).abs().max() / 1e-4
        facts.append(small("double pendulum", f"{name}: change of the mode's shape in 10 s", float(shape), 1e-4))
    return facts


def chaos() -> list[Fact]:
    """Energy of wild motion: kept without damping, over the depth of the fall, and only ever lost with it."""
    lengths, masses = (1.0, 0.8), (1.0, 0.7)
    links = DoublePendulum("links", lengths=lengths, masses=masses, angles=(2.5, 2.0))
    _, motion = swing(links, duration=20.0, fps=50.0)
    total = energy(motion, lengths, masses)
    lowest = -G * (sum(masses) * lengths[0] + masses[1] * lengths[1])
    drift = np.abs(total - total[0]).max() / (total[0] - lowest)
    facts = [small("double pendulum", "energy drift in 20 s of chaos, dt = 1/2000 s", float(drift), 1e-8)]

    damping = np.array([[0.3, 0.0], [0.0, 0.3], [0.2, 0.1]])
    links = DoublePendulum(
        "links", lengths=lengths, masses=masses, angles=(2.5, 2.0), damping=torch.from_numpy(damping)
    )
    _, motion = swing(links, duration=20.0, fps=50.0)
    total = energy(motion, lengths, masses)
    # A joint takes its torque times the rate at which it opens.
    opening = np.diff(motion.rate.numpy(), axis=-1, prepend=0.0)
    power = np.einsum("wk,wtk->wt", damping, opening**2)
    taken = (power[:, 1:] + power[:, :-1]).sum(1) / 100.0
    for k, name in enumerate(("upper joint", "lower joint", "both joints")):
        gained = max(float(np.diff(total[k]).max()), 0.0) / (total[k, 0] - lowest)
        lost = float(total[k, 0] - total[k, -1])
        facts.append(small("double pendulum", f"damping of {name}: energy gained between frames", gained, 0.0))
        facts.append(
            relative("double pendulum", f"damping of {name}: energy lost in 20 s [J]", float(taken[k]), lost, 1e-3)
        )
    return facts


def order_in_time() -> list[Fact]:
    """Errors after a fixed time against a much finer run fall with the fourth power of the step."""
    cases: list[tuple[str, AnyPendulum, float, list[int]]] = [
        ("pendulum", Pendulum("body", angle=2.0, damping=0.1), 2.0, [80, 160, 320, 640]),
        (
            "double pendulum",
            DoublePendulum("body", angles=(1.2, 0.4), damping=(0.1, 0.05)),
            1.0,
            [160, 320, 640, 1280],
        ),
    ]
    facts = []
    for name, body, duration, counts in cases:
        ends = [
            swing(body, duration=duration, fps=1 / duration, dt=duration / steps)[1].angle[-1]
            for steps in (*counts, 16 * counts[-1])
        ]
        errors = [float((end - ends[-1]).norm()) for end in ends[:-1]]
        order = fitted_order(1.0 / np.array(counts), np.array(errors))
        facts.append(Fact(name, "order in dt", 4.0, order, abs(order - 4.0), 0.2))
    return facts


CHECKS = (
    Check("pendulum: periods", periods),
    Check("pendulum: energy", pendulum_energy),
    Check("pendulum: decay", decay),
    Check("double pendulum: modes", normal_modes),
    Check("double pendulum: energy", chaos),
    Check("pendula: order in the time step", order_in_time),
)
