"""The paper's gear: 1152 actuated tetrahedra roll to the position shown in one image."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from gradsim.compare.distances import Cumulative
from gradsim.experiments.control.task import Method, Task, render_initial_state
from gradsim.fit.goals import GoalImage, GoalState
from gradsim.fit.optimizers import Adam, RandomSearch
from gradsim.fit.policies import Keyframes, Sinusoids
from gradsim.scene.bodies import Soft
from gradsim.scene.camera import Camera
from gradsim.scene.errors import ContactWarning
from gradsim.scene.gears import tet_gear
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.looks import Look
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.meshes import TetMesh
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate

FRAMES, FPS, SUBSTEPS = 181, 60.0, 32  # 3 s in 5760 steps
SIZE = (128, 128)
START, SPEED = (-4.0, 2.0, 0.0), 1.5  # [m], [m/s]
HEIGHT = 2.0  # of the goal [m]: above the height at rest, so the gear must hop to reach it
REST_FRAMES = tuple(range(-61, 0, 6))  # frames of the last second, for the goal at rest
ADAM = Adam(iterations=40, lr=0.2, final_lr=0.1)
LONG_ADAM = Adam(iterations=80, lr=0.2, final_lr=0.02)
SEEDS, HELD_OUT = tuple(range(6)), tuple(range(100, 106))
PAPER = {0: 4.474, 1: 3.177, 2: 2.212, 5: 1.788, 10: 0.709, 20: 0.381, 30: 0.142, 39: 0.107}  # by iteration
PAPER_STATE = {0: 4.474, 1: 1.293, 2: 0.512, 5: 0.232, 10: 0.118, 20: 0.082, 30: 0.082, 39: 0.082}


def scene(position: tuple[float, float, float] = START) -> Scene:
    """Returns a scene with the gear above the ground, moving in x."""
    body = Soft(
        "gear",
        tet_gear(),
        density=1.0,
        material=NeoHookean(mu=1000.0, lam=1000.0, damping=1.0),
        position=position,
        velocity=(SPEED, 0.0, 0.0),
        look=Look(color=(0.85, 0.55, 0.2)),
    )
    camera = Camera(eye=(0.0, 6.5, 11.26), target=(0.0, 0.0, 0.0), fov=60.0)
    return Scene([body], ground=Ground(ke=1e4, kd=1.0, kf=10.0, mu=0.5), camera=camera, background=(0.0, 0.0, 0.0))


def mirrored(mesh: TetMesh) -> np.ndarray:
    """Returns a group index per tetrahedron, equal for mirror images in z: tied actuation keeps the gear straight."""
    centers = mesh.vertices[mesh.tets].mean(1)
    centers[:, 2] = np.abs(centers[:, 2])
    return np.unique(centers.round(6), axis=0, return_inverse=True)[1].ravel()


def policy(seed: int) -> Sinusoids:
    """Returns a policy of eight sinusoids, mixed for each mirrored pair of tetrahedra."""
    tied = mirrored(tet_gear())
    return Sinusoids(len(tied), waves=8, frequency=2.5, amplitude=0.3, tied=tied, seed=seed)


def keyframe_policy() -> Keyframes:
    """Returns a policy of four values per second for each mirrored pair: sinusoids cannot come to rest."""
    tied = mirrored(tet_gear())
    return Keyframes(len(tied), (FRAMES - 1) / FPS, keys=13, amplitude=0.3, tied=tied)


def task(seed: int) -> Task:
    """Returns the paper's task: the gear at (x, 2, 0) in the last frame, x uniform in 0 to 5 m."""
    x = 5.0 * float(torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    vertices = torch.tensor(tet_gear().vertices) + torch.tensor([x, HEIGHT, 0.0], dtype=torch.float64)
    description = f"the gear at x = {x:.2f} m, y = {HEIGHT:g} m after 3 s"
    return _task("gear", seed, vertices, (-1,), policy(seed), ADAM, description)


def at_rest(seed: int) -> Task:
    """Returns a task that is physically consistent: the gear rests on the ground at x for the last second.

    x is uniform in 0 to 2 m.
    """
    x = 2.0 * float(torch.rand(1, generator=torch.Generator().manual_seed(seed)))
    vertices = resting_vertices() + torch.tensor([x, 0.0, 0.0], dtype=torch.float64)
    description = f"the gear at rest on the ground at x = {x:.2f} m"
    task = _task("gear at rest", seed, vertices, REST_FRAMES, keyframe_policy(), LONG_ADAM, description)
    return replace(task, final_speed=lambda trajectory: trajectory["gear"].velocity[..., -1, :].norm(dim=-1))


@functools.cache
def resting_vertices() -> torch.Tensor:
    """Returns the nodes of the gear at rest at x = 0, deformed by its weight [m], [N, 3]."""
    lowest = float(tet_gear().vertices[:, 1].min())
    still = scene((0.0, -lowest, 0.0)).with_values({"gear.velocity": (0.0, 0.0, 0.0), "gear.material.damping": 40.0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContactWarning)
        motion = simulate(still, frames=121, fps=30.0, substeps=192, integrator=SymplecticEuler())
    vertices = motion["gear"].vertices[-1]
    return vertices - vertices.mean(0) * torch.tensor([1.0, 0.0, 1.0], dtype=vertices.dtype)


def _task(
    name: str,
    seed: int,
    vertices: torch.Tensor,
    frames: Sequence[int],
    policy: torch.nn.Module,
    optimizer: Adam,
    description: str,
) -> Task:
    goal_center = vertices.mean(0)

    def error(trajectory: Trajectory) -> torch.Tensor:
        center = trajectory["gear"].position[..., -1, :].double()
        return ((center - goal_center) ** 2).mean(-1)

    goal_scene = replace(scene(), bodies=[replace(scene()["gear"], position=(0.0, 0.0, 0.0), vertices=vertices)])
    image = GoalImage(render_initial_state(goal_scene, SIZE), frames)
    return Task(
        name,
        seed,
        scene(),
        goals={
            Method.IMAGE: [image],
            Method.STATE: [GoalState({"gear.vertices": vertices}, range(FRAMES))],
            Method.RANDOM: [image],
        },
        stages={
            Method.IMAGE: [(Cumulative(), optimizer)],
            Method.STATE: [(Cumulative(), optimizer)],
            Method.RANDOM: [(Cumulative(), RandomSearch(optimizer.iterations, seed=seed))],
        },
        watch=error,
        frames=FRAMES,
        fps=FPS,
        substeps=SUBSTEPS,
        controls={"gear.actuation": policy},
        dtype=torch.float32,
        description=description,
    )
