"""The paper's walker: a flat sheet of actuated triangles walks to the position shown in one image.

The sheet stands upright in the plane z = 0. No constraint keeps it there: all forces lie exactly in the plane.
"""

from __future__ import annotations

import numpy as np
import torch

from gradsim.compare.distances import Moments
from gradsim.experiments.control.task import Method, Task, render_initial_state
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
NEAREST, FARTHEST = 1.0, 2.0  # range of goals [m]: half to one length of the walker
FREQUENCY, AMPLITUDE = 4 * np.pi, 0.3  # [rad/s], relative change of a triangle's area
ITERATIONS = 3
SEEDS, HELD_OUT = tuple(range(5)), tuple(range(100, 105))
PAPER = "solved within three iterations"

LEGS, LEG_ROWS = (0, 1, 8, 9), 4  # columns of squares in the legs, and rows of squares below the body
ARMPITS, CREST = (2, 7), (3, 4, 5, 6)


def sheet() -> TriMesh:
    """Returns the mesh in the plane z = 0, feet at y = 0: 75 vertices and 104 triangles, mirror symmetric."""
    squares = [(i, j) for j in range(LEG_ROWS) for i in LEGS] + [(i, LEG_ROWS - 1) for i in ARMPITS]
    squares += [(i, j) for j in range(LEG_ROWS, LEG_ROWS + 3) for i in range(10)] + [(i, LEG_ROWS + 3) for i in CREST]
    number: dict[tuple[int, int], int] = {}
    faces = []
    for i, j in squares:
        corners = ((i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1))
        a, b, c, d = (number.setdefault(corner, len(number)) for corner in corners)
        faces += [(a, b, c), (a, c, d)] if (i + j) % 2 == 0 else [(a, b, d), (b, c, d)]
    vertices = [((i - 5) * CELL, j * CELL, 0.0) for i, j in number]
    return TriMesh(np.array(vertices), np.array(faces))


def scene(x: float = 0.0, *, ground: Checker | None = None) -> Scene:
    """Returns a scene with the walker on the ground at x [m]."""
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
    """Returns a policy of four sinusoids of 2 Hz for each triangle; initially the walker steps nearly in place."""
    mesh = sheet()
    result = Sinusoids(len(mesh.faces), waves=4, frequency=FREQUENCY, amplitude=AMPLITUDE, seed=seed, scale=0.2)
    x, y, _ = mesh.vertices[mesh.faces].mean(1).T
    step = torch.tensor(np.where(y < LEG_ROWS * CELL, np.sign(x), 0.0))  # the legs extend half a period apart
    result.weight.data += 0.75 * step[:, None] * torch.tensor([1.0, 0.0, -1.0, 0.0])
    return result


def task(seed: int) -> Task:
    """Returns the task to stand at x in the last frame, x uniform in 1 to 2 m."""
    draw = float(torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    return task_to(NEAREST + (FARTHEST - NEAREST) * draw, seed)


def task_to(x: float, seed: int) -> Task:
    """Returns the task to stand at x [m] in the last frame; the state goal is the mean position only."""
    goal = GoalImage(render_initial_state(scene(x), SIZE))
    standing = torch.tensor(sheet().vertices.mean(0)) + torch.tensor([x, 0.0, 0.0])

    def error(trajectory: Trajectory) -> torch.Tensor:
        center = trajectory["walker"].position[..., 0].double()
        return ((center[..., -1] - center[..., 0]) / x - 1.0).abs()

    distance, optimizer = Moments(size=0.0, height=0.0), MinimumNorm(iterations=ITERATIONS)
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
            Method.IMAGE: [(distance, optimizer)],
            Method.STATE: [(distance, optimizer)],
            Method.RANDOM: [(distance, RandomSearch(ITERATIONS + 1, seed=seed))],
        },
        watch=error,
        frames=FRAMES,
        fps=FPS,
        substeps=SUBSTEPS,
        controls={"walker.actuation": policy(seed)},
        description=f"the walker {x:.2f} m ahead after 5 s",
    )
