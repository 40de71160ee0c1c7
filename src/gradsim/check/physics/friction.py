"""Friction that holds: blocks on inclines, a leaning plank, a rolling ball, and a soft block on an incline."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.measure import INTEGRATORS, G, PhysicsCheck
from gradsim.check.physics.rigid import axis_angle
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes, surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Soft
from gradsim.scene.friction import Sticking
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticShape
from gradsim.simulate.simulate import simulate

MU = 0.6
ABOVE = 0.5  # degrees above the friction angle


def incline() -> list[CheckResult]:
    """Checks a block on an incline: at rest for 10 s below the friction angle, and sliding half a degree above it."""
    limit = math.degrees(math.atan(MU))
    angles = [25.0, limit - ABOVE, limit + ABOVE, limit + 5.0]
    results = []
    for name, slope in (("plane", _tilted_plane), ("box", _tilted_box)):
        for integrator in INTEGRATORS:
            topic = f"sticking block on a tilted {name}, {type(integrator).__name__}"
            for angle in angles:
                scene, down = slope(math.radians(angle))
                frames = 331 if angle < limit else 31
                motion = simulate(scene, frames=frames, fps=30.0, substeps=32, integrator=integrator)["block"]
                along, speed = motion.position @ down, motion.velocity @ down
                if angle < limit:
                    drift = float(along[-1] - along[30]) * 1e3
                    results.append(expect_zero(topic, f"{angle:.1f} degrees: drift in 10 s [mm]", drift, 0.01))
                else:
                    a = math.radians(angle)
                    found = float(speed[30] - speed[15]) / 0.5
                    expected = G * (math.sin(a) - MU * math.cos(a))
                    results.append(
                        expect_close(topic, f"{angle:.1f} degrees: acceleration [m/s^2]", expected, found, 0.01)
                    )
    return results


def _law(mu: float = MU, ke: float = 5e3) -> dict[str, Any]:
    return {"ke": ke, "kd": 20.0, "mu": mu, "friction": Sticking()}


def _block(slope: float) -> tuple[Rigid, np.ndarray, np.ndarray, np.ndarray]:
    """Returns a block on a slope, with its normal, the direction downhill and the rotation of the slope."""
    normal, down = np.array([math.sin(slope), math.cos(slope), 0.0]), np.array([math.cos(slope), -math.sin(slope), 0.0])
    flat = axis_angle((0.0, 0.0, 1.0), -slope)
    block = Rigid("block", surfaces.box(0.2), mass=2.0, position=0.099 * normal, rotation=flat)
    return block, normal, down, flat


def _tilted_plane(slope: float) -> tuple[Scene, torch.Tensor]:
    block, normal, down, _ = _block(slope)
    return Scene([block], Ground(**_law(), normal=normal)), torch.from_numpy(down)


def _tilted_box(slope: float) -> tuple[Scene, torch.Tensor]:
    block, normal, down, flat = _block(slope)
    top = StaticBox(**_law(), size=(20.0, 2.0, 2.0), position=-normal, rotation=flat)
    return Scene([block], shapes={"slope": top}), torch.from_numpy(down)


LENGTH, THICKNESS = 1.0, 0.04  # of the plank [m]


def plank_corners(angle: float) -> np.ndarray:
    """Returns the corners of a plank that leans to the right, relative to its centre [m], [4, 2]."""
    along, across = np.array([math.cos(angle), math.sin(angle)]), np.array([-math.sin(angle), math.cos(angle)])
    return np.array([i * LENGTH / 2 * along + j * THICKNESS / 2 * across for i in (-1, 1) for j in (-1, 1)])


def _plank_imbalance(angle: float, mu: float) -> float:
    """Returns the moment about the centre of the weight-normalized forces if the plank slips at floor and wall."""
    corners = plank_corners(angle)
    foot, top = corners[corners[:, 1].argmin()], corners[corners[:, 0].argmax()]
    floor = 1.0 / (1.0 + mu**2)
    forces = (foot, np.array([mu * floor, floor])), (top, np.array([-mu * floor, mu**2 * floor]))
    return float(sum(arm[0] * force[1] - arm[1] * force[0] for arm, force in forces))


def plank_angle(mu: float) -> float:
    """Returns the smallest angle to the floor at which a plank leans on a wall [rad]."""
    low, high = 0.2, 1.5
    sign = _plank_imbalance(high, mu) > 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if (_plank_imbalance(middle, mu) > 0.0) == sign else (middle, high)
    return high


def plank() -> list[CheckResult]:
    """Checks a plank between the floor and a wall: it holds a degree above the smallest angle, and falls below it."""
    mu, ke = 0.4, 2e5
    limit = plank_angle(mu)
    results = []
    for name in ("plane", "box"):
        topic = f"plank that leans on a wall ({name})"
        for offset in (1.0, -1.0):
            angle = limit + math.radians(offset)
            motion = simulate(_plank_scene(angle, mu, ke, name), frames=91, fps=30.0, substeps=160)["plank"]
            slip = float((motion.position[-1] - motion.position[15]).norm()) * 1e3
            title = f"{math.degrees(angle):.1f} degrees: slip in 2.5 s [mm]"
            if offset > 0.0:
                results.append(expect_zero(topic, title, slip, 0.1))
            else:
                fallen = float(motion.position[0, 1] - motion.position[-1, 1]) / LENGTH
                results.append(expect_close(topic, f"{title}, falls", 1.0, min(1.0, fallen / 0.1), 1e-9))
    return results


def _plank_scene(angle: float, mu: float, ke: float, wall: str) -> Scene:
    """Returns a plank whose depth in floor and wall carries its weight, with delta = 0.05 mm."""
    corners, mass, delta = plank_corners(angle), 2.0, 5e-5
    load = mass * G / (1.0 + mu**2) / (2.0 * ke)  # of the two points on the floor, over their stiffness [m]
    center = np.array([-corners[:, 0].max() + mu * load, -corners[:, 1].min() - load, 0.0])
    center[:2] += (delta / 2, -delta / 2)
    body = Rigid(
        "plank",
        surfaces.box((LENGTH, THICKNESS, 0.2)),
        mass=mass,
        position=center,
        rotation=axis_angle((0.0, 0.0, 1.0), angle),
    )
    law = _law(mu, ke) | {"delta": delta}
    shape: StaticShape = (
        Ground(**law, normal=(-1.0, 0.0, 0.0))
        if wall == "plane"
        else StaticBox(**law, size=(1.0, 4.0, 2.0), position=(0.5, 1.5, 0.0))
    )
    return Scene([body], Ground(**law), shapes={"wall": shape})


def rolling() -> list[CheckResult]:
    """Checks a ball that slides, then rolls at 5/7 of its speed without losing any, and one that stays on a slope."""
    radius, mass, speed, mu = 0.1, 0.5, 1.0, 0.3
    law = _law(mu, 1e4)
    ball = Ball("ball", radius=radius, mass=mass, position=(0.0, radius - 5e-4, 0.0), velocity=(speed, 0.0, 0.0))
    motion = simulate(Scene([ball], Ground(**law)), frames=61, fps=30.0, substeps=64)["ball"]
    v, spin = motion.velocity[:, 0], motion.angular_velocity[:, 2]
    return [
        expect_close("sticking ball", "speed when rolling [m/s]", 5 * speed / 7, float(v[30]), 5e-3),
        expect_zero("sticking ball", "loss of speed in 1 s of rolling", float(1 - v[60] / v[30]), 1e-3),
        expect_zero("sticking ball", "slip when rolling / speed", float((v[60] + radius * spin[60]) / v[60]), 6e-3),
    ]


def soft_block() -> list[CheckResult]:
    """Checks a soft block on an incline: no drift below the friction angle, and the acceleration above it."""
    results = []
    for angle in (20.0, 40.0):
        slope = math.radians(angle)
        gravity = (G * math.sin(slope), -G * math.cos(slope), 0.0)
        body = Soft(
            "block",
            meshes.tet_box((0.2, 0.1, 0.2), (4, 2, 4)),
            200.0,
            material=NeoHookean.from_young(1e5, 0.3, 50.0),
            position=(0.0, 0.0499, 0.0),
        )
        scene = Scene([body], Ground(ke=1e3, kd=0.5, mu=MU, friction=Sticking()), gravity=gravity)
        motion = simulate(scene, frames=61, fps=30.0, substeps=160)["block"]
        if angle < math.degrees(math.atan(MU)):
            drift = float(motion.position[60, 0] - motion.position[30, 0]) * 1e3
            results.append(expect_zero("sticking soft block", f"{angle:.0f} degrees: drift in 1 s [mm]", drift, 0.01))
        else:
            x = motion.position[:, 0]  # the velocity also has that of the block's vibration
            found = float(x[60] - 2.0 * x[45] + x[30]) / 0.5**2
            expected = G * (math.sin(slope) - MU * math.cos(slope))
            title = f"{angle:.0f} degrees: acceleration [m/s^2]"
            results.append(expect_close("sticking soft block", title, expected, found, 0.01))
    return results


CHECKS = (
    PhysicsCheck("sticking block on an incline", incline),
    PhysicsCheck("leaning plank", plank),
    PhysicsCheck("sticking ball", rolling),
    PhysicsCheck("sticking soft block", soft_block),
)
