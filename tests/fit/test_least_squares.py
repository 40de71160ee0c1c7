"""Decompositions that estimates rely on."""

from __future__ import annotations

import pytest
import torch

from gradsim.fit.least_squares import least_squares, singular_values


@pytest.mark.parametrize("shape", [(48, 33), (7, 7), (5, 9), (4, 0)])
@pytest.mark.parametrize("fails", [False, True])
def test_a_decomposition_survives_a_failure_of_lapack(shape, fails, monkeypatch):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    svd, expected = torch.linalg.svd, torch.linalg.svdvals(matrix)

    def failing(given, **options):
        if fails and given is matrix:  # as gesdd does for a few matrices, on some machines
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return svd(given, **options)

    monkeypatch.setattr(torch.linalg, "svd", failing)
    u, s, vh = singular_values(matrix)
    torch.testing.assert_close(s, expected)
    torch.testing.assert_close((u * s) @ vh, matrix)
    assert u.shape == (shape[0], min(shape))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_a_least_squares_solution_survives_a_failure_of_lapack(batch, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    lhs = torch.randn(*batch, 9, 4, generator=generator, dtype=torch.float64)
    lhs[..., 3] = lhs[..., 0] - 2.0 * lhs[..., 1]  # of lower rank
    rhs = torch.randn(*batch, 9, 2, generator=generator, dtype=torch.float64)
    expected = torch.linalg.pinv(lhs) @ rhs
    torch.testing.assert_close(least_squares(lhs, rhs), expected)

    def failing(*given, **options):
        raise torch.linalg.LinAlgError("could not be computed")

    monkeypatch.setattr(torch.linalg, "lstsq", failing)
    torch.testing.assert_close(least_squares(lhs, rhs), expected)
