"""Compilation of the kernels of common scenes, before workers or commands need them.

Forward and adjoint kernels are modules of their own, so that each can be compiled by another process.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradsim.datasets.recording import soft_ground
from gradsim.render.render import render
from gradsim.scene import surfaces
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.ball import Ball
from gradsim.scene.files.load import load_scene
from gradsim.scene.integrators import Integrator, Midpoint, Verlet
from gradsim.scene.joints import Revolute
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import initial_trajectory, simulate

SCENES = {"rigid": ("bouncing_cube",), "deformable": ("hanging_beam", "flying_cloth")}  # with all kernels of a kind
WORLDS = 16  # enough for the kernels with worlds in the lanes of a vector


def build_kernels(kind: str | None = None) -> None:
    """Simulates and renders small videos of bundled scenes with gradients, so that their kernels are in the cache.

    Args:
        kind: "rigid" or "deformable"; None for both.
    """
    for name in SCENES[kind] if kind is not None else sum(SCENES.values(), ()):
        scene = _bundled(name, torch.float64)
        render(scene, _simulate(scene, torch.float64), (16, 16)).sum().backward()


def _bundled(name: str, dtype: torch.dtype, worlds: int | None = None) -> Scene:
    """Returns a bundled scene whose unknowns have their guesses as tensors that require gradients."""
    scene = load_scene(name)
    values = {}
    for path, item in scene.unknowns.items():
        guess = torch.tensor(item.guess, dtype=dtype)
        values[path] = (guess if worlds is None else guess.expand(worlds, *guess.shape).clone()).requires_grad_()
    return scene.with_values(values)


def _simulate(scene: Scene, dtype: torch.dtype, integrator: Integrator = Midpoint()) -> Trajectory:
    with soft_ground():
        return simulate(scene, frames=2, fps=1000.0, substeps=8, integrator=integrator, dtype=dtype)


def _balls(dtype: torch.dtype) -> Scene:
    """Returns two balls that may touch each other."""
    mass = torch.ones((), dtype=dtype, requires_grad=True)
    return Scene([Ball(f"ball{k}", radius=0.1, mass=mass, position=(0.3 * k, 0.0, 0.0)) for k in range(2)])


def _arm(dtype: torch.dtype) -> Scene:
    """Returns a pendulum of one link."""
    density = torch.tensor(1000.0, dtype=dtype, requires_grad=True)
    rod = Link(Revolute(), density=density, mesh=surfaces.box((0.4, 0.05, 0.05)))
    return Scene([Articulated("arm", {"rod": rod})])


SYSTEMS: dict[str, tuple[Callable[[torch.dtype], Scene], Integrator]] = {
    "rigid bodies": (lambda dtype: _bundled("bouncing_cube", dtype), Midpoint()),
    "worlds of rigid bodies": (lambda dtype: _bundled("bouncing_cube", dtype, WORLDS), Midpoint()),
    "bodies that touch": (_balls, Midpoint()),
    "bodies of nodes": (lambda dtype: _bundled("hanging_beam", dtype), Midpoint()),
    "bodies of nodes by Verlet": (lambda dtype: _bundled("hanging_beam", dtype), Verlet()),
    "articulated bodies": (_arm, Midpoint()),
}
COMMON = tuple(
    f"{what}{part}" for part in ("", ", adjoint") for what in ("renderer", *SYSTEMS)
)  # needed first come first


def compile_kernels(name: str, dtype: torch.dtype) -> None:
    """Compiles the kernels of an item of `COMMON`, unless they are in the kernel cache."""
    what, adjoint = name.removesuffix(", adjoint"), name.endswith(", adjoint")
    with torch.set_grad_enabled(adjoint):
        if what == "renderer":
            scene = _bundled("bouncing_cube", dtype)
            result = render(scene, initial_trajectory(scene), (16, 16))
        else:
            build, integrator = SYSTEMS[what]
            result = _simulate(build(dtype), dtype, integrator).vertices
        if adjoint:
            result.sum().backward()
