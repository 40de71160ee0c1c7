"""Contact of nodes with each other and with moving rigid bodies, and contact with moving surfaces."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.check.gradient_problems.node_contact import BLOCKS, SHEET_AND_BALL, SHEET_AND_BOX, SHEETS
from gradsim.check.physics.measure import NO_GRAVITY, PhysicsCheck, node_masses
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.materials import Ground, Membrane
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import SelfContact
from gradsim.scene.surfaces import box
from gradsim.scene.trajectory import RigidMotion, Trajectory
from gradsim.simulate.simulate import simulate


def _momenta(scene: Scene, motion: Trajectory) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns momentum and angular momentum about the origin of all bodies, [T, 3] each."""
    assert motion.nodes is not None
    nodes = node_masses(scene)[0, :, None] * motion.nodes.velocities
    momentum, angular = nodes.sum(1), torch.linalg.cross(motion.nodes.vertices, nodes).sum(1)
    for body in scene.bodies:
        own = motion[body.name]
        if isinstance(own, RigidMotion):
            mass: Any = body.mass if isinstance(body, Rigid) else None
            whole = mass * own.velocity
            momentum = momentum + whole
            angular = angular + own.angular_momentum + torch.linalg.cross(own.center_of_mass, whole)
    return momentum, angular


def conservation() -> list[CheckResult]:
    """Checks momentum and angular momentum in collisions; between nodes the latter only without friction."""
    results = []
    for problem in (SHEETS, BLOCKS, SHEET_AND_BALL, SHEET_AND_BOX):
        values = problem.values()
        if "friction" in values:
            values["friction"] = 0.0 * values["friction"]
        scene = problem.build(values)
        motion = simulate(scene, frames=6, fps=50.0, substeps=64, integrator=SymplecticEuler())
        for name, value in zip(("momentum", "angular momentum"), _momenta(scene, motion), strict=True):
            drift = float((value - value[0]).norm(dim=-1).max() / value.norm(dim=-1).max())
            results.append(expect_zero("contact of nodes", f"{problem.name}: drift of {name}", drift, 1e-12))
    return results


def exchange() -> list[CheckResult]:
    """Checks that equal sheets that meet node on node without damping exchange their velocities."""
    contact = SelfContact(ke=300.0, kd=0.0, mu=0.0, delta=0.003, radius=0.03)
    mesh, own = meshes.grid(0.4, 6), {"material": Membrane(100.0, 100.0), "self_contact": contact}
    lower = Cloth("lower", mesh, 0.5, **own)  # type: ignore[arg-type]
    upper = Cloth("upper", mesh, 0.5, position=(0.0, 0.08, 0.0), velocity=(0.0, -1.0, 0.0), **own)  # type: ignore[arg-type]
    motion = simulate(Scene([lower, upper], gravity=NO_GRAVITY), frames=8, fps=50.0, substeps=256)
    speed = float(motion["lower"].velocities[-1, :, 1].mean())
    return [expect_close("contact of nodes", "equal sheets exchange velocities [m/s]", -1.0, speed, 1e-3)]


def conveyor() -> list[CheckResult]:
    """Checks the acceleration of a block on a belt, and its final speed."""
    mu, gravity, speed = 0.3, 9.81, 0.8
    belt = Ground(ke=1e4, kd=60.0, kf=200.0, mu=mu, surface_velocity=(speed, 0.0, 0.0))
    weight_depth = 2.0 * gravity / (4 * 1e4)
    start = (0.0, 0.05 - weight_depth - 0.5 * 0.005 * 0.4, 0.0)  # at rest: delta is half a hundredth of the size
    block = Rigid("block", box((0.4, 0.1, 0.4)), mass=2.0, position=start)
    motion = simulate(Scene([block], belt), frames=31, fps=30.0, substeps=128)
    velocity, time = motion["block"].velocity[:, 0], float(motion.time[4])
    return [
        expect_close(
            "moving surfaces", "speed of a block on a belt after 0.13 s", mu * gravity * time, float(velocity[4]), 0.02
        ),
        expect_close("moving surfaces", "speed of a block on a belt after 1 s", speed, float(velocity[-1]), 1e-3),
    ]


CHECKS = (
    PhysicsCheck("momentum in contact of nodes", conservation),
    PhysicsCheck("exchange of velocities", exchange),
    PhysicsCheck("conveyor belt", conveyor),
)
