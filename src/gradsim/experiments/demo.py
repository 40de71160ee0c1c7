"""The demo: a rubber beam clamped at one end, and a sheet of cloth held by two corners, swinging past a ground."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Region, Soft
from gradsim.scene.materials import Bending, Ground, Membrane, NeoHookean
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.rollout import simulate

YOUNG = 2e5  # of the beam [Pa]


@dataclass(frozen=True)
class Demo:
    """What the demo measured."""

    scene: Scene
    trajectory: Trajectory
    steps: int
    dt: float  # [s]
    forward: float  # [s]
    backward: float  # [s]
    tip: float  # final height of the beam's tip [m]
    gradient: float  # of the tip's height in the beam's modulus [m/Pa]
    difference: float  # the same by central differences


def demo_scene(young: torch.Tensor | float = YOUNG) -> Scene:
    """The demo's scene for a given stiffness of the beam [Pa], [...]."""
    beam = Soft(
        "beam",
        meshes.tet_box((1.0, 0.15, 0.15), (14, 2, 2)),
        density=1000.0,
        material=NeoHookean.from_young(young, 0.35, damping=150.0),
        position=(0.0, 0.75, 0.4),
        pinned=Region(high=(-0.499, None, None)),
    )
    sheet = meshes.grid((0.8, 0.8), (16, 16))
    corners = np.abs(sheet.vertices[:, [0, 2]]) > 0.399
    cloth = Cloth(
        "cloth",
        sheet,
        density=0.2,
        material=Membrane(mu=200.0, lam=200.0, damping=0.05),
        bending=Bending(stiffness=2e-4),
        drag=0.3,
        position=(0.0, 0.75, -0.5),
        pinned=corners.all(1) & (sheet.vertices[:, 0] < 0),
    )
    return Scene([beam, cloth], Ground(ke=40.0, kd=0.02, kf=0.2, mu=0.5))


def run_demo(*, frames: int = 46, fps: float = 30.0, substeps: int = 64) -> Demo:
    """Simulate the scene, differentiate the tip's height in the beam's modulus, and check the gradient."""
    steps = (frames - 1) * substeps

    def tip(young: torch.Tensor) -> tuple[torch.Tensor, Trajectory]:
        trajectory = simulate(demo_scene(young), frames=frames, fps=fps, substeps=substeps)
        return trajectory["beam"].vertices[..., -1, -1, 1], trajectory

    young = torch.tensor(YOUNG, dtype=torch.float64, requires_grad=True)
    tip(young)  # compiles kernels and builds graphs, which is not part of the timing
    begin = time.perf_counter()
    height, trajectory = tip(young)
    middle = time.perf_counter()
    (gradient,) = torch.autograd.grad(height, young)
    end = time.perf_counter()
    ends, _ = tip(YOUNG * torch.tensor([1 + 1e-4, 1 - 1e-4], dtype=torch.float64))
    return Demo(
        scene=demo_scene(),
        trajectory=trajectory,
        steps=steps,
        dt=1.0 / (fps * substeps),
        forward=middle - begin,
        backward=end - middle,
        tip=height.item(),
        gradient=gradient.item(),
        difference=(ends[0] - ends[1]).item() / (2e-4 * YOUNG),
    )
