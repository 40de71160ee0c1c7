"""A small thrown cube, recorded by another integrator with smaller steps than those of an estimate."""

import numpy as np
import torch

import gradsim as gs

FPS, FRAMES, SIZE, NOISE, MASS = 20.0, 12, 32, 0.01, 2.0
SIDES = np.repeat(np.random.default_rng(0).uniform(0.2, 0.9, (6, 3)), 2, axis=0)


def throw(mass=MASS, *, target=(0.0, 0.0, 0.0)) -> gs.Scene:
    """A cube that is pushed while it flies; its mass is visible from the push."""
    cube = gs.Rigid(
        "cube",
        gs.meshes.box(0.7),
        mass=mass,
        position=(-0.7, -0.2, 0.0),
        velocity=(0.8, 1.5, 0.0),
        angular_velocity=(0.9, 1.3, 0.4),
        pushes=[gs.Push(impulse=(2.0, 1.0, -0.5), point=(0.05, 0.0, 0.1), start=0.1)],
        look=gs.Look(face_colors=SIDES),
    )
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=target, fov=40)
    lights = [gs.AmbientLight(0.5), gs.DirectionalLight((-0.5, -1.0, -0.8), 0.5)]
    return gs.Scene([cube], gravity=(0.0, -6.0, 0.0), camera=camera, lights=lights, background=(0.6, 0.7, 0.8))


def guessed() -> gs.Scene:
    """The right scene with an unknown mass."""
    return throw(gs.unknown(2.4, low=0.5, high=10.0))


def yawed(degrees: float) -> gs.Scene:
    """The scene with a camera that is turned to its right."""
    return throw(target=(4.0 * np.tan(np.deg2rad(degrees)), 0.0, 0.0))


def record(scene: gs.Scene, *, noise: float = NOISE, seed: int = 0) -> torch.Tensor:
    """Returns a noisy video [T, H, W, 3] of a motion with smaller steps and another integrator."""
    motion = gs.simulate(scene, frames=FRAMES, fps=FPS, substeps=128, integrator=gs.RungeKutta4())
    pixels = gs.render(scene, motion, (SIZE, SIZE))
    return pixels + noise * torch.randn(pixels.shape, generator=torch.Generator().manual_seed(seed), dtype=pixels.dtype)


def contains(fit: gs.Fit, value: float = MASS) -> bool:
    low, high = fit.intervals["cube.mass"]
    return bool(low < value < high)
