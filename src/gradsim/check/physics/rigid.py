"""Rigid bodies in free motion: tumbling, free fall, and applied impulses and forces."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.measure import INTEGRATORS, NO_GRAVITY, G, PhysicsCheck
from gradsim.check.physics.pendula import PERIOD_RATIOS, zero_crossings
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import surfaces
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.quantity import Quantity
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import RigidMotion, Trajectory
from gradsim.simulate.simulate import simulate


def axis_angle(axis: tuple[float, float, float], angle: float) -> np.ndarray:
    """Returns the quaternion (x, y, z, w) of a rotation by an angle [rad] about an axis."""
    return np.append(np.sin(angle / 2) * np.array(axis) / np.linalg.norm(axis), np.cos(angle / 2))


def in_body_axes(motion: RigidMotion, vectors: torch.Tensor) -> np.ndarray:
    """Returns vectors of the world in the body's axes, [..., T, 3]."""
    return rotate(motion.rotation, vectors, back=True).numpy()


def vertical_axis(motion: RigidMotion) -> np.ndarray:
    """Returns the body's y axis in the world, [..., T, 3]."""
    q = motion.rotation
    return rotate(q, torch.tensor([0.0, 1.0, 0.0], dtype=q.dtype).expand_as(q[..., :3])).numpy()


def tumble(
    inertia: np.ndarray, spin: Quantity, integrator: Integrator, *, duration: float, dt: float, fps: float = 50.0
) -> Trajectory:
    """Simulates a free body."""
    body = Rigid("body", surfaces.box(1.0), mass=1.0, inertia=inertia, angular_velocity=spin)
    frames, substeps = round(fps * duration) + 1, round(1 / (fps * dt))
    return simulate(Scene([body], gravity=NO_GRAVITY), frames=frames, fps=fps, substeps=substeps, integrator=integrator)


def measured_momentum(motion: RigidMotion, inertia: np.ndarray, dt: float) -> np.ndarray:
    """Returns the angular momentum [kg m^2/s], [..., T - 2, 3], from central differences of the rotation."""
    q = motion.rotation
    axis, w = q[..., 1:-1, :3], q[..., 1:-1, 3:]
    rate = (q[..., 2:, :] - q[..., :-2, :]) / dt  # 2 dq/dt; its product with the inverse of q is the angular velocity
    spin = w * rate[..., :3] - rate[..., 3:] * axis - torch.linalg.cross(rate[..., :3], axis)
    local = rotate(q[..., 1:-1, :], spin, back=True) @ torch.from_numpy(inertia)
    return rotate(q[..., 1:-1, :], local).numpy()


def rotational_energy(motion: RigidMotion, inertia: np.ndarray) -> np.ndarray:
    """Returns the rotational kinetic energy [J], [..., T]."""
    w = in_body_axes(motion, motion.angular_velocity)
    return 0.5 * np.einsum("...i,ij,...j->...", w, inertia, w)


def drift(values: np.ndarray) -> float:
    """Returns the largest relative change of a time series [..., T] since its start."""
    return float(np.abs(values / values[..., :1] - 1).max())


def tennis_racket() -> list[CheckResult]:
    """Checks that rotation about the intermediate axis flips periodically (Dzhanibekov effect)."""
    inertia, spin, topic = np.diag([1.0, 2.0, 3.0]), (0.01, 1.0, 0.0), "tennis racket"
    run = tumble(inertia, spin, Midpoint(), duration=60.0, dt=1 / 400)
    middle = in_body_axes(run["body"], run["body"].angular_velocity)[:, 1]
    first, second, third = zero_crossings(run.time.numpy(), middle)
    results = [
        expect_close(topic, "first flip [s]", 10.3773, first, 1e-3),
        expect_close(topic, "time to the second flip [s]", 20.7546, second - first, 1e-3),
        expect_close(topic, "time to the third flip [s]", 20.7546, third - second, 1e-3),
    ]
    # SymplecticEuler rotates a body by explicit Euler: its energy error is of first order in the step.
    other = tumble(inertia, spin, SymplecticEuler(), duration=60.0, dt=1 / 6400)
    for name, motion in (("Midpoint, dt = 1/400 s", run["body"]), ("SymplecticEuler, dt = 1/6400 s", other["body"])):
        momentum = np.linalg.norm(measured_momentum(motion, inertia, 0.02), axis=1)
        energy = rotational_energy(motion, inertia)
        results.append(expect_zero(topic, f"energy drift in 60 s, {name}", drift(energy), 1e-3))
        results.append(expect_zero(topic, f"drift of |L| in 60 s, {name}", drift(momentum), 1e-3))
    return results


def free_tumbling() -> list[CheckResult]:
    """Checks that L and energy are conserved to the order of the integrator, for random inertia and velocities."""
    random = np.random.default_rng(7)
    frame = np.linalg.qr(random.normal(size=(3, 3)))[0]
    inertia = frame @ np.diag([0.5, 0.9, 1.1]) @ frame.T
    inertia = 0.5 * (inertia + inertia.T)
    spins = torch.from_numpy(random.normal(size=(8, 3)))
    results = []
    cases: tuple[tuple[Integrator, float, float], ...] = (
        (SymplecticEuler(), 1 / 6400, 1e-3),
        (Midpoint(), 1 / 400, 1e-5),
    )
    for integrator, dt, bound in cases:
        motion = tumble(inertia, spins, integrator, duration=5.0, dt=dt, fps=400.0)["body"]
        momenta = measured_momentum(motion, inertia, 1 / 400)
        change = np.linalg.norm(momenta - momenta[:, :1], axis=-1) / np.linalg.norm(momenta[:, :1], axis=-1)
        title = f"in 5 s, {type(integrator).__name__}, dt = 1/{1 / dt:.0f} s"
        results.append(expect_zero("free tumbling", f"drift of L {title}", float(change.max()), bound))
        energy = rotational_energy(motion, inertia)
        results.append(expect_zero("free tumbling", f"energy drift {title}", drift(energy), bound))
    return results


def symmetric_top() -> list[CheckResult]:
    """Checks a free symmetric top: its axis precesses about L at the rate |L| / I_across at a constant angle."""
    across, along, spin = 0.7, 1.2, (0.5, 3.0, 0.0)
    run = tumble(np.diag([across, along, across]), spin, Midpoint(), duration=10.0, dt=1 / 3200)
    momentum = np.array([across, along, across]) * spin
    rate = float(np.linalg.norm(momentum)) / across
    up = momentum / np.linalg.norm(momentum)
    axis = vertical_axis(run["body"])
    # From L towards the initial axis: the angular velocity and L are in the plane z = 0.
    side = np.cross(up, (0.0, 0.0, 1.0))
    side *= np.sign(side @ axis[0])
    phase = np.unwrap(np.arctan2(axis @ np.cross(up, side), axis @ side))
    angle_change = float(np.ptp(np.arccos(axis @ up)))
    return [
        expect_close("symmetric top", "precession |L| / I [rad/s]", rate, float(phase[-1] - phase[0]) / 10.0, 1e-5),
        expect_zero("symmetric top", "change of the angle to L in 10 s [rad]", angle_change, 1e-5),
    ]


def free_fall() -> list[CheckResult]:
    """Checks that the centres of mass of bodies of 1 g to 1 t follow the same parabola."""
    masses = torch.logspace(-3, 3, 7, dtype=torch.float64)
    body = Rigid(
        "body", surfaces.cone(0.2, 0.4, 8), mass=masses, velocity=(2.0, 4.0, -1.0), angular_velocity=(3.0, 1.0, 2.0)
    )
    positions = simulate(Scene([body]), frames=11, fps=10.0, substeps=16, integrator=Midpoint())["body"].center_of_mass
    displacement = positions[:, -1] - positions[:, 0]
    error = (displacement - torch.tensor([2.0, 4.0 - G / 2, -1.0], dtype=torch.float64)).abs().max()
    return [expect_zero("rigid free fall", "masses of 1 g to 1 t: largest error after 1 s [m]", float(error), 1e-12)]


def pushes() -> list[CheckResult]:
    """Checks that a push has the same effect for all steps, and for starts and ends between steps."""
    mass, point = 2.0, np.array([0.08, 0.15, -0.2])
    strength = np.array([1.0, -2.0, 0.5])  # [N s] or [N]
    instants = [(start, None) for start in (0.0, 0.1, 0.0377, 0.2619)]
    intervals = [(0.0, 0.3), (0.0377, 0.2619), (0.1, 0.1001)]

    def worst(push: Callable[[float, Any], Push], times: list[tuple[float, Any]]) -> tuple[float, float]:
        """Returns the largest relative errors of m v and L at 0.5 s."""
        found = []
        for start, end in times:
            body = Rigid("body", surfaces.box((0.2, 0.3, 0.4)), mass=mass, pushes=[push(start, end)])
            for integrator in INTEGRATORS:
                for substeps in (1, 3, 96):
                    run = simulate(
                        Scene([body], gravity=NO_GRAVITY), frames=6, fps=10.0, substeps=substeps, integrator=integrator
                    )
                    momentum = mass * run["body"].velocity[-1].numpy()
                    expected = strength * (end - start if body.pushes[0].force is not None else 1.0)
                    angular = run["body"].angular_momentum[-1].numpy() - np.cross(point, strength)
                    linear = np.linalg.norm(momentum - expected) / np.linalg.norm(expected)
                    found.append((linear, np.linalg.norm(angular)))
        linear, angular = np.array(found).max(0)
        return float(linear), float(angular / np.linalg.norm(np.cross(point, strength)))

    instant = worst(lambda start, end: Push(impulse=strength, point=point, start=start), instants)
    spread = worst(lambda start, end: Push(impulse=strength, point=point, start=start, end=end), intervals)
    force = worst(lambda start, end: Push(force=strength, point=point, start=start, end=end), intervals)
    return [
        expect_zero("push", "instantaneous impulse: error of m v / J", instant[0], 1e-12),
        expect_zero("push", "instantaneous impulse: error of L / |r x J|", instant[1], 1e-12),
        expect_zero("push", "impulse over an interval: error of m v / J", spread[0], 1e-12),
        expect_zero("push", "force over an interval: error of m v / F (end - start)", force[0], 1e-12),
    ]


def force_couple() -> list[CheckResult]:
    """Checks a couple of constant forces: the body oscillates like a pendulum of period 2 pi sqrt(I / r F)."""
    inertia, lever, force, degrees = 0.02, 0.15, 3.0, 60
    body = Rigid(
        "body",
        surfaces.box(0.3),
        mass=2.0,
        inertia=inertia * np.eye(3),
        rotation=axis_angle((0.0, 0.0, 1.0), math.radians(degrees)),
        pushes=[Push(force=(0.0, -force, 0.0), point=(0.0, -lever, 0.0)), Push(force=(0.0, force, 0.0))],
    )
    run = simulate(Scene([body], gravity=NO_GRAVITY), frames=501, fps=250.0, substeps=8, integrator=Midpoint())
    q = run["body"].rotation.numpy()
    first, _, third = zero_crossings(run.time.numpy(), 2 * np.arctan2(q[:, 2], q[:, 3]))[:3]
    period = 2 * math.pi * math.sqrt(inertia / (lever * force)) * PERIOD_RATIOS[degrees]
    displacement = float(run["body"].center_of_mass.abs().max())
    return [
        expect_close("couple of forces", f"period at {degrees} deg [s]", period, third - first, 1e-5),
        expect_zero("couple of forces", "displacement of the centre [m]", displacement, 1e-12),
    ]


CHECKS = (
    PhysicsCheck("tennis racket", tennis_racket),
    PhysicsCheck("free tumbling", free_tumbling),
    PhysicsCheck("symmetric top", symmetric_top),
    PhysicsCheck("rigid free fall", free_fall),
    PhysicsCheck("pushes", pushes),
    PhysicsCheck("couple of forces", force_couple),
)
