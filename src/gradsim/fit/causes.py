"""Likely causes of a misfit: how much of the residual each possible error of the scene explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.codec_noise import codec_correlation, codec_products
from gradsim.fit.least_squares import least_squares
from gradsim.fit.linearized import Linearization
from gradsim.fit.nuisances.nuisance import Nuisance
from gradsim.fit.series_scores import series_scores

OUTLYING_RATIO = 4.0  # of the errors of a codec along one direction to those along most
COLORED = ("light", "color")  # groups of nuisances that change colours and move nothing
MIN_SCORED_TRIALS = 5  # trials whose scatter limits the score of a nuisance


@dataclass(frozen=True)
class Cause:
    """A possible error of the scene, and how much of the residual it explains."""

    description: str  # "a camera yaw of 0.5 degrees"
    path: str  # of the nuisance
    group: str  # "camera", "start", "light", ...
    score: float  # decrease of chi^2
    share: float  # of the excess of chi^2 over the noise, 0 to 1
    amount: float  # in units of its standard deviation

    def __str__(self) -> str:
        return f"{self.description} would explain {100 * self.share:.0f} % of what is left"


def likely_causes(
    lin: Linearization, nuisances: Sequence[Nuisance], chi2: float, *, correlated: bool = False
) -> list[Cause]:
    """Returns the possible errors of the scene by the chi^2 that each explains, the largest first.

    Each score is the decrease of chi^2 to first order when the nuisance is estimated along with the unknowns, with its
    prior. Among several trials, which agree on a true cause, it is at most the squared mean slope of the trials over
    the variance of this mean. With `correlated`, for tracks and states whose residuals are correlated in time, it is at
    most what the cause explains better than such a correlation; see `gradsim.fit.series_scores`.
    """
    if not nuisances:
        return []
    size, count = lin.count, len(nuisances)
    normal, gradients = _normal_equations(lin, count)
    gradient = torch.stack(list(gradients.values())).sum(0)
    total = lin.total_chi2
    entries = sum(float(block.counts.sum()) for block in lin.blocks)
    projected = _project_off(normal, gradient, size)
    # Residuals above the noise, and errors of a codec along a direction, are no evidence for any single cause.
    colored = torch.tensor([nuisance.group in COLORED for nuisance in nuisances])
    scales = max(chi2, 1.0) * _codec_ratios(lin, normal, colored)
    highest = _trial_scores(normal, torch.stack(list(gradients.values())), size)
    series = series_scores(lin, count) if correlated else None
    excess = max(total - entries, 1e-12)
    causes = []
    for k, nuisance in enumerate(nuisances):
        own, slope, scale = float(projected[0][k]), float(projected[1][k]), float(scales[k])
        if not own > 0:
            continue
        amount = -slope / scale / (own / scale + 1.0)
        score = min((-2 * amount * slope - amount**2 * own) / scale, float(highest[k]))
        share = min(1.0, max(0.0, score * scale / excess))
        if series is not None:
            score, amount = min(score, float(series.scores[k])), float(series.amounts[k])
            share = min(1.0, max(0.0, (-2 * amount * slope - amount**2 * own) / total))
        causes.append(
            Cause(nuisance.describe(amount * nuisance.sd), nuisance.path, nuisance.group, score, share, amount)
        )
    return sorted(causes, key=lambda cause: -cause.score)


def _normal_equations(lin: Linearization, count: int) -> tuple[torch.Tensor, dict[int, torch.Tensor]]:
    """Returns products of coordinates and `count` nuisances with each other, [P + Q, P + Q], and with the residual, by
    trial [P + Q]."""
    size = lin.count
    normal = torch.zeros(size + count, size + count, dtype=torch.float64)
    gradients: dict[int, torch.Tensor] = {}
    for block in lin.blocks:
        index = torch.tensor([*block.coordinates, *range(size, size + block.nuisances)])
        columns = torch.tensor(
            [
                *range(1, 1 + len(block.coordinates)),
                *range(block.nuisance_columns.start, block.nuisance_columns.stop),
            ]
        )
        summed = block.gram.sum(0)
        normal[index[:, None], index] += summed[columns[:, None], columns]
        gradients.setdefault(block.key[0], torch.zeros_like(normal[0]))[index] += summed[columns, 0]
    return normal, gradients


def _codec_ratios(lin: Linearization, normal: torch.Tensor, colored: torch.Tensor) -> torch.Tensor:
    """Returns how much larger the simulated errors of compressed videos are along each nuisance than independent noise,
    as ratios of variances [Q]; 1 without compression.

    Few simulated errors give a single ratio only roughly. It is therefore the median of its kind, or that along the
    coordinates if it is larger, except where a ratio is far above. Nuisances of colours are a kind of their own: codecs
    change the brightness of areas far more than their outlines.

    Args:
        lin: Linearization.
        normal: Products of the coordinates and the nuisances with each other, [P + Q, P + Q].
        colored: Whether a nuisance changes nothing but colours, [Q].
    """
    size = lin.count
    products = codec_products(lin, len(normal) - size)
    if products is None:
        return torch.ones(len(normal) - size, dtype=normal.dtype)
    squares, inner = _project_off(normal, products, size)
    ratios = inner.square().mean(1) / squares.clamp_min(1e-12 * torch.diagonal(normal)[size:].clamp_min(1e-300))
    usual = torch.full_like(ratios, codec_correlation(lin))
    for kind in (colored, ~colored):
        if bool(kind.any()):
            usual[kind] = usual[kind].clamp_min(float(ratios[kind].median()))
    return torch.where(ratios > OUTLYING_RATIO * usual, ratios, usual)


def _trial_scores(normal: torch.Tensor, gradients: torch.Tensor, size: int) -> torch.Tensor:
    """Returns the largest scores that trials with gradients [K, P] support by their agreement; infinite for few."""
    if len(gradients) < MIN_SCORED_TRIALS:
        return torch.full((normal.shape[0] - size,), torch.inf, dtype=normal.dtype)
    own = torch.stack([_project_off(normal, gradient, size)[1] for gradient in gradients])
    return own.sum(0).square() / own.square().sum(0).clamp_min(1e-300)


def _project_off(normal: torch.Tensor, gradient: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns squared norms [Q] of the nuisances and their products with residuals [Q, ...], both projected off the
    unknowns.

    Args:
        normal: Products of coordinates and nuisances with each other, [P + Q, P + Q].
        gradient: Their products with a residual, or with several, [P + Q, ...].
        size: Number of coordinates P.
    """
    A, B, D = normal[:size, :size], normal[:size, size:], torch.diagonal(normal)[size:]
    columns = gradient.reshape(len(gradient), -1)
    solved = _solved(A, torch.cat([B, columns[:size]], 1))
    inner = columns[size:] - B.T @ solved[:, B.shape[1] :]
    return D - (B * solved[:, : B.shape[1]]).sum(0), inner.reshape(gradient[size:].shape)


def _solved(A: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Solution of A x = b for products A [P, P] of the coordinates, regularized if they are dependent."""
    regular = A + 1e-12 * torch.diagonal(A).mean().clamp_min(1e-300) * torch.eye(len(A), dtype=A.dtype)
    return least_squares(regular, b)
