"""What the bench of the renderer looks at: meshes that turn, and a video of a lit cube and a lit sphere."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch

import gradsim as gs
from gradsim.render.raster import Rasterizer, rasterize
from gradsim.render.triangles import Triangles
from gradsim.render.view import visible_triangles

MESHES: dict[int, Callable[[], gs.TriMesh]] = {
    12: partial(gs.meshes.box, 1.2),
    320: partial(gs.meshes.icosphere, 0.9, 2),
    2000: partial(gs.meshes.sphere, 0.9, 21, 48),  # 1,920 faces
    20000: partial(gs.meshes.sphere, 0.9, 71, 144),  # 20,160 faces
}
SIZES = tuple(MESHES)
FPS = 30.0  # [1/s]


def turning(size: int, pixels: int, frames: int) -> Triangles:
    """A mesh that turns before the camera, over black; colours at its vertices, smooth and of every frame's own."""
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
    scene = gs.Scene([body], gravity=(0.0, 0.0, 0.0), camera=camera, background=(0.0, 0.0, 0.0))
    seen, _ = visible_triangles(scene, gs.simulate(scene, frames=frames, fps=FPS), (pixels, pixels))
    return dataclasses.replace(seen, attributes=seen.attributes.contiguous())


@dataclass(frozen=True, eq=False)
class Drawing:
    """Triangles drawn by a rasterizer, alone and with gradients to vertices and colours."""

    rasterizer: Rasterizer
    triangles: Triangles
    pixels: int
    dtype: torch.dtype = torch.float64
    alpha: bool = False

    @cached_property
    def seen(self) -> Triangles:
        """The triangles in the drawing's precision, vertices and colours asking for gradients."""
        vertices, colors, background = (
            getattr(self.triangles, name).to(self.dtype, copy=True) for name in ("vertices", "attributes", "background")
        )
        changed = {"vertices": vertices.requires_grad_(), "attributes": colors.requires_grad_()}
        return dataclasses.replace(self.triangles, **changed, background=background)

    @cached_property
    def weights(self) -> torch.Tensor:
        """Weights of the pixels in the loss, [B, H, W, 3 or 4]."""
        shape = (len(self.seen.vertices), self.pixels, self.pixels, 4 if self.alpha else 3)
        generator = torch.Generator().manual_seed(0)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)

    def _draw(self) -> torch.Tensor:
        return rasterize(self.rasterizer, self.seen, (self.pixels, self.pixels), alpha=self.alpha)

    def forward(self) -> torch.Tensor:
        """Images [B, H, W, 3 or 4]."""
        with torch.no_grad():
            return self._draw()

    def both(self) -> tuple[torch.Tensor, ...]:
        """Images, and gradients of vertices and colours."""
        images = self._draw()
        return images.detach(), *torch.autograd.grad(images, (self.seen.vertices, self.seen.attributes), self.weights)


@dataclass(frozen=True, eq=False)
class Pair:
    """A cube and a sphere of 320 faces that fly by each other, lit; gradients to where they are at every frame.

    Args:
        frames: Frames of the video.
        pixels: Height and width of the images [px].
        worlds: Worlds with motions of their own; None for one without a batch.
    """

    frames: int
    pixels: int
    worlds: int | None = None

    @cached_property
    def scene(self) -> gs.Scene:
        aside = 0.0 if self.worlds is None else torch.linspace(-0.2, 0.2, self.worlds, dtype=torch.float64)[:, None]
        start = torch.tensor([[-0.7, 0.3, 0.4], [0.7, -0.2, -0.4]], dtype=torch.float64)
        cube = gs.Rigid(
            "cube",
            gs.meshes.box(0.8),
            density=1000.0,
            position=start[0] + aside,
            velocity=(0.5, -0.2, 0.0),
            angular_velocity=(0.5, 1.0, 0.3),
            look=gs.Look(color=(0.85, 0.35, 0.25)),
        )
        sphere = gs.Rigid(
            "sphere",
            gs.meshes.icosphere(0.5, 2),
            density=1000.0,
            position=start[1] - aside,
            velocity=(-0.5, 0.2, 0.0),
            look=gs.Look(color=(0.25, 0.45, 0.85), specular=0.3),
        )
        camera = gs.Camera(eye=(0.0, 0.5, 4.0), target=(0.0, 0.0, 0.0), fov=40.0)
        return gs.Scene([cube, sphere], gravity=(0.0, 0.0, 0.0), camera=camera)

    @cached_property
    def _simulated(self) -> gs.Trajectory:
        return gs.simulate(self.scene, frames=self.frames, fps=FPS)

    @cached_property
    def places(self) -> dict[str, torch.Tensor]:
        """Where the bodies' centres of mass are at all frames [m], [..., T, 3], asking for gradients."""
        motions = self._simulated.motions.items()
        return {name: motion.center_of_mass.detach().clone().requires_grad_() for name, motion in motions}

    @cached_property
    def weights(self) -> torch.Tensor:
        """Weights of the pixels in the loss, [..., T, H, W, 3]."""
        shape = (*self.places["cube"].shape[:-1], self.pixels, self.pixels, 3)
        return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def render(self) -> torch.Tensor:
        """The video, [..., T, H, W, 3]; gs.render with a trajectory of its own, as after a simulation."""
        given = self._simulated
        motions = {
            name: dataclasses.replace(motion, center_of_mass=self.places[name])
            for name, motion in given.motions.items()
        }
        moved = gs.Trajectory(given.time, motions, {})
        return gs.render(self.scene, moved, (self.pixels, self.pixels))

    def forward(self) -> torch.Tensor:
        with torch.no_grad():
            return self.render()

    def both(self) -> tuple[torch.Tensor, ...]:
        """Gradients of the places."""
        return torch.autograd.grad(self.render(), list(self.places.values()), self.weights)
