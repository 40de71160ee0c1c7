"""The finite elements that record the bars of `gradsim reproduce modulus`, and the scenes that are fitted to them."""

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.experiments import modulus
from gradsim.experiments.hexahedra import Bar, stress_and_tangent
from gradsim.scene.meshes import TriMesh

BAR = Bar((1.0, 0.2, 0.2), (20, 4, 4))


def coefficients(young, poisson):
    material = gs.NeoHookean.from_young(young, poisson)
    return float(material.mu), float(material.lam)


def test_the_tangent_is_the_derivative_of_the_stress():
    rng = np.random.default_rng(0)
    F, direction, step = np.eye(3) + 0.2 * rng.normal(size=(4, 3, 3)), rng.normal(size=(4, 3, 3)), 1e-6
    ends = [stress_and_tangent(F + sign * step * direction, 2.0, 5.0)[0] for sign in (1.0, -1.0)]
    found = np.einsum("eijkl,ekl->eij", stress_and_tangent(F, 2.0, 5.0)[1], direction)
    assert np.abs((ends[0] - ends[1]) / (2 * step) - found).max() < 1e-7


@pytest.mark.parametrize(("poisson", "error"), [(0.3, 0.05), (0.499, 0.08)])  # the clamped end is stiffer
def test_a_bar_stretches_and_bends_as_it_should(poisson, error):
    young, area, load = 1e6, 0.04, 4.0
    moved = BAR.equilibrium(np.outer(BAR.end_share, (load, 0.0, 0.0)), *coefficients(young, poisson))
    at_end = np.isclose(BAR.vertices[:, 0], 0.5)
    stretched = moved[at_end, 0].mean()
    assert stretched == pytest.approx(load / (young * area), rel=error)
    bent = BAR.equilibrium(np.outer(BAR.end_share, (0.0, load, 0.0)), *coefficients(young, poisson))[at_end, 1].mean()
    shear = young / (2 * (1 + poisson))
    assert bent == pytest.approx(load / (3 * young * 0.2**4 / 12) + load * 6 / (5 * shear * area), rel=error)


def test_a_beam_swings_to_twice_its_deflection():
    mu, lam = coefficients(1e6, 0.3)
    weight = np.array([0.0, -0.1, 0.0])
    still = BAR.equilibrium(1000.0 * BAR.node_volume[:, None] * weight, mu, lam)
    omega = 1.875104**2 * np.sqrt(1e6 * 0.2**2 / 12 / 1000.0)
    times = np.array([0.0, np.pi / omega])
    moved = BAR.vibration(weight, 1000.0, mu, lam, times)
    at_end = np.isclose(BAR.vertices[:, 0], 0.5)
    assert np.abs(moved[0]).max() < 1e-12
    assert moved[1, at_end, 1].mean() == pytest.approx(2 * still[at_end, 1].mean(), rel=0.05)


def test_the_surface_is_closed_and_its_normals_point_outwards():
    vertices, triangles = BAR.surface(np.zeros_like(BAR.vertices))
    assert TriMesh(vertices, triangles).faces.shape == (2 * 2 * (20 * 4 + 20 * 4 + 4 * 4), 3)
    a, b, c = (vertices[triangles[:, k]] for k in range(3))
    assert np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6 == pytest.approx(1.0 * 0.2 * 0.2)


@pytest.mark.parametrize("pattern", modulus.BAR_MESHES)
def test_meshes_of_the_hanging_bar_have_its_volume_and_load(pattern):
    mesh = modulus.BAR_MESHES[pattern]((0.02, 0.1, 0.02), (3, 8, 3))
    assert mesh.volumes.min() > 0
    assert mesh.volumes.sum() == pytest.approx(0.02 * 0.1 * 0.02)
    forces = modulus.end_forces(mesh, 5.0)
    assert forces.sum(0) == pytest.approx([0.0, -5.0, 0.0])


def test_the_recorded_beam_is_in_the_picture():
    surface, triangles = BAR.surface(np.zeros((1, *BAR.vertices.shape)))
    image = modulus.video(surface, triangles, modulus.BEAM_CAMERA, (16, 64))[0]
    covered = (image - torch.tensor(modulus.BACKGROUND, dtype=image.dtype)).abs().sum(-1) > 0.1
    assert 0.3 < float(covered.float().mean()) < 0.7
    assert not covered[[0, -1]].any()
    assert not covered[:, [0, -1]].any()
