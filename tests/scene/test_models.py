"""The meshes that are included in gradsim: closed, simple, of sane size and mass distribution, and known by name."""

import numpy as np
import pytest
import trimesh

import gradsim as gs
from gradsim.datasets.objects import KINDS, OBJECTS, mesh
from gradsim.scene.inertia import solid

ALL = sorted({*OBJECTS, *KINDS})


def crossing_edges(shape):
    """Pairs of an edge and a face that it passes through, without those that share a vertex."""
    a, b = (shape.vertices[shape.edges[:, k]] for k in range(2))
    corners = shape.vertices[shape.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    # signed volumes of an edge's ends over each face, and of the edge with each side of the face
    above = np.einsum("efk,fk->ef", a[:, None] - corners[:, 0], normal)
    below = np.einsum("efk,fk->ef", b[:, None] - corners[:, 0], normal)
    sides = []
    for k in range(3):
        p, q = corners[:, k], corners[:, (k + 1) % 3]
        sides.append(np.einsum("efk,ek->ef", np.cross(p - a[:, None], q - a[:, None]), b - a))
    sides = np.stack(sides)
    through = (above * below < 0) & ((sides > 0).all(0) | (sides < 0).all(0))
    shared = (shape.edges[:, None, :, None] == shape.faces[None, :, None, :]).any((2, 3))
    return np.argwhere(through & ~shared)


def test_an_edge_through_a_face_is_found():
    """The check itself: two boxes that overlap at a corner."""
    one, other = gs.meshes.box(1.0), gs.meshes.box(1.0)
    both = gs.TriMesh(np.concatenate([one.vertices, other.vertices + 0.6]), np.concatenate([one.faces, one.faces + 8]))
    assert len(crossing_edges(both)) > 0
    assert len(crossing_edges(one)) == 0


@pytest.mark.parametrize("name", ALL)
def test_objects_are_simple_closed_surfaces(name):
    shape = mesh(name)
    checked = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
    assert checked.is_watertight
    assert checked.is_winding_consistent
    assert checked.is_volume
    assert checked.volume > 0
    assert len(crossing_edges(shape)) == 0


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_are_small_and_of_one_piece(name):
    shape = mesh(name)
    assert len(shape.vertices) <= 250
    genus = {"mug": 1}.get(name, 0)  # the handle
    assert len(shape.vertices) - len(shape.edges) + len(shape.faces) == 2 - 2 * genus
    assert trimesh.Trimesh(shape.vertices, shape.faces, process=False).body_count == 1
    extent = np.ptp(shape.vertices, axis=0)
    assert 0.8 < extent.max() < 1.5  # [m]
    assert extent.min() > 0.15


@pytest.mark.parametrize("name", OBJECTS)
def test_mass_and_inertia_are_those_of_the_inside(name):
    """As trimesh computes them; the moments satisfy the inequalities of every inertia tensor."""
    shape = mesh(name)
    whole = solid(shape.vertices, shape.faces)
    inertia = whole.inertia.numpy()
    moments = np.linalg.eigvalsh(inertia)
    assert moments[0] > 0
    assert moments[0] + moments[1] > moments[2]
    checked = trimesh.Trimesh(shape.vertices, shape.faces, process=False)
    assert np.isclose(float(whole.mass), checked.volume, rtol=1e-9)
    assert np.allclose(whole.center.numpy(), checked.center_mass, atol=1e-9)
    assert np.allclose(inertia, checked.moment_inertia, rtol=1e-6, atol=1e-9)


def test_fourteen_objects():
    assert len(OBJECTS) == len(set(OBJECTS)) == 14


def test_an_unknown_name_is_an_error_with_the_names():
    with pytest.raises(gs.errors.UnknownName, match="did you mean 'banana'.*the models are airliner, apple"):
        gs.meshes.model("bananna")


def test_scene_files_name_models(tmp_path):
    body = gs.Rigid("body", gs.meshes.model("duck"), density=2.0, size=(1.0, 0.8, 0.5))
    gs.scene.files.save.save_scene(gs.Scene([body]), tmp_path / "duck.yaml")
    assert "model: duck" in (tmp_path / "duck.yaml").read_text()
    (loaded,) = gs.load_scene(tmp_path / "duck.yaml").bodies
    assert np.array_equal(loaded.mesh.vertices, body.mesh.vertices)
