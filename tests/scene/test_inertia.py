"""Mass, centre of mass and inertia of solids and point masses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.scene.mesh_helpers import SHAPES, properties

from gradsim.scene import surfaces
from gradsim.scene.errors import OutOfRange, WrongShape
from gradsim.scene.inertia import point_masses, solid


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
