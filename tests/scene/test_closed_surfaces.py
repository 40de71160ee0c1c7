"""Closed surfaces: rejection and repair of open, inverted and nested meshes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.scene.mesh_helpers import flipped, half_of_the_faces, joined, moved, volume

from gradsim.scene import surfaces
from gradsim.scene.closed_surfaces import check_closed, outward
from gradsim.scene.errors import InvalidInput
from gradsim.scene.meshes import TetMesh, TriMesh, tet_box


class TestClosed:
    def test_open_edges_are_counted(self):
        box = surfaces.box(1.0)
        with pytest.raises(InvalidInput, match=r"cube\.mesh\.faces = 3 open edges, .*fill its holes") as caught:
            check_closed("cube.mesh", TriMesh(box.vertices, box.faces[1:]))
        start, end = (int(word) for word in str(caught.value.value).split() if word.isdigit() and word != "3")
        assert {start, end} <= set(box.faces[0].tolist())

    def test_a_texture_seam_is_not_a_hole(self):
        ball = surfaces.icosphere(1.0, 1)
        # Every face has its own vertices, as in a file where each has its own texture coordinates.
        split = TriMesh(ball.vertices[ball.faces].reshape(-1, 3), np.arange(3 * len(ball.faces)).reshape(-1, 3))
        assert len(split.hinges) == 0
        check_closed("mesh", split)
        with pytest.raises(InvalidInput, match="inside out"):
            check_closed("mesh", flipped(split))
        with pytest.raises(InvalidInput, match="3 open edges"):
            check_closed("mesh", TriMesh(split.vertices, split.faces[1:]))

    def test_inside_out_is_rejected_and_repaired(self):
        cone = moved(surfaces.cone(1.0, 1.0), 1e3)
        inverted = flipped(cone)
        with pytest.raises(InvalidInput, match=r"m = enclosed volume -1.04 m\^3: is inside out: meshes\.outward"):
            check_closed("m", inverted)
        check_closed("m", outward(inverted))
        assert volume(outward(inverted)) == pytest.approx(volume(cone), rel=1e-12)

    def test_a_small_mesh_far_away(self):
        cone = surfaces.cone(0.01, 0.03, 32)
        far = TriMesh(cone.vertices + np.array([1e7, -1e7, 1e7]), cone.faces)
        check_closed("m", far)
        with pytest.raises(InvalidInput, match=r"volume -3\.12e-06 m\^3: is inside out"):
            check_closed("m", flipped(far))

    def test_inconsistent_orientation_is_rejected_and_repaired(self):
        ball = surfaces.icosphere(1.0, 2)
        mixed = flipped(ball, half_of_the_faces(ball))
        with pytest.raises(
            InvalidInput, match=r"m\.faces = \d+ edges whose faces have opposite orientation.*meshes\.outward"
        ):
            check_closed("m", mixed)
        repaired = outward(mixed)
        check_closed("m", repaired)
        assert np.array_equal(np.sort(repaired.faces, axis=1), np.sort(ball.faces, axis=1))
        assert volume(repaired) == pytest.approx(volume(ball), rel=1e-13)

    def test_outward_keeps_a_valid_mesh_and_uv(self):
        box = surfaces.box(1.0)
        mesh = TriMesh(box.vertices, box.faces, np.arange(16.0).reshape(8, 2))
        assert outward(mesh).key == mesh.key

    def test_orientation_of_a_cavity(self):
        shell, bubble, speck = surfaces.box(2.0), surfaces.icosphere(0.8, 1), surfaces.box(0.1)
        hollow = joined(shell, flipped(bubble), speck)
        check_closed("m", hollow)
        expected = 8.0 - volume(bubble) + 1e-3
        assert volume(hollow) == pytest.approx(expected, rel=1e-12)
        for wrong in (
            flipped(hollow),
            joined(shell, bubble, speck),
            flipped(hollow, half_of_the_faces(hollow)),
        ):
            assert volume(outward(wrong)) == pytest.approx(expected, rel=1e-12)
            check_closed("m", outward(wrong))
        with pytest.raises(InvalidInput, match=r"volume -0\.001 m\^3 in 2 of 3 parts: is inside out"):
            check_closed("m", joined(shell, bubble, flipped(speck)))

    def test_nested_solids_are_rejected(self):
        with pytest.raises(InvalidInput, match=r"0\.125 m\^3 in 1 of 2 parts: lies inside another part.*twice"):
            check_closed("m", joined(surfaces.box(1.0), surfaces.box(0.5)))

    def test_one_of_two_parts_inside_out(self):
        pair = joined(surfaces.box(1.0), moved(flipped(surfaces.box(0.5)), 3.0))
        with pytest.raises(InvalidInput, match=r"-0\.125 m\^3 in 1 of 2 parts: is inside out"):
            check_closed("m", pair)
        assert volume(outward(pair)) == pytest.approx(1.125, rel=1e-12)

    def test_boxes_that_touch(self):
        # The small box touches the centre of a face of the large one, first from outside, then from inside.
        check_closed("m", joined(surfaces.box(1.0), moved(surfaces.box(0.5), 0.75)))
        check_closed("m", joined(surfaces.box(1.0), moved(flipped(surfaces.box(0.5)), 0.25)))
        # A box that fills the notch of a U: all its vertices lie on the surface of the other part.
        cells = tet_box((3.0, 2.0, 1.0), (3, 2, 1))
        x, y, _ = cells.vertices[cells.tets].mean(axis=1).T
        notched = TetMesh(cells.vertices, cells.tets[(np.abs(x) > 0.5) | (y < 0.0)])
        plug = TriMesh(surfaces.box(1.0).vertices + np.array([0.0, 0.5, 0.0]), surfaces.box(1.0).faces)
        filled = joined(TriMesh(notched.vertices, notched.surface), plug)
        check_closed("m", filled)
        assert volume(outward(flipped(filled))) == pytest.approx(6.0, rel=1e-12)
        # Boxes with a common face: four faces at each of its edges.
        pair = joined(surfaces.box(1.0), moved(surfaces.box(1.0), 1.0))
        points, number = np.unique(pair.vertices, axis=0, return_inverse=True)
        merged = TriMesh(points, number.reshape(-1)[pair.faces])
        assert len(points) == 12
        check_closed("m", merged)
        assert volume(merged) == pytest.approx(2.0, rel=1e-13)
        with pytest.raises(InvalidInput, match="more than two faces"):
            outward(merged)

    def test_a_surface_without_volume_is_rejected(self):
        flat = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
        leaf = TriMesh(flat, np.array([[0, 1, 2], [0, 2, 1]]))
        with pytest.raises(InvalidInput, match="needs a surface that encloses a volume"):
            check_closed("m", leaf)

    def test_a_one_sided_surface_is_rejected(self):
        # The projective plane with six vertices: every edge has two faces, but there is no outside.
        triples = (123, 134, 145, 156, 126, 235, 245, 246, 346, 356)
        faces = np.array([[int(digit) - 1 for digit in str(triple)] for triple in triples])
        plane = TriMesh(np.random.default_rng(1).normal(size=(6, 3)), faces)
        with pytest.raises(InvalidInput, match="one-sided"):
            outward(plane)
        with pytest.raises(InvalidInput, match="opposite orientation"):
            check_closed("m", plane)
