"""Meshes: counts and sizes against closed forms, errors that name the element, and round trips through files."""

from __future__ import annotations

import sys
from typing import Any

import meshio
import numpy as np
import pytest
import trimesh

from gradsim.scene import errors, meshes
from gradsim.scene.mesh_files import SURFACE_FORMATS, VOLUME_FORMATS, load_mesh, save_mesh, tetrahedralize
from gradsim.scene.meshes import TetMesh, TriMesh

TET = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
SQUARE = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0]])


def tri_mesh(vertices: Any, faces: Any, uv: Any = None) -> TriMesh:
    return TriMesh(np.array(vertices), np.array(faces), uv)


def tet_mesh(vertices: Any, tets: Any) -> TetMesh:
    return TetMesh(np.array(vertices), np.array(tets))


def load_surface(path: Any, **options: Any) -> Any:
    mesh = load_mesh(path, **options)
    assert isinstance(mesh, TriMesh)
    return mesh


def load_volume(path: Any) -> TetMesh:
    mesh = load_mesh(path)
    assert isinstance(mesh, TetMesh)
    return mesh


def skip_without_pytetwild():
    pytest.importorskip(
        "pytetwild", reason="needs pytetwild and pyvista: pip install 'gradsim[tets]'", exc_type=ImportError
    )


def enclosed_volume(vertices, faces):
    """Returns the enclosed volume by the divergence theorem, positive if the surface is closed and oriented outward."""
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return np.einsum("ij,ij->", np.cross(a, b), c) / 6


def mean_ratio(mesh):
    """Returns the mean ratio of each tet: 1 if it is regular, 0 if it is flat."""
    ends = mesh.vertices[mesh.tets[:, meshes.TET_EDGES]]
    squares = ((ends[:, :, 0] - ends[:, :, 1]) ** 2).sum(axis=(1, 2))
    return 12 * (3 * mesh.volumes) ** (2 / 3) / squares


def is_conforming(mesh):
    """Returns whether every face belongs to one tet on the closed boundary, or to two tets on opposite sides."""
    directed: dict[tuple[int, int, int], int] = {}
    for tet in mesh.tets[:, meshes.TET_FACES].reshape(-1, 3).tolist():
        turn = tet.index(min(tet))
        cycle = (tet[turn], tet[(turn + 1) % 3], tet[(turn + 2) % 3])
        directed[cycle] = directed.get(cycle, 0) + 1
    inner = [cycle for cycle in directed if (cycle[0], cycle[2], cycle[1]) in directed]
    boundary = TriMesh(mesh.vertices, mesh.surface)
    return (
        set(directed.values()) == {1}
        and len(inner) + len(mesh.surface) == 4 * len(mesh.tets)
        and len(boundary.hinges) == len(boundary.edges)
    )


def hinges_by_search(faces):
    """Returns the hinges as a set of (edge, opposite vertices), by testing every pair of faces."""
    found = set()
    sets = [frozenset(face) for face in faces.tolist()]
    for i, first in enumerate(sets):
        for second in sets[i + 1 :]:
            if len(first & second) == 2:
                found.add((first & second, first ^ second))
    return found


class TestBox:
    def test_counts_and_volume(self):
        box = meshes.tet_box((1.6, 1.0, 0.5), (8, 5, 5))
        assert box.tets.shape == (1000, 4)
        assert box.vertices.shape == (9 * 6 * 6, 3)
        assert box.volumes.sum() == pytest.approx(1.6 * 1.0 * 0.5, rel=1e-12)
        assert (box.volumes > 0).all()

    def test_is_centred_with_x_slowest(self):
        box = meshes.tet_box((2.0, 4.0, 6.0), (1, 2, 3))
        np.testing.assert_allclose(box.vertices[:3], [[-1, -2, -3], [-1, -2, -1], [-1, -2, 1]], atol=1e-15)
        np.testing.assert_allclose(box.vertices[4], [-1, 0, -3], atol=1e-15)
        np.testing.assert_allclose(box.vertices[-1], [1, 2, 3], atol=1e-15)

    def test_mesh_is_conforming(self):
        assert is_conforming(meshes.tet_box(1.0, (4, 3, 2)))

    def test_surface_is_the_outward_boundary(self):
        box = meshes.tet_box((1.0, 2.0, 3.0), (2, 3, 4))
        assert box.surface.shape == (2 * 2 * (2 * 3 + 3 * 4 + 4 * 2), 3)
        assert meshes.triangle_areas(box.vertices, box.surface).sum() == pytest.approx(22.0, rel=1e-12)
        assert enclosed_volume(box.vertices, box.surface) == pytest.approx(6.0, rel=1e-12)

    def test_edges(self):
        box = meshes.tet_box(1.0, 1)
        # Twelve edges of the cube and one diagonal on each of its six faces.
        assert len(box.edges) == 18
        assert (box.edges[:, 0] < box.edges[:, 1]).all()
        assert sorted(map(tuple, box.edges.tolist())) == list(map(tuple, box.edges.tolist()))

    def test_overlapping_tets_have_no_surface(self):
        vertices = np.concatenate([TET, [[0.0, 0.0, 2.0], [0.0, 0.0, 3.0]]])
        mesh = tet_mesh(vertices, [[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 2, 5]])
        with pytest.raises(errors.InvalidInput, match=r"3 tets about face"):
            _ = mesh.surface


class TestBall:
    def test_volume_converges_with_order_two(self):
        missing = [1 - meshes.tet_ball(0.3, n).volumes.sum() / (4 / 3 * np.pi * 0.3**3) for n in (4, 8, 16)]
        orders = np.log2(np.array(missing[:-1]) / missing[1:])
        assert missing[-1] == pytest.approx(0.0045, abs=1e-4)
        np.testing.assert_allclose(orders, 2.0, atol=0.1)

    @pytest.mark.parametrize("cells", [2, 4, 8, 16])
    def test_quality_stays_bounded(self, cells):
        # The smallest mean ratio decreases with the number of cells, 0.66 at 4 and 0.51 at 32, to a limit of 0.49. The
        # tets of the cube, before it is mapped to the ball, have 0.76.
        assert mean_ratio(meshes.tet_ball(1.0, cells)).min() > 0.49

    def test_mesh_is_conforming(self):
        assert is_conforming(meshes.tet_ball(1.0, 4))

    def test_surface_lies_on_the_sphere_and_no_tet_lies_in_it(self):
        ball = meshes.tet_ball(2.0, 6)
        on_surface = np.zeros(len(ball.vertices), dtype=bool)
        on_surface[ball.surface] = True
        np.testing.assert_allclose(np.linalg.norm(ball.vertices[on_surface], axis=1), 2.0, rtol=1e-12)
        assert on_surface.sum() == 7**3 - 5**3
        assert on_surface[ball.tets].sum(axis=1).max() == 3

    def test_odd_cells_are_rejected(self):
        with pytest.raises(errors.OutOfRange, match=r"cells = 3: .*even"):
            meshes.tet_ball(1.0, 3)


class TestGrid:
    def test_is_flat_centred_and_faces_up(self):
        sheet = meshes.grid((2.0, 3.0), (4, 6))
        assert sheet.vertices.shape == (5 * 7, 3)
        assert sheet.faces.shape == (2 * 4 * 6, 3)
        a, b, c = (sheet.vertices[sheet.faces[:, corner]] for corner in range(3))
        np.testing.assert_allclose(np.cross(b - a, c - a), [[0.0, 0.25, 0.0]] * 48, atol=1e-14)
        np.testing.assert_allclose(sheet.areas, 0.125, rtol=1e-12)
        np.testing.assert_allclose(sheet.vertices[0], [-1.0, 0.0, -1.5])
        np.testing.assert_allclose(sheet.vertices[1], [-1.0, 0.0, -1.0])
        np.testing.assert_allclose(sheet.vertices[-1], [1.0, 0.0, 1.5])

    def test_uv_spans_the_unit_square(self):
        sheet = meshes.grid((2.0, 3.0), (4, 6))
        assert sheet.uv is not None
        np.testing.assert_allclose(sheet.uv, sheet.vertices[:, [0, 2]] / [2.0, 3.0] + 0.5, atol=1e-15)

    @pytest.mark.parametrize("alternate", [True, False])
    def test_diagonals(self, alternate):
        sheet = meshes.grid(1.0, 4, alternate=alternate)
        run = sheet.vertices[sheet.edges[:, 1]] - sheet.vertices[sheet.edges[:, 0]]
        diagonal = run[(np.abs(run[:, 0]) > 1e-9) & (np.abs(run[:, 2]) > 1e-9)]
        rising = np.sum(diagonal[:, 0] * diagonal[:, 2] > 0)
        assert len(diagonal) == 16
        assert rising == (8 if alternate else 16)
        # With alternating diagonals an interior vertex belongs to four or eight faces.
        middle = np.sum(sheet.faces == 12)
        assert middle == (8 if alternate else 6)


class TestHinges:
    @pytest.mark.parametrize("kind", ["grid", "ball"])
    def test_against_search(self, kind):
        ball = meshes.tet_ball(1.0, 2)
        mesh = meshes.grid(1.0, (5, 4)) if kind == "grid" else TriMesh(ball.vertices, ball.surface)
        rows = mesh.hinges.tolist()
        assert {(frozenset(row[2:]), frozenset(row[:2])) for row in rows} == hinges_by_search(mesh.faces)
        assert len(rows) == len(hinges_by_search(mesh.faces))
        assert mesh.hinges.dtype == np.int32

    def test_rows_follow_the_orientation_of_both_faces(self):
        mesh = meshes.grid(1.0, (5, 4))
        cycles = {tuple(np.roll(face, turn)) for face in mesh.faces for turn in range(3)}
        for opposite0, opposite1, edge0, edge1 in mesh.hinges:
            assert (edge0, edge1, opposite0) in cycles
            assert (edge1, edge0, opposite1) in cycles

    def test_order_is_that_of_the_edges(self):
        mesh = meshes.grid(1.0, (5, 4))
        spans = [tuple(sorted(row)) for row in mesh.hinges[:, 2:].tolist()]
        assert spans == [edge for edge in map(tuple, mesh.edges.tolist()) if edge in set(spans)]
        assert len(spans) == 3 * 5 * 4 - 5 - 4

    def test_three_faces_about_an_edge(self):
        fan = tri_mesh([*TET, [0.0, 0.0, -1.0]], [[0, 1, 2], [1, 0, 3], [0, 1, 4]])
        with pytest.raises(errors.InvalidInput, match=r"3 faces about edge \(0, 1\).*remove or separate"):
            _ = fan.hinges

    def test_neighbours_of_opposite_orientation(self):
        mesh = tri_mesh(SQUARE, [[0, 1, 2], [0, 3, 2]])
        with pytest.raises(errors.InvalidInput, match=r"edge \((2, 0|0, 2)\) in the same direction.*reverse"):
            _ = mesh.hinges


class TestData:
    def test_arrays_are_read_only_copies(self):
        vertices, tets = TET.copy(), np.array([[0, 1, 2, 3]], dtype=np.int64)
        mesh = TetMesh(vertices, tets)
        vertices[0], tets[0] = 7.0, 0
        assert mesh.vertices[0].tolist() == [0.0, 0.0, 0.0]
        assert mesh.tets.tolist() == [[0, 1, 2, 3]]
        assert mesh.vertices.dtype == np.float64
        assert mesh.tets.dtype == np.int32
        for array in (mesh.vertices, mesh.tets, mesh.volumes, mesh.surface, mesh.edges):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0

    def test_measures(self):
        assert tet_mesh(2 * TET, [[0, 1, 2, 3]]).volumes.tolist() == [pytest.approx(8 / 6)]
        assert tri_mesh(3 * SQUARE, [[0, 1, 2]]).areas.tolist() == [pytest.approx(4.5)]

    def test_key_depends_on_the_content(self):
        moved = TET.copy()
        moved[3, 2] += 1e-12
        uv = np.zeros((4, 2))
        different: list[TetMesh | TriMesh] = [
            tet_mesh(TET, [[0, 1, 2, 3]]),
            tet_mesh(moved, [[0, 1, 2, 3]]),
            tet_mesh(TET, [[1, 2, 0, 3]]),
            tri_mesh(TET, [[0, 1, 2]]),
            tri_mesh(TET, [[1, 2, 0]]),
            tri_mesh(TET, [[0, 1, 2]], uv),
            tri_mesh(TET, [[0, 1, 2]], uv + 1),
        ]
        assert len({mesh.key for mesh in different}) == len(different)
        again = TetMesh(TET.astype(np.float32), np.array([[0, 1, 2, 3]], dtype=np.int64))
        assert again.key == different[0].key

    def test_chain(self):
        points, edges = meshes.chain(2.0, 4)
        np.testing.assert_allclose(points, np.outer([0.0, 0.5, 1.0, 1.5, 2.0], [1, 0, 0]))
        assert edges.tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
        assert edges.dtype == np.int32

    def test_oriented_changes_only_inverted_tets(self):
        box = meshes.tet_box(1.0, 2)
        tets = box.tets.copy()
        tets[::3] = tets[::3][:, [1, 0, 2, 3]]
        mesh = meshes.oriented(box.vertices, tets)
        np.testing.assert_allclose(mesh.volumes, box.volumes)
        assert np.array_equal(mesh.tets[1::3], box.tets[1::3])


class TestErrors:
    @pytest.mark.parametrize(
        ("vertices", "tets", "error", "name"),
        [
            (TET[:, :2], [[0, 1, 2, 3]], errors.WrongShape, "mesh.vertices"),
            (TET, [[0, 1, 2]], errors.WrongShape, "mesh.tets"),
            (TET, np.zeros((0, 4), dtype=int), errors.WrongShape, "mesh.tets"),
            (TET, [[0.0, 1.0, 2.0, 3.0]], errors.WrongType, "mesh.tets"),
            ([["a", "b", "c"]], [[0, 0, 0, 0]], errors.WrongType, "mesh.vertices"),
            ([*TET[:3], [0.0, np.nan, 0.0]], [[0, 1, 2, 3]], errors.NotFinite, "mesh.vertices[3]"),
            (TET, [[0, 1, 2, 3], [0, 1, 2, 4]], errors.OutOfRange, "mesh.tets[1]"),
            (TET, [[0, 1, 2, 3], [0, 1, 2, -1]], errors.OutOfRange, "mesh.tets[1]"),
            (TET, [[0, 1, 2, 3], [0, 1, 2, 2**32]], errors.OutOfRange, "mesh.tets[1]"),
            (TET, [[0, 1, 2, 3], [0, 1, 1, 3]], errors.DegenerateElement, "mesh.tets[1]"),
            ([*TET, [0.5, 0.5, 1e-13]], [[0, 1, 2, 3], [0, 1, 2, 4]], errors.DegenerateElement, "mesh.tets[1]"),
            (TET, [[0, 1, 2, 3], [1, 0, 2, 3]], errors.InvertedElement, "mesh.tets[1]"),
        ],
    )
    def test_tets(self, vertices, tets, error, name):
        with pytest.raises(error) as caught:
            TetMesh(vertices, tets)
        assert caught.value.name == name
        assert str(caught.value).startswith(f"{name} = ")

    @pytest.mark.parametrize(
        ("vertices", "faces", "uv", "error", "name"),
        [
            (SQUARE, [[0, 1, 2, 3]], None, errors.WrongShape, "mesh.faces"),
            (SQUARE, [[0, 1, 2]], np.zeros((4, 3)), errors.WrongShape, "mesh.uv"),
            (SQUARE, [[0, 1, 2]], np.zeros((3, 2)), errors.WrongShape, "mesh.uv"),
            (SQUARE, [[0, 1, 2]], np.full((4, 2), np.inf), errors.NotFinite, "mesh.uv[0]"),
            (SQUARE, [[0, 1, 2], [0, 1, 4]], None, errors.OutOfRange, "mesh.faces[1]"),
            (SQUARE, [[0, 1, 2], [2, 0, 2]], None, errors.DegenerateElement, "mesh.faces[1]"),
            ([*SQUARE, [0.5, 1e-13, 0]], [[0, 1, 2], [0, 1, 4]], None, errors.DegenerateElement, "mesh.faces[1]"),
        ],
    )
    def test_triangles(self, vertices, faces, uv, error, name):
        with pytest.raises(error) as caught:
            TriMesh(vertices, faces, uv)
        assert caught.value.name == name

    def test_small_valid_elements_pass(self):
        assert tet_mesh(1e-6 * TET, [[0, 1, 2, 3]]).volumes[0] == pytest.approx(1e-18 / 6)
        assert tet_mesh([*TET, [0, 0, -1e-9]], [[0, 1, 2, 3], [0, 2, 1, 4]]).volumes[1] == pytest.approx(1e-9 / 6)

    def test_inverted_tets_are_counted_and_oriented_repairs_them(self):
        box = meshes.tet_box(1.0, 2)
        tets = box.tets.copy()
        tets[[5, 17]] = tets[[5, 17]][:, [1, 0, 2, 3]]
        with pytest.raises(errors.InvertedElement, match=r"mesh\.tets\[5\].*swap two.*oriented.*2 of 40 fail"):
            TetMesh(box.vertices, tets)
        assert meshes.oriented(box.vertices, tets).volumes.sum() == pytest.approx(1.0)

    @pytest.mark.parametrize(
        ("make", "error", "name"),
        [
            (lambda: meshes.tet_box(0.0, 1), errors.OutOfRange, "size"),
            (lambda: meshes.tet_box((1.0, 2.0), 1), errors.WrongShape, "size"),
            (lambda: meshes.tet_box(np.nan, 1), errors.NotFinite, "size"),
            (lambda: meshes.tet_box(1.0, 0), errors.OutOfRange, "cells"),
            (lambda: meshes.tet_box(1.0, 2.5), errors.WrongType, "cells"),
            (lambda: meshes.grid(1.0, (2, 2, 2)), errors.WrongShape, "cells"),
            (lambda: meshes.tet_ball(-1.0, 2), errors.OutOfRange, "radius"),
            (lambda: meshes.chain(1.0, 0), errors.OutOfRange, "segments"),
        ],
    )
    def test_shapes(self, make, error, name):
        with pytest.raises(error) as caught:
            make()
        assert caught.value.name == name


class TestFiles:
    @pytest.mark.parametrize("suffix", SURFACE_FORMATS)
    def test_round_trip_of_surfaces(self, tmp_path, suffix):
        ball = meshes.tet_ball(1 / 3, 4)
        surface = trimesh.Trimesh(ball.vertices, ball.surface, process=False)
        surface.remove_unreferenced_vertices()
        mesh = TriMesh(surface.vertices + np.array([10.0, 0.0, 0.0]), surface.faces)
        path = tmp_path / f"ball{suffix}"
        save_mesh(mesh, path)
        back = load_surface(path)
        exact = suffix in (".obj", ".off")
        assert back.faces.shape == mesh.faces.shape
        assert back.vertices.shape == mesh.vertices.shape
        corners, expected = back.vertices[back.faces], mesh.vertices[mesh.faces]
        np.testing.assert_allclose(corners, expected, atol=1e-15 if exact else 1e-6)
        assert len(back.hinges) == len(back.edges)
        if suffix != ".stl":
            assert np.array_equal(back.faces, mesh.faces)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    @pytest.mark.parametrize("suffix", [".obj", ".ply", ".glb", ".gltf"])
    def test_round_trip_of_uv(self, tmp_path, suffix):
        mesh = meshes.grid((1.0, 2.0), (3, 4))
        save_mesh(mesh, tmp_path / f"sheet{suffix}")
        back = load_surface(tmp_path / f"sheet{suffix}")
        assert mesh.uv is not None
        np.testing.assert_allclose(back.uv, mesh.uv, atol=1e-6)
        np.testing.assert_allclose(back.vertices, mesh.vertices, atol=1e-6)
        assert load_surface(tmp_path / f"sheet{suffix}", keep_uv=False).uv is None

    @pytest.mark.parametrize("suffix", VOLUME_FORMATS)
    @pytest.mark.parametrize("kind", ["tets", "triangles"])
    def test_round_trip_of_volume_formats(self, tmp_path, suffix, kind):
        if suffix == ".xdmf":
            pytest.importorskip("h5py", reason="XDMF files need h5py: pip install h5py")
        mesh = meshes.tet_box((1 / 3, 1.0, 2.0), (1, 2, 2)) if kind == "tets" else meshes.grid(1 / 3, (3, 2))
        path = tmp_path / f"mesh{suffix}"
        save_mesh(mesh, path)
        back = load_mesh(path)
        assert type(back) is type(mesh)
        np.testing.assert_allclose(back.vertices, mesh.vertices, atol=1e-11)
        if isinstance(mesh, TetMesh):
            assert np.array_equal(load_volume(path).tets, mesh.tets)
        else:
            assert np.array_equal(load_surface(path).faces, mesh.faces)
        assert [file.name for file in tmp_path.iterdir()] == [path.name]

    def test_failed_save_keeps_the_old_file(self, tmp_path, monkeypatch):
        path = tmp_path / "box.vtk"
        save_mesh(meshes.tet_box(1.0, 1), path)
        before = path.read_bytes()

        def write_half(target, mesh):
            open(target, "w").close()
            raise OSError("disk full")

        monkeypatch.setattr(meshio.vtk, "write", write_half)
        with pytest.raises(OSError, match="disk full"):
            save_mesh(meshes.tet_box(2.0, 1), path)
        assert path.read_bytes() == before
        assert [file.name for file in tmp_path.iterdir()] == ["box.vtk"]

    def test_vertices_at_texture_seams(self, tmp_path):
        # Two triangles whose shared corners differ in uv and normal, as modelling programs write them.
        path = tmp_path / "seam.obj"
        path.write_text(
            "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0.5 0.5\nvn 0 0 1\nvn 0 1 0\n"
            "f 1/1/1 2/2/1 3/3/1\nf 1/4/2 3/3/2 4/4/2\n"
        )
        split, merged = load_surface(path), load_surface(path, keep_uv=False)
        assert (len(split.vertices), len(split.hinges)) == (5, 0)
        assert (len(merged.vertices), len(merged.hinges)) == (4, 1)
        assert sorted(split.uv[(split.vertices == 0).all(axis=1)].tolist()) == [[0.0, 0.0], [0.5, 0.5]]

    def test_parts_are_transformed_and_joined(self, tmp_path):
        scene = trimesh.Scene()
        cube = trimesh.creation.box()
        scene.add_geometry(cube, transform=trimesh.transformations.translation_matrix([5, 0, 0]))
        mirrored = np.diag([-1.0, 1.0, 1.0, 1.0])
        scene.add_geometry(cube, transform=mirrored)
        scene.export(tmp_path / "two.glb")
        mesh = load_surface(tmp_path / "two.glb")
        assert mesh.vertices.shape == (16, 3)
        assert mesh.vertices[:, 0].max() == pytest.approx(5.5)
        assert enclosed_volume(mesh.vertices, mesh.faces) == pytest.approx(2.0, rel=1e-6)

    def test_degenerate_faces_and_unused_vertices_are_dropped(self, tmp_path):
        path = tmp_path / "dirty.obj"
        path.write_text("v 9 9 9\nv 0 0 0\nv 1 0 0\nv 0 1 0\nv 2 0 0\nf 2 3 4\nf 2 3 3\nf 2 3 5\n")
        mesh = load_surface(path)
        assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        assert mesh.faces.tolist() == [[0, 1, 2]]

    def test_distinct_close_vertices_are_not_merged(self, tmp_path):
        vertices = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1e-4, 1e-4, 0.0], [1e-4, 0.0, 0.0]])
        save_mesh(tri_mesh(vertices, [[0, 1, 2], [0, 4, 3]]), tmp_path / "fine.obj")
        np.testing.assert_allclose(load_surface(tmp_path / "fine.obj").vertices, vertices, atol=1e-15)

    def test_inverted_tets_are_repaired_and_unused_nodes_dropped(self, tmp_path):
        path = tmp_path / "flipped.vtk"
        points = np.concatenate([[[5.0, 5.0, 5.0]], TET])
        cells = [("triangle", [[1, 2, 3]]), ("tetra", [[2, 1, 3, 4]])]
        meshio.vtk.write(str(path), meshio.Mesh(points, cells))
        mesh = load_volume(path)
        assert len(mesh.vertices) == 4
        assert mesh.volumes.tolist() == [pytest.approx(1 / 6)]

    def test_hexahedra_are_rejected(self, tmp_path):
        path = tmp_path / "hex.vtk"
        corners = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]])
        cells = [("tetra", [[0, 1, 3, 4]]), ("hexahedron", [range(8)])]
        meshio.vtk.write(str(path), meshio.Mesh(corners.astype(float), cells))
        with pytest.raises(errors.MeshFileError, match="1 hexahedron"):
            load_mesh(path)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("mesh.xyz", "0 0 0", "extension '.xyz'"),
            ("mesh", "0 0 0", "extension ''"),
            ("points.obj", "v 0 0 0\nv 1 0 0\n", "no triangles"),
            ("flat.obj", "v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n", "none with an area"),
            ("nan.obj", "v 0 0 0\nv 1 0 0\nv 0 nan 0\nf 1 2 3\n", "finite"),
            ("far.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n", "unreadable"),
            *[(f"noise{suffix}", "not a mesh\n" * 9, "") for suffix in (*SURFACE_FORMATS, *VOLUME_FORMATS)],
        ],
    )
    def test_unusable_files_are_rejected(self, tmp_path, capsys, name, content, message):
        path = tmp_path / name
        path.write_text(content)
        with pytest.raises(errors.MeshFileError) as caught:
            load_mesh(path)
        assert caught.value.name == str(path)
        assert message in str(caught.value)
        assert capsys.readouterr().out == ""

    def test_missing_file_and_folder(self, tmp_path):
        with pytest.raises(errors.MeshFileError, match="no such file"):
            load_mesh(tmp_path / "gone.obj")
        with pytest.raises(errors.MeshFileError, match="no such folder"):
            save_mesh(meshes.grid(1.0, 1), tmp_path / "gone" / "sheet.obj")

    def test_missing_package_of_a_format_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "h5py", None)
        path = tmp_path / "box.xdmf"
        with pytest.raises(errors.MeshFileError, match="pip install h5py"):
            save_mesh(meshes.tet_box(1.0, 1), path)
        path.write_text(
            '<Xdmf Version="3.0"><Domain><Grid Name="Grid"><Geometry GeometryType="XYZ"><DataItem Dimensions="4 3" '
            'Format="HDF">box.h5:/data0</DataItem></Geometry></Grid></Domain></Xdmf>'
        )
        with pytest.raises(errors.MeshFileError, match="pip install h5py"):
            load_mesh(path)

    def test_surface_formats_reject_tets(self, tmp_path):
        with pytest.raises(errors.MeshFileError, match=r"surfaces only.*mesh\.surface"):
            save_mesh(meshes.tet_box(1.0, 1), tmp_path / "box.stl")


class TestTetrahedralize:
    def test_sphere(self, capfd):
        skip_without_pytetwild()
        ico = trimesh.creation.icosphere(subdivisions=2, radius=0.5)
        surface = TriMesh(ico.vertices, ico.faces)
        mesh = tetrahedralize(surface, edge_length=0.1)
        assert mesh.volumes.sum() == pytest.approx(enclosed_volume(surface.vertices, surface.faces), rel=0.02)
        lengths = np.linalg.norm(np.diff(mesh.vertices[mesh.edges], axis=1), axis=-1)
        assert np.median(lengths) == pytest.approx(0.1, rel=0.3)
        assert np.abs(np.linalg.norm(mesh.vertices[mesh.surface], axis=-1) - 0.5).max() < 0.03
        assert capfd.readouterr() == ("", "")

    def test_open_or_inverted_surfaces_are_rejected(self):
        box = meshes.tet_box(1.0, 1)
        faces = box.surface
        uv = np.zeros((8, 2))
        with pytest.raises(errors.InvalidInput, match=r"3 open edges"):
            tetrahedralize(TriMesh(box.vertices, faces[1:], uv))
        with pytest.raises(errors.InvalidInput, match="opposite orientation"):
            tetrahedralize(tri_mesh(box.vertices, [faces[0][::-1], *faces[1:]]))
        with pytest.raises(errors.InvalidInput, match="inside out"):
            tetrahedralize(TriMesh(box.vertices, faces[:, ::-1]))

    @pytest.mark.parametrize("edge_length", [0.0, -1.0, 2.0, np.nan])
    def test_edge_length_is_limited_by_the_surface(self, edge_length):
        box = meshes.tet_box(1.0, 1)
        with pytest.raises(errors.OutOfRange, match="edge_length"):
            tetrahedralize(TriMesh(box.vertices, box.surface), edge_length)

    def test_missing_package_names_the_extra(self, monkeypatch):
        box = meshes.tet_box(1.0, 1)
        monkeypatch.setitem(sys.modules, "pytetwild", None)
        with pytest.raises(errors.MissingExtra, match=r"pip install 'gradsim\[tets\]'"):
            tetrahedralize(TriMesh(box.vertices, box.surface))
