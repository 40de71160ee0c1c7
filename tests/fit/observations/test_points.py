"""Points of bodies: vertices, centres, points on faces, markers."""

import numpy as np
import pytest
import torch
from tests.fit.observations.scenes import motion, pushed_cube

import gradsim as gs

SCENE = pushed_cube()


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


def tetrahedron() -> tuple[gs.Scene, gs.Trajectory]:
    """A soft body in free fall."""
    nodes = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    mesh = gs.TetMesh(nodes, np.array([[0, 1, 2, 3]]))
    scene = gs.Scene([gs.Soft("tet", mesh, density=1000.0, material=gs.NeoHookean(mu=1e3, lam=1e3))])
    return scene, gs.simulate(scene, frames=3, fps=30)


def test_a_vertex_of_a_rigid_body(trajectory):
    assert torch.equal(gs.Vertex("cube", 5).positions(SCENE, trajectory), trajectory["cube"].vertices[:, 5])


def test_a_marker_moves_with_the_mesh(trajectory):
    corner = tuple(float(x) for x in np.asarray(SCENE["cube"].mesh.vertices)[3])
    position = gs.Marker("cube", corner).positions(SCENE, trajectory)
    assert torch.allclose(position, trajectory["cube"].vertices[:, 3], atol=1e-12)
    outside = gs.Marker("cube", tuple(2 * x for x in corner)).positions(SCENE, trajectory)
    assert torch.allclose(outside - trajectory["cube"].position, 2 * (position - trajectory["cube"].position))


def test_the_centre_of_a_rigid_body_is_its_centre_of_mass(trajectory):
    assert torch.equal(gs.Center("cube").positions(SCENE, trajectory), trajectory["cube"].center_of_mass)
    scene, fall = tetrahedron()
    assert torch.allclose(gs.Center("tet").positions(scene, fall), fall["tet"].vertices.mean(-2))


def test_a_point_on_a_face_is_the_weighted_mean_of_its_corners(trajectory):
    corners = np.asarray(SCENE["cube"].faces)[4].tolist()
    expected = trajectory["cube"].vertices[:, corners] * torch.tensor([0.2, 0.3, 0.5])[:, None]
    found = gs.FacePoint("cube", 4, (0.2, 0.3, 0.5)).positions(SCENE, trajectory)
    assert torch.allclose(found, expected.sum(1), atol=1e-7)
    scene, fall = tetrahedron()
    surface = np.asarray(scene["tet"].faces)[0].tolist()
    third = gs.FacePoint("tet", 0, (1 / 3, 1 / 3, 1 / 3)).positions(scene, fall)
    assert torch.allclose(third, fall["tet"].vertices[:, surface].mean(1))


def test_points_of_a_batch_of_worlds():
    scene = pushed_cube(mass=torch.tensor([3.0, 4.0], dtype=torch.float64))
    moved = motion(scene, 3)
    points = [gs.Vertex("cube", 1), gs.Center("cube"), gs.FacePoint("cube", 0, (1, 0, 0)), gs.Marker("cube", (0, 0, 1))]
    for point in points:
        assert point.positions(scene, moved).shape == (2, 3, 3)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (lambda: gs.Vertex("cube", 8), "Vertex.index"),
        (lambda: gs.Vertex("cube", -1), "Vertex.index"),
        (lambda: gs.FacePoint("cube", 12, (1, 0, 0)), "FacePoint.face"),
        (lambda: gs.FacePoint("cube", 0, (0.5, 0.2, 0.2)), "barycentric"),
        (lambda: gs.FacePoint("cube", 0, (0.5, 0.5)), "barycentric"),
        (lambda: gs.Marker("cube", (0.0, 1.0)), "Marker.offset"),
        (lambda: gs.Center("ball"), "ball"),
    ],
)
def test_invalid_points_are_named(trajectory, point, message):
    with pytest.raises(gs.GradsimError, match=message):
        point().positions(SCENE, trajectory)


def test_only_rigid_bodies_have_markers():
    scene, fall = tetrahedron()
    with pytest.raises(gs.InvalidInput, match="only rigid bodies.*FacePoint"):
        gs.Marker("tet", (0.0, 0.0, 0.0)).positions(scene, fall)
