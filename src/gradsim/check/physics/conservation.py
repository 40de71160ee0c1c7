"""What nothing may change: total mass, linear and angular momentum."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.elements import curved_sheet, uneven_ball
from gradsim.check.physics.measure import STILL, Check, node_masses, roll
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, NodeBody, Soft, Springs
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.quantity import PerElement, per_element
from gradsim.scene.scene import Scene


def total_mass() -> list[Fact]:
    """Masses of the nodes add up to density times volume or area, with one density or one for each element."""
    random = np.random.default_rng(4)
    box, sheet, saddle = meshes.tet_box((1.5, 0.7, 0.4), (5, 3, 2)), meshes.grid((1.5, 0.7), (5, 3)), curved_sheet()
    dense, thick = random.uniform(100.0, 2000.0, len(box.tets)), random.uniform(0.1, 2.0, len(saddle.faces))
    cases: list[tuple[str, NodeBody, float]] = [
        ("box of one density [kg]", Soft("body", box, density=730.0), 730.0 * 1.5 * 0.7 * 0.4),
        ("box, a density each tet [kg]", Soft("body", box, density=per_element(dense)), float(dense @ box.volumes)),
        ("sheet of one density [kg]", Cloth("body", sheet, density=0.3), 0.3 * 1.5 * 0.7),
        (
            "saddle, a density each triangle [kg]",
            Cloth("body", saddle, density=per_element(thick)),
            float(thick @ saddle.areas),
        ),
    ]
    return [
        relative("total mass", name, mass, float(node_masses(Scene([body])).sum()), 1e-12) for name, body, mass in cases
    ]


def lively_bodies(damping: float) -> list[tuple[str, NodeBody]]:
    """Free bodies, every node of them thrown another way."""
    random = np.random.default_rng(5)
    ball, saddle = uneven_ball(), curved_sheet()
    solid, sheet = NeoHookean(3e4, 5e4, 30.0 * damping), Membrane(300.0, 500.0, 0.1 * damping)

    def thrown(count: int) -> PerElement:
        return per_element(random.normal((1.0, 0.0, -0.5), 1.0, (count, 3)))

    cloth = Cloth(
        "body",
        saddle,
        density=0.5,
        material=sheet,
        bending=Bending(0.5, 0.01 * damping),
        velocity=thrown(len(saddle.vertices)),
    )
    net = Springs(
        "body",
        saddle.vertices,
        saddle.edges,
        mass=0.02,
        stiffness=300.0,
        damping=0.1 * damping,
        velocity=thrown(len(saddle.vertices)),
    )
    return [
        ("solid", Soft("body", ball, density=1000.0, material=solid, velocity=thrown(len(ball.vertices)))),
        ("cloth with bending", cloth),
        ("spring net", net),
    ]


def linear_momentum() -> list[Fact]:
    """Vibrating free bodies: momentum stays, with either integrator."""
    facts = []
    for name, body in lively_bodies(damping=1.0):
        scene = Scene([body], gravity=STILL)
        mass = node_masses(scene)[0, :, None]
        for integrator in (SymplecticEuler(), Midpoint()):
            momenta = mass * roll(scene, duration=1.0, frames=6, integrator=integrator, share=0.5).velocities
            drift = (momenta.sum(1) - momenta[0].sum(0)).norm(dim=-1).max() / momenta[0].norm(dim=-1).sum()
            title = f"{name}, {type(integrator).__name__}: drift / sum |m v|"
            facts.append(small("linear momentum", title, float(drift), 1e-10))
    return facts


def angular_momentum() -> list[Fact]:
    """Free bodies with internal damping turn on: a strongly damped spinning ball, and what vibrates wildly."""
    ball = uneven_ball()
    spin = per_element(np.cross((2.0, 6.0, -1.0), ball.vertices))
    material = NeoHookean.from_young(3e4, 0.3, damping=300.0)
    bodies: list[tuple[str, NodeBody]] = [
        ("spinning damped solid", Soft("body", ball, density=1000.0, material=material, velocity=spin)),
        *lively_bodies(damping=1.0)[1:],
    ]
    facts = []
    for name, body in bodies:
        scene = Scene([body], gravity=STILL)
        motion = roll(scene, duration=1.0, frames=6, share=0.5)
        turning = torch.linalg.cross(motion.vertices, motion.velocities) * node_masses(scene)[0, :, None]
        total = turning.sum(1)
        drift = (total - total[0]).norm(dim=-1).max() / turning[0].norm(dim=-1).sum()
        facts.append(small("angular momentum", f"{name}: drift in 1 s / sum |r x m v|", float(drift), 1e-6))
    return facts


CHECKS = (
    Check("total mass", total_mass),
    Check("linear momentum", linear_momentum),
    Check("angular momentum", angular_momentum),
)
