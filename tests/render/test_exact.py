"""The exact renderer: images against point sampling, gradients against differences, and edge cases."""

import dataclasses

import numpy as np
import pytest
import torch
from tests.render.compare import difference_errors, drawing
from tests.render.scenes import changed, triangles_of

from gradsim.check.render import RENDERERS, check_coverage, check_image_gradients, check_path
from gradsim.check.render import check_silhouette_warning as silhouette_warning
from gradsim.check.sampling import supersampled
from gradsim.render.edges import mesh_edges
from gradsim.render.exact import Exact
from gradsim.render.raster import rasterize
from gradsim.render.triangles import Triangles
from gradsim.scene.surfaces import box, icosphere, sphere

SIZE = (37, 53)


def with_edges(triangles: Triangles) -> Triangles:
    mesh = triangles.connectivity
    edges = torch.from_numpy(mesh_edges(mesh.faces.numpy()).rows.astype(np.int32))
    return changed(triangles, connectivity=dataclasses.replace(mesh, edges=edges))


def soup(count: int, size: float, *, shift: float = 0.0, textured: bool = False) -> Triangles:
    """Random two-sided triangles that intersect one another, moved towards the camera by `shift`."""
    random = np.random.default_rng(count)
    points = random.uniform(-1, 1, (count, 1, 3)) + size * random.normal(size=(count, 3, 3)) + [0, 0, shift]
    faces = np.arange(3 * count).reshape(-1, 3)
    return with_edges(triangles_of(points.reshape(1, -1, 3), faces, SIZE, both_sides=True, textured=textured))


@pytest.mark.parametrize("renderer", RENDERERS, ids=lambda r: type(r).__name__)
def test_gradients_of_all_inputs(renderer):
    assert not [result for result in check_image_gradients(renderer) if not result.ok]


def test_image_is_the_limit_of_point_sampling():
    assert not [result for result in check_coverage() if not result.ok]


@pytest.mark.parametrize("apart", [None, 1.5, 0.35], ids=["one", "behind", "intersecting"])
def test_integral_of_the_gradient_is_the_change_of_the_loss(apart):
    assert check_path(apart, "cubes", pixels=64).ok


def test_a_loss_on_colours_of_dibr_warns():
    assert silhouette_warning().ok


@pytest.mark.parametrize(
    ("count", "size", "shift"), [(8, 1.0, 0), (30, 0.7, 0), (200, 0.3, 0), (16, 0.7, 3.4), (40, 0.3, 3.4)]
)
def test_triangles_that_intersect_each_other_and_the_near_plane(count, size, shift):
    triangles = soup(count, size, shift=shift)
    image = rasterize(Exact(), triangles, SIZE, alpha=True)
    difference = (image - supersampled(triangles, SIZE)).abs()
    assert difference.max() < 2 / 32
    assert difference.mean() < 5e-4
    errors = difference_errors(drawing(Exact(), SIZE), triangles)
    assert max(errors.values()) < 1e-6, errors


def side_by_side(faces_apart: float, *, twice: bool) -> Triangles:
    """An axis-aligned square of two triangles, and another one beside it, behind it or coincident."""
    square = np.array([[-0.5, -0.31, 0], [0.5, -0.31, 0], [0.5, 0.42, 0], [-0.5, 0.42, 0]])
    other = square + np.array([0 if twice else 1.0 + faces_apart, 0, -0.1 if faces_apart < 0 else 0])
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    points = np.concatenate([square, other])[None]
    return with_edges(triangles_of(points, np.concatenate([faces, faces + 4]), SIZE))


@pytest.mark.parametrize("apart", [-0.2, 0.0, 0.013], ids=["over", "touching", "beside"])
def test_silhouettes_of_several_surfaces_in_a_pixel(apart):
    triangles = side_by_side(apart, twice=False)
    image = rasterize(Exact(), triangles, SIZE, alpha=True)
    assert (image - supersampled(triangles, SIZE)).abs().max() < 2 / 32
    if apart:  # where they touch, the gradient is one-sided
        errors = difference_errors(drawing(Exact(), SIZE), triangles)
        assert max(errors.values()) < 1e-6, errors


def test_coincident_surfaces_cover_once():
    triangles = side_by_side(0.0, twice=True)
    mesh = triangles.connectivity
    half = dataclasses.replace(
        mesh,
        faces=mesh.faces[:2],
        corners=mesh.corners[:2],
        edges=mesh.edges[mesh.edges[:, 2] < 2],
        two_sided=mesh.two_sided[:2],
        face_textures=mesh.face_textures[:2],
    )
    one = rasterize(Exact(), changed(triangles, connectivity=half), SIZE, alpha=True)
    both = rasterize(Exact(), triangles, SIZE, alpha=True)
    assert torch.allclose(one[..., 3], both[..., 3], atol=1e-12)


def test_overlaps_are_found_without_edges():
    """The coverage reveals overlaps where no silhouette is known."""
    triangles = side_by_side(-0.2, twice=False)
    bare = dataclasses.replace(triangles.connectivity, edges=torch.zeros(0, 4, dtype=torch.int32))
    image = rasterize(Exact(), changed(triangles, connectivity=bare), SIZE, alpha=True)
    assert torch.allclose(image, rasterize(Exact(), triangles, SIZE, alpha=True), atol=1e-12)


def test_horizontal_edges_between_rows():
    points = np.array(box(1.0).vertices)[None]
    triangles = with_edges(triangles_of(points, np.array(box(1.0).faces), SIZE))
    errors = difference_errors(drawing(Exact(), SIZE), triangles)
    assert max(errors.values()) < 1e-6, errors


def test_textures_with_intersections_and_near_plane():
    errors = difference_errors(drawing(Exact(), SIZE), soup(20, 0.7, shift=2.5, textured=True))
    assert set(errors) == {"vertices", "attributes", "texels", "background"}
    assert max(errors.values()) < 1e-6, errors


def body(mesh, *, turn: float = 0.3, stretch=(1.0, 1.0, 1.0), shift=(0.0, 0.0, 0.0)) -> Triangles:
    c, s = np.cos(turn), np.sin(turn)
    points = mesh.vertices @ np.array([[c, 0, -s], [0, 1, 0], [s, 0, c]]) * stretch + shift
    return with_edges(triangles_of(points[None], mesh.faces, SIZE))


EDGE_CASES = {
    "cube edge on": body(box(1.0), turn=0.0, stretch=(1, 1, 1e-9)),
    "cube seen along its side": body(box(1.0), turn=np.pi / 4 + 1e-9),
    "sphere of 20,000 faces, grazing": body(sphere(1.0, 72, 140), stretch=(1, 1e-7, 1)),
    "sphere of 20,000 faces": body(sphere(1.0, 72, 140)),
    "behind the camera": body(box(1.0), shift=(0, 0, 8)),
    "across the camera": body(box(3.0), shift=(0.2, 0.1, 4)),
    "around the camera": body(sphere(2.0, 8, 12), shift=(0, 0, 4)),
    "flat on the near plane": body(box(0.2), turn=0.0, shift=(0, 0, 3.8)),
    "out of sight": body(box(1.0), shift=(9, 0, 0)),
    "far away": body(box(1.0), shift=(0, 0, -1e6)),
    "a point": body(box(1.0), stretch=(0, 0, 0)),
    "touching two sides of the image": body(box(1.0), shift=(53 / 37 * 1.2, 1.2, 0)),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("name", EDGE_CASES)
def test_edge_cases_stay_finite(name, dtype):
    triangles = EDGE_CASES[name]
    given = {key: getattr(triangles, key).to(dtype, copy=True).requires_grad_() for key in ("vertices", "attributes")}
    image = rasterize(Exact(), changed(triangles, **given, background=triangles.background.to(dtype)), SIZE, alpha=True)
    assert image.isfinite().all()
    assert image[..., 3].detach().min() > -1e-3
    assert image[..., 3].detach().max() < 1 + 1e-3
    image.square().sum().backward()
    assert all(tensor.grad.isfinite().all() for tensor in given.values())
    if dtype == torch.float64:
        assert (image.detach() - supersampled(triangles, SIZE, 16)).abs().max() < 2 / 16


def test_a_single_pixel_is_the_mean():
    triangles = with_edges(triangles_of(box(1.0).vertices[None], box(1.0).faces, (1, 1)))
    image = rasterize(Exact(), triangles, (1, 1), alpha=True)
    assert (image - supersampled(triangles, (1, 1), 512)).abs().max() < 5e-3


def test_zero_area_and_nan():
    triangles = soup(6, 0.7)
    vertices = triangles.vertices.clone()
    vertices[0, 3:6] = vertices[0, 3]
    vertices[0, 6] = vertices[0, 7]
    image = rasterize(Exact(), changed(triangles, vertices=vertices), SIZE, alpha=False)
    assert image.isfinite().all()
    vertices[0, 0, 0] = torch.nan
    assert rasterize(Exact(), changed(triangles, vertices=vertices), SIZE, alpha=False).isfinite().all()


def test_single_precision_is_close():
    triangles = soup(30, 0.7)
    floats = {name: getattr(triangles, name).float() for name in ("vertices", "attributes", "background")}
    double, single = (rasterize(Exact(), t, SIZE, alpha=True) for t in (triangles, changed(triangles, **floats)))
    assert (double - single).abs().max() < 1e-3
    assert (double - single).abs().mean() < 1e-5


def test_gradients_in_single_precision_are_close():
    found = []
    for dtype in (torch.float64, torch.float32):
        names = ("vertices", "attributes", "background")
        triangles = changed(soup(30, 0.7), **{name: getattr(soup(30, 0.7), name).to(dtype) for name in names})
        given = {name: getattr(triangles, name).requires_grad_() for name in names}
        rasterize(Exact(), triangles, SIZE, alpha=True).square().sum().backward()
        found.append([tensor.grad for tensor in given.values()])
    for double, single in zip(*found, strict=True):
        assert (double - single).abs().max() < 1e-4 * double.abs().max()


def spheres(count: int) -> Triangles:
    mesh = icosphere(0.6, 2)
    moves = np.linspace(-0.5, 0.5, count)[:, None, None] * np.array([1.0, 0.3, 0.5])
    points = np.concatenate([mesh.vertices[None] + moves, 0.8 * mesh.vertices[None] - moves], 1)
    faces = np.concatenate([mesh.faces, mesh.faces + len(mesh.vertices)])
    return with_edges(triangles_of(points, faces, SIZE, textured=True))


def image_and_gradients(triangles: Triangles):
    given = {name: getattr(triangles, name).clone().requires_grad_() for name in ("vertices", "attributes", "texels")}
    image = rasterize(Exact(), changed(triangles, **given), SIZE, alpha=True)
    image.square().sum().backward()
    return [image.detach(), *(tensor.grad for tensor in given.values())]


def test_results_do_not_depend_on_threads():
    triangles, before = spheres(20), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = image_and_gradients(triangles)
        torch.set_num_threads(3)
        three = image_and_gradients(triangles)
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))


def test_several_forwards_before_a_backward():
    triangles = spheres(3)
    alone = image_and_gradients(triangles)[1]
    vertices = triangles.vertices.clone().requires_grad_()
    first = rasterize(Exact(), changed(triangles, vertices=vertices), SIZE, alpha=True)
    rasterize(Exact(), changed(triangles, vertices=vertices.detach() * 1.1), SIZE, alpha=True)
    rasterize(Exact(), changed(triangles, vertices=vertices.detach() * 0.9), SIZE, alpha=True)
    first.square().sum().backward()
    assert torch.equal(vertices.grad, alone)


def test_lists_and_scratch_grow_as_needed():
    """Hundreds of intersecting layers in every pixel, far beyond the initial capacity."""
    random = np.random.default_rng(0)
    points = random.normal(size=(1, 2400, 3)) * 0.4
    triangles = with_edges(triangles_of(points, np.arange(2400).reshape(-1, 3), (8, 8), both_sides=True))
    image = rasterize(Exact(), triangles, (8, 8), alpha=True)
    assert (image - supersampled(triangles, (8, 8), 32)).abs().max() < 0.01
    assert torch.equal(rasterize(Exact(), triangles, (8, 8), alpha=True), image)  # memory suffices now
