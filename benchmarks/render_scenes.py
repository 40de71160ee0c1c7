"""The scenes of the render benchmark: rotating meshes, and a video of a lit cube and a lit sphere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

import gradsim as gs
from benchmarks.render_internals import Rasterizer, Triangles, rasterize, visible_triangles
from benchmarks.scenes import INTEGRATOR

MESHES: dict[int, Callable[[], gs.TriMesh]] = {
    12: partial(gs.meshes.box, 1.2),
    320: partial(gs.meshes.icosphere, 0.9, 2),
    2000: partial(gs.meshes.sphere, 0.9, 21, 48),  # 1,920 faces
    20000: partial(gs.meshes.sphere, 0.9, 71, 144),  # 20,160 faces
}
SIZES = tuple(MESHES)
FPS = 30.0  # [1/s]
NO_GRAVITY = (0.0, 0.0, 0.0)


def rotating_mesh(size: int, pixels: int, frames: int) -> Triangles:
    """Returns the triangles of a mesh that rotates in front of the camera, over black.

    The colours are given at the vertices, vary smoothly, and are stored for every frame.

    Args:
        size: Number of faces, from `SIZES`.
        pixels: Height and width of the images [px].
        frames: Number of frames.
    """
    mesh = MESHES[size]()
    colors = 0.5 + 0.4 * mesh.vertices / np.linalg.norm(mesh.vertices, axis=1, keepdims=True)
    body = gs.Rigid(
        "body",
        mesh,
        density=1000.0,
        rotation=(0.24, 0.33, 0.0, 0.91),
        angular_velocity=(0.3, 1.0, 0.2),
        look=gs.Look(vertex_colors=colors, lit=False),
    )
    camera = gs.Camera(eye=(0.0, 0.0, 4.0), target=(0.0, 0.0, 0.0), fov=40.0)
    scene = gs.Scene([body], gravity=NO_GRAVITY, camera=camera, background=(0.0, 0.0, 0.0))
    trajectory = gs.simulate(scene, frames=frames, fps=FPS, integrator=INTEGRATOR)
    triangles = visible_triangles(scene, trajectory, (pixels, pixels))
    return dataclasses.replace(triangles, attributes=triangles.attributes.contiguous())


@dataclass(frozen=True, eq=False)
class RasterizerRun:
    """A rasterizer on given triangles, with and without gradients of vertices and colours."""

    rasterizer: Rasterizer
    source: Triangles
    pixels: int
    dtype: torch.dtype = torch.float64
    alpha: bool = False

    @cached_property
    def triangles(self) -> Triangles:
        """The triangles in the run's precision; vertices and colours require gradients."""
        vertices, colors, background = (
            getattr(self.source, name).to(self.dtype, copy=True) for name in ("vertices", "attributes", "background")
        )
        changed = {"vertices": vertices.requires_grad_(), "attributes": colors.requires_grad_()}
        return dataclasses.replace(self.source, **changed, background=background)

    @property
    def face_count(self) -> int:
        return len(self.source.connectivity.faces)

    @cached_property
    def weights(self) -> torch.Tensor:
        """Weights of the pixels in the loss, [B, H, W, 3 or 4]."""
        shape = (len(self.source.vertices), self.pixels, self.pixels, 4 if self.alpha else 3)
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def _rasterize(self) -> torch.Tensor:
        return rasterize(self.rasterizer, self.triangles, (self.pixels, self.pixels), alpha=self.alpha)

    def forward(self) -> torch.Tensor:
        """Returns the images, [B, H, W, 3 or 4]."""
        with torch.no_grad():
            return self._rasterize()

    def forward_backward(self) -> tuple[torch.Tensor, ...]:
        """Returns the images and the gradients of vertices and colours."""
        images, leaves = self._rasterize(), (self.triangles.vertices, self.triangles.attributes)
        return images.detach(), *torch.autograd.grad(images, leaves, self.weights)


@dataclass(frozen=True, eq=False)
class CubeAndSphere:
    """A lit cube and a lit sphere of 320 faces that fly past each other, with gradients of their positions.

    Args:
        frames: Frames of the video.
        pixels: Height and width of the images [px].
        worlds: Size of a batch with different positions; None for one world without a batch dimension.
    """

    frames: int
    pixels: int
    worlds: int | None = None

    @cached_property
    def scene(self) -> gs.Scene:
        offset = 0.0 if self.worlds is None else torch.linspace(-0.2, 0.2, self.worlds, dtype=torch.float64)[:, None]
        start = torch.tensor([[-0.7, 0.3, 0.4], [0.7, -0.2, -0.4]], dtype=torch.float64)
        cube = gs.Rigid(
            "cube",
            gs.meshes.box(0.8),
            density=1000.0,
            position=start[0] + offset,
            velocity=(0.5, -0.2, 0.0),
            angular_velocity=(0.5, 1.0, 0.3),
            look=gs.Look(color=(0.85, 0.35, 0.25)),
        )
        sphere = gs.Rigid(
            "sphere",
            gs.meshes.icosphere(0.5, 2),
            density=1000.0,
            position=start[1] - offset,
            velocity=(-0.5, 0.2, 0.0),
            look=gs.Look(color=(0.25, 0.45, 0.85), specular=0.3),
        )
        camera = gs.Camera(eye=(0.0, 0.5, 4.0), target=(0.0, 0.0, 0.0), fov=40.0)
        return gs.Scene([cube, sphere], gravity=NO_GRAVITY, camera=camera)

    @cached_property
    def _trajectory(self) -> gs.Trajectory:
        return gs.simulate(self.scene, frames=self.frames, fps=FPS, integrator=INTEGRATOR)

    @cached_property
    def positions(self) -> dict[str, torch.Tensor]:
        """Centres of mass at all frames [m], [..., T, 3]; they require gradients."""
        motions = self._trajectory.motions.items()
        return {name: motion.center_of_mass.detach().clone().requires_grad_() for name, motion in motions}

    @cached_property
    def weights(self) -> torch.Tensor:
        """Weights of the pixels in the loss, [..., T, H, W, 3]."""
        shape = (*self.positions["cube"].shape[:-1], self.pixels, self.pixels, 3)
        return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def render(self) -> torch.Tensor:
        """Returns the video [..., T, H, W, 3], rendered from a new trajectory as after a simulation."""
        motions = {
            name: dataclasses.replace(motion, center_of_mass=self.positions[name])
            for name, motion in self._trajectory.motions.items()
        }
        trajectory = gs.Trajectory(self._trajectory.time, motions, {})
        return gs.render(self.scene, trajectory, (self.pixels, self.pixels))

    def forward(self) -> torch.Tensor:
        """Returns the video without gradients."""
        with torch.no_grad():
            return self.render()

    def forward_backward(self) -> tuple[torch.Tensor, ...]:
        """Returns the gradients of the positions."""
        return torch.autograd.grad(self.render(), list(self.positions.values()), self.weights)
