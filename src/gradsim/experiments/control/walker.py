"""The paper's walker: a flat sheet of actuated triangles walks to a place that is shown as one picture.

The sheet stands upright in the plane z = 0. Nothing holds it there: every force lies in the plane, to the last bit.
"""

from __future__ import annotations

import numpy as np
import torch

from gradsim.compare.distances import Moments
from gradsim.experiments.control.task import Method, Task, portrait
from gradsim.fit.goals import GoalImage, GoalState
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.optimizers import RandomSearch
from gradsim.fit.policies import Sinusoids
from gradsim.scene.bodies import Cloth
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Ground, Membrane
from gradsim.scene.meshes import TriMesh
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

FRAMES, FPS, SUBSTEPS = 301, 60.0, 16  # 5 s in 4800 steps
SIZE = (96, 192)
CELL = 0.2  # edge of the mesh's squares [m]
NEAREST, FARTHEST = 1.0, 2.0  # goals [m]: half of the walker's length to all of it
FREQUENCY, AMPLITUDE = 4 * np.pi, 0.3  # [rad/s], growth of a triangle's area
ITERATIONS = 3
SEEDS, HELD_OUT = tuple(range(5)), tuple(range(100, 105))
PAPER = "solved within three iterations"

LEGS, FEET = (0, 1, 8, 9), 4  # columns of squares, and rows of them below the body
ARMPITS, CREST = (2, 7), (3, 4, 5, 6)


def sheet() -> TriMesh:
    """The walker at rest, in the plane z = 0 with its feet at y = 0: 75 points, 104 triangles, the same in a mirror."""
    squares = [(i, j) for j in range(FEET) for i in LEGS] + [(i, FEET - 1) for i in ARMPITS]
    squares += [(i, j) for j in range(FEET, FEET + 3) for i in range(10)] + [(i, FEET + 3) for i in CREST]
    number: dict[tuple[int, int], int] = {}
    faces = []
    for i, j in squares:
        corners = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
        a, b, c, d = (number.setdefault(corner, len(number)) for corner in corners)
        faces += [(a, b, c), (a, c, d)] if (i + j) % 2 == 0 else [(a, b, d), (b, c, d)]
    vertices = [((i - 5) * CELL, j * CELL, 0.0) for i, j in number]
    return TriMesh(np.array(vertices), np.array(faces))


def scene(x: float = 0.0, *, ground: Checker | None = None) -> Scene:
    """The walker on the ground, at x [m]."""
    body = Cloth(
        "walker",
        sheet(),
        mass=1.0,
        material=Membrane(mu=1e4, lam=1e4, damping=100.0),
        position=(x, 0.0, 0.0),
        look=Look(color=(0.85, 0.55, 0.2)),
    )
    camera = Camera(eye=(1.0, 0.9, 7.0), target=(1.0, 0.9, 0.0), fov=30.0)
    soil = Ground(ke=1e4, kd=1e3, kf=1e3, mu=1.0, look=ground)
    return Scene([body], ground=soil, camera=camera, background=(0.0, 0.0, 0.0))


def policy(seed: int) -> Sinusoids:
    """Four sinusoids of 2 Hz, mixed for each triangle; at first the walker treads on the spot, a little unevenly."""
    mesh = sheet()
    found = Sinusoids(len(mesh.faces), waves=4, frequency=FREQUENCY, amplitude=AMPLITUDE, seed=seed, scale=0.2)
    x, y, _ = mesh.vertices[mesh.faces].mean(1).T
    tread = torch.tensor(np.where(y < FEET * CELL, np.sign(x), 0.0))  # one leg grows, half a period later the other
    found.weight.data += 0.75 * tread[:, None] * torch.tensor([1.0, 0.0, -1.0, 0.0])
    return found


def task(seed: int) -> Task:
    """The walker standing at x in the last frame, x drawn evenly from 1 to 2 m."""
    share = float(torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    return towards(NEAREST + (FARTHEST - NEAREST) * share, seed)


def towards(x: float, seed: int) -> Task:
    """The walker standing at x [m] in the last frame; its mean position is all that the method of state is told."""
    goal = GoalImage(portrait(scene(x), SIZE))
    standing = torch.tensor(sheet().vertices.mean(0)) + torch.tensor([x, 0.0, 0.0])

    def error(trajectory: Trajectory) -> torch.Tensor:
        walked = trajectory["walker"].position[..., 0].double()
        return ((walked[..., -1] - walked[..., 0]) / x - 1.0).abs()

    place, descent = Moments(size=0.0, height=0.0), MinimumNorm(iterations=ITERATIONS)
    return Task(
        "walker",
        seed,
        scene(),
        goals={
            Method.IMAGE: [goal],
            Method.STATE: [GoalState({"walker.position": standing})],
            Method.RANDOM: [goal],
        },
        stages={
            Method.IMAGE: [(place, descent)],
            Method.STATE: [(place, descent)],
            Method.RANDOM: [(place, RandomSearch(ITERATIONS + 1, seed=seed))],
        },
        watch=error,
        frames=FRAMES,
        fps=FPS,
        substeps=SUBSTEPS,
        controls={"walker.actuation": policy(seed)},
        about=f"the walker {x:.2f} m further on after 5 s",
    )
