"""Rigid bodies in free motion: tumbling, falling, and known pushes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import STILL, Check
from gradsim.check.physics.pendula import STRETCHED, crossings
from gradsim.scene import surfaces
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.quantity import Quantity
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import RigidMotion, Trajectory
from gradsim.simulate.simulate import simulate

G = 9.81  # [m/s^2]
INTEGRATORS: tuple[Integrator, ...] = (SymplecticEuler(), Midpoint())


def turned(axis: tuple[float, float, float], angle: float) -> np.ndarray:
    """Quaternion (x, y, z, w) of a turn by an angle [rad] about an axis."""
    return np.append(np.sin(angle / 2) * np.array(axis) / np.linalg.norm(axis), np.cos(angle / 2))


def body_axes(motion: RigidMotion, vectors: torch.Tensor) -> np.ndarray:
    """Vectors of the world in the body's axes, [..., T, 3]."""
    return rotate(motion.rotation, vectors, back=True).numpy()


def vertical(motion: RigidMotion) -> np.ndarray:
    """The body's y axis in the world, [..., T, 3]."""
    q = motion.rotation
    return rotate(q, torch.tensor([0.0, 1.0, 0.0], dtype=q.dtype).expand_as(q[..., :3])).numpy()


def tumble(
    inertia: np.ndarray, spin: Quantity, integrator: Integrator, *, duration: float, dt: float, fps: float = 50.0
) -> Trajectory:
    """A free body."""
    body = Rigid("body", surfaces.box(1.0), mass=1.0, inertia=inertia, angular_velocity=spin)
    frames, substeps = round(fps * duration) + 1, round(1 / (fps * dt))
    return simulate(Scene([body], gravity=STILL), frames=frames, fps=fps, substeps=substeps, integrator=integrator)


def seen_momentum(motion: RigidMotion, inertia: np.ndarray, dt: float) -> np.ndarray:
    """Angular momentum [kg m^2/s], [..., T - 2, 3], of the turning from one frame to the next but one."""
    q = motion.rotation
    axis, w = q[..., 1:-1, :3], q[..., 1:-1, 3:]
    rate = (q[..., 2:, :] - q[..., :-2, :]) / dt  # 2 dq/dt, of which the spin is the product with the inverse of q
    spin = w * rate[..., :3] - rate[..., 3:] * axis - torch.linalg.cross(rate[..., :3], axis)
    local = rotate(q[..., 1:-1, :], spin, back=True) @ torch.from_numpy(inertia)
    return rotate(q[..., 1:-1, :], local).numpy()


def turning_energy(motion: RigidMotion, inertia: np.ndarray) -> np.ndarray:
    """Kinetic energy of the turning [J], [..., T]."""
    w = body_axes(motion, motion.angular_velocity)
    return 0.5 * np.einsum("...i,ij,...j->...", w, inertia, w)


def drift(values: np.ndarray) -> float:
    """Largest change of a course [..., T] since its start, relative to it."""
    return float(np.abs(values / values[..., :1] - 1).max())


def tennis_racket() -> list[Fact]:
    """Spin about the middle axis turns over again and again (Dzhanibekov)."""
    inertia, spin, topic = np.diag([1.0, 2.0, 3.0]), (0.01, 1.0, 0.0), "tennis racket"
    run = tumble(inertia, spin, Midpoint(), duration=60.0, dt=1 / 400)
    middle = body_axes(run["body"], run["body"].angular_velocity)[:, 1]
    first, second, third = crossings(run.time.numpy(), middle)
    facts = [
        relative(topic, "first turn over [s]", 10.3773, first, 1e-3),
        relative(topic, "second, later by [s]", 20.7546, second - first, 1e-3),
        relative(topic, "third, later by [s]", 20.7546, third - second, 1e-3),
    ]
    # The other rule turns a body by explicit Euler: its energy errs by the first power of the step.
    other = tumble(inertia, spin, SymplecticEuler(), duration=60.0, dt=1 / 6400)
    for name, motion in (("Midpoint, dt = 1/400 s", run["body"]), ("SymplecticEuler, dt = 1/6400 s", other["body"])):
        momentum = np.linalg.norm(seen_momentum(motion, inertia, 0.02), axis=1)
        facts.append(small(topic, f"energy drift in 60 s, {name}", drift(turning_energy(motion, inertia)), 1e-3))
        facts.append(small(topic, f"drift of |L| in 60 s, {name}", drift(momentum), 1e-3))
    return facts


def free_tumbling() -> list[Fact]:
    """Bodies of any inertia, spinning any way: L and energy stay, to the first or second order of the integrator."""
    random = np.random.default_rng(7)
    frame = np.linalg.qr(random.normal(size=(3, 3)))[0]
    inertia = frame @ np.diag([0.5, 0.9, 1.1]) @ frame.T
    inertia = 0.5 * (inertia + inertia.T)
    spins = torch.from_numpy(random.normal(size=(8, 3)))
    facts = []
    cases: tuple[tuple[Integrator, float, float], ...] = (
        (SymplecticEuler(), 1 / 6400, 1e-3),
        (Midpoint(), 1 / 400, 1e-5),
    )
    for integrator, dt, bound in cases:
        motion = tumble(inertia, spins, integrator, duration=5.0, dt=dt, fps=400.0)["body"]
        momenta = seen_momentum(motion, inertia, 1 / 400)
        change = np.linalg.norm(momenta - momenta[:, :1], axis=-1) / np.linalg.norm(momenta[:, :1], axis=-1)
        title = f"in 5 s, {type(integrator).__name__}, dt = 1/{1 / dt:.0f} s"
        facts.append(small("free tumbling", f"drift of L {title}", float(change.max()), bound))
        facts.append(small("free tumbling", f"energy drift {title}", drift(turning_energy(motion, inertia)), bound))
    return facts


def wobble() -> list[Fact]:
    """A free symmetric top: its axis goes around L at the rate |L| / I across, keeping its angle to it."""
    across, along, spin = 0.7, 1.2, (0.5, 3.0, 0.0)
    run = tumble(np.diag([across, along, across]), spin, Midpoint(), duration=10.0, dt=1 / 3200)
    momentum = np.array([across, along, across]) * spin
    rate = float(np.linalg.norm(momentum)) / across
    up = momentum / np.linalg.norm(momentum)
    axis = vertical(run["body"])
    side = np.cross(up, (0.0, 0.0, 1.0))  # from L to where the axis starts, as spin and L lie in the plane z = 0
    side *= np.sign(side @ axis[0])
    phase = np.unwrap(np.arctan2(axis @ np.cross(up, side), axis @ side))
    return [
        relative("wobbling top", "precession |L| / I [rad/s]", rate, float(phase[-1] - phase[0]) / 10.0, 1e-5),
        small("wobbling top", "change of the angle to L in 10 s [rad]", float(np.ptp(np.arccos(axis @ up))), 1e-5),
    ]


def free_fall() -> list[Fact]:
    """Gravity is an acceleration: from 1 g to 1 t bodies fall alike, along the parabola of their centre of mass."""
    masses = torch.logspace(-3, 3, 7, dtype=torch.float64)
    body = Rigid(
        "body", surfaces.cone(0.2, 0.4, 8), mass=masses, velocity=(2.0, 4.0, -1.0), angular_velocity=(3.0, 1.0, 2.0)
    )
    places = simulate(Scene([body]), frames=11, fps=10.0, substeps=16, integrator=Midpoint())["body"].center_of_mass
    moved = places[:, -1] - places[:, 0]
    error = (moved - torch.tensor([2.0, 4.0 - G / 2, -1.0], dtype=torch.float64)).abs().max()
    return [small("rigid free fall", "bodies of 1 g to 1 t: worst error after 1 s [m]", float(error), 1e-12)]


def pushes() -> list[Fact]:
    """What a push gives does not depend on the step, nor on where between steps it starts and ends."""
    mass, point = 2.0, np.array([0.08, 0.15, -0.2])
    given = np.array([1.0, -2.0, 0.5])  # [N s] or [N]
    moments = [(start, None) for start in (0.0, 0.1, 0.0377, 0.2619)]
    spans = [(0.0, 0.3), (0.0377, 0.2619), (0.1, 0.1001)]

    def worst(push: Callable[[float, Any], Push], times: list[tuple[float, Any]]) -> tuple[float, float]:
        """Largest errors of m v and L at 0.5 s, over those expected."""
        found = []
        for start, end in times:
            body = Rigid("body", surfaces.box((0.2, 0.3, 0.4)), mass=mass, pushes=[push(start, end)])
            for integrator in INTEGRATORS:
                for substeps in (1, 3, 96):
                    run = simulate(
                        Scene([body], gravity=STILL), frames=6, fps=10.0, substeps=substeps, integrator=integrator
                    )
                    momentum = mass * run["body"].velocity[-1].numpy()
                    expected = given * (end - start if body.pushes[0].force is not None else 1.0)
                    turn = run.states["rigid.l"][-1, 0].numpy() - np.cross(point, given)
                    found.append((np.linalg.norm(momentum - expected) / np.linalg.norm(expected), np.linalg.norm(turn)))
        momenta, turns = np.array(found).max(0)
        return float(momenta), float(turns / np.linalg.norm(np.cross(point, given)))

    kick = worst(lambda start, end: Push(impulse=given, point=point, start=start), moments)
    spread = worst(lambda start, end: Push(impulse=given, point=point, start=start, end=end), spans)
    force = worst(lambda start, end: Push(force=given, point=point, start=start, end=end), spans)
    return [
        small("push", "impulse at a moment: error of m v / J", kick[0], 1e-12),
        small("push", "impulse at a moment: error of L / |r x J|", kick[1], 1e-12),
        small("push", "impulse over an interval: error of m v / J", spread[0], 1e-12),
        small("push", "force over an interval: error of m v / F (end - start)", force[0], 1e-12),
    ]


def swing_by_force() -> list[Fact]:
    """A force on a point and its opposite on the centre swing a body as a pendulum of period 2 pi sqrt(I / r F)."""
    inertia, lever, force, degrees = 0.02, 0.15, 3.0, 60
    body = Rigid(
        "body",
        surfaces.box(0.3),
        mass=2.0,
        inertia=inertia * np.eye(3),
        rotation=turned((0.0, 0.0, 1.0), math.radians(degrees)),
        pushes=[Push(force=(0.0, -force, 0.0), point=(0.0, -lever, 0.0)), Push(force=(0.0, force, 0.0))],
    )
    run = simulate(Scene([body], gravity=STILL), frames=501, fps=250.0, substeps=8, integrator=Midpoint())
    q = run["body"].rotation.numpy()
    first, _, third = crossings(run.time.numpy(), 2 * np.arctan2(q[:, 2], q[:, 3]))[:3]
    period = 2 * math.pi * math.sqrt(inertia / (lever * force)) * STRETCHED[degrees]
    away = float(run["body"].center_of_mass.abs().max())
    return [
        relative("swing by a force", f"period at {degrees} deg [s]", period, third - first, 1e-5),
        small("swing by a force", "way of the centre [m]", away, 1e-12),
    ]


CHECKS = (
    Check("tennis racket", tennis_racket),
    Check("free tumbling", free_tumbling),
    Check("wobbling top", wobble),
    Check("rigid free fall", free_fall),
    Check("pushes", pushes),
    Check("swing by a force", swing_by_force),
)
