"""Conserved quantities: total mass, linear and angular momentum."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.physics.elements import curved_sheet, uneven_ball
from gradsim.check.physics.measure import INTEGRATORS, NO_GRAVITY, PhysicsCheck, node_masses, simulate_stable
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Soft, Springs
from gradsim.scene.body import NodeBody
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.quantity import PerElement, per_element
from gradsim.scene.scene import Scene


def total_mass() -> list[CheckResult]:
    """Checks that the nodes' masses sum to density times volume or area, for uniform and per-element densities."""
    random = np.random.default_rng(4)
    box, sheet, saddle = meshes.tet_box((1.5, 0.7, 0.4), (5, 3, 2)), meshes.grid((1.5, 0.7), (5, 3)), curved_sheet()
    dense, thick = random.uniform(100.0, 2000.0, len(box.tets)), random.uniform(0.1, 2.0, len(saddle.faces))
    cases: list[tuple[str, NodeBody, float]] = [
        ("box, uniform density [kg]", Soft("body", box, density=730.0), 730.0 * 1.5 * 0.7 * 0.4),
        (
            "box, density per tetrahedron [kg]",
            Soft("body", box, density=per_element(dense)),
            float(dense @ box.volumes),
        ),
        ("sheet, uniform density [kg]", Cloth("body", sheet, density=0.3), 0.3 * 1.5 * 0.7),
        (
            "saddle, density per triangle [kg]",
            Cloth("body", saddle, density=per_element(thick)),
            float(thick @ saddle.areas),
        ),
    ]
    return [
        expect_close("total mass", name, mass, float(node_masses(Scene([body])).sum()), 1e-12)
        for name, body, mass in cases
    ]


def vibrating_bodies(damping: float) -> list[tuple[str, NodeBody]]:
    """Returns free bodies with a random velocity at every node."""
    random = np.random.default_rng(5)
    ball, saddle = uneven_ball(), curved_sheet()
    solid, sheet = NeoHookean(3e4, 5e4, 30.0 * damping), Membrane(300.0, 500.0, 0.1 * damping)

    def random_velocities(count: int) -> PerElement:
        return per_element(random.normal((1.0, 0.0, -0.5), 1.0, (count, 3)))

    cloth = Cloth(
        "body",
        saddle,
        density=0.5,
        material=sheet,
        bending=Bending(0.5, 0.01 * damping),
        velocity=random_velocities(len(saddle.vertices)),
    )
    net = Springs(
        "body",
        saddle.vertices,
        saddle.edges,
        mass=0.02,
        stiffness=300.0,
        damping=0.1 * damping,
        velocity=random_velocities(len(saddle.vertices)),
    )
    return [
        ("solid", Soft("body", ball, density=1000.0, material=solid, velocity=random_velocities(len(ball.vertices)))),
        ("cloth with bending", cloth),
        ("spring net", net),
    ]


def linear_momentum() -> list[CheckResult]:
    """Checks the linear momentum of vibrating free bodies, with both integrators."""
    results = []
    for name, body in vibrating_bodies(damping=1.0):
        scene = Scene([body], gravity=NO_GRAVITY)
        mass = node_masses(scene)[0, :, None]
        for integrator in INTEGRATORS:
            motion = simulate_stable(scene, duration=1.0, frames=6, integrator=integrator, fraction=0.5)
            momenta = mass * motion.velocities
            drift = (momenta.sum(1) - momenta[0].sum(0)).norm(dim=-1).max() / momenta[0].norm(dim=-1).sum()
            title = f"{name}, {type(integrator).__name__}: drift / sum |m v|"
            results.append(expect_zero("linear momentum", title, float(drift), 1e-10))
    return results


def angular_momentum() -> list[CheckResult]:
    """Checks the angular momentum of damped free bodies: a spinning ball, and vibrating cloth and springs."""
    ball = uneven_ball()
    spin = per_element(np.cross((2.0, 6.0, -1.0), ball.vertices))
    material = NeoHookean.from_young(3e4, 0.3, damping=300.0)
    bodies: list[tuple[str, NodeBody]] = [
        ("spinning damped solid", Soft("body", ball, density=1000.0, material=material, velocity=spin)),
        *vibrating_bodies(damping=1.0)[1:],
    ]
    results = []
    for name, body in bodies:
        scene = Scene([body], gravity=NO_GRAVITY)
        motion = simulate_stable(scene, duration=1.0, frames=6, fraction=0.5)
        momenta = torch.linalg.cross(motion.vertices, motion.velocities) * node_masses(scene)[0, :, None]
        total = momenta.sum(1)
        drift = (total - total[0]).norm(dim=-1).max() / momenta[0].norm(dim=-1).sum()
        results.append(expect_zero("angular momentum", f"{name}: drift in 1 s / sum |r x m v|", float(drift), 1e-6))
    return results


CHECKS = (
    PhysicsCheck("total mass", total_mass),
    PhysicsCheck("linear momentum", linear_momentum),
    PhysicsCheck("angular momentum", angular_momentum),
)
