"""Renderers: gradients against central differences, the exact image against point sampling, and what a loss can see."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.gradients import Objective, check_parameter, gradients
from gradsim.check.sampling import supersampled
from gradsim.check.zoo import Values
from gradsim.render.dibr import DIBR
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer, rasterize
from gradsim.render.render import render
from gradsim.render.softras import SoftRas
from gradsim.render.view import visible_triangles
from gradsim.scene.bodies import Cloth
from gradsim.scene.camera import Camera
from gradsim.scene.errors import SilhouetteWarning
from gradsim.scene.lights import AmbientLight, DirectionalLight, PointLight
from gradsim.scene.looks import Look
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box, torus
from gradsim.simulate.simulate import simulate

RENDERERS: tuple[Rasterizer, ...] = (Exact(), SoftRas(sigma=1e-4, gamma=1e-2, far=10.0), DIBR())
SIZE = (48, 56)
PATH = 201  # renderings along a path of two pixels

Progress = Callable[[str], None]


def rings() -> Values:
    """Two linked rings, each before the other in one place, and everything a picture of them is made of."""
    generator = torch.Generator().manual_seed(0)
    mesh = torus(0.5, 0.2, 8, 12)
    count = len(mesh.vertices)

    def uniform(*shape: int) -> torch.Tensor:
        return 0.2 + 0.7 * torch.rand(shape, generator=generator, dtype=torch.float64)

    def values(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64)

    turned = mesh.vertices[:, [0, 2, 1]] * [1, -1, 1]
    return {
        "vertices of a ring": torch.tensor(mesh.vertices @ _tilt(0.3) + [-0.25, 0.0, 0.0]),
        "vertices of the other": torch.tensor(turned @ _tilt(-0.4) + [0.3, 0.05, 0.1]),
        "colour": uniform(3),
        "colours of vertices": uniform(count, 3),
        "texels": uniform(6, 7, 3),
        "texture coordinates": torch.tensor(mesh.vertices[:, :2]) + 0.1 * uniform(count, 2),
        "camera's place": values(0.3, 0.6, 2.6),
        "camera's target": values(0.05, 0.02, 0.0),
        "camera's up": values(0.1, 1.0, 0.05),
        "field of view": values(40.0)[0],
        "light's direction": values(-0.5, -1.0, -0.6),
        "light's intensity": values(0.5)[0],
        "light's place": values(0.9, 1.6, 2.1),
        "ambient light": values(0.3)[0],
        "highlights": values(0.4)[0],
        "background": uniform(3),
    }


def _tilt(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def rings_scene(values: Values) -> Scene:
    mesh = torus(0.5, 0.2, 8, 12)
    texture, shine = values["texels"], values["highlights"]
    first = Look(color=values["colour"], texture=texture, uv=values["texture coordinates"], specular=shine)
    second = Look(vertex_colors=values["colours of vertices"], texture=texture, smooth=180.0)
    bodies = [
        Cloth("first", mesh, density=1.0, vertices=values["vertices of a ring"], look=first),
        Cloth("second", mesh, density=1.0, vertices=values["vertices of the other"], look=second),
    ]
    camera = Camera(
        eye=values["camera's place"],
        target=values["camera's target"],
        up=values["camera's up"],
        fov=values["field of view"],
    )
    lights = (
        AmbientLight(values["ambient light"]),
        DirectionalLight(values["light's direction"], values["light's intensity"]),
        PointLight(values["light's place"], 0.3),
    )
    return Scene(bodies, camera=camera, lights=lights, background=values["background"])


def picture_loss(renderer: Rasterizer, size: tuple[int, int] = SIZE) -> Objective:
    """A fixed random weighting of colours and coverage."""
    weights = torch.randn(*size, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def loss(values: Values) -> torch.Tensor:
        scene = rings_scene(values)
        return (render(scene, simulate(scene, frames=1), size, renderer, alpha=True) * weights).sum()

    return loss


def one_by_one(loss: Objective, values: Values, name: str, directions: torch.Tensor, step: float) -> torch.Tensor:
    """Central differences along directions [D, ...] of one parameter, [D]."""
    with torch.no_grad():
        ends = [
            [loss({**values, name: values[name] + side * step * direction}) for side in (1, -1)]
            for direction in directions
        ]
    return torch.stack([(ahead - behind) / (2 * step) for ahead, behind in ends])


def check_picture_gradients(renderer: Rasterizer) -> list[Fact]:
    """Everything a picture of two linked, textured rings is made of."""
    values, loss = rings(), picture_loss(renderer)
    found = gradients(loss, values)
    topic = f"linked rings, {type(renderer).__name__}"
    return [check_parameter(loss, values, name, found[name], topic, one_by_one) for name in values]


def check_coverage() -> list[Fact]:
    """The exact image against 32 x 32 samples a pixel: the rings, and two cubes that pierce each other."""
    facts = []
    for name, scene in (("linked rings", rings_scene(rings())), ("piercing cubes", cubes(0.35))):
        with torch.no_grad():
            seen, _ = visible_triangles(scene, simulate(scene, frames=1), SIZE)
            difference = (rasterize(Exact(), seen, SIZE, alpha=True) - supersampled(seen, SIZE)).abs()
        topic = f"{name}, Exact"
        facts.append(small(topic, "largest difference to 32 x 32 samples", float(difference.max()), 2 / 32))
        facts.append(small(topic, "mean difference to 32 x 32 samples", float(difference.mean()), 2e-3))
    return facts


SIDES = np.repeat(np.random.default_rng(3).uniform(0.2, 1.0, (6, 3)), 2, axis=0)


def cubes(apart: float | None, position: Any = (0.0, 0.0, 0.0)) -> Scene:
    """A cube with sides of six flat colours, and one `apart` behind it [m]; at less than its size they pierce."""
    look = Look(face_colors=SIDES)
    turn = np.array([0.25, 0.35, 0.1, 0.9]) / np.linalg.norm([0.25, 0.35, 0.1, 0.9])
    bodies = [Rigid("cube", box(0.8), mass=1.0, position=position, rotation=turn, look=look)]
    if apart is not None:
        bodies.append(
            Rigid("other", box(0.8), mass=1.0, position=(0.3, 0.2, -apart), rotation=turn[[1, 0, 2, 3]], look=look)
        )
    camera = Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=40.0)
    return Scene(bodies, camera=camera, lights=(), background=(0.0, 0.0, 0.0))


def check_path(apart: float | None, name: str, pixels: int = 128) -> Fact:
    """The integral of the loss's gradient along a path of two pixels against the change of the loss."""
    size = (pixels, pixels)
    pixel = 2 * 5.0 * np.tan(np.deg2rad(20.0)) / pixels  # [m] at the cube
    way = pixel * torch.linspace(0.5, 2.5, PATH, dtype=torch.float64)
    x = torch.stack([way, 0.3 * way, 0.1 * way], -1).requires_grad_()
    with torch.no_grad():
        scene = cubes(apart)
        target = render(scene, simulate(scene, frames=1), size)
    scene = cubes(apart, x)
    losses = ((render(scene, simulate(scene, frames=1), size) - target) ** 2).sum((-4, -3, -2, -1))
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    middle = (gradient[1:] + gradient[:-1]) / 2
    integral = float((middle * x.detach().diff(dim=0)).sum())
    topic, what = f"{name}, Exact", "integral of the gradient over two pixels"
    return relative(topic, what, float((losses[-1] - losses[0]).detach()), integral, 1e-4)


def check_silhouette_warning() -> Fact:
    """DIB-R's colours alone see no silhouette, and a loss of them says so."""
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    scene = cubes(None, x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        render(scene, simulate(scene, frames=1), SIZE, DIBR()).square().sum().backward()
    fired = sum(issubclass(entry.category, SilhouetteWarning) for entry in caught)
    return Fact("a cube, DIBR", "warnings about a loss of colours only", 1.0, float(fired), abs(fired - 1.0), 0.0)


def check_render(progress: Progress = lambda text: None) -> list[Fact]:
    """All of the above."""
    facts = []
    for renderer in RENDERERS:
        progress(f"gradients, {type(renderer).__name__}")
        facts += check_picture_gradients(renderer)
    progress("exact image against samples")
    facts += check_coverage()
    progress("integrals of gradients")
    facts += [check_path(None, "a cube"), check_path(1.5, "a cube before another")]
    facts += [check_path(0.35, "piercing cubes")]
    return [*facts, check_silhouette_warning()]
