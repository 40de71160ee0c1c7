"""Scores of possible errors of a scene against tracks and states whose residuals are correlated in time.

A tracker that drifts by half a pixel over ten frames leaves a smooth residual. Judged as independent noise, it has the
pattern of many small errors of the scene. The score of such an error is therefore a likelihood ratio: twice the
increase of the largest restricted log likelihood when the error, with its prior, is added to a model of the residuals
that has independent noise and a Gaussian process in time (Matern 3/2). Where independent noise alone is as likely,
nothing changes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from gradsim.fit.discrepancy import LENGTHS, VARIANCES, matern_kernel
from gradsim.fit.linearized import MIN_EVIDENCE, Block, Linearization

NOISE_FRACTIONS = (1.0, 0.3, 0.1, 0.03, 0.01)  # independent part of the variance of residuals that define the noise
MIN_FRAMES = 8
MAX_FRAMES = 400  # more frames are thinned
RATIO_SCORE = 2.5  # score of a unit of the ratio: one of 10 is at the limit of a score of chi^2, 25
CONDITION = 1e-9  # regularization of the information of the unknowns, relative to its diagonal


@dataclass(frozen=True, eq=False)
class SeriesScores:
    """Scores of the nuisances for residuals that are correlated in time."""

    scores: torch.Tensor  # [Q]
    amounts: torch.Tensor  # most likely amounts, in standard deviations of their priors, [Q]


@dataclass(frozen=True, eq=False)
class _Products:
    """Inner products of the columns of a block along the principal components of a process in time."""

    index: torch.Tensor  # of the columns among residual, coordinates and nuisances, [q]
    variances: torch.Tensor  # of the components, for a process of variance 1, [M]
    gram: torch.Tensor  # [M, q, q]
    entries: int  # entries of a frame with these components
    free: bool  # whether the noise was taken from the residuals


def series_scores(lin: Linearization, count: int) -> SeriesScores | None:
    """Returns the scores of `count` nuisances; None if no series has residuals that are correlated in time."""
    series = [block for block in lin.blocks if _is_series(block)]
    if not series:
        return None
    others = _fixed_products(lin, [block for block in lin.blocks if not _is_series(block)], count)
    longest = max(len(block.gram) for block in series)
    best_white, best, score = -math.inf, -math.inf, torch.full((count,), -math.inf, dtype=torch.float64)
    amounts = torch.zeros(count, dtype=torch.float64)
    scale: torch.Tensor | None = None
    for length in LENGTHS:
        if length > longest / 2:
            break
        parts = [part for block in series for part in _products(block, lin.count, length)]
        fractions = NOISE_FRACTIONS if any(part.free for part in parts) else (1.0,)
        for variance, fraction in itertools.product((0.0, *VARIANCES), fractions):
            matrix, logdet = _combined(others, parts, variance, fraction)
            scale = torch.diagonal(matrix)[1 : 1 + lin.count].clone() if scale is None else scale
            likelihood, own, slope = _likelihood(matrix, logdet, lin.count, scale)
            if variance == 0.0:
                best_white = max(best_white, likelihood)
            best = max(best, likelihood)
            raised = likelihood + 0.5 * slope.square() / (1.0 + own)
            amounts = torch.where(raised > score, -slope / (1.0 + own), amounts)
            score = torch.maximum(score, raised)
    if not best > best_white + MIN_EVIDENCE:
        return None
    return SeriesScores(RATIO_SCORE * (2.0 * (score - best)).clamp_min(0.0), amounts)


def _is_series(block: Block) -> bool:
    return block.entries is not None and not block.image and len(block.gram) >= MIN_FRAMES


def _fixed_products(lin: Linearization, blocks: list[Block], count: int) -> torch.Tensor:
    """Products of residual, coordinates and nuisances of blocks with independent noise, [1 + P + Q, 1 + P + Q]."""
    total = torch.zeros(1 + lin.count + count, 1 + lin.count + count, dtype=torch.float64)
    for block in blocks:
        index = _column_index(block, lin.count)
        last = block.nuisance_columns
        columns = torch.tensor([*range(1 + len(block.coordinates)), *range(last.start, last.stop)])
        total[index[:, None], index] += block.gram.sum(0)[columns[:, None], columns]
    return total


def _column_index(block: Block, size: int) -> torch.Tensor:
    return torch.tensor([0, *(1 + k for k in block.coordinates), *range(1 + size, 1 + size + block.nuisances)])


def _products(block: Block, size: int, length: float) -> Iterator[_Products]:
    """Yields the products of a block, for each set of entries that are measured at the same frames."""
    assert block.entries is not None
    scale = 1.0 / block.sigma if block.weights is None else block.weights.sqrt() / block.sigma
    parts = [(block.difference * scale)[None], block.entries]
    columns = torch.cat(parts if block.nuisance_entries is None else [*parts, block.nuisance_entries])  # [q, T, N]
    stride = -(-columns.shape[1] // MAX_FRAMES)
    columns = columns[:, ::stride]
    shape = block.difference.shape
    present = torch.ones(shape, dtype=torch.bool) if block.weights is None else block.weights.expand(shape) > 0
    patterns, members = torch.unique(present[::stride].T, dim=0, return_inverse=True)
    kernel = matern_kernel(columns.shape[1], length / stride)
    for number, frames in enumerate(patterns):
        if int(frames.sum()) < 2:
            continue
        variances, vectors = torch.linalg.eigh(kernel[frames][:, frames])
        own = columns[:, frames][:, :, members == number]
        rotated = torch.einsum("tm,qtn->mqn", vectors, own)
        gram = rotated @ rotated.mT
        yield _Products(
            _column_index(block, size), variances.clamp_min(0.0), gram, int((members == number).sum()), block.free_noise
        )


def _combined(
    others: torch.Tensor, parts: list[_Products], variance: float, fraction: float
) -> tuple[torch.Tensor, float]:
    """Returns the products of all columns weighted by the inverse covariance, and the logarithm of its determinant."""
    total, logdet = others.clone(), 0.0
    for part in parts:
        spectrum = (fraction if part.free else 1.0) + variance * part.variances
        total[part.index[:, None], part.index] += torch.einsum("m,mqr->qr", 1.0 / spectrum, part.gram)
        logdet += part.entries * float(spectrum.log().sum())
    return total, logdet


def _likelihood(
    matrix: torch.Tensor, logdet: float, size: int, scale: torch.Tensor
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Returns the restricted log likelihood without nuisances, up to a constant, and for each nuisance its squared norm
    and its product with the residual, both projected off the coordinates, [Q] each.

    Args:
        matrix: Products of residual, coordinates and nuisances, [1 + P + Q, 1 + P + Q].
        logdet: Logarithm of the determinant of the covariance of the residuals.
        size: Number of coordinates P.
        scale: Squared norms of the coordinates for independent noise, [P].
    """
    regular = CONDITION * scale.clamp_min(1e-12 * float(scale.mean().clamp_min(1e-300)))
    factor = torch.linalg.cholesky(matrix[1 : 1 + size, 1 : 1 + size] + torch.diag(regular))
    cross = torch.cat([matrix[1 : 1 + size, :1], matrix[1 : 1 + size, 1 + size :]], 1)
    solved = torch.linalg.solve_triangular(factor, cross, upper=False)
    square = matrix[0, 0] - solved[:, 0].square().sum()
    own = torch.diagonal(matrix)[1 + size :] - solved[:, 1:].square().sum(0)
    slope = matrix[0, 1 + size :] - solved[:, 0] @ solved[:, 1:]
    logdet += 2.0 * float(torch.diagonal(factor).log().sum())
    return -0.5 * (logdet + float(square)), own.clamp_min(0.0), slope
