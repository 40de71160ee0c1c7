"""Meshes: counts and sizes against exact values, and errors that name the element."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scene.mesh_helpers import SQUARE, TET, enclosed_volume, tet_mesh, tri_mesh

from gradsim.scene import errors, meshes
from gradsim.scene.meshes import TetMesh, TriMesh


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
