"""Damped least squares from products with a matrix, against torch.linalg."""

import pytest
import torch

from gradsim.fit.bidiagonalization import Bidiagonalization


def matrix(rows: int, columns: int, condition: float = 1e3) -> torch.Tensor:
    """A random matrix whose singular values decrease from 1 to 1 / condition."""
    generator = torch.Generator().manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(rows, columns, generator=generator, dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(columns, columns, generator=generator, dtype=torch.float64))
    values = torch.logspace(0, -torch.log10(torch.tensor(condition)).item(), columns, dtype=torch.float64)
    return (left * values) @ right.T


def right_side(rows: int) -> torch.Tensor:
    return torch.randn(rows, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def space(A: torch.Tensor, b: torch.Tensor, **options) -> Bidiagonalization:
    options = {"damping": 0.0, "tolerance": 1e-12, "iterations": 200, **options}
    return Bidiagonalization(lambda v: A @ v, lambda u: A.T @ u, b, A.T @ b, **options)


def damped_solution(A: torch.Tensor, b: torch.Tensor, damping: float) -> torch.Tensor:
    normal = A.T @ A + damping * torch.eye(A.shape[1], dtype=A.dtype)
    return torch.linalg.solve(normal, A.T @ b)


@pytest.mark.parametrize("damping", [0.0, 1e-6, 1e-3, 1.0])
def test_one_sequence_of_products_gives_the_solutions_for_all_dampings(damping):
    A, b = matrix(60, 25), right_side(60)
    found = space(A, b)
    assert found.converged
    assert found.products <= 30
    assert torch.allclose(found.solution(damping), damped_solution(A, b, damping), rtol=1e-6, atol=1e-8)


def test_fewer_rows_than_columns():
    A, b = matrix(25, 25)[:10], right_side(10)
    found = space(A, b, damping=1e-4)
    assert found.converged
    assert found.products <= 11  # the space is complete
    assert torch.allclose(found.solution(1e-4), damped_solution(A, b, 1e-4), rtol=1e-7, atol=1e-9)


def test_few_products_reach_the_tolerance_at_a_large_damping():
    A, b = matrix(300, 200, condition=1e6), right_side(300)
    found = space(A, b, damping=0.1, tolerance=1e-2)
    x = found.solution(0.1)
    gradient = A.T @ (A @ x - b) + 0.1 * x
    assert found.converged
    assert found.products < 40
    assert float(gradient.norm()) <= 1.01e-2 * float((A.T @ b).norm())


def test_out_of_iterations_is_not_converged():
    A, b = matrix(300, 200, condition=1e6), right_side(300)
    found = space(A, b, tolerance=1e-9, iterations=5)
    assert not found.converged
    assert found.products == 5
    assert found.basis.shape == (5, 200)


def test_the_basis_stays_orthonormal_with_inexact_products():
    """Products by finite differences have relative errors near 1e-8."""
    A, b = matrix(120, 80, condition=1e5), right_side(120)
    noise = torch.Generator().manual_seed(2)

    def forward(v: torch.Tensor) -> torch.Tensor:
        exact = A @ v
        return exact + 1e-8 * exact.norm() * torch.randn(exact.shape, generator=noise, dtype=exact.dtype)

    found = Bidiagonalization(forward, lambda u: A.T @ u, b, A.T @ b, damping=1e-4, tolerance=1e-9, iterations=80)
    V = found.basis
    assert torch.allclose(V @ V.T, torch.eye(len(V), dtype=V.dtype), atol=1e-12)
    assert torch.allclose(found.solution(1e-4), damped_solution(A, b, 1e-4), rtol=1e-4, atol=1e-4)


def test_predicted_decrease():
    A, b = matrix(60, 25), right_side(60)
    x = damped_solution(A, b, 0.0)
    expected = 1 - float((A @ x - b).square().sum() / b.square().sum())
    assert space(A, b).decrease == pytest.approx(expected, rel=1e-8)


def test_a_product_that_is_not_finite_ends_the_process():
    A, b = matrix(60, 25), right_side(60)
    calls = []

    def forward(v: torch.Tensor) -> torch.Tensor:
        calls.append(v)
        return A @ v if len(calls) < 4 else torch.full((60,), torch.nan, dtype=torch.float64)

    found = Bidiagonalization(forward, lambda u: A.T @ u, b, A.T @ b, damping=0.0, tolerance=1e-12, iterations=50)
    assert not found.converged
    assert len(found.basis) == 3
    assert torch.isfinite(found.solution(1e-3)).all()


def test_a_right_side_outside_the_range_has_the_solution_zero():
    A = matrix(60, 25)
    b = right_side(60)
    b = b - A @ torch.linalg.lstsq(A, b[:, None]).solution[:, 0]
    found = Bidiagonalization(
        lambda v: A @ v, lambda u: A.T @ u, b, torch.zeros(25, dtype=b.dtype), damping=0.0, tolerance=1e-9, iterations=9
    )
    assert found.converged
    assert found.products == 0
    assert float(found.solution(0.0).abs().max()) == 0.0
    assert found.decrease == 0.0
