"""Articulated bodies: double rods, a compound pendulum, momentum of a floating chain, power of damping."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.measure import NO_GRAVITY, G, PhysicsCheck
from gradsim.check.physics.pendula import zero_crossings
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.articulated_motion import ArticulatedMotion
from gradsim.scene.integrators import RungeKutta4
from gradsim.scene.joints import Free, Revolute, Spherical, Universal
from gradsim.scene.rigid import Drag
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate

ROD = np.diag([1 / 12, 1e-3, 1 / 12])  # inertia of a rod of 1 m and 1 kg about its centre [kg m^2]

# Absolute angles of two uniform rods of 1 m and 1 kg, at (1.5, 2.0) rad and 0.5 rad/s at the start, after 1 s and 2 s:
# Lagrange's equations in absolute angles, integrated by DOP853 with tolerances of 1e-13.
ROD_ANGLES = {1.0: (-0.9150657554838625, -0.8692182493266232), 2.0: (-0.12952210581028828, -0.8366252178061159)}


def double_rods() -> Articulated:
    """Returns two uniform rods, the second suspended from the first."""
    links = {
        "upper": Link(Revolute(angle=1.5, rate=0.5), mass=1.0, center=(0.0, -0.5, 0.0), inertia=ROD),
        "lower": Link(Revolute(angle=0.5), "upper", (0.0, -1.0, 0.0), mass=1.0, center=(0.0, -0.5, 0.0), inertia=ROD),
    }
    return Articulated("rods", links)


def rods() -> list[CheckResult]:
    """Checks double rods against a reference of tight tolerance."""
    results = []
    for time, dt, tolerance in ((2.0, 5e-3, 1e-8), (1.0, 1e-3, 1e-9), (2.0, 1e-3, 1e-9)):
        motion = simulate(
            Scene([double_rods()]), frames=2, fps=1 / time, substeps=round(time / dt), integrator=RungeKutta4()
        )["rods"]
        angles = motion.angles[-1].cumsum(-1).numpy()
        error = float(np.abs(angles - ROD_ANGLES[time]).max())
        tip = float(abs(np.sin(angles).sum() - np.sin(ROD_ANGLES[time]).sum()))
        for name, value in (("angles [rad]", error), ("tip, sideways [m]", tip)):
            text = f"error of the {name} after {time:g} s, dt = {dt:g} s, RungeKutta4"
            results.append(expect_zero("double rods", text, value, tolerance))
    return results


def energy(scene: Scene, motion: ArticulatedMotion) -> torch.Tensor:
    """Returns kinetic plus potential energy of links whose mass, centre and inertia are given [J], [..., T]."""
    total = torch.zeros((), dtype=torch.float64)
    body, gravity = scene.bodies[0], torch.as_tensor(np.asarray(scene.gravity))
    for name, link in body.links.items():  # type: ignore[attr-defined]
        own = motion.link(name)
        center, inertia = (torch.as_tensor(np.asarray(getattr(link, x))) for x in ("center", "inertia"))
        arm = rotate(own.rotation, center)
        velocity = own.velocity + torch.linalg.cross(own.angular_velocity, arm)
        spin = rotate(own.rotation, own.angular_velocity, back=True)
        kinetic = 0.5 * float(link.mass) * (velocity**2).sum(-1) + 0.5 * ((spin @ inertia) * spin).sum(-1)
        total = total + kinetic - float(link.mass) * (own.position + arm) @ gravity
    return total


def rod_energy() -> list[CheckResult]:
    """Checks the energy of chaotic double rods."""
    scene = Scene([double_rods()])
    motion = simulate(scene, frames=201, fps=20.0, substeps=50, integrator=RungeKutta4())["rods"]
    total = energy(scene, motion)
    drift = float((total - total[0]).abs().max() / (2 * G))
    return [expect_zero("double rods", "energy drift in 10 s, dt = 1e-3 s, RungeKutta4", drift, 1e-8)]


def compound_period() -> list[CheckResult]:
    """Checks the period of a compound pendulum, 2 pi sqrt(I / (m g r)) times an elliptic integral of the amplitude."""
    mass, arm, inertia = 1.3, 0.4, 0.07
    small_period = 2 * math.pi * math.sqrt((inertia + mass * arm**2) / (mass * G * arm))
    results = []
    for degrees in (30, 90, 150):
        angle = math.radians(degrees)
        link = Link(Revolute(angle=angle), mass=mass, center=(0.0, -arm, 0.0), inertia=np.diag([0.05, 0.03, inertia]))
        scene = Scene([Articulated("body", {"bar": link})])
        trajectory = simulate(scene, frames=1601, fps=500.0, substeps=4, integrator=RungeKutta4())
        crossings = zero_crossings(trajectory.time.numpy(), trajectory["body"].angles[:, 0].numpy())
        expected = small_period * _elliptic_ratio(angle)
        name = f"period at {degrees} deg [s]"
        results.append(
            expect_close("compound pendulum", name, expected, float(2 * (crossings[1] - crossings[0])), 1e-6)
        )
    return results


def _elliptic_ratio(amplitude: float) -> float:
    """Returns the period over that at small amplitudes, by the arithmetic-geometric mean."""
    a, b = 1.0, math.cos(amplitude / 2)
    for _ in range(6):
        a, b = (a + b) / 2, math.sqrt(a * b)
    return 1.0 / a


def floating_chain() -> Articulated:
    """Returns three links with free, spherical and universal joints that move freely."""
    inertia = np.diag([0.02, 0.03, 0.04]) + 0.003
    links = {
        "first": Link(
            Free(velocity=(0.3, -0.2, 0.5), angular_velocity=(1.0, 2.0, -1.0)),
            mass=1.2,
            center=(0.05, -0.1, 0.02),
            inertia=inertia,
        ),
        "second": Link(
            Spherical(rotation=(0.2, -0.1, 0.3, 0.9), angular_velocity=(-2.0, 1.0, 0.5)),
            "first",
            (0.1, -0.3, 0.05),
            mass=0.7,
            center=(0.0, -0.15, 0.03),
            inertia=inertia,
        ),
        "third": Link(
            Universal(angles=(0.4, -0.6), rates=(1.5, -2.0), stiffness=(0.5, 0.2), damping=(0.02, 0.01)),
            "second",
            (0.0, -0.3, 0.0),
            mass=0.5,
            center=(0.02, -0.12, 0.0),
            inertia=inertia,
        ),
    }
    return Articulated("chain", links)


def momentum() -> list[CheckResult]:
    """Checks momentum and angular momentum of a chain that floats, with springs and damping inside."""
    body = floating_chain()
    scene = Scene([body], gravity=NO_GRAVITY)
    motion = simulate(scene, frames=11, fps=10.0, substeps=200, integrator=RungeKutta4())["chain"]
    linear, angular = torch.zeros(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    for name, link in body.links.items():
        own = motion.link(name)
        center, inertia = (torch.as_tensor(np.asarray(getattr(link, x))) for x in ("center", "inertia"))
        arm = rotate(own.rotation, center)
        velocity = own.velocity + torch.linalg.cross(own.angular_velocity, arm)
        mass = float(np.asarray(link.mass))
        spin = rotate(own.rotation, own.angular_velocity, back=True)
        linear = linear + mass * velocity
        angular = angular + rotate(own.rotation, spin @ inertia)
        angular = angular + mass * torch.linalg.cross(own.position + arm, velocity)
    results = []
    for name, value in (("momentum", linear), ("angular momentum", angular)):
        drift = float((value - value[0]).norm(dim=-1).max() / value[0].norm())
        results.append(expect_zero("floating chain", f"change of {name} in 1 s, dt = 5e-4 s", drift, 1e-10))
    return results


def damping_power() -> list[CheckResult]:
    """Checks that the energy lost is that of damping and dry friction in the joints."""
    damping, friction, slip = 0.05, 0.1, 0.2
    links = dict(double_rods().links)
    joint = {"damping": damping, "friction": friction, "slip": slip}
    links["upper"] = Link(Revolute(angle=1.5, rate=0.5, **joint), mass=1.0, center=(0.0, -0.5, 0.0), inertia=ROD)
    scene = Scene([Articulated("rods", links)])
    motion = simulate(scene, frames=4001, fps=2000.0, substeps=1, integrator=RungeKutta4())["rods"]
    total, rate = energy(scene, motion), motion.rates[:, 0]
    power = damping * rate**2 + friction * rate**2 / torch.sqrt(rate**2 + slip**2)
    lost = float(total[0] - total[-1])
    spent = float((power[1:] + power[:-1]).sum() / 4000.0)
    return [expect_close("double rods", "energy lost to damping and friction in 2 s [J]", spent, lost, 1e-6)]


def air_drag() -> list[CheckResult]:
    """Checks a bar that turns in still air: w' = -a w - b w^2 with a = k r^2 / I and b = q r^3 / I."""
    mass, arm, inertia, rate, linear, quadratic = 1.3, 0.4, 0.07, 6.0, 0.2, 0.8
    about_hinge = inertia + mass * arm**2
    slow, fast = linear * arm**2 / about_hinge, quadratic * arm**3 / about_hinge
    body: dict[str, Any] = {"mass": mass, "center": (0.0, -arm, 0.0), "inertia": np.diag([0.05, 0.03, inertia])}
    bar = Link(Revolute(rate=rate), drag=Drag(linear, quadratic), **body)
    scene = Scene([Articulated("body", {"bar": bar})], gravity=NO_GRAVITY)
    found = simulate(scene, frames=2, fps=0.5, substeps=400, integrator=RungeKutta4())["body"].rates[-1, 0]
    decay = math.exp(-2.0 * slow)
    expected = rate * decay / (1.0 + rate * fast / slow * (1.0 - decay))
    return [expect_close("bar in still air", "rate after 2 s [rad/s]", expected, float(found), 1e-9)]


CHECKS = (
    PhysicsCheck("double rods: reference", rods),
    PhysicsCheck("double rods: energy", rod_energy),
    PhysicsCheck("compound pendulum: period", compound_period),
    PhysicsCheck("floating chain: momentum", momentum),
    PhysicsCheck("double rods: power of damping", damping_power),
    PhysicsCheck("bar that turns in still air", air_drag),
)
