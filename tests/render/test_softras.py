"""SoftRas against a slow reference, central differences and analytic limits."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from tests.render import reference, scenes
from tests.render.compare import difference_errors, drawing, image_and_gradients, relative_error, weights_of

from benchmarks.plain_softras import PlainSoftRas
from gradsim.render.softras import SoftRas
from gradsim.render.triangles import Triangles
from gradsim.scene.errors import OutOfRange, WrongType

SHARP, SOFT = SoftRas(), SoftRas(sigma=1e-3, gamma=1e-2, far=20.0, cut=1e-7)
SCENES = {
    "two bodies": scenes.two_bodies,
    "plain colors": lambda size: scenes.two_bodies(size, textured=False),
    "across the camera": scenes.across_the_camera,
    "beside the image": scenes.beside,
    "level edges": scenes.level,
}


def softras_reference(softras: SoftRas, triangles: Triangles, frame: int, size: tuple[int, int]) -> torch.Tensor:
    screen, pixels = reference.screen_of(triangles, frame), reference.centers(*size)
    plain = reference.barycentric(screen, pixels)
    square = reference.squared_distance(screen, pixels) / (softras.sigma * (size[0] / 2) ** 2)
    sigmoid = torch.sigmoid(torch.where((plain > 0).all(-1), square, -square))
    cover = torch.relu((sigmoid - softras.cut) / (1 - softras.cut))
    depth, color = reference.colors(triangles, screen, plain.clamp(min=0))
    behind = torch.full((1, *size), 1e-3 / softras.gamma, dtype=torch.float64)
    rank = (softras.far - depth) / (softras.far - triangles.near) / softras.gamma
    rank = torch.cat([torch.where(cover > 0, rank, -math.inf), behind])
    weight = torch.cat([cover, torch.ones_like(behind)]) * torch.exp(rank - rank.detach().amax(0))
    color = torch.cat([color, reference.background(triangles, frame, size)[None]])
    blend = (weight[..., None] * color).sum(0) / weight.sum(0)[..., None]
    return torch.cat([blend, 1 - (1 - cover).prod(0)[..., None]], -1)


@pytest.mark.parametrize("alpha", [True, False])
@pytest.mark.parametrize("softras", [SHARP, SOFT], ids=["sharp", "soft"])
@pytest.mark.parametrize("size", [(24, 24), (37, 53), (1, 1)], ids=str)
@pytest.mark.parametrize("scene", SCENES)
def test_images_and_gradients_agree_with_the_reference(
    scene: str, size: tuple[int, int], softras: SoftRas, alpha: bool
) -> None:
    triangles = SCENES[scene](size)

    def slow(given: Triangles) -> torch.Tensor:
        frames = [softras_reference(softras, given, frame, size) for frame in range(len(given.vertices))]
        return torch.stack(frames)[..., : 4 if alpha else 3]

    image, gradients = image_and_gradients(drawing(softras, size, alpha=alpha), triangles)
    expected, expected_gradients = image_and_gradients(slow, triangles)
    assert relative_error(image, expected) < 1e-11
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        assert relative_error(gradient, expected_gradients[name]) < 1e-9, name


@pytest.mark.parametrize("softras", [SHARP, SOFT], ids=["sharp", "soft"])
@pytest.mark.parametrize("scene", SCENES)
def test_gradients_agree_with_central_differences(scene: str, softras: SoftRas) -> None:
    size = (32, 40)
    errors = difference_errors(drawing(softras, size), SCENES[scene](size))
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("scene", [scenes.degenerate, scenes.nothing])
@pytest.mark.parametrize("size", [(24, 24), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_degenerate_triangles_stay_finite(scene, size: tuple[int, int], dtype: torch.dtype) -> None:
    image, gradients = image_and_gradients(drawing(SHARP, size), scenes.to(scene(size), dtype))
    assert torch.isfinite(image).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())


def test_an_empty_view_is_the_background() -> None:
    triangles = scenes.nothing((24, 24))
    image, gradients = image_and_gradients(drawing(SHARP, (24, 24)), triangles)
    assert torch.equal(image[..., :3], triangles.background)
    assert not image[..., 3].any()
    assert not gradients["vertices"].any()


@pytest.mark.parametrize("softras", [SHARP, SOFT], ids=["sharp", "soft"])
@pytest.mark.parametrize("scene", SCENES)
def test_float32_is_close_to_float64(scene: str, softras: SoftRas) -> None:
    size = (64, 64)
    triangles = SCENES[scene](size)
    image, gradients = image_and_gradients(drawing(softras, size), triangles)
    single, single_gradients = image_and_gradients(drawing(softras, size), scenes.to(triangles, torch.float32))
    assert relative_error(single, image) < 1e-3
    for name, gradient in gradients.items():
        assert relative_error(single_gradients[name], gradient) < 5e-3, name


def test_coverage_is_half_at_edges_and_one_inside() -> None:
    triangles = scenes.half_plane((16, 16), edge=8.5)
    image, _ = image_and_gradients(drawing(SoftRas(sigma=1e-3), (16, 16)), triangles)
    assert image[0, 4, 8, 3].item() == pytest.approx(0.5, abs=1e-4)
    assert image[0, 4, 0, 3].item() == pytest.approx(1.0, abs=1e-12)
    assert image[0, 4, 15, 3].item() == 0.0
    color = triangles.attributes[0, 0]
    torch.testing.assert_close(image[0, 4, 0, :3], color, rtol=1e-12, atol=0.0)


def test_coverage_ends_without_a_jump() -> None:
    softras, size = SoftRas(), (16, 16)
    reach = math.sqrt(softras.sigma * math.log(1.0 / softras.cut - 1.0)) * size[0] / 2
    draw = drawing(softras, size)
    inside, outside = (draw(scenes.half_plane(size, edge=8.5 - reach + step))[0, 4, 8, 3] for step in (1e-9, -1e-9))
    assert 0.0 < inside.item() < 1e-10
    assert outside.item() == 0.0


@pytest.mark.parametrize("count", [1, 40])
def test_many_faces_may_overlap_in_a_pixel(count: int) -> None:
    size = (16, 16)
    triangles = scenes.stacked(size, count=count)
    softras = SoftRas(sigma=1e-2, gamma=1e-1)
    image, _ = image_and_gradients(drawing(softras, size), triangles)
    expected = softras_reference(softras, triangles, 0, size)
    assert relative_error(image[0], expected) < 1e-12


def test_the_plain_kernels_of_the_benchmark_render_the_same() -> None:
    size, softras = (40, 56), SoftRas(sigma=1e-4, gamma=1e-3)
    given = scenes.to(scenes.two_bodies(size, textured=False), torch.float32)
    mesh = dataclasses.replace(given.connectivity, corners=given.connectivity.faces)
    colors = given.attributes[:, : given.vertices.shape[1]].contiguous()
    background = torch.zeros(1, 1, 1, 3)
    triangles = scenes.changed(given, connectivity=mesh, attributes=colors, background=background)
    image, gradients = image_and_gradients(drawing(softras, size), triangles)
    plain = PlainSoftRas(
        triangles.vertices.numpy(),
        mesh.faces.numpy(),
        colors.numpy(),
        size,
        softras=softras,
        near=triangles.near,
    )
    np.testing.assert_allclose(plain.forward(), image.numpy(), rtol=0, atol=2e-4)
    vertices_adj, colors_adj = plain.backward(weights_of(image).numpy())
    assert relative_error(torch.from_numpy(vertices_adj), gradients["vertices"]) < 1e-3
    assert relative_error(torch.from_numpy(colors_adj), gradients["attributes"]) < 1e-3


@pytest.mark.parametrize("field", ["sigma", "gamma", "far", "cut"])
def test_options_are_checked(field: str) -> None:
    with pytest.raises(OutOfRange, match=f"SoftRas.{field} = -1"):
        SoftRas(**{field: -1.0})
    with pytest.raises(WrongType, match=f"SoftRas.{field} = 'x'"):
        SoftRas(**{field: "x"})
