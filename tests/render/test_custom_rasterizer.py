"""A rasterizer from outside the package: one Python class and one header."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from tests.render import scenes
from tests.render.compare import difference_errors, drawing, relative_error

import gradsim as gs
from gradsim.render.raster import Rasterizer


@dataclass(frozen=True)
class Splat(Rasterizer):
    """Every vertex of a triangle as a round spot, added to the background: strength * colour * exp(-d^2 / width^2)."""

    width: float = 2.0  # [px]
    strength: float = 0.5

    header: ClassVar[Path] = Path(__file__).parent / "splat.h"
    saved: ClassVar[tuple[str, ...]] = ("background_weight",)

    @property
    def options(self) -> dict[str, float]:
        return {"strength": self.strength, "width": self.width}


def splat_reference(splat: Splat, triangles, size):
    y, x = torch.meshgrid(torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5, indexing="ij")
    pixels = torch.stack([x, y], -1).double()
    mesh, frames = triangles.connectivity, []
    for frame in range(len(triangles.vertices)):
        image = triangles.background[0].expand(*size, 3)
        for face, corner in zip(mesh.faces.long(), mesh.corners.long(), strict=True):
            place = triangles.vertices[frame, face, :2] / triangles.vertices[frame, face, 2:]
            edges = place[1:] - place[0]
            if edges[0, 0] * edges[1, 1] - edges[0, 1] * edges[1, 0] >= 0:
                continue  # a back face
            for point, color in zip(place, triangles.attributes[frame, corner], strict=True):
                square = ((pixels - point) ** 2).sum(-1, keepdim=True) / splat.width**2
                image = image + splat.strength * torch.exp(-square) * color
        frames.append(image)
    return torch.stack(frames)


@pytest.mark.parametrize("size", [(17, 23)], ids=str)
def test_images_and_gradients(size):
    splat, triangles = Splat(), scenes.two_bodies(size, textured=False)
    image = drawing(splat, size, alpha=False)(triangles)
    assert relative_error(image, splat_reference(splat, triangles, size)) < 1e-12
    errors = difference_errors(drawing(splat, size, alpha=False), triangles)
    assert max(errors.values()) < 1e-6, errors


def test_render_accepts_it():
    body = gs.Rigid("ball", gs.meshes.icosphere(0.5, 1), mass=1.0)
    scene = gs.Scene([body], camera=gs.Camera(eye=(0.0, 0.0, 3.0), target=(0.0, 0.0, 0.0)))
    video = gs.render(scene, gs.simulate(scene, frames=2), (16, 16), Splat())
    assert video.shape == (2, 16, 16, 3)
    with pytest.raises(gs.InvalidInput, match=r"renderer = 'splat': must be one of .*gs\.Exact\(\).*gs\.Mitsuba\(\)"):
        gs.render(scene, gs.simulate(scene, frames=1), (16, 16), "splat")
