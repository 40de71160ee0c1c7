"""The paper's deformable data set: hanging beams, soft balls that bounce, and sheets of cloth in flight, in turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.datasets.sample import Ranges, Sample, draw_truth, draw_unknowns, generators
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Look
from gradsim.scene.materials import Bending, Ground, Membrane, NeoHookean
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time

FRAMES, FPS = 24, 30.0
SUBSTEPS = {"beam": 96, "ball": 192, "cloth": 64}  # per frame
OBJECTS = tuple(SUBSTEPS)
RANGES: dict[str, Ranges] = {  # of true values and of guesses
    "beam": {"beam.material.mu": (500.0, 2000.0), "beam.material.lam": (500.0, 2000.0)},  # [Pa]
    "ball": {"ball.density": (5.0, 15.0), "ball.material.mu": (500.0, 2000.0), "ball.material.lam": (500.0, 2000.0)},
    "cloth": {"cloth.velocity": (np.array([0.8, 1.8, -1.0]), np.array([1.8, 3.2, 0.0]))},  # [m/s]
}


def sample(seed: int, number: int) -> Sample:
    """Returns a video of the data set."""
    rng, guesses = generators(seed, number)
    name = OBJECTS[number % len(OBJECTS)]
    truth = draw_truth(rng, RANGES[name])
    unknowns = draw_unknowns(guesses, RANGES[name])
    arguments = {path.rpartition(".")[2]: value for path, value in unknowns.items()}
    color = rng.uniform(0.2, 0.9, 3)
    scenes = {"beam": _random_beam, "ball": _random_ball, "cloth": _random_cloth}
    return Sample(name, scenes[name](rng, color, arguments), truth, Time(FRAMES, FPS, SUBSTEPS[name]))


def beam(mu: Any, lam: Any, *, length: float = 0.6, side: float = 0.12, color: Any = (0.25, 0.6, 0.35)) -> Scene:
    """Returns a scene with a beam of 200 tetrahedra, clamped at its left end, that sags under its weight."""
    body = Soft(
        "beam",
        meshes.tet_box((length, side, side), (10, 2, 2)),
        density=3.0,
        material=NeoHookean(mu=mu, lam=lam, damping=0.5),
        position=(0.0, 0.5, 0.0),
        pinned=Region(high=(1e-3 - length / 2, None, None)),
        look=Look(color=color),
    )
    return Scene([body], camera=Camera(eye=(0.1, 0.5, 1.2), target=(-0.02, 0.38, 0.0)))


def ball(
    density: Any,
    mu: Any,
    lam: Any,
    *,
    radius: float = 0.25,
    velocity: Any = (2.0, 0.0, 0.0),
    color: Any = (0.8, 0.4, 0.2),
) -> Scene:
    """Returns a scene with a soft ball that is thrown to the ground; contact as in the paper's public code."""
    body = Soft(
        "ball",
        meshes.tet_ball(radius, 6),
        density=density,
        material=NeoHookean(mu=mu, lam=lam, damping=1.0),
        position=(-0.7, radius + 0.35, 0.0),
        velocity=velocity,
        look=Look(color=color),
    )
    camera = Camera(eye=(0.2, 0.7, 2.9), target=(0.1, 0.35, 0.0))
    return Scene([body], ground=Ground(ke=1e4, kd=1.0, kf=10.0, mu=0.5, delta=0.01), camera=camera)


def cloth(
    velocity: Any, *, stiffness: float = 50.0, rotation: Any = (0.35, 0.0, 0.3, 0.88), color: Any = (0.75, 0.3, 0.45)
) -> Scene:
    """Returns a scene with a sheet of 200 triangles in flight, with bending, drag and lift."""
    body = Cloth(
        "cloth",
        meshes.grid(0.8, 10),
        density=0.15,
        material=Membrane(mu=stiffness, lam=stiffness, damping=0.05),
        bending=Bending(stiffness=5e-4, damping=1e-5),
        folding=-0.15,
        drag=1.0,
        lift=1.0,
        position=(-0.7, 0.5, 0.0),
        rotation=rotation,
        velocity=velocity,
        look=Look(color=color),
    )
    return Scene([body], camera=Camera(eye=(0.0, 0.9, 3.2), target=(0.0, 0.5, 0.0)))


def _random_beam(rng: np.random.Generator, color: np.ndarray, unknowns: dict[str, Any]) -> Scene:
    return beam(**unknowns, length=rng.uniform(0.5, 0.65), side=rng.uniform(0.1, 0.14), color=color)


def _random_ball(rng: np.random.Generator, color: np.ndarray, unknowns: dict[str, Any]) -> Scene:
    velocity = rng.uniform((1.0, -1.0, -0.3), (2.2, 0.5, 0.3))
    return ball(**unknowns, radius=rng.uniform(0.2, 0.3), velocity=velocity, color=color)


def _random_cloth(rng: np.random.Generator, color: np.ndarray, unknowns: dict[str, Any]) -> Scene:
    rotation = np.array([0.35, 0.0, 0.3, 0.88]) + rng.uniform(-0.15, 0.15, 4)
    rotation /= np.linalg.norm(rotation)
    return cloth(**unknowns, stiffness=rng.uniform(30.0, 80.0), rotation=rotation, color=color)
