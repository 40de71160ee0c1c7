"""Table 6 of the paper: which parameters of each kind of body have gradients, read from the scene objects."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradsim.datasets import deformable
from gradsim.scene import meshes
from gradsim.scene.bodies import Soft, Springs
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.surfaces import box

COLUMNS: Mapping[str, tuple[str, ...]] = {  # the paper's columns: ends of paths
    "pos": ("position", "pivot", "angle", "angles", "points"),
    "vel": ("velocity", "rate", "rates"),
    "mass": ("mass", "masses", "body.density", "ball.density", "cloth.density"),
    "rot": ("rotation",),
    "rest": ("rest_length", "folding", "length", "lengths"),
    "stiff": ("stiffness", "material.mu", "material.lam"),
    "damp": ("damping",),
    "actuation": ("actuation",),
    "g": ("gravity",),
    "mu": ("ground.mu",),
    "e": ("ground.ke", "ground.kd", "ground.restitution"),
    "ext forces": ("force", "impulse", "drag", "lift"),
}
PAPER = {  # number of marks in a row of the paper; the text of the table does not say in which columns
    "rigid body": 7,
    "simple pendulum": 3,
    "double pendulum": 3,
    "deformable solid": 8,
    "cloth": 7,
    "smoke": 1,
}


def examples() -> dict[str, Scene]:
    """Returns a small scene of each kind, in which every parameter of the table has an effect."""
    cube = Rigid(
        "body",
        box(0.5),
        density=10.0,
        position=(0.0, 0.26, 0.0),
        rotation=(0.1, 0.0, 0.05, 0.99),
        velocity=(1.0, -1.0, 0.2),
        pushes=[Push(force=(1.0, 0.5, 0.0), point=(0.1, 0.0, 0.1))],
    )
    ground = Ground(ke=500.0, kd=5.0, kf=10.0, mu=0.4, delta=0.01)
    ball = Soft(
        "ball",
        meshes.tet_ball(0.2, 4),
        density=10.0,
        material=NeoHookean(mu=1000.0, lam=1000.0, damping=1.0),
        position=(0.0, 0.195, 0.0),
        velocity=(1.0, -1.0, 0.3),
    )
    soft_ground = Ground(ke=50.0, kd=0.1, kf=0.3, mu=0.4, delta=0.01)
    chain = Springs(
        "springs",
        points=[(0.0, 1.0, 0.0), (0.2, 0.6, 0.0), (0.3, 0.2, 0.1)],
        edges=[(0, 1), (1, 2)],
        mass=0.2,
        stiffness=50.0,
        damping=0.5,
        rest_length=0.4,
        velocity=(0.3, 0.0, 0.1),
        pinned=[0],
    )
    plume = np.zeros((12, 12))
    plume[2:5, 4:8] = 1.0
    return {
        "rigid body": Scene([cube], ground=ground),
        "simple pendulum": Scene(
            [Pendulum("pendulum", length=0.8, angle=0.5, rate=0.2, damping=0.1, rod_mass=0.2, drag=0.1)]
        ),
        "double pendulum": Scene(
            [
                DoublePendulum(
                    "pendulum",
                    angles=(0.5, 0.3),
                    rates=(0.1, 0.2),
                    damping=(0.1, 0.1),
                    rod_masses=(0.2, 0.3),
                    drag=(0.1, 0.2),
                )
            ]
        ),
        "deformable solid": Scene([ball], ground=soft_ground),
        "cloth": deformable.cloth((0.5, 1.0, 0.2)),
        "springs": Scene([chain]),
        "smoke": Scene([Smoke("smoke", (12, 12), density=plume, velocity=np.full((12, 12, 2), 0.1))]),
    }


def paths(scene: Scene) -> dict[str, list[str]]:
    """Returns the paths of the scene's quantities by column of the table. Gravity does not act on smoke."""
    found: dict[str, list[str]] = {}
    weightless = all(isinstance(body, Smoke) for body in scene.bodies)
    for path, _, _ in scene.quantities():
        if weightless and path == "scene.gravity":
            continue
        for column, ends in COLUMNS.items():
            if any(path == end or path.endswith(f".{end}") for end in ends):
                found.setdefault(column, []).append(path)
    return found


def table() -> dict[str, tuple[str, ...]]:
    """Returns the columns that each kind of body has."""
    return {kind: tuple(column for column in COLUMNS if column in paths(scene)) for kind, scene in examples().items()}
