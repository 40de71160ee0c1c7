"""The triangles of a scene, their topology and their batch."""

import dataclasses

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.render.camera import projection
from gradsim.render.edges import mesh_edges
from gradsim.render.spring_surface import spring_mesh, spring_vertices
from gradsim.render.surfaces import surface_pose, visible_surfaces
from gradsim.render.topology import scene_topology
from gradsim.render.view import visible_triangles
from gradsim.scene.batcher import Batcher
from gradsim.scene.errors import InvalidInput, MixedDtypes, OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.scene.rotation import axes_of, rotate

CAMERA = gs.Camera(eye=(0, 1, 5), target=(0, 0.5, 0))
BOX = gs.meshes.box(1.0)


def rigid(mesh=BOX, name="cube", **options):
    return gs.Rigid(name, mesh, **{"mass": 1.0, "angular_velocity": (0.0, 1.0, 0.5), **options})


def triangles_of(scene, frames=None, size=(16, 24)):
    return visible_triangles(scene, gs.simulate(scene, frames=3, fps=30, substeps=4), size, frames)


def scene_of(*bodies, **options):
    return gs.Scene(bodies, **{"camera": CAMERA, **options})


def test_box():
    view, shape = triangles_of(scene_of(rigid()))
    mesh = view.connectivity
    assert shape == (3,)
    assert view.vertices.shape == (3, 8, 3)
    assert mesh.faces.shape == (12, 3)
    assert mesh.edges.shape == (18, 4)
    assert (mesh.edges >= 0).all()
    assert view.attributes.shape == (3, 24, 3)  # a corner of the box has three normals
    assert mesh.two_sided.tolist() == [0] * 12
    assert mesh.face_textures.tolist() == [-1] * 12
    for a, b, first, second in mesh.edges.tolist():
        assert {a, b} <= set(mesh.faces[first].tolist()) & set(mesh.faces[second].tolist())


def test_coincident_vertices_of_stiff_bodies_are_merged():
    split = gs.TriMesh(BOX.vertices[BOX.faces.ravel()], np.arange(36).reshape(12, 3))
    whole, _ = triangles_of(scene_of(rigid()))
    view, _ = triangles_of(scene_of(rigid(split)))
    assert view.vertices.shape == (3, 8, 3)
    assert len(view.connectivity.edges) == 18
    for field in ("vertices", "attributes"):
        parts = [getattr(v, field)[:, getattr(v.connectivity, of).long()] for v, of in _pairs(whole, view, field)]
        torch.testing.assert_close(*parts, rtol=0, atol=1e-13)


def _pairs(a, b, field):
    return [(view, "faces" if field == "vertices" else "corners") for view in (a, b)]


def test_edges_with_more_than_two_faces():
    faces = np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4]])
    edges = mesh_edges(faces)
    assert not edges.closed
    assert len(edges.first) == 0
    middle = [(0, 1, 0, -1), (1, 0, 1, -1), (0, 1, 2, -1)]
    rim = [(1, 2, 0, -1), (2, 0, 0, -1), (0, 3, 1, -1), (3, 1, 1, -1), (1, 4, 2, -1), (4, 0, 2, -1)]
    assert sorted(map(tuple, edges.rows.tolist())) == sorted(middle + rim)


def test_topology_is_cached():
    looks = gs.Look(color=(1, 0, 0)), gs.Look(color=torch.zeros(3, dtype=torch.float64), specular=1.0)
    first, second = (triangles_of(scene_of(rigid(look=look)))[0].connectivity for look in looks)
    assert first is second
    assert triangles_of(scene_of(rigid(look=gs.Look(smooth=0.0))))[0].connectivity is not first


def test_soft_bodies_render_their_surface_only():
    mesh = gs.meshes.tet_box(1.0, 4)
    body = gs.Soft("jelly", mesh, density=1.0, material=gs.NeoHookean(1.0, 1.0), velocity=(0.0, 1.0, 0.0))
    view, _ = triangles_of(scene_of(body))
    assert view.vertices.shape == (3, 125 - 27, 3)
    assert view.connectivity.faces.shape == (192, 3)
    assert (view.connectivity.edges >= 0).all()


def test_all_kinds_of_surfaces_together():
    points, edges = gs.meshes.chain(1.0, 3)
    bodies = [
        rigid(),
        rigid(name="ghost", look=None),
        gs.Pendulum("clock"),
        gs.Springs("chain", points, edges, stiffness=1.0),
        gs.Cloth("flag", gs.meshes.grid(1.0, 2), density=1.0, material=gs.Membrane(1.0, 1.0)),
        gs.Smoke("smoke", (8, 8)),
    ]
    shapes = {"ball": gs.StaticSphere(position=(5, 0, 0)), "rod": gs.StaticCapsule(start=(9, 9, 9), end=(9, 8, 9))}
    shapes["block"] = gs.StaticBox(position=(-5, 0, 0), rotation=(0, 0, 1, 1))
    ground = gs.Ground(look=gs.Checker(tile=1.0, size=4.0), offset=-2.0)
    scene = scene_of(*bodies, ground=ground, shapes=shapes)
    view, _ = visible_triangles(scene, gs.simulate(scene, frames=2, fps=100, substeps=20), (8, 8))
    mesh = view.connectivity
    names = [surface.name for _, surface in visible_surfaces(scene)]
    assert names == ["ground", "ball", "rod", "block", "cube", "clock", "chain", "flag"]
    assert mesh.faces.max() == view.vertices.shape[1] - 1
    assert mesh.corners.max() == view.attributes.shape[1] - 1
    assert mesh.edges[:, 2:].max() == len(mesh.faces) - 1
    assert len(mesh.faces) == 32 + 2208 + 1024 + 12 + 12 + 368 + (4 * 8 + 3 * 12) + 2 * 8


def test_checker_lies_in_its_plane():
    normal, offset = torch.tensor([1.0, 2.0, -0.5], dtype=torch.float64), 0.7
    look = gs.Checker(colors=((1, 0, 0), (0, 1, 0)), tile=0.5, size=2.0, lit=False)
    scene = scene_of(rigid(look=None, position=(0, 5, 0)), ground=gs.Ground(normal=normal, offset=offset, look=look))
    view, _ = visible_triangles(scene, gs.simulate(scene, frames=1), (16, 16))
    assert view.attributes.shape == (1, 2, 3)
    colors = view.attributes[0, view.connectivity.corners[:, 0].long()][::2, 0].view(4, 4)
    assert torch.equal(colors, (torch.arange(4)[:, None] + torch.arange(4)) % 2 == 0)
    matrix, eye = projection(CAMERA, (16, 16), torch.float64, torch.device("cpu"))
    x = view.vertices[0] @ torch.linalg.inv(matrix).T + eye
    unit = normal / normal.norm()
    torch.testing.assert_close(x @ unit, torch.full((25,), offset, dtype=torch.float64))
    torch.testing.assert_close(x.mean(0), offset * unit)
    torch.testing.assert_close(torch.pdist(x).max(), torch.tensor(8.0, dtype=torch.float64).sqrt())
    a, b, c = x[view.connectivity.faces[0].long()]
    assert torch.linalg.cross(b - a, c - a) @ unit > 0


def test_springs_have_closed_surfaces():
    points = np.random.default_rng(0).random((5, 3))
    body = gs.Springs("net", points, [[0, 1], [1, 2], [2, 3], [3, 4]], thickness=0.03)
    rest, faces, _ = spring_mesh(body)
    a, b, c = (rest[faces[:, k]] for k in range(3))
    length = np.linalg.norm(np.diff(points, axis=0), axis=1).sum()
    volume = np.einsum("ij,ij->", np.cross(a, b), c) / 6
    assert volume == pytest.approx(5 * 4 / 3 * 0.03**3 + length * 0.03**2, rel=1e-12)
    assert mesh_edges(faces).closed
    moved = torch.tensor(points, requires_grad=True)
    torch.autograd.gradcheck(lambda x: spring_vertices(body, x), moved)


def test_batches_broadcast():
    masses = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    eyes = torch.tensor([[0.0, 1, 5], [1, 1, 5], [2, 1, 5]], dtype=torch.float64)
    color = torch.rand(2, 1, 3, dtype=torch.float64)
    light = gs.DirectionalLight((0, -1, 0), torch.tensor([0.5, 0.6, 0.7], dtype=torch.float64))
    push = gs.Push(force=(1.0, 0, 0))
    fields = {"pushes": [push], "mass": masses, "look": gs.Look(color=color)}
    camera = gs.Camera(eye=eyes, target=(0, 0, 0))
    whole, shape = triangles_of(scene_of(rigid(**fields), camera=camera, lights=[light], background=eyes / 5))
    assert shape == (2, 3, 3)
    assert whole.vertices.shape == (18, 8, 3)
    assert whole.background.shape == (18, 1, 1, 3)
    one = {**fields, "mass": masses[1, 0], "look": gs.Look(color=color[1, 0])}
    camera = gs.Camera(eye=eyes[2], target=(0, 0, 0))
    lights = [gs.DirectionalLight((0, -1, 0), 0.7)]
    single, _ = triangles_of(scene_of(rigid(**one), camera=camera, lights=lights, background=eyes[2] / 5))
    for field in ("vertices", "attributes"):
        world = getattr(whole, field).unflatten(0, shape)[1, 2]
        torch.testing.assert_close(world, getattr(single, field), rtol=1e-12, atol=1e-12)
    assert torch.equal(whole.background[-1], single.background[0])


@pytest.mark.parametrize("count", [1, 2], ids=["one centre for all worlds", "a centre for each"])
def test_rigid_poses_agree_with_their_motion(count):
    velocity = torch.tensor([[[1.0, 0.0, 0.0]], [[0.0, 2.0, 0.0]]], dtype=torch.float64)[:, 0]
    body = rigid(velocity=velocity, look=gs.Look())
    trajectory = gs.simulate(scene_of(body), frames=3, fps=30, substeps=4)
    center = torch.linspace(0.1, 0.6, 3 * count, dtype=torch.float64).view(count, 1, 3)
    around = trajectory["cube"].column[..., :1, :].flatten(0, -3)[:1].expand(count, 1, -1)
    column = torch.cat([around[..., :4], center, around[..., 7:]], dim=-1)
    motion = dataclasses.replace(trajectory["cube"], column=column if count > 1 else column[0])
    assert torch.equal(motion.center, center if count > 1 else center[0])
    batcher = Batcher((2,), torch.float64, torch.device("cpu"))
    surfaces = [surface for _, surface in visible_surfaces(scene_of(body))]
    (topology,) = scene_topology(surfaces, True, batcher.dtype, batcher.device).surfaces
    pose = surface_pose(body, gs.Trajectory(trajectory.time, {"cube": motion}, {}), topology, batcher)
    ids = topology.vertex_ids
    expected = motion.vertices if ids is None else motion.vertices.index_select(-2, ids)
    torch.testing.assert_close(pose.vertices, expected, rtol=1e-13, atol=1e-13)


def test_axes_are_rotated_unit_vectors():
    q = torch.nn.functional.normalize(torch.randn(2, 5, 4, dtype=torch.float64), dim=-1).requires_grad_()
    expected = rotate(q[..., None, :], torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(axes_of(q), expected, rtol=1e-14, atol=1e-14)
    weights = torch.randn(2, 5, 3, 3, dtype=torch.float64)
    ours, theirs = (torch.autograd.grad((axes * weights).sum(), q)[0] for axes in (axes_of(q), expected))
    torch.testing.assert_close(ours, theirs, rtol=1e-13, atol=1e-13)


def test_shared_attributes_are_not_copied():
    view, _ = triangles_of(scene_of(rigid(), lights=()))
    assert view.attributes.stride(0) == 0
    assert view.background.shape == (1, 1, 1, 3)


def test_frames():
    scene = scene_of(rigid())
    trajectory = gs.simulate(scene, frames=5, fps=30, substeps=2)
    whole = visible_triangles(scene, trajectory, (8, 8))[0].vertices
    for frames, rows in (([0, -1, 2], [0, 4, 2]), (slice(1, 4, 2), [1, 3]), (slice(None, None, -1), [4, 3, 2, 1, 0])):
        some, shape = visible_triangles(scene, trajectory, (8, 8), frames)
        assert shape == (len(rows),)
        torch.testing.assert_close(some.vertices, whole[rows], rtol=0, atol=1e-12)
    for frames, error, message in (
        ([5], OutOfRange, r"frames = 5: the trajectory has 5 frames: from -5 to 4"),
        ([], OutOfRange, r"frames = \[\]"),
        (slice(7, 9), OutOfRange, r"frames = slice"),
        (3, WrongType, r"frames = 3: .*a list"),
    ):
        with pytest.raises(error, match=message):
            visible_triangles(scene, trajectory, (8, 8), frames)


CASES = {
    "no camera": (lambda: scene_of(rigid(), camera=None), InvalidInput, r"scene\.camera = None: .*gs\.Camera\(eye"),
    "nothing": (lambda: scene_of(rigid(look=None)), InvalidInput, r"no visible surface"),
    "other dtype": (
        lambda: scene_of(rigid(look=gs.Look(color=torch.ones(3, dtype=torch.float32)))),
        MixedDtypes,
        r"cube\.look\.color = torch\.float32: the trajectory is torch\.float64",
    ),
    "batches that differ": (
        lambda: scene_of(rigid(mass=np.ones(2), look=gs.Look(color=np.ones((3, 3))))),
        WrongShape,
        r"cube\.look\.color = batch \(3,\)",
    ),
    "background of another size": (
        lambda: scene_of(rigid(), background=np.zeros((24, 16, 3))),
        WrongShape,
        r"scene\.background = image of 24 x 16: .*16 x 24",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_invalid_scenes_raise(case):
    build, error, message = CASES[case]
    with pytest.raises(error, match=message):
        triangles_of(build())


def test_trajectory_of_another_scene():
    trajectory = gs.simulate(scene_of(rigid(name="brick")), frames=1)
    with pytest.raises(UnknownName, match="cube"):
        visible_triangles(scene_of(rigid()), trajectory, (8, 8))


def test_background_image_and_single_precision():
    image = np.random.default_rng(0).random((16, 24, 3))
    scene = scene_of(rigid(), background=image)
    view, _ = visible_triangles(scene, gs.simulate(scene, frames=2, dtype=torch.float32), (16, 24))
    assert view.background.shape == (1, 16, 24, 3)
    assert {view.background.dtype, view.vertices.dtype, view.attributes.dtype} == {torch.float32}
