"""Scores for residuals that are correlated in time, against dense Gaussian likelihoods."""

import math

import numpy as np
import pytest
import torch

from gradsim.fit.discrepancy import LENGTHS, VARIANCES
from gradsim.fit.linearized import Block, Linearization
from gradsim.fit.series_scores import NOISE_FRACTIONS, RATIO_SCORE, series_scores

F64 = torch.float64
COUNT, WIDTH, UNKNOWNS, NUISANCES = 14, 2, 2, 2


def columns(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives with respect to unknowns, a line in time, and to nuisances, smooth in time; [P, T, N] each."""
    t = np.linspace(-1.0, 1.0, COUNT)[:, None]
    phase = np.random.default_rng(seed).uniform(0.0, 6.0, (NUISANCES, 1, WIDTH))
    J = np.stack([np.ones((COUNT, WIDTH)), t * np.ones((1, WIDTH))])
    return J, 4.0 * np.sin(4.0 * t + phase)


def linearization(residual: np.ndarray, *, missing=(), free: bool = False) -> Linearization:
    """Series with noise 1 at the least-squares estimate of the unknowns; `missing` are (frame, entry)."""
    J, K = columns()
    weights = np.ones((COUNT, WIDTH))
    for place in missing:
        weights[place] = 0.0
    root = np.sqrt(weights)
    A = (J * root).reshape(UNKNOWNS, -1).T
    left = residual - np.tensordot(np.linalg.lstsq(A, (residual * root).ravel(), rcond=None)[0], J, 1)
    stack = torch.as_tensor(np.concatenate([left[None], J, K]) * root)
    block = Block(
        key=(0, 0),
        coordinates=list(range(UNKNOWNS)),
        nuisances=NUISANCES,
        shifts=0,
        gram=torch.einsum("qtn,rtn->tqr", stack, stack),
        counts=torch.as_tensor(weights.sum(1)),
        difference=torch.as_tensor(left),
        weights=torch.as_tensor(weights) if missing else None,
        sigma=torch.ones((), dtype=F64),
        entries=stack[1 : 1 + UNKNOWNS],
        nuisance_entries=stack[1 + UNKNOWNS :],
        free_noise=free,
    )
    return Linearization(torch.zeros(UNKNOWNS, dtype=F64), [block])


def drift(seed: int, size: float = 3.0, length: float = 4.0) -> np.ndarray:
    distance = math.sqrt(3.0) * np.abs(np.arange(COUNT)[:, None] - np.arange(COUNT)) / length
    kernel = (1 + distance) * np.exp(-distance)
    return (
        size
        * np.linalg.cholesky(kernel + 1e-9 * np.eye(COUNT))
        @ np.random.default_rng(seed).standard_normal((COUNT, WIDTH))
    )


def dense_scores(lin: Linearization, fractions) -> np.ndarray:
    """The same scores from full covariance matrices of all measured entries."""
    (block,) = lin.blocks
    present = np.ones((COUNT, WIDTH), bool) if block.weights is None else block.weights.numpy() > 0
    frames, entries = np.nonzero(present)
    r = block.difference.numpy()[present]
    A, K = (x.numpy()[:, present] for x in (block.entries, block.nuisance_entries))
    same = entries[:, None] == entries
    base, raised = -np.inf, np.full(NUISANCES, -np.inf)
    for length in (x for x in LENGTHS if x <= COUNT / 2):
        distance = math.sqrt(3.0) * np.abs(frames[:, None] - frames) / length
        kernel = same * (1 + distance) * np.exp(-distance)
        for variance in (0.0, *VARIANCES):
            for fraction in fractions:
                C = fraction * np.eye(len(r)) + variance * kernel
                inverse = np.linalg.inv(C)
                projector = inverse - inverse @ A.T @ np.linalg.solve(A @ inverse @ A.T, A @ inverse)
                logdet = np.linalg.slogdet(C)[1] + np.linalg.slogdet(A @ inverse @ A.T)[1]
                likelihood = -0.5 * (logdet + r @ projector @ r)
                base = max(base, likelihood)
                gain = (K @ projector @ r) ** 2 / (1 + np.einsum("qi,ij,qj->q", K, projector, K))
                raised = np.maximum(raised, likelihood + 0.5 * gain)
    return RATIO_SCORE * 2 * (raised - base)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("missing", [(), ((3, 0), (4, 0), (9, 1))])
def test_scores_are_likelihood_ratios(free, missing):
    residual = drift(0) + 0.3 * np.random.default_rng(1).standard_normal((COUNT, WIDTH))
    lin = linearization(residual, missing=missing, free=free)
    found = series_scores(lin, NUISANCES)
    assert found is not None
    expected = dense_scores(lin, NOISE_FRACTIONS if free else (1.0,))
    np.testing.assert_allclose(found.scores, expected.clip(0.0), rtol=1e-5, atol=1e-4)


def test_white_residuals_are_left_to_scores_of_independent_noise():
    residual = np.random.default_rng(2).standard_normal((COUNT, WIDTH))
    assert series_scores(linearization(residual), NUISANCES) is None


def test_a_true_cause_stands_out():
    """A residual that is one of the nuisances and white noise: that one is far more likely than any correlation."""
    _, K = columns()
    found = series_scores(
        linearization(2.0 * K[1] + 0.3 * np.random.default_rng(3).standard_normal(K[1].shape)), NUISANCES
    )
    assert found is not None
    assert int(found.scores.argmax()) == 1
    assert float(found.scores[1]) > 25.0
    assert float(found.amounts[1]) == pytest.approx(-2.0, abs=0.3)
