"""Gradients of all renderers, and the exact image against point sampling: `gradsim check render`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from gradsim.check.gradcheck import Objective, Values, check_all_gradients, sequential_differences
from gradsim.check.result import CheckResult, Progress, expect_close, expect_zero, no_progress
from gradsim.check.sampling import supersampled
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
PATH_IMAGES = 201  # along a path of two pixels


def rings() -> Values:
    """Returns all parameters of an image of two linked rings, each of which occludes the other in one place."""
    generator = torch.Generator().manual_seed(0)
    mesh = torus(0.5, 0.2, 8, 12)
    count = len(mesh.vertices)

    def uniform(*shape: int) -> torch.Tensor:
        return 0.2 + 0.7 * torch.rand(shape, generator=generator, dtype=torch.float64)

    def values(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64)

    second = mesh.vertices[:, [0, 2, 1]] * [1, -1, 1]
    return {
        "vertices, first ring": torch.tensor(mesh.vertices @ _tilt(0.3) + [-0.25, 0.0, 0.0]),
        "vertices, second ring": torch.tensor(second @ _tilt(-0.4) + [0.3, 0.05, 0.1]),
        "colour": uniform(3),
        "vertex colours": uniform(count, 3),
        "texels": uniform(6, 7, 3),
        "texture coordinates": torch.tensor(mesh.vertices[:, :2]) + 0.1 * uniform(count, 2),
        "camera eye": values(0.3, 0.6, 2.6),
        "camera target": values(0.05, 0.02, 0.0),
        "camera up": values(0.1, 1.0, 0.05),
        "field of view": values(40.0)[0],
        "light direction": values(-0.5, -1.0, -0.6),
        "light intensity": values(0.5)[0],
        "light position": values(0.9, 1.6, 2.1),
        "ambient light": values(0.3)[0],
        "specular": values(0.4)[0],
        "background": uniform(3),
    }


def _tilt(angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])


def rings_scene(values: Values) -> Scene:
    """Returns the scene with these parameters."""
    mesh = torus(0.5, 0.2, 8, 12)
    texture, specular = values["texels"], values["specular"]
    first = Look(color=values["colour"], texture=texture, uv=values["texture coordinates"], specular=specular)
    second = Look(vertex_colors=values["vertex colours"], texture=texture, smooth=180.0)
    bodies = [
        Cloth("first", mesh, density=1.0, vertices=values["vertices, first ring"], look=first),
        Cloth("second", mesh, density=1.0, vertices=values["vertices, second ring"], look=second),
    ]
    camera = Camera(
        eye=values["camera eye"],
        target=values["camera target"],
        up=values["camera up"],
        fov=values["field of view"],
    )
    lights = (
        AmbientLight(values["ambient light"]),
        DirectionalLight(values["light direction"], values["light intensity"]),
        PointLight(values["light position"], 0.3),
    )
    return Scene(bodies, camera=camera, lights=lights, background=values["background"])


def image_loss(renderer: Rasterizer, size: tuple[int, int] = SIZE) -> Objective:
    """Returns a loss: a fixed random weighting of colours and coverage."""
    weights = torch.randn(*size, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)

    def loss(values: Values) -> torch.Tensor:
        scene = rings_scene(values)
        return (render(scene, simulate(scene, frames=1), size, renderer, alpha=True) * weights).sum()

    return loss


def check_image_gradients(renderer: Rasterizer) -> list[CheckResult]:
    """Checks the gradient of every parameter of an image of two linked, textured rings."""
    topic = f"linked rings, {type(renderer).__name__}"
    return check_all_gradients(image_loss(renderer), rings(), topic, sequential_differences)


def check_coverage() -> list[CheckResult]:
    """Compares the exact image with 32 x 32 samples a pixel: the rings, and two intersecting cubes."""
    results = []
    for name, scene in (("linked rings", rings_scene(rings())), ("intersecting cubes", cubes(0.35))):
        with torch.no_grad():
            visible, _ = visible_triangles(scene, simulate(scene, frames=1), SIZE)
            difference = (rasterize(Exact(), visible, SIZE, alpha=True) - supersampled(visible, SIZE)).abs()
        topic = f"{name}, Exact"
        results.append(expect_zero(topic, "largest difference to 32 x 32 samples", float(difference.max()), 2 / 32))
        results.append(expect_zero(topic, "mean difference to 32 x 32 samples", float(difference.mean()), 2e-3))
    return results


FACE_COLORS = np.repeat(np.random.default_rng(3).uniform(0.2, 1.0, (6, 3)), 2, axis=0)


def cubes(apart: float | None, position: Any = (0.0, 0.0, 0.0)) -> Scene:
    """Returns a cube with six colours, and another one `apart` behind it [m]; closer than their size they intersect."""
    look = Look(face_colors=FACE_COLORS)
    rotation = np.array([0.25, 0.35, 0.1, 0.9]) / np.linalg.norm([0.25, 0.35, 0.1, 0.9])
    bodies = [Rigid("cube", box(0.8), mass=1.0, position=position, rotation=rotation, look=look)]
    if apart is not None:
        bodies.append(
            Rigid("other", box(0.8), mass=1.0, position=(0.3, 0.2, -apart), rotation=rotation[[1, 0, 2, 3]], look=look)
        )
    camera = Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=40.0)
    return Scene(bodies, camera=camera, lights=(), background=(0.0, 0.0, 0.0))


def check_path(apart: float | None, name: str, pixels: int = 128) -> CheckResult:
    """Compares the integral of the loss's gradient along a path of two pixels with the change of the loss."""
    size = (pixels, pixels)
    pixel = 2 * 5.0 * np.tan(np.deg2rad(20.0)) / pixels  # [m] at the cube
    offsets = pixel * torch.linspace(0.5, 2.5, PATH_IMAGES, dtype=torch.float64)
    x = torch.stack([offsets, 0.3 * offsets, 0.1 * offsets], -1).requires_grad_()
    with torch.no_grad():
        scene = cubes(apart)
        target = render(scene, simulate(scene, frames=1), size)
    scene = cubes(apart, x)
    losses = ((render(scene, simulate(scene, frames=1), size) - target) ** 2).sum((-4, -3, -2, -1))
    (gradient,) = torch.autograd.grad(losses.sum(), x)
    midpoint = (gradient[1:] + gradient[:-1]) / 2
    integral = float((midpoint * x.detach().diff(dim=0)).sum())
    topic, quantity = f"{name}, Exact", "integral of the gradient over two pixels"
    return expect_close(topic, quantity, float((losses[-1] - losses[0]).detach()), integral, 1e-4)


def check_silhouette_warning() -> CheckResult:
    """Checks the warning of a loss on DIB-R's colours alone, which have no gradient at silhouettes."""
    x = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    scene = cubes(None, x)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        render(scene, simulate(scene, frames=1), SIZE, DIBR()).square().sum().backward()
    count = sum(issubclass(entry.category, SilhouetteWarning) for entry in caught)
    return CheckResult("a cube, DIBR", "warnings of a loss on colours only", 1.0, float(count), abs(count - 1.0), 0.0)


def check_render(progress: Progress = no_progress) -> list[CheckResult]:
    """Runs all checks of the renderers."""
    results = []
    for renderer in RENDERERS:
        progress(f"gradients, {type(renderer).__name__}")
        results += check_image_gradients(renderer)
    progress("exact image against samples")
    results += check_coverage()
    progress("integrals of gradients")
    results += [check_path(None, "a cube"), check_path(1.5, "a cube in front of another")]
    results += [check_path(0.35, "intersecting cubes")]
    return [*results, check_silhouette_warning()]
