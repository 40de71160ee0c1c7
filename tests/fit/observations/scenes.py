"""A pushed cube, and its motion by another integrator with smaller steps."""

import numpy as np
import torch

import gradsim as gs

SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 1.0, (6, 3)), 2, axis=0)
FPS, FRAMES, SIZE = 10.0, 10, (32, 32)
CAMERA = gs.Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=40)
SIDE_CAMERA = gs.Camera(eye=(5.0, 0.5, 0.0), target=(0.0, 0.0, 0.0), fov=40)


def pushed_cube(mass=3.7, velocity=(1.4, 0.8, -0.3), position=(-0.9, -0.3, 0.0), camera=CAMERA) -> gs.Scene:
    """A cube in flight with a constant force on it, whose motion is smooth."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.8),
        mass=mass,
        position=position,
        velocity=velocity,
        angular_velocity=(0.9, 0.7, 0.0),
        pushes=[gs.Push(force=(3.0, 4.0, 2.0), point=(0.05, 0.0, 0.1))],
        look=gs.Look(face_colors=SIDES),
    )
    return gs.Scene([cube], gravity=(0.0, -2.0, 0.0), camera=camera, background=(0.1, 0.2, 0.3))


def motion(scene: gs.Scene, frames: int = FRAMES, fps: float = FPS) -> gs.Trajectory:
    return gs.simulate(scene, frames=frames, fps=fps, substeps=32, integrator=gs.RungeKutta4())


def noise(shape, sd: float, seed: int = 0) -> torch.Tensor:
    return sd * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


UNKNOWN_MASS = gs.unknown(5.0, low=1.0, high=20.0)
