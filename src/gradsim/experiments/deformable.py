"""Table 3 of the paper: Lamé parameters of a hanging beam, and the initial velocity of a cloth."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.experiments.experiment import Experiment
from gradsim.experiments.recovery import COLUMNS, Recovery, max_error_claim
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Look
from gradsim.scene.materials import Bending, Membrane, NeoHookean
from gradsim.scene.scene import Scene

ALLOWED = 1e-5
VELOCITY = np.array([1.3, 2.6, -0.6])  # initial velocity of the cloth [m/s]


def beam(mu: Any, lam: Any) -> Scene:
    """Returns a scene with a beam of 200 tetrahedra, clamped at its left end, that sags under its weight."""
    body = Soft(
        "beam",
        meshes.tet_box((0.6, 0.12, 0.12), (10, 2, 2)),
        density=3.0,
        material=NeoHookean(mu=mu, lam=lam, damping=0.5),
        position=(0.0, 0.5, 0.0),
        pinned=Region(high=(-0.299, None, None)),
        look=Look(color=(0.25, 0.6, 0.35)),
    )
    return Scene([body], camera=Camera(eye=(0.1, 0.5, 1.2), target=(-0.02, 0.38, 0.0)))


def cloth(velocity: Any) -> Scene:
    """Returns a scene with a sheet of 200 triangles in flight, with bending, drag and lift."""
    body = Cloth(
        "cloth",
        meshes.grid(0.8, 10),
        density=0.15,
        material=Membrane(mu=50.0, lam=50.0, damping=0.05),
        bending=Bending(stiffness=5e-4, damping=1e-5),
        folding=-0.15,
        drag=1.0,
        lift=1.0,
        position=(-0.7, 0.5, 0.0),
        rotation=(0.35, 0.0, 0.3, 0.88),
        velocity=velocity,
        look=Look(color=(0.75, 0.3, 0.45)),
    )
    return Scene([body], camera=Camera(eye=(0.0, 0.9, 3.2), target=(0.0, 0.5, 0.0)))


RECOVERIES = (
    Recovery(
        "hanging beam",
        beam,
        truth={"mu": 1000.0, "lam": 1000.0},  # [Pa]
        start={"mu": 1400.0, "lam": 600.0},
        bounds=(200.0, 4000.0),
        paths={"mu": "beam.material.mu", "lam": "beam.material.lam"},
        frames=30,
        substeps=96,
        paper="5.4e-3, 5.6e-3",
    ),
    Recovery(
        "flying cloth",
        cloth,
        truth={"velocity": VELOCITY},
        start={"velocity": VELOCITY * (0.6, 0.6, 1.4)},
        bounds=(-6.0, 6.0),
        paths={"velocity": "cloth.velocity"},
        frames=24,
        substeps=64,
        paper="2.6e-2",
    ),
)


def experiment() -> Experiment:
    """Errors from exact frames of 64 x 64 pixels, with starts 40 % off the truth."""
    cases = tuple(recovery.case() for recovery in RECOVERIES)
    return Experiment("deformable", "Beam and cloth parameters from video", COLUMNS, cases, max_error_claim(ALLOWED))
