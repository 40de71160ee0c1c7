"""Random work for the soak: scenes of all kinds, their motion, pictures, gradients, fits and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import torch
from tests.robustness.random_scenes import CAMERA, random_scene

import gradsim as gs

Work = Callable[[Random, Path], Iterable[Any]]  # chance and a folder -> tensors and bytes


def _motion(chance: Random, scene: gs.Scene, frames: int | None = None) -> gs.Trajectory:
    integrator = chance.choice((gs.SymplecticEuler(), gs.Midpoint()))
    count = frames or chance.randint(3, 12)
    return gs.simulate(scene, frames=count, fps=30, substeps=32, integrator=integrator)


def simulated(chance: Random, folder: Path) -> Iterable[Any]:
    """States of a random scene."""
    return _motion(chance, random_scene(chance)).states.values()


def smoke(chance: Random, folder: Path) -> Iterable[Any]:
    """Density of smoke on a grid."""
    side = chance.choice((8, 12, 16))
    density = torch.rand(side, side, generator=torch.Generator().manual_seed(chance.randrange(1000)))
    scene = gs.Scene([gs.Smoke("body", (side, side), density.double(), buoyancy=0.5)])
    return gs.simulate(scene, frames=4, fps=30, substeps=2).states.values()


def rendered(chance: Random, folder: Path) -> Iterable[Any]:
    """A video of a random scene."""
    scene = random_scene(chance)
    size = (chance.choice((12, 24, 40)), chance.choice((16, 32, 48)))
    renderer = chance.choice((gs.Exact(), gs.Exact(), gs.SoftRas(), gs.DIBR()))
    return [gs.render(scene, _motion(chance, scene), size, renderer=renderer)]


def differentiated(chance: Random, folder: Path) -> Iterable[Any]:
    """Gradient of a video with respect to a mass."""
    mass = torch.tensor(chance.uniform(0.8, 1.5), dtype=torch.float64, requires_grad=True)
    scene = random_scene(chance, mass)
    video = gs.render(scene, _motion(chance, scene), (16, 16))
    motion = sum((state**2).sum() for state in _motion(chance, scene).states.values())
    (video.square().sum() + motion).backward()
    return [mass.grad]


def fitted(chance: Random, folder: Path) -> Iterable[Any]:
    """Values and intervals from a small video or from tracks."""

    def thrown(push: Any) -> gs.Scene:
        body = gs.Rigid("body", gs.meshes.box(0.4), mass=1.0, position=(0.0, 0.6, 0.0), velocity=(push, 1.0, 0.0))
        return gs.Scene([body], ground=gs.Ground(ke=1500.0, kd=10.0, mu=0.3), camera=CAMERA)

    truth = thrown(chance.uniform(0.3, 0.6))
    motion = gs.simulate(truth, frames=8, fps=20, substeps=48, integrator=gs.RungeKutta4())
    generator = torch.Generator().manual_seed(chance.randrange(1000))
    if chance.random() < 0.5:
        video = gs.render(truth, motion, (16, 16))
        seen: Any = video + 0.01 * torch.randn(video.shape, generator=generator, dtype=video.dtype)
    else:
        noise = 1e-3 * torch.randn(8, 1, 3, generator=generator, dtype=torch.float64)
        seen = gs.Tracks([gs.Center("body")], positions=motion["body"].position[:, None] + noise, noise=1e-3)
    fit = gs.estimate(thrown(gs.unknown(0.2, low=-1.0, high=1.0)), seen, fps=20, substeps=32, corrections=0)
    return [value for path in fit.values for value in (fit.values[path], *fit.intervals[path])]


def scene_files(chance: Random, folder: Path) -> Iterable[Any]:
    """A scene, saved, loaded and simulated."""
    scene = random_scene(chance)
    file = folder / "scene.yaml"
    scene.save(file, time=gs.Time(frames=4, fps=30, substeps=32))
    return [file.read_bytes(), *_motion(chance, gs.load_scene(file), frames=4).states.values()]


def video_files(chance: Random, folder: Path) -> Iterable[Any]:
    """A video, written and read."""
    frames = torch.rand(5, 16, 16, 3, generator=torch.Generator().manual_seed(chance.randrange(1000))).double()
    file = folder / f"video{chance.choice(('.mp4', '.npz', '.npy'))}"
    gs.save_video(file, frames, 20.0)
    return [gs.load_video(file, fps=20.0).frames]


def mesh_files(chance: Random, folder: Path) -> Iterable[Any]:
    """A mesh, written and read."""
    file = folder / f"mesh{chance.choice(('.obj', '.ply', '.stl'))}"
    gs.meshes.save_mesh(gs.meshes.icosphere(chance.uniform(0.1, 1.0), chance.randint(0, 2)), file)
    mesh = gs.load_mesh(file)
    return [mesh.vertices, mesh.faces]


WORK: dict[str, Work] = {
    function.__name__: function
    for function in (
        simulated,
        smoke,
        rendered,
        differentiated,
        fitted,
        scene_files,
        video_files,
        mesh_files,
    )
}
