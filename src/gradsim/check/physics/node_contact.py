"""Contact of nodes with each other and with moving rigid bodies, cloth that must not cross, and moving surfaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim.check.gradient_problems.node_contact import (
    BLOCK_AND_BALL,
    BLOCK_AND_BOX,
    BLOCK_AND_MESH,
    BLOCKS,
    SHEET_AND_BALL,
    SHEET_AND_BOX,
    SHEET_AND_CAPSULE,
    SHEETS,
)
from gradsim.check.physics.measure import NO_GRAVITY, PhysicsCheck, node_masses
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.materials import Ground, Membrane
from gradsim.scene.motion import Motion
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.quantity import Signal
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
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
    rigid = (SHEET_AND_BALL, SHEET_AND_BOX, SHEET_AND_CAPSULE, BLOCK_AND_BALL, BLOCK_AND_BOX, BLOCK_AND_MESH)
    for problem in (SHEETS, BLOCKS, *rigid):
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


def corner() -> list[CheckResult]:
    """Checks that no node and no face of a cloth that falls on the corner of a box is inside it.

    The box stands on a corner and follows a motion without any, so that forces do not move it.
    """
    side, turn = 0.2, np.array([0.3647, 0.0, -0.2796, 0.8881])
    still = Motion(Signal(np.zeros((2, 3))))
    hard = Rigid("box", box(side), mass=5.0, rotation=turn, motion=still)
    material = Membrane(80.0, 80.0, 0.02)
    cloth = Cloth("cloth", meshes.grid(0.5, 16), 0.2, material=material, position=(0.0, 0.21, 0.0))
    touch = NodeContact("touch", body="cloth", rigid="box", ke=60.0, kd=0.02, kf=0.1, thickness=0.012)
    run = simulate(Scene([cloth, hard], forces=[touch]), frames=31, fps=50.0, substeps=64)
    nodes = run["cloth"].vertices
    points = torch.cat([nodes, nodes[:, torch.tensor(cloth.mesh.faces.astype(int))].mean(-2)], 1)
    turned = rotate(run["box"].rotation[:, None], points - run["box"].position[:, None], back=True)
    depth = float((side / 2 - turned.abs().amax(-1)).amax())
    lowest = float(nodes[..., 1].min())
    return [
        expect_zero("cloth on the corner of a box", "depth / side of the box", max(depth, 0.0) / side, 0.06),
        expect_close("cloth on the corner of a box", "hangs below the corner", 1.0, float(lowest < 0.1), 1e-9),
    ]


def _folded_strip() -> tuple[Cloth, np.ndarray, np.ndarray]:
    """Returns a strip bent to a U whose upper end is pulled along, and which nodes belong to each layer, [N]."""
    mesh = meshes.grid((0.48, 0.1), (24, 4))
    s = mesh.vertices[:, 0] + 0.24
    flat, radius = 0.2, 0.08 / np.pi
    bent = np.clip((s - flat) / radius, 0.0, np.pi)
    x = np.where(s < flat, s, np.where(s < flat + 0.08, flat + radius * np.sin(bent), flat - (s - flat - 0.08)))
    y = radius * (1.0 - np.cos(bent)) + 0.01
    pull = np.array([[0.0, 0.0, 0.0], [-0.02, -0.015, 0.0], [-0.1, -0.03, 0.0]])
    cloth = Cloth(
        "cloth",
        mesh,
        0.2,
        material=Membrane(40.0, 40.0, 0.02),
        vertices=np.stack([x, y, mesh.vertices[:, 2]], 1),
        pinned=np.flatnonzero(s > 0.479),
        motion=Motion(Signal(pull)),
        self_contact=SelfContact(ke=60.0, kd=0.01, kf=0.02),
    )
    return cloth, s > 0.3, s < 0.18


def fold() -> list[CheckResult]:
    """Checks that a folded strip falls on itself and is pulled, and that the upper layer stays above the lower one."""
    cloth, upper, lower = _folded_strip()
    run = simulate(Scene([cloth], Ground(ke=100.0, kd=0.02, kf=0.05)), frames=25, fps=50.0, substeps=64)
    crossed, touching = 0, 0
    for x in run["cloth"].vertices[6::3].numpy():
        above, below = x[upper], x[lower]
        apart = np.linalg.norm(above[:, None, [0, 2]] - below[None, :, [0, 2]], axis=2)
        covered = apart.min(1) < 0.012
        gap = above[covered, 1] - below[apart.argmin(1)[covered], 1]
        crossed, touching = crossed + int((gap <= 0.0).sum()), int((gap < 0.03).sum())
    topic = "folded strip that is pulled"
    return [
        expect_zero(topic, "nodes on the wrong side", float(crossed), 0.0),
        expect_close(topic, "layers touch", 1.0, float(touching >= 10), 1e-9),
    ]


CHECKS = (
    PhysicsCheck("momentum in contact of nodes", conservation),
    PhysicsCheck("cloth on the corner of a box", corner),
    PhysicsCheck("folded cloth", fold),
    PhysicsCheck("exchange of velocities", exchange),
    PhysicsCheck("conveyor belt", conveyor),
)
