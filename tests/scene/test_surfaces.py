"""Builders of closed surfaces against exact areas and volumes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.scene.mesh_helpers import SHAPES, volume

from gradsim.scene import surfaces
from gradsim.scene.closed_surfaces import check_closed
from gradsim.scene.errors import NotFinite, OutOfRange, WrongShape, WrongType


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
