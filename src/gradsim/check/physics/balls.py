"""Balls and restitution: impacts of balls and cubes, rolling, and impacts on static shapes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.measure import NO_GRAVITY, G, PhysicsCheck, simulate_stable
from gradsim.check.physics.rigid import axis_angle
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.integrators import Midpoint
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticShape, StaticSphere
from gradsim.simulate.simulate import simulate

FREQUENCY = 1e3  # of the contact, sqrt(ke / m) [rad/s]
RESTITUTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)


def _tensor(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ball_restitution(
    restitution: torch.Tensor,
    speed: torch.Tensor,
    mass: torch.Tensor,
    *,
    slope: float = 0.0,
    frequency: float = FREQUENCY,
    delta: float | None = None,
) -> torch.Tensor:
    """Returns the ratio of the speeds after and before an impact without gravity; tensors broadcast."""
    restitution, speed, mass = torch.broadcast_tensors(restitution, speed, mass)
    velocity = torch.stack([torch.zeros_like(speed), -speed, torch.zeros_like(speed)], -1)
    ball = Ball("ball", radius=0.1, mass=mass, position=(0.0, 0.1, 0.0), velocity=velocity)
    bounce: dict[str, Any] = {"restitution": restitution, "restitution_slope": slope}
    ground = Ground(ke=mass * frequency**2, kf=0.0, mu=0.0, delta=delta, **bounce)
    run = simulate(Scene([ball], ground, gravity=NO_GRAVITY), frames=2, fps=4.0, substeps=25000, integrator=Midpoint())
    return run["ball"].velocity[..., -1, 1] / speed


def restitution() -> list[CheckResult]:
    """Checks the restitution of a ball: it depends neither on speed and mass nor on stiffness and depth of contact."""
    e, speeds = _tensor(RESTITUTIONS), _tensor((0.02, 0.3, 1.0, 10.0))
    found = [ball_restitution(e[:, None], speeds, _tensor((mass,))) for mass in (1e-3, 1.0, 1e3)]
    results = []
    for wanted, ratios in zip(RESTITUTIONS, torch.cat(found, 1), strict=True):
        worst = ratios[(ratios - wanted).abs().argmax()]
        name = f"restitution {wanted:g}, worst of 0.02-10 m/s and 1 g-1000 kg"
        results.append(expect_close("ball with restitution", name, wanted, float(worst), 0.02))
    for name, frequency, delta in (("stiffer contact", 4 * FREQUENCY, None), ("no smoothing", FREQUENCY, 0.0)):
        ratios = ball_restitution(e, _tensor((1.0,)), _tensor((1.0,)), frequency=frequency, delta=delta)
        worst_error = float(((ratios - e) / e).abs().max())
        results.append(expect_zero("ball with restitution", f"{name}: largest relative error", worst_error, 0.02))
    return results


def restitution_of_speed() -> list[CheckResult]:
    """Checks 1/e - 1 = (1/e0 - 1) (z + sqrt(1 + z^2)), z = slope (v - 1 m/s)."""
    speeds, results = _tensor((0.1, 1.0, 3.0)), []
    for e, slope in ((0.7, 0.1), (0.5, 0.1), (0.85, -0.05)):
        found = ball_restitution(_tensor((e,)), speeds, _tensor((0.5,)), slope=slope)
        for speed, got in zip(speeds.tolist(), found.tolist(), strict=True):
            z = slope * (speed - 1.0)
            expected = 1.0 / (1.0 + (1.0 / e - 1.0) * (z + math.hypot(1.0, z)))
            name = f"{e:g} at 1 m/s, slope {slope:g} s/m, at {speed:g} m/s"
            results.append(expect_close("restitution and speed", name, expected, got, 0.02))
    return results


def cube_restitution() -> list[CheckResult]:
    """Checks that a cube bounces equally from a face, an edge and a corner."""
    edge = torch.from_numpy(axis_angle((1.0, 0.0, 0.0), math.pi / 4))
    corner = torch.from_numpy(axis_angle((1.0, 0.0, -1.0), math.atan(math.sqrt(2.0))))
    poses = (("face", torch.tensor([0.0, 0.0, 0.0, 1.0], dtype=torch.float64)), ("edge", edge), ("corner", corner))
    mesh, results = surfaces.box(0.2), []
    for name, rotation in poses:
        low = float(rotate(rotation, torch.tensor(mesh.vertices))[:, 1].min())
        for speed in (0.3, 3.0):
            velocity = (0.0, -speed, 0.0)
            cube = Rigid("cube", mesh, mass=2.0, position=(0.0, -low, 0.0), rotation=rotation, velocity=velocity)
            scene = Scene([cube], Ground(ke=1e6, restitution=0.7, mu=0.0), gravity=NO_GRAVITY)
            run = simulate(scene, frames=2, fps=20.0, substeps=5000, integrator=Midpoint())
            got = float(run["cube"].velocity[-1, 1]) / speed
            results.append(expect_close("cube with restitution", f"{name} at {speed:g} m/s", 0.7, got, 0.02))
    return results


def drop() -> list[CheckResult]:
    """Checks that a ball dropped from 1 m rises to e^2 and e^4 of that."""
    e, radius = 0.8, 0.05
    ball = Ball("ball", radius=radius, mass=0.1, position=(0.0, 1.0 + radius, 0.0))
    scene = Scene([ball], Ground(ke=1e6, restitution=e))
    y = simulate(scene, frames=2001, fps=1000.0, substeps=100, integrator=Midpoint())["ball"].position[:, 1] - radius
    landed = torch.nonzero((y[1:] < 0) & (y[:-1] >= 0))[:, 0].tolist()
    heights = [float(y[first:last].max()) for first, last in itertools.pairwise(landed[:3])]
    return [
        expect_close("dropped ball", f"height of bounce {n + 1} [m]", e ** (2 * n + 2), height, 0.02)
        for n, height in enumerate(heights)
    ]


def rolling() -> list[CheckResult]:
    """Checks a ball that slides, then rolls at 5/7 of its speed, and one that rolls down a slope at 5/7 g sin t."""
    radius, mass, mu, speed, ke, delta = 0.1, 0.5, 0.3, 1.0, 1e5, 1e-4
    depth = mass * G / ke + delta / 2
    contact: dict[str, Any] = {"ke": ke, "restitution": 0.5, "kf": 200.0, "mu": mu, "delta": delta}
    ball = Ball("ball", radius=radius, mass=mass, position=(0.0, radius - depth, 0.0), velocity=(speed, 0.0, 0.0))
    start = 2 * speed / (7 * mu * G)
    run = simulate_stable(Scene([ball], Ground(**contact)), duration=2 * start, frames=201)
    time, v = run.time.numpy(), run["ball"].velocity[:, 0].numpy()
    slip = v + radius * run["ball"].angular_velocity[:, 2].numpy()
    sliding = time < 0.9 * start
    line = np.polyfit(time[sliding], slip[sliding], 1)
    slope = math.radians(15.0)
    normal, down = np.array([math.sin(slope), math.cos(slope), 0.0]), np.array([math.cos(slope), -math.sin(slope), 0.0])
    top = StaticBox(**contact, size=(40.0, 2.0, 2.0), position=-normal, rotation=axis_angle((0.0, 0.0, 1.0), -slope))
    released = Ball("ball", radius=radius, mass=mass, position=(radius - depth) * normal)
    speeds = simulate_stable(Scene([released], shapes={"slope": top}), duration=1.0, frames=3)["ball"].velocity @ (
        torch.from_numpy(down)
    )
    rate = 5 / 7 * G * math.sin(slope)
    return [
        expect_close("rolling ball", "start of rolling [s]", start, float(-line[1] / line[0]), 5e-3),
        expect_close("rolling ball", "speed when rolling [m/s]", 5 * speed / 7, float(v[-1]), 5e-3),
        expect_zero("rolling ball", "slip when rolling / initial speed", float(slip[-1]) / speed, 5e-3),
        expect_close(
            "ball on a slope", "acceleration when rolling [m/s^2]", rate, float(speeds[2] - speeds[1]) / 0.5, 5e-3
        ),
    ]


def reflection() -> list[CheckResult]:
    """Checks impacts without friction on a sphere, and on face, edge and corner of a box: v' = v - (1 + e) (n.v) n."""
    e, radius, velocity = 0.6, 0.05, torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    law: dict[str, Any] = {"ke": 1e6, "restitution": e, "mu": 0.0}
    box = StaticBox(**law, size=(0.4, 0.4, 0.4))
    cases: tuple[tuple[str, StaticShape, tuple[float, float, float], tuple[float, float, float]], ...] = (
        ("sphere", StaticSphere(**law, radius=0.3), (0.0, 0.0, 0.0), (-0.6, 0.8, 0.0)),
        ("face of a box", box, (0.05, 0.2, -0.1), (0.0, 1.0, 0.0)),
        ("edge of a box", box, (-0.2, 0.2, 0.1), (-0.6, 0.8, 0.0)),
        ("corner of a box", box, (-0.2, 0.2, -0.2), (-0.48, 0.8, -0.36)),
    )
    results = []
    for name, shape, foot, direction in cases:
        normal, place = _tensor(direction), _tensor(foot)
        reach = radius + (0.3 if isinstance(shape, StaticSphere) else 0.0)
        ball = Ball("ball", radius=radius, mass=0.2, position=place + reach * normal, velocity=velocity)
        scene = Scene([ball], shapes={"shape": shape}, gravity=NO_GRAVITY)
        found = simulate(scene, frames=2, fps=50.0, substeps=4000, integrator=Midpoint())["ball"].velocity[-1]
        expected = velocity - (1 + e) * (velocity @ normal) * normal
        error = float((found - expected).norm() / velocity.norm())
        results.append(expect_zero("reflection of a ball", f"{name}: error of the velocity / speed", error, 0.02))
    return results


CHECKS = (
    PhysicsCheck("restitution of a ball", restitution),
    PhysicsCheck("restitution and impact speed", restitution_of_speed),
    PhysicsCheck("restitution of a cube", cube_restitution),
    PhysicsCheck("dropped ball", drop),
    PhysicsCheck("rolling ball", rolling),
    PhysicsCheck("reflection of a ball", reflection),
)
