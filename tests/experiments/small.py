"""A task of control that takes a second: a cube is thrown to where another throw led."""

import torch

import gradsim as gs
from gradsim.experiments.control.task import Method, Task

TIME = {"frames": 6, "fps": 20.0, "substeps": 4, "integrator": gs.SymplecticEuler()}


def scene(velocity) -> gs.Scene:
    cube = gs.Rigid("cube", gs.meshes.box(0.5), mass=1.0, position=(-0.5, -0.3, 0.0), velocity=velocity)
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=40)
    return gs.Scene([cube], camera=camera, background=(0.0, 0.0, 0.0))


def throw(seed: int) -> Task:
    truth = torch.tensor([2.5, 2.0 + 0.1 * seed, 0.0], dtype=torch.float64)
    thrown = scene(truth)
    motion = gs.simulate(thrown, **TIME)
    image = gs.GoalImage(gs.render(thrown, motion, (16, 16), frames=[-1], alpha=True)[0])
    place = motion["cube"].position[-1]
    return Task(
        "throw",
        seed,
        scene(gs.unknown((1.0, 1.0, 0.0), low=-6.0, high=6.0)),
        goals={
            Method.IMAGE: [image],
            Method.STATE: [gs.GoalState({"cube.position": place})],
            Method.RANDOM: [image],
        },
        stages={
            Method.IMAGE: [(gs.Moments(), gs.GaussNewton(iterations=3)), (gs.Blur(), gs.GaussNewton(iterations=8))],
            Method.STATE: [(gs.Blur(), gs.GaussNewton(iterations=5))],
            Method.RANDOM: [(gs.Blur(), gs.RandomSearch(4, seed=seed))],
        },
        watch=lambda trajectory: ((trajectory["cube"].position[..., -1, :] - place) ** 2).mean(-1),
        **TIME,
        about=f"where throw {seed} led",
        truth={"cube.velocity": truth},
    )
