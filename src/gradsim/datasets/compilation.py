"""Compilation of the kernels that workers use, once on each machine rather than in each of its processes."""

from __future__ import annotations

import torch

from gradsim.datasets.recording import soft_ground
from gradsim.render.render import render
from gradsim.scene.files.load import load_scene
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate

SCENES = {"rigid": ("bouncing_cube",), "deformable": ("hanging_beam", "flying_cloth")}  # with all kernels of a kind


def build_kernels(kind: str | None = None) -> None:
    """Simulates and renders small videos of bundled scenes with gradients, so that their kernels are in the cache.

    Args:
        kind: "rigid" or "deformable"; None for both.
    """
    for name in SCENES[kind] if kind is not None else sum(SCENES.values(), ()):
        _run_small(load_scene(name))


def _run_small(scene: Scene) -> None:
    values = {path: torch.tensor(item.guess).requires_grad_() for path, item in scene.unknowns.items()}
    scene = scene.with_values(values)
    with soft_ground():
        trajectory = simulate(scene, frames=2, fps=1000.0, substeps=8)
    render(scene, trajectory, (16, 16)).sum().backward()
