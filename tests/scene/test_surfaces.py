"""Closed surfaces: builders against closed forms, rejection and repair of meshes, mass and inertia of solids."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from gradsim.scene import surfaces
from gradsim.scene.closed_surfaces import check_closed, outward
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.inertia import MassProperties, point_masses, solid
from gradsim.scene.meshes import TetMesh, TriMesh, tet_box

# Builder, extents [m], area and volume of the exact shape [m^2, m^3].
SHAPES = {
    "box": (lambda: surfaces.box((1.0, 2.0, 3.0)), (1.0, 2.0, 3.0), 22.0, 6.0),
    "sphere": (lambda: surfaces.sphere(0.5, 64, 128), (1.0, 1.0, 1.0), math.pi, math.pi / 6),
    "icosphere": (lambda: surfaces.icosphere(0.5, 5), (1.0, 1.0, 1.0), math.pi, math.pi / 6),
    "cylinder": (lambda: surfaces.cylinder(0.5, 3.0, 128), (1.0, 3.0, 1.0), 3.5 * math.pi, 0.75 * math.pi),
    "cone": (lambda: surfaces.cone(0.3, 0.4, 128), (0.6, 0.4, 0.6), 0.24 * math.pi, 0.012 * math.pi),
    "capsule": (lambda: surfaces.capsule(0.5, 2.0, 128), (1.0, 3.0, 1.0), 3 * math.pi, 2 / 3 * math.pi),
    "torus": (lambda: surfaces.torus(1.0, 0.25, 64, 128), (2.5, 0.5, 2.5), math.pi**2, math.pi**2 / 8),
}


def properties(mesh: TriMesh, density: torch.Tensor | float = 1.0) -> MassProperties:
    return solid(mesh.vertices, mesh.faces, density)


def volume(mesh: TriMesh) -> float:
    return float(properties(mesh).mass)


def joined(*parts: TriMesh) -> TriMesh:
    starts = np.cumsum([0] + [len(part.vertices) for part in parts])
    faces = [part.faces + start for part, start in zip(parts, starts, strict=False)]
    return TriMesh(np.concatenate([part.vertices for part in parts]), np.concatenate(faces))


def moved(mesh: TriMesh, x: float) -> TriMesh:
    return TriMesh(mesh.vertices + np.array([x, 0.0, 0.0]), mesh.faces)


def flipped(mesh: TriMesh, which: object = slice(None)) -> TriMesh:
    faces = mesh.faces.copy()
    faces[which] = faces[which][:, ::-1]
    return TriMesh(mesh.vertices, faces)


def half_of_the_faces(mesh: TriMesh) -> np.ndarray:
    return np.random.default_rng(0).random(len(mesh.faces)) < 0.5


class TestShapes:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_is_closed_and_oriented_outward(self, shape):
        mesh = SHAPES[shape][0]()
        check_closed(shape, mesh)
        assert len(mesh.hinges) == len(mesh.edges)
        assert len(np.unique(mesh.vertices.round(9), axis=0)) == len(mesh.vertices)
        assert len(np.unique(mesh.faces)) == len(mesh.vertices)
        handles = 1 if shape == "torus" else 0
        assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == 2 - 2 * handles

    @pytest.mark.parametrize("shape", SHAPES)
    def test_extents_area_and_volume(self, shape):
        build, extents, area, exact = SHAPES[shape]
        mesh = build()
        np.testing.assert_allclose(mesh.vertices.max(axis=0), np.array(extents) / 2, atol=1e-12)
        np.testing.assert_allclose(mesh.vertices.min(axis=0), -np.array(extents) / 2, atol=1e-12)
        missing = 1e-12 if shape == "box" else 2.5e-3
        assert 0.0 <= 1 - mesh.areas.sum() / area + 1e-13 < missing
        assert 0.0 <= 1 - volume(mesh) / exact + 1e-13 < missing

    @pytest.mark.parametrize("shape", [name for name in SHAPES if name != "box"])
    def test_every_vertex_lies_on_the_surface(self, shape):
        x, y, z = SHAPES[shape][0]().vertices.T
        r = np.hypot(x, z)
        if shape == "cylinder":
            caps = (np.abs(y) == 1.5) & (r == 0)
            assert caps.sum() == 2
            np.testing.assert_allclose(r[~caps], 0.5, rtol=1e-12)
        elif shape == "cone":
            np.testing.assert_allclose(r[r > 0], 0.3, rtol=1e-12)
            assert sorted(y[r == 0]) == [-0.2, 0.2]
            assert (y[r > 0] == -0.2).all()
        else:
            distance = {
                "capsule": np.hypot(r, np.maximum(np.abs(y) - 1.0, 0.0)) - 0.5,
                "torus": np.hypot(r - 1.0, y) - 0.25,
            }.get(shape, np.hypot(r, y) - 0.5)
            np.testing.assert_allclose(distance, 0.0, atol=1e-12)
        if shape in ("sphere", "capsule"):
            assert y[r == 0].tolist() == [y.min(), y.max()]

    def test_counts(self):
        counts = {
            "box": surfaces.box(1.0),
            "sphere": surfaces.sphere(1.0, 5, 7),
            "icosphere": surfaces.icosphere(1.0, 2),
            "cylinder": surfaces.cylinder(1.0, 1.0, 7),
            "cone": surfaces.cone(1.0, 1.0, 7),
            "capsule": surfaces.capsule(1.0, 1.0, 8),
            "torus": surfaces.torus(1.0, 0.5, 5, 7),
        }
        assert {name: (len(mesh.vertices), len(mesh.faces)) for name, mesh in counts.items()} == {
            "box": (8, 12),
            "sphere": (4 * 7 + 2, 2 * 4 * 7),
            "icosphere": (162, 320),
            "cylinder": (2 * 7 + 2, 4 * 7),
            "cone": (7 + 2, 2 * 7),
            "capsule": (4 * 8 + 2, 2 * 4 * 8),
            "torus": (5 * 7, 2 * 5 * 7),
        }

    @pytest.mark.parametrize("n", [3, 4, 7, 32])
    def test_volume_of_a_revolved_polygon_is_exact(self, n):
        # A circle of radius 1 about the axis becomes a polygon of this area; the quads of the sides are planar.
        area = n / 2 * math.sin(2 * math.pi / n)
        assert volume(surfaces.cylinder(1.0, 0.7, n)) == pytest.approx(0.7 * area, rel=1e-13)
        assert volume(surfaces.cone(1.0, 0.7, n)) == pytest.approx(0.7 * area / 3, rel=1e-13)
        # A torus with a square tube: twice the first moment of the profile about the axis, instead of pi r^2.
        assert volume(surfaces.torus(1.0, 0.5, 4, n)) == pytest.approx(2 * 0.5 * area, rel=1e-13)
        # Two cones, base to base.
        assert volume(surfaces.sphere(1.0, 2, n)) == pytest.approx(2 * area / 3, rel=1e-13)

    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e6])
    def test_shapes_do_not_depend_on_the_unit(self, scale):
        for one, other in (
            (surfaces.sphere(1.0), surfaces.sphere(scale)),
            (surfaces.icosphere(1.0), surfaces.icosphere(scale)),
            (surfaces.capsule(1.0, 2.0), surfaces.capsule(scale, 2 * scale)),
            (surfaces.torus(2.0, 1.0), surfaces.torus(2 * scale, scale)),
        ):
            check_closed("mesh", other)
            np.testing.assert_allclose(other.vertices / scale, one.vertices, atol=1e-13)
            assert np.array_equal(other.faces, one.faces)


class TestShapeErrors:
    @pytest.mark.parametrize(
        ("call", "error", "message"),
        [
            (lambda: surfaces.box((1.0, 0.0, 1.0)), OutOfRange, "size = .*above 0 m"),
            (lambda: surfaces.box((1.0, 2.0)), WrongShape, "size = .*one number or 3"),
            (lambda: surfaces.sphere(-1.0), OutOfRange, "radius = -1.0: needs lengths above 0 m"),
            (lambda: surfaces.sphere(1.0, 1), OutOfRange, "rings = 1: needs at least 2"),
            (lambda: surfaces.sphere(1.0, 8, 2), OutOfRange, "segments = 2: needs at least 3"),
            (lambda: surfaces.sphere(1.0, 8.0), WrongType, "rings = 8.0: needs a whole number"),
            (lambda: surfaces.icosphere(math.nan), NotFinite, "radius = nan"),
            (lambda: surfaces.icosphere(1.0, -1), OutOfRange, "subdivisions = -1: needs at least 0"),
            (lambda: surfaces.icosphere(1.0, 9), OutOfRange, "subdivisions = 9: needs at most 8"),
            (lambda: surfaces.icosphere(1.0, True), WrongType, "subdivisions = True"),
            (lambda: surfaces.cylinder(1.0, math.inf), NotFinite, "height = inf"),
            (lambda: surfaces.cone(1.0, 0.0), OutOfRange, "height = 0.0"),
            (lambda: surfaces.capsule(1.0, 1.0, 2), OutOfRange, "segments = 2"),
            (lambda: surfaces.torus(1.0, 1.0), OutOfRange, "minor = 1.0: .*below major = 1 m"),
            (lambda: surfaces.torus(1.0, 0.5, 2), OutOfRange, "rings = 2"),
        ],
    )
    def test_bad_sizes_and_counts_are_rejected(self, call, error, message):
        with pytest.raises(error, match=message):
            call()


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


class TestSolid:
    @pytest.mark.parametrize("n", [3, 4, 7, 32])
    def test_prism_on_a_regular_polygon(self, n):
        r, h = 0.7, 1.9
        mass, center, inertia = properties(surfaces.cylinder(r, h, n), 3.0)
        assert float(mass) == pytest.approx(3.0 * n / 2 * r * r * math.sin(2 * math.pi / n) * h, rel=1e-13)
        along = float(mass) * r * r / 6 * (2 + math.cos(2 * math.pi / n))
        across = along / 2 + float(mass) * h * h / 12
        torch.testing.assert_close(center, torch.zeros(3, dtype=torch.float64), rtol=0.0, atol=1e-15)
        np.testing.assert_allclose(inertia.numpy(), np.diag([across, along, across]), rtol=1e-13, atol=1e-14)

    @pytest.mark.parametrize("shape", SHAPES)
    def test_inertia_is_symmetric_and_physical(self, shape):
        inertia = properties(SHAPES[shape][0]()).inertia
        assert torch.equal(inertia, inertia.mT)
        moments = torch.linalg.eigvalsh(inertia)
        assert float(moments[0]) > 0.0
        assert float(moments[0] + moments[1]) > float(moments[2])

    def test_against_quadrature_over_tetrahedra(self):
        # An asymmetric solid, integrated over tets with the quadrature rule that is exact for quadratic functions.
        ball = surfaces.icosphere(1.0, 1)
        x = ball.vertices * (1.0, 0.5, 0.7) + 0.2 * ball.vertices[:, ::-1] ** 2 + (4.0, -2.0, 1.0)
        inner = np.array([4.1, -1.95, 1.1])
        tets = np.concatenate([np.broadcast_to(inner, (len(ball.faces), 1, 3)), x[ball.faces]], axis=1)
        size = np.linalg.det(tets[:, 1:] - tets[:, :1]) / 6
        assert (size > 0).all()
        near, far = (5 + 3 * 5**0.5) / 20, (5 - 5**0.5) / 20
        places = (near - far) * tets + far * tets.sum(axis=1, keepdims=True)
        rule = point_masses(places.reshape(-1, 3), np.repeat(size / 4, 4))
        for got, expected in zip(solid(x, ball.faces), rule, strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-13)

    def test_far_from_the_origin(self):
        box = surfaces.box((1.0, 2.0, 4.0))
        far = solid(box.vertices + np.array([1e6, -1e6, 1e6]), box.faces)
        near = properties(box)
        torch.testing.assert_close(far.mass, near.mass, rtol=1e-9, atol=0.0)
        torch.testing.assert_close(far.inertia, near.inertia, rtol=1e-9, atol=1e-8)

    def test_gradients(self):
        cone = surfaces.cone(0.8, 1.0, 3)
        vertices = torch.tensor(cone.vertices + np.array([0.3, 0.1, -0.2]), requires_grad=True)
        density = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x, rho: solid(x, cone.faces, rho), (vertices, density))

    def test_batches_of_densities_and_vertices(self):
        box = surfaces.box((1.0, 2.0, 3.0))
        one = properties(box)
        density = torch.tensor([[1.0], [10.0]], dtype=torch.float64)
        scales = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        shapes = scales[:, None, None] * torch.tensor(box.vertices) + 1.0
        batch = solid(shapes, box.faces, density)
        assert (batch.mass.shape, batch.center.shape, batch.inertia.shape) == ((2, 3), (2, 3, 3), (2, 3, 3, 3))
        torch.testing.assert_close(batch.mass, density * scales**3 * one.mass)
        torch.testing.assert_close(batch.center, torch.ones(2, 3, 3, dtype=torch.float64))
        torch.testing.assert_close(batch.inertia, (density * scales**5)[..., None, None] * one.inertia)

    def test_the_density_determines_the_dtype(self):
        ball = surfaces.icosphere(0.5, 3)
        single = properties(ball, torch.tensor(2.0, dtype=torch.float32))
        double = properties(ball, 2.0)
        for got, expected in zip(single, double, strict=True):
            assert (got.dtype, expected.dtype) == (torch.float32, torch.float64)
            torch.testing.assert_close(got, expected.float(), rtol=1e-7, atol=0.0)


class TestPointMasses:
    def test_gradients_with_a_batch(self):
        generator = torch.Generator().manual_seed(0)
        points = torch.randn(5, 3, dtype=torch.float64, generator=generator, requires_grad=True)
        masses = 0.5 + torch.rand(2, 5, dtype=torch.float64, generator=generator)
        masses.requires_grad_()
        assert torch.autograd.gradcheck(point_masses, (points, masses))

    def test_worlds_of_a_batch_do_not_mix(self):
        points = surfaces.icosphere(1.0, 0).vertices + 1.5
        masses = torch.rand(3, 2, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        batch = point_masses(points, masses)
        assert batch.inertia.shape == (3, 2, 3, 3)
        alone = point_masses(points, masses[1, 1])
        for got, expected in zip(batch, alone, strict=True):
            torch.testing.assert_close(got[1, 1], expected, rtol=1e-13, atol=1e-13)

    def test_inertia_is_the_sum_over_points_about_the_centre_of_mass(self):
        rng = np.random.default_rng(2)
        points, masses = rng.normal(size=(7, 3)), rng.uniform(0.1, 2.0, 7)
        whole = point_masses(points, masses)
        about = np.zeros((3, 3))
        for x, m in zip(points - whole.center.numpy(), masses, strict=True):
            about += m * (x @ x * np.eye(3) - np.outer(x, x))
        np.testing.assert_allclose(whole.inertia.numpy(), about, rtol=1e-12, atol=1e-13)
        assert float(whole.mass) == pytest.approx(masses.sum(), rel=1e-14)

    def test_the_masses_determine_the_dtype(self):
        got = point_masses(surfaces.box(1.0).vertices, torch.ones(8))
        assert {part.dtype for part in got} == {torch.float32}

    def test_errors(self):
        points = surfaces.box(1.0).vertices
        with pytest.raises(WrongShape, match=r"masses = \[7\] for points of shape \[8, 3\]"):
            point_masses(points, np.ones(7))
        with pytest.raises(OutOfRange, match="masses = sum 0: needs a positive total mass"):
            point_masses(points, np.zeros(8))
