"""The demo: a cube is pushed, bounces and slides; its physical parameters are estimated from a video of it.

The push is known: without it only ratios to the mass are identifiable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gradsim import meshes
from gradsim.fit.estimate import Progress, estimate
from gradsim.fit.result import Fit
from gradsim.render.render import render
from gradsim.scene.camera import Camera
from gradsim.scene.integrators import RungeKutta4
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.simulate.simulate import simulate
from gradsim.video.load import load_video
from gradsim.video.save import save_video

TIME = Time(frames=32, fps=30.0)
# [px]: downsampling a compressed video preserves more than recording it at low resolution.
RECORDED_SIZE, COMPARED_SIZE = (256, 256), (64, 64)
RANGES = {"ground.ke": (4e3, 1e4), "ground.mu": (0.2, 0.5), "cube.mass": (1.8, 4.0)}  # of the hidden values
RECORDED_SUBSTEPS = 384  # of the video, with another integrator than the fit, so that the fitted model is not exact


def demo_scene(mass: Any, ke: Any, mu: Any) -> Scene:
    """Returns a scene with a cube above the ground, for a mass [kg], a contact stiffness [N/m] and a friction."""
    cube = Rigid(
        "cube",
        meshes.box(0.4),
        mass=mass,
        position=(-0.75, 0.6, 0.0),
        rotation=(0.1, 0.2, 0.15, 0.96),
        velocity=(1.2, 0.5, 0.0),
        angular_velocity=(0.0, 1.0, -1.5),
        pushes=[Push(impulse=(1.5, 0.0, -0.5), start=0.1)],
        look=Look(color=(0.85, 0.35, 0.2)),
    )
    ground = Ground(ke=ke, kd=20.0, kf=60.0, mu=mu, look=Checker(tile=0.25))
    camera = Camera(eye=(0.2, 1.4, 2.2), target=(0.0, 0.25, 0.0))
    return Scene([cube], ground, camera=camera)


def guessed_scene() -> Scene:
    """Returns the scene with mass, contact stiffness and friction unknown."""
    return demo_scene(
        mass=unknown(5.0, low=0.5, high=20.0),
        ke=unknown(3e3, low=500.0, high=4e4),
        mu=unknown(0.6, low=0.02, high=1.5),
    )


def hidden_values(seed: int) -> dict[str, float]:
    """Draws true values by path, log-uniformly within their ranges."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(len(RANGES), generator=generator, dtype=torch.float64).tolist()
    return {path: low * (high / low) ** draw for draw, (path, (low, high)) in zip(draws, RANGES.items(), strict=True)}


def record_demo(path: Path, truth: dict[str, float]) -> None:
    """Simulates the true scene and writes it as an H.264 video."""
    scene = guessed_scene().with_values(truth)
    options: dict[str, Any] = {"substeps": RECORDED_SUBSTEPS, "integrator": RungeKutta4()}
    with torch.no_grad():
        motion = simulate(scene, frames=TIME.frames, fps=TIME.fps, **options)
        save_video(path, render(scene, motion, RECORDED_SIZE), TIME.fps)


def fit_demo(path: Path, progress: Progress) -> Fit:
    """Estimates the three values from the video."""
    video = load_video(path, size=COMPARED_SIZE)
    return estimate(guessed_scene(), video, progress=progress)
