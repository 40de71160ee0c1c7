"""Scores of possible errors of a scene against a direct least-squares fit with the same priors."""

from dataclasses import replace

import pytest
import torch

from gradsim.fit.causes import likely_causes
from gradsim.fit.linearized import Block, Linearization
from gradsim.fit.nuisances.nuisance import Nuisance

FRAMES, ENTRIES, UNKNOWNS, NUISANCES = 5, 40, 2, 3
SIGMA = 0.1


def columns(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Derivatives with respect to unknowns and nuisances, [P, T, N] and [Q, T, N]."""
    generator = torch.Generator().manual_seed(seed)
    J, K = (torch.randn(n, FRAMES, ENTRIES, generator=generator).double() for n in (UNKNOWNS, NUISANCES))
    return J, K


def linearization(residual: torch.Tensor, J: torch.Tensor, K: torch.Tensor) -> Linearization:
    matrix = torch.cat([residual[None], J, K]).permute(1, 0, 2) / SIGMA
    counts = torch.full((FRAMES,), float(ENTRIES), dtype=torch.float64)
    sigma = torch.tensor(SIGMA, dtype=torch.float64)
    block = Block((0, 0), list(range(UNKNOWNS)), NUISANCES, 0, matrix @ matrix.mT, counts, residual, None, sigma)
    return Linearization(torch.zeros(UNKNOWNS, dtype=torch.float64), [block])


def nuisances(*names: str) -> list[Nuisance]:
    return [
        Nuisance(name, "camera", "degree", 0.5, lambda amount: f"{amount:.2f} degrees", time="fps") for name in names
    ]


def test_scores_are_the_decrease_of_a_fit_with_the_nuisance():
    J, K = columns(0)
    residual = SIGMA * torch.randn(FRAMES, ENTRIES, generator=torch.Generator().manual_seed(1)).double() + 0.05 * K[1]
    lin = linearization(residual, J, K)
    found = {cause.path: cause for cause in likely_causes(lin, nuisances("a", "b", "c"), 1.0)}

    def cost(directions: torch.Tensor, priors: int) -> float:
        """Least squares of the residual over unknowns and the last `priors` directions, which have unit priors."""
        A = torch.cat(
            [
                directions.flatten(1).T / SIGMA,
                torch.eye(len(directions), dtype=torch.float64)[-priors:]
                if priors
                else torch.zeros(0, len(directions), dtype=torch.float64),
            ]
        )
        b = torch.cat([-residual.flatten() / SIGMA, torch.zeros(priors, dtype=torch.float64)])
        x = torch.linalg.lstsq(A, b[:, None]).solution[:, 0]
        return float((A[: residual.numel()] @ x - b[: residual.numel()]).square().sum())

    for k, name in enumerate("abc"):
        expected = cost(J, 0) - cost(torch.cat([J, K[k : k + 1]]), 1)
        assert found[name].score == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert max(found.values(), key=lambda cause: cause.score).path == "b"


def test_a_direction_of_the_unknowns_explains_nothing():
    J, K = columns(2)
    K[0] = J[0] + 2.0 * J[1]
    residual = SIGMA * torch.randn(FRAMES, ENTRIES, generator=torch.Generator().manual_seed(3)).double() + J[0]
    found = {
        cause.path: cause.score for cause in likely_causes(linearization(residual, J, K), nuisances("a", "b", "c"), 1.0)
    }
    assert found.get("a", 0.0) < 1e-3


def with_codec_errors(lin: Linearization, errors: torch.Tensor, J: torch.Tensor, K: torch.Tensor) -> Linearization:
    """Adds simulated errors of a codec [D, T, N]."""
    residual = lin.blocks[0].difference
    products = torch.cat([residual[None], J, K]).flatten(1) @ errors.flatten(1).T / SIGMA**2
    block = replace(lin.blocks[0], codec_errors=errors, codec_products=products)
    return replace(lin, blocks=[block])


def test_errors_of_a_codec_in_colours_hide_no_other_cause():
    J, K = columns(4)
    generator = torch.Generator().manual_seed(5)
    noise = SIGMA * torch.randn(4, FRAMES, ENTRIES, generator=generator).double()
    brighter = 0.05 * (K[0] + K[2])  # error of the codec along most directions, which are of colours
    lin = linearization(noise[0] - brighter + 0.06 * K[1], J, K)
    lin = with_codec_errors(lin, noise[1:] + brighter, J, K)
    listed = [
        replace(n, group=group) for n, group in zip(nuisances("a", "b", "c"), ("color", "camera", "light"), strict=True)
    ]
    scores = {cause.path: cause.score for cause in likely_causes(lin, listed, 1.0)}
    assert scores["a"] < 9.0
    assert scores["c"] < 9.0
    assert scores["b"] > 25.0
