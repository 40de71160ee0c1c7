"""Air drag of rigid bodies against closed forms."""

from __future__ import annotations

import math

from gradsim.check.physics.measure import NO_GRAVITY, G, PhysicsCheck
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene.ball import Ball
from gradsim.scene.integrators import Midpoint
from gradsim.scene.rigid import Drag
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import RigidMotion
from gradsim.simulate.simulate import simulate

MASS, DURATION = 0.2, 2.0  # [kg], [s]


def _motion(drag: Drag, velocity: tuple[float, float, float], gravity: tuple[float, float, float]) -> RigidMotion:
    ball = Ball("ball", radius=0.05, mass=MASS, velocity=velocity, angular_velocity=(1.0, 2.0, 3.0), drag=drag)
    scene = Scene([ball], gravity=gravity)
    motion: RigidMotion = simulate(scene, frames=2, fps=1 / DURATION, substeps=2000, integrator=Midpoint())["ball"]
    return motion


def fall() -> list[CheckResult]:
    """Checks the fall from rest with linear or quadratic drag."""
    linear, quadratic, down = 0.3, 0.02, (0.0, -G, 0.0)
    time, limit = MASS / linear, math.sqrt(MASS * G / quadratic)  # relaxation time [s], terminal speed [m/s]
    decay = math.exp(-DURATION / time)
    cases = (
        ("linear", Drag(linear), G * time * (1 - decay), G * time * (DURATION - time * (1 - decay))),
        (
            "quadratic",
            Drag(quadratic=quadratic),
            limit * math.tanh(G * DURATION / limit),
            limit**2 / G * math.log(math.cosh(G * DURATION / limit)),
        ),
    )
    results = []
    for name, drag, speed, depth in cases:
        motion = _motion(drag, (0.0, 0.0, 0.0), down)
        topic, v, y = f"fall with {name} drag", float(motion.velocity[-1, 1]), float(motion.position[-1, 1])
        results.append(expect_close(topic, "speed after 2 s [m/s]", speed, -v, 1e-6))
        results.append(expect_close(topic, "distance after 2 s [m]", depth, -y, 1e-6))
    return results


def coast() -> list[CheckResult]:
    """Checks a flight without gravity with both terms: v = k1 v0 / ((k1 + k2 v0) exp(k1 t/m) - k2 v0), straight on."""
    linear, quadratic, velocity = 0.1, 0.03, (3.0, -4.0, 12.0)
    motion, start = _motion(Drag(linear, quadratic), velocity, NO_GRAVITY), math.hypot(*velocity)
    growth = math.exp(linear * DURATION / MASS)
    expected = linear * start / ((linear + quadratic * start) * growth - quadratic * start)
    v, spin = motion.velocity[-1], motion.angular_velocity
    sideways = float((v - expected / start * motion.velocity[0]).norm()) / expected
    return [
        expect_close("flight with drag", "speed after 2 s [m/s]", expected, float(v.norm()), 1e-5),
        expect_zero("flight with drag", "change of direction", sideways, 1e-5),
        expect_zero("flight with drag", "change of spin [rad/s]", float((spin[-1] - spin[0]).norm()), 1e-12),
    ]


CHECKS = (PhysicsCheck("fall with air drag", fall), PhysicsCheck("flight with air drag", coast))
