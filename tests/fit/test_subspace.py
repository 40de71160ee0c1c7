"""The determined combinations of many unknowns, and intervals from them, against the whole Jacobian."""

import pytest
import torch
from tests.fit.cloth import cloth_problem

from gradsim.fit import jacobians, subspace
from gradsim.fit.linearization import linearize
from gradsim.fit.subspace import informed_basis, prior_information
from gradsim.fit.uncertainty import Uncertainty, estimate_uncertainty


def test_all_large_singular_vectors_are_found_even_if_their_values_are_equal():
    generator = torch.Generator().manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(400, 200, generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(600, 200, generator=generator, dtype=torch.float64))
    values = torch.cat([torch.full((3,), 300.0), torch.linspace(50.0, 2.0, 25), torch.full((4,), 1.0)])
    values = torch.cat([values, torch.full((168,), 1e-3)]).to(torch.float64)
    A = (left * values) @ right.T
    V = subspace._dominant_directions(lambda v: A @ v, lambda u: A.T @ u, left.sum(1), 600)
    assert len(V) < 120
    assert torch.allclose(V @ V.T, torch.eye(len(V), dtype=V.dtype), atol=1e-10)
    kept = torch.linalg.vector_norm(V @ right[:, :32], dim=0)
    assert float(kept.min()) > 0.999


def test_no_more_directions_than_allowed():
    A = torch.randn(50, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    V = subspace._dominant_directions(lambda v: A @ v, lambda u: A.T @ u, A[:, 0], 7)
    assert V.shape == (7, 80)


def analysed(kind: str, noise: float) -> tuple[int, Uncertainty]:
    """Number of columns of the linearization, and the uncertainty, at a point beside the minimum."""
    problem = cloth_problem(kind, noise)
    z = problem.parameters.initial() + 0.02
    lin = linearize(problem, z)
    return lin.count, estimate_uncertainty(problem, lin)


@pytest.mark.parametrize(("kind", "noise", "most"), [("video", 0.01, 27), ("states", 1e-3, 27), ("states", 0.1, 20)])
def test_intervals_equal_those_of_the_whole_jacobian(monkeypatch, kind, noise, most):
    """Noise of 0.1 m leaves most velocities undetermined: they keep their priors."""
    columns, whole = analysed(kind, noise)
    assert columns == 27
    monkeypatch.setattr(subspace, "MAX_COLUMNS", 10)
    monkeypatch.setattr(jacobians, "MAX_DENSE", 10)
    directions, found = analysed(kind, noise)
    assert directions <= most
    assert torch.allclose(found.standard_deviation, whole.standard_deviation, rtol=0.05)
    assert torch.allclose(found.correlation, whole.correlation, atol=0.1)
    assert found.holdout == pytest.approx(whole.holdout, rel=0.05, abs=0.05)
    levels = [[item.level for item in part.identifiability] for part in (found, whole)]
    assert sum(a != b for a, b in zip(*levels, strict=True)) <= 1
    if noise == 0.1:
        assert levels[0].count("from the prior") > 5


def test_the_basis_is_orthonormal_with_respect_to_the_priors(monkeypatch):
    monkeypatch.setattr(subspace, "MAX_COLUMNS", 10)
    monkeypatch.setattr(jacobians, "MAX_DENSE", 10)
    problem = cloth_problem("states", 0.1)
    basis = informed_basis(problem, problem.parameters.initial())
    gram = basis.T @ prior_information(problem.parameters) @ basis
    assert torch.allclose(gram, torch.eye(len(gram), dtype=gram.dtype), atol=1e-9)


def test_few_unknowns_need_no_basis():
    problem = cloth_problem("states")
    assert informed_basis(problem, problem.parameters.initial()) is None
