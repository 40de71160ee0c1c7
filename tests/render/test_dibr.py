"""DIB-R against a slow reference, central differences and analytic limits, and its warning."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from tests.render import reference, scenes
from tests.render.compare import difference_errors, drawing, image_and_gradients, relative_error

from gradsim.render.dibr import CUT, DIBR
from gradsim.render.triangles import Triangles
from gradsim.scene.errors import OutOfRange, SilhouetteWarning, WrongType

NARROW, WIDE = DIBR(), DIBR(sigma=1e-2)
SCENES = {
    "two bodies": scenes.two_bodies,
    "plain colors": lambda size: scenes.two_bodies(size, textured=False),
    "across the camera": scenes.across_the_camera,
    "beside the image": scenes.beside,
    "level edges": scenes.level,
}


def dibr_reference(dibr: DIBR, triangles: Triangles, frame: int, size: tuple[int, int]) -> torch.Tensor:
    screen, pixels = reference.screen_of(triangles, frame), reference.centers(*size)
    plain = reference.barycentric(screen, pixels)
    square = reference.squared_distance(screen, pixels) / (dibr.sigma * (size[0] / 2) ** 2)
    inside = (plain >= 0).all(-1)
    covered = inside.any(0)
    depth, color = reference.colors(triangles, screen, torch.where(inside[..., None], plain, 1.0))
    front = torch.where(inside, depth, math.inf).argmin(0)
    color = torch.gather(color, 0, front[None, ..., None].expand(1, *size, 3))[0]
    color = torch.where(covered[..., None], color, reference.background(triangles, frame, size))
    halo = torch.relu((torch.exp(-square) - CUT) / (1 - CUT))
    around = 1 - (1 - torch.where(covered, 0.0, halo)).prod(0)
    return torch.cat([color, torch.where(covered, 1.0, around)[..., None]], -1)


@pytest.mark.parametrize("dibr", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("size", [(24, 24), (37, 53), (1, 1)], ids=str)
@pytest.mark.parametrize("scene", SCENES)
def test_images_and_gradients_agree_with_the_reference(scene: str, size: tuple[int, int], dibr: DIBR) -> None:
    triangles = SCENES[scene](size)

    def slow(given: Triangles) -> torch.Tensor:
        return torch.stack([dibr_reference(dibr, given, frame, size) for frame in range(len(given.vertices))])

    image, gradients = image_and_gradients(drawing(dibr, size), triangles)
    expected, expected_gradients = image_and_gradients(slow, triangles)
    assert relative_error(image, expected) < 1e-11
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        assert relative_error(gradient, expected_gradients[name]) < 1e-9, name


def test_colors_do_not_depend_on_alpha() -> None:
    triangles = scenes.two_bodies((37, 53))
    both = drawing(NARROW, (37, 53))(triangles)
    colors = drawing(NARROW, (37, 53), alpha=False)(triangles)
    assert torch.equal(both[..., :3], colors)


@pytest.mark.parametrize("dibr", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("scene", SCENES)
def test_gradients_agree_with_central_differences(scene: str, dibr: DIBR) -> None:
    size = (32, 40)
    errors = difference_errors(drawing(dibr, size), SCENES[scene](size))
    assert max(errors.values()) < 1e-6, errors


@pytest.mark.parametrize("scene", [scenes.degenerate, scenes.nothing])
@pytest.mark.parametrize("size", [(24, 24), (1, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_degenerate_triangles_stay_finite(scene, size: tuple[int, int], dtype: torch.dtype) -> None:
    image, gradients = image_and_gradients(drawing(NARROW, size), scenes.to(scene(size), dtype))
    assert torch.isfinite(image).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())


def test_an_empty_view_is_the_background() -> None:
    triangles = scenes.nothing((24, 24))
    image, gradients = image_and_gradients(drawing(NARROW, (24, 24)), triangles)
    assert torch.equal(image[..., :3], triangles.background)
    assert not image[..., 3].any()
    assert not gradients["vertices"].any()


@pytest.mark.parametrize("scene", SCENES)
def test_float32_is_close_to_float64(scene: str) -> None:
    size = (64, 64)
    triangles = SCENES[scene](size)
    image, gradients = image_and_gradients(drawing(NARROW, size), triangles)
    single, single_gradients = image_and_gradients(drawing(NARROW, size), scenes.to(triangles, torch.float32))
    assert relative_error(single, image) < 1e-4
    for name, gradient in gradients.items():
        assert relative_error(single_gradients[name], gradient) < 1e-3, name


def test_the_halo_decays_as_in_the_paper() -> None:
    size = (16, 16)
    image, _ = image_and_gradients(drawing(WIDE, size), scenes.half_plane(size, edge=6.0))
    row = image[0, 4, :, 3]
    assert torch.equal(row[:6], torch.ones(6, dtype=torch.float64))
    distance = (torch.arange(6, 16) + 0.5 - 6.0).double() / 8.0
    torch.testing.assert_close(row[6:], torch.exp(-(distance**2) / WIDE.sigma), rtol=0.0, atol=2 * CUT)


def test_the_nearest_face_hides_the_others() -> None:
    triangles = scenes.stacked((16, 16), count=40)
    image = drawing(NARROW, (16, 16))(triangles)
    expected = dibr_reference(NARROW, triangles, 0, (16, 16))
    assert relative_error(image[0], expected) < 1e-12


def test_a_loss_on_colors_alone_warns() -> None:
    triangles = scenes.two_bodies((16, 16))
    vertices = scenes.leaves(triangles)["vertices"]
    moving = scenes.changed(triangles, vertices=vertices)
    with pytest.warns(SilhouetteWarning, match=r"alpha=True.*gs\.Exact"):
        drawing(NARROW, (16, 16), alpha=False)(moving).square().sum().backward()
    with pytest.warns(SilhouetteWarning):
        drawing(NARROW, (16, 16))(moving)[..., :3].square().sum().backward()


def test_a_loss_that_depends_on_silhouettes_does_not_warn() -> None:
    triangles = scenes.two_bodies((16, 16))
    given = scenes.leaves(triangles)
    moving = scenes.changed(triangles, vertices=given["vertices"])
    painted = scenes.changed(triangles, attributes=given["attributes"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawing(NARROW, (16, 16))(moving).square().sum().backward()
        drawing(NARROW, (16, 16))(moving)[..., 3].sum().backward()
        drawing(NARROW, (16, 16), alpha=False)(painted).square().sum().backward()  # the vertices need no gradient


def test_options_are_checked() -> None:
    with pytest.raises(OutOfRange, match="DIBR.sigma = -1"):
        DIBR(sigma=-1.0)
    with pytest.raises(WrongType, match="DIBR.sigma = 'x'"):
        DIBR(sigma="x")
