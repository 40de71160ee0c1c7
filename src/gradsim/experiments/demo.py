"""The demo: a cube is filmed as it is pushed, bounces and slides; its physics comes back from the film alone.

The push is known: without it only ratios to the mass could be found.
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
from gradsim.scene.integrators import Midpoint
from gradsim.scene.looks import Checker, Look
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown
from gradsim.simulate.simulate import simulate
from gradsim.video.load import load_video
from gradsim.video.save import save_video

TIME = Time(frames=32, fps=30.0, substeps=96, integrator=Midpoint())
FILMED, COMPARED = (256, 256), (64, 64)  # [px]: large pictures made small keep more than small ones
RANGES = {"ground.ke": (4e3, 1e4), "ground.mu": (0.2, 0.5), "cube.mass": (1.8, 4.0)}  # of what is hidden
FINE = 3  # times as many steps for the film, so that it does not come from the very model that is fitted


def demo_scene(mass: Any, ke: Any, mu: Any) -> Scene:
    """A cube above a ground, for a mass [kg], an elasticity of contact [N/m] and a friction."""
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
    """The same as someone would describe it who saw the film only."""
    return demo_scene(
        mass=unknown(5.0, low=0.5, high=20.0),
        ke=unknown(3e3, low=500.0, high=4e4),
        mu=unknown(0.6, low=0.02, high=1.5),
    )


def hidden_values(seed: int) -> dict[str, float]:
    """True values by path, drawn."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(len(RANGES), generator=generator, dtype=torch.float64).tolist()
    return {path: low * (high / low) ** draw for draw, (path, (low, high)) in zip(draws, RANGES.items(), strict=True)}


def make_film(path: Path, truth: dict[str, float]) -> None:
    """Simulate the true scene and write it as an ordinary H.264 video."""
    scene = guessed_scene().with_values(truth)
    steps = FINE * (TIME.substeps or 1)
    with torch.no_grad():
        motion = simulate(scene, frames=TIME.frames, fps=TIME.fps, substeps=steps, integrator=TIME.integrator)
        save_video(path, render(scene, motion, FILMED), TIME.fps)


def fit_film(path: Path, progress: Progress) -> Fit:
    """Estimate the three values from the film alone."""
    film = load_video(path, size=COMPARED)
    return estimate(guessed_scene(), film, substeps=TIME.substeps, integrator=TIME.integrator, progress=progress)
