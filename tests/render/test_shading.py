"""Shading at corners against values computed by hand, and its gradients against differences."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.render.view import visible_triangles
from gradsim.scene.trajectory import BodyMotion, RigidMotion

SHEET = gs.TriMesh([[0, 0, 0], [1, 0, 0], [1, 0, -1], [0, 0, -1]], [[0, 1, 2], [0, 2, 3]])  # faces up
ROOF = gs.TriMesh([[0, 0, 0], [0, 0, 1], [1, 0, 0.5], [-1, 0, 0.5]], [[0, 1, 2], [1, 0, 3]])
BALL = gs.meshes.icosphere(0.5, 1)
EYE = (0.3, 2.0, 5.0)


def tensor(values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


def still(points):
    """A trajectory of one frame, with a body 'sheet' at the points."""
    return gs.Trajectory(tensor([0.0]), {"sheet": BodyMotion(points[..., None, :, :], points[..., None, :, :])}, {})


def shaded(mesh, points=None, lights=(), eye=EYE, **look):
    body = gs.Cloth("sheet", mesh, density=1.0, look=gs.Look(**look))
    scene = gs.Scene([body], lights=lights, camera=gs.Camera(eye=eye, target=(0, 0, 0)))
    return visible_triangles(scene, still(tensor(mesh.vertices) if points is None else points), (32, 32))[0]


def corner_colors(triangles, face):
    return triangles.attributes[0, triangles.connectivity.corners[face].long()]


def same(actual, expected):
    expected = torch.broadcast_to(tensor(expected), actual.shape)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


def test_unlit_colours_share_one_row():
    triangles = shaded(SHEET, color=(0.2, 0.4, 0.6))
    same(triangles.attributes, [0.2, 0.4, 0.6])
    assert triangles.attributes.shape == (1, 1, 3)
    assert triangles.connectivity.two_sided.tolist() == [1, 1]  # an open sheet


def test_lambert():
    angle = math.radians(60.0)
    lights = (
        gs.AmbientLight(0.1),
        gs.DirectionalLight((0.0, -math.cos(angle), math.sin(angle)), 0.8, (1.0, 0.5, 0.25)),
    )
    triangles = shaded(SHEET, lights=lights, color=(1.0, 0.5, 1.0), diffuse=0.5, two_sided=False)
    scattered = 0.5 * 0.8 * 0.5
    same(corner_colors(triangles, 0), [0.1 + scattered, 0.5 * (0.1 + scattered * 0.5), 0.1 + scattered * 0.25])


def test_light_from_behind_adds_nothing():
    triangles = shaded(
        SHEET, lights=(gs.AmbientLight(0.3), gs.DirectionalLight((0, 1, 0))), color=(1, 1, 1), two_sided=False
    )
    same(triangles.attributes, 0.3)


def test_unlit_look_ignores_lights():
    same(shaded(SHEET, lights=(gs.DirectionalLight((0, 1, 0)),), color=(1, 1, 1), lit=False).attributes, 1.0)


def test_each_side_of_a_sheet_is_shaded_on_its_own():
    triangles = shaded(SHEET, lights=(gs.DirectionalLight((0, -1, 0)),), color=(1, 1, 1))
    mesh = triangles.connectivity
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [2, 1, 0], [3, 2, 0]]
    assert mesh.two_sided.tolist() == [0, 0, 0, 0]
    assert len(mesh.edges) == 10
    same(corner_colors(triangles, 1), 1.0)
    same(corner_colors(triangles, 3), 0.0)


def test_point_light_and_highlight():
    lamp, eye, place = np.array([0.0, 3.0, 1.0]), np.array(EYE), SHEET.vertices[1]
    lights = (gs.PointLight(lamp, 2.0), gs.DirectionalLight((0, -1, -1), 0.5))
    triangles = shaded(SHEET, lights=lights, color=(1, 1, 1), specular=0.3, shininess=7.0, two_sided=False)
    view, up = (eye - place) / np.linalg.norm(eye - place), np.array([0.0, 1.0, 0.0])
    expected = 0.0
    rays = (((lamp - place) / np.linalg.norm(lamp - place), 2.0), (np.array([0, 1, 1]) / math.sqrt(2), 0.5))
    for ray, strength in rays:
        half = (ray + view) / np.linalg.norm(ray + view)
        expected += strength * (ray @ up) * (1.0 + 0.3 * (half @ up) ** 7)
    same(corner_colors(triangles, 0)[1], expected)


def test_smooth_and_faceted_edges():
    points = ROOF.vertices + np.array([[0, 0.1, 0]] * 2 + [[0, 0, 0]] * 2)  # both sides slope by atan 0.1
    mesh = gs.TriMesh(points, ROOF.faces)
    slope = 1 / math.hypot(1.0, 0.1)
    down = (gs.DirectionalLight((0, -1, 0)),)
    smooth = shaded(mesh, lights=down, color=(1, 1, 1), two_sided=False)
    same(corner_colors(smooth, 0)[:, 0], [1.0, 1.0, slope])
    assert smooth.attributes.shape[1] == 4
    facets = shaded(mesh, lights=down, color=(1, 1, 1), two_sided=False, smooth=0.0)
    same(corner_colors(facets, 0)[:, 0], slope)
    assert facets.attributes.shape[1] == 6


def test_colours_of_vertices_and_faces():
    colors = np.random.default_rng(0).random((4, 3))
    same(corner_colors(shaded(SHEET, vertex_colors=colors), 1), colors[[0, 2, 3]])
    same(corner_colors(shaded(SHEET, face_colors=colors[:2]), 1), colors[1])


def test_textured_attributes():
    texture, uv = np.random.default_rng(0).random((3, 5, 3)), np.random.default_rng(1).random((4, 2))
    triangles = shaded(SHEET, texture=texture, uv=uv, lights=(gs.AmbientLight(0.25),))
    same(corner_colors(triangles, 1), np.c_[np.full((3, 3), 0.25), np.zeros((3, 3)), uv[[0, 2, 3]]])
    same(triangles.texels, texture.reshape(-1, 3))
    assert triangles.connectivity.textures.tolist() == [[0, 3, 5]]
    assert triangles.connectivity.two_sided.tolist() == [1, 1]
    assert triangles.connectivity.face_textures.tolist() == [0, 0]
    tinted = shaded(SHEET, texture=texture, uv=np.tile(uv[:3], (2, 1, 1)), color=(0.5, 0.5, 1.0))
    same(corner_colors(tinted, 1), np.c_[np.tile([0.5, 0.5, 1.0, 0, 0, 0], (3, 1)), uv[:3]])


def test_box_projection_fills_the_texture_on_every_side():
    body = gs.Rigid("cube", gs.meshes.box((1, 2, 3)), mass=1.0, look=gs.Look(texture=np.ones((2, 2, 3))))
    scene = gs.Scene([body], camera=gs.Camera(eye=EYE, target=(0, 0, 0)))
    triangles, _ = visible_triangles(scene, gs.simulate(scene, frames=1), (8, 8))
    uv = triangles.attributes[0, triangles.connectivity.corners.long(), 6:]
    assert set(uv.reshape(-1, 2).unique(dim=0).flatten().tolist()) == {0.0, 1.0}
    u, v = uv[:, 1] - uv[:, 0], uv[:, 2] - uv[:, 0]
    same((u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]).abs(), 1.0)  # each triangle has half of the texture


LIGHTS = (gs.AmbientLight(0.2), gs.DirectionalLight((-0.3, -1, 0.2), 0.5), gs.PointLight((1, 2, 3), 0.4))


@pytest.mark.parametrize("specular", [0.0, 0.4])
@pytest.mark.parametrize("lights", [LIGHTS[:2], LIGHTS[::2], LIGHTS], ids=["directional", "point", "both"])
def test_rotating_a_body_equals_moving_its_vertices(lights, specular):
    spin = {"angular_velocity": (1.0, 2.0, 3.0), "position": (0.1, 0.2, 0.3), "velocity": (0, 1, 0)}
    mesh = gs.TriMesh(BALL.vertices, BALL.faces)  # facets of the builder's sphere would not rotate
    body = gs.Rigid("ball", mesh, mass=1.0, look=gs.Look(specular=specular, smooth=30.0), **spin)
    scene = gs.Scene([body], lights=lights, camera=gs.Camera(eye=EYE, target=(0, 0, 0)))
    trajectory = gs.simulate(scene, frames=4, fps=5, substeps=10)
    motion = trajectory["ball"]
    assert isinstance(motion, RigidMotion)
    moved = gs.Trajectory(trajectory.time, {"ball": BodyMotion(motion.vertices, motion.velocities)}, {})
    for field in ("vertices", "attributes"):
        turned, free = (getattr(visible_triangles(scene, t, (32, 32))[0], field) for t in (trajectory, moved))
        torch.testing.assert_close(turned, free, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("two_sided", [False, True])
def test_gradients(two_sided):
    generator = torch.Generator().manual_seed(0)
    start = tensor(BALL.vertices) + 0.03 * torch.randn(42, 3, generator=generator, dtype=torch.float64)

    def outputs(points, direction, strength, place, color, eye, specular, shininess, texture, uv):
        lights = (gs.AmbientLight(0.2), gs.DirectionalLight(direction, strength), gs.PointLight(place, 0.5, color))
        look = {"vertex_colors": color.expand(42, 3) * points, "specular": specular, "shininess": shininess}
        view = shaded(BALL, points, lights, eye, texture=texture, uv=uv, two_sided=two_sided, smooth=50.0, **look)
        return view.vertices, view.attributes, view.texels

    uv, texture = torch.rand(42, 2, generator=generator), torch.rand(2, 2, 3, generator=generator)
    values = [start, tensor([-0.3, -1.0, 0.2]), tensor(0.7), tensor([1.0, 2.0, 1.0]), tensor([0.7, 0.8, 0.9])]
    values += [tensor(EYE), tensor(0.4), tensor(5.0), texture.double(), uv.double()]
    inputs = tuple(value.requires_grad_() for value in values)
    torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


def test_normals_of_degenerate_faces_are_finite():
    points = torch.zeros(4, 3, dtype=torch.float64, requires_grad=True)
    lights = (*LIGHTS, gs.PointLight((0, 0, 0)))  # at the vertices
    triangles = shaded(SHEET, points, lights=lights, specular=0.5)
    (1e3 * triangles.attributes.sum() + triangles.vertices.sum()).backward()
    assert triangles.attributes.isfinite().all()
    assert points.grad.isfinite().all()


@pytest.mark.parametrize(
    ("look", "visible"),
    [
        (gs.Look(), False),
        (gs.Look(smooth=0.0), True),
        (gs.Look(vertex_colors=np.linspace(0, 1, 126).reshape(42, 3)), True),
    ],
    ids=["plain", "facets", "colours"],
)
def test_rotation_of_a_sphere_shows_only_by_its_pattern(look, visible):
    angles = torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.6, 0.0, 0.0, 0.8]], dtype=torch.float64)
    body = gs.Rigid("ball", BALL, mass=1.0, position=(0.1, 0.2, 0.3), rotation=angles, look=look)
    scene = gs.Scene([body], camera=gs.Camera(eye=EYE, target=(0, 0, 0)))
    first, second = gs.render(scene, gs.simulate(scene, frames=1, fps=5, substeps=1), (32, 32))
    difference = float((first - second).abs().max())
    assert difference > 1e-3 if visible else difference < 1e-12
