"""Errors of the model that are smooth in time, as Gaussian processes.

Residuals of a slightly wrong model are correlated from frame to frame, and treating them as independent noise gives
intervals that are far too narrow. The discrepancy is modelled in a few numbers of each frame: the apparent shift of
each body in the image, or the measured coordinates themselves for tracks and states. Its variance and its length in
time follow from restricted maximum likelihood (REML), which accounts for what the fit has absorbed.

Tracks may have errors of known size that last for several frames. A short motion with many unknowns absorbs most of
them, and the residuals do not show them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from gradsim.fit.least_squares import singular_values
from gradsim.fit.linearized import MIN_EVIDENCE, Block, Linearization

LENGTHS = (1.0, 2.0, 4.0, 8.0, 16.0)  # correlation lengths that are compared [frames]
VARIANCES = tuple(10.0**k for k in range(-3, 8))  # relative to the median noise variance of a series
DRIFT_LENGTH = 2.0  # correlation length of lasting errors of tracks [frames]
MAX_SERIES = 24  # series of a block that enter the likelihood
MAX_POINTS = 400  # frames times series of a block; more frames are thinned


@dataclass(frozen=True, eq=False)
class Series:
    """Residual series of one block in reduced coordinates."""

    values: torch.Tensor  # [T, M]
    noise: torch.Tensor  # covariance of each frame, [T, M, M]
    design: torch.Tensor  # derivatives with respect to the coordinates of the block, [T, M, P']
    transfer: torch.Tensor  # effect of a discrepancy on the gradient, [T, P', M]
    block: Block


@dataclass(frozen=True)
class Discrepancy:
    """Gaussian process of the model error."""

    variance: float  # of the reduced coordinates, relative to the median noise variance
    length: float  # [frames]


def discrepancy_covariance(lin: Linearization, inverse: torch.Tensor) -> tuple[torch.Tensor, Discrepancy | None]:
    """Returns the covariance [P, P] of the coordinates that a discrepancy in time adds, and the discrepancy.

    Args:
        lin: Residuals and derivatives at the estimate.
        inverse: Covariance of the coordinates for the noise alone, [P, P].
    """
    added = torch.zeros_like(inverse)
    groups = [series for block in lin.blocks if (series := _series(block)) is not None]
    if not groups:
        return added, None
    found = _maximize(groups)
    if found is None:
        return added, None
    for series in groups:
        size = (found.variance * _unit_variance(series)).sqrt().expand_as(series.values)
        added += _propagated(series, size, found.length, inverse)
    return added, found


def drift_covariance(lin: Linearization, inverse: torch.Tensor) -> torch.Tensor | None:
    """Returns the covariance [P, P] of the coordinates from the lasting errors of tracks; None if they have none."""
    added = None
    for block in lin.blocks:
        series = _entry_series(block) if block.drift > 0 else None
        if series is not None:
            scale = 1.0 / block.sigma if block.weights is None else block.weights.sqrt() / block.sigma
            size = (block.drift * scale).expand_as(series.values)
            part = _propagated(series, size, DRIFT_LENGTH, inverse)
            added = part if added is None else added + part
    return added


def _propagated(series: Series, size: torch.Tensor, length: float, inverse: torch.Tensor) -> torch.Tensor:
    """Returns the covariance [P, P] of the coordinates from errors of standard deviations `size` [T, M] that are
    independent between components and last for `length` frames."""
    transfer = series.transfer * size[:, None, :]
    weighted = torch.einsum("ts,sqm->tqm", matern_kernel(len(size), length), transfer)
    full = inverse[:, torch.tensor(series.block.coordinates)]
    return full @ torch.einsum("tpm,tqm->pq", transfer, weighted) @ full.T


def _series(block: Block) -> Series | None:
    """Reduces a block to a few series; None if it has too few frames."""
    if block.gram.shape[0] < 4:
        return None
    if block.shifts:
        return _shift_series(block)
    if block.difference.shape[-1] > 4096:
        return None
    return _entry_series(block)


def _shift_series(block: Block) -> Series | None:
    """Apparent shifts of the bodies, fitted to each frame [px]."""
    g, j = block.shift_columns, block.coordinate_columns
    normal = block.gram[:, g, g]
    size = torch.diagonal(normal, dim1=1, dim2=2).amax()
    if not float(size) > 0:
        return None
    regular = normal + 1e-6 * size * torch.eye(block.shifts, dtype=normal.dtype)
    noise = torch.linalg.inv(regular)
    values = -(noise @ block.gram[:, g, 0:1])[..., 0]
    design = noise @ block.gram[:, g, j]
    return Series(values, noise, design, block.gram[:, j, g], block)


def _entry_series(block: Block) -> Series | None:
    """The measured entries themselves, in units of their noise; entries without weight have large noise."""
    if block.entries is None:
        return None
    scale = 1.0 / block.sigma if block.weights is None else block.weights.sqrt() / block.sigma
    values = -(block.difference * scale)
    present = torch.ones_like(values) if block.weights is None else (block.weights > 0).to(values.dtype)
    count, width = values.shape
    noise = torch.diag_embed(torch.where(present.expand(count, width) > 0, 1.0, 1e6).to(values.dtype))
    return Series(values, noise, block.entries.permute(1, 2, 0), block.entries.permute(1, 0, 2), block)


def _unit_variance(series: Series) -> torch.Tensor:
    """Median noise variance of each component, [M]: the unit of the discrepancy's variance."""
    return torch.diagonal(series.noise, dim1=1, dim2=2).median(0).values


def matern_kernel(count: int, length: float) -> torch.Tensor:
    """Matern 3/2 correlation between frames, [T, T]."""
    t = torch.arange(count, dtype=torch.float64)
    distance = math.sqrt(3.0) * (t[:, None] - t).abs() / length
    return (1.0 + distance) * torch.exp(-distance)


def _maximize(groups: list[Series]) -> Discrepancy | None:
    """Returns the most likely variance and length; None if a discrepancy hardly improves the likelihood."""
    chosen = groups[:: max(1, len(groups) // 8)][:8]  # a sample of many trials determines two numbers well enough
    problems = [_stacked(series) for series in chosen]
    base = sum(_restricted_likelihood(problem, 0.0, 1.0) for problem in problems)
    best, found = base + MIN_EVIDENCE, None
    for length in LENGTHS:
        if length > max(series.values.shape[0] for series in chosen) / 2:
            break
        for variance in VARIANCES:
            value = sum(_restricted_likelihood(problem, variance, length) for problem in problems)
            if value > best:
                best, found = value, Discrepancy(variance, length)
    return found


@dataclass(frozen=True, eq=False)
class _Stacked:
    """A series as one vector over frames and components, thinned to `MAX_POINTS`."""

    values: torch.Tensor  # [n]
    noise: torch.Tensor  # [n, n]
    design: torch.Tensor  # [n, P']
    frames: torch.Tensor  # frame of each entry, [n]
    component: torch.Tensor  # [n]
    scale: torch.Tensor  # unit variance of each entry, [n]


def _stacked(series: Series) -> _Stacked:
    count, width = series.values.shape
    used = min(width, MAX_SERIES)
    stride = max(1, -(-count * used // MAX_POINTS))
    frames = torch.arange(0, count, stride)
    components = torch.linspace(0, width - 1, used).round().long()
    values = series.values[frames][:, components]
    n = values.numel()
    noise = torch.zeros(len(frames), used, len(frames), used, dtype=values.dtype)
    rows = torch.arange(len(frames))
    noise[rows, :, rows, :] = series.noise[frames][:, components][:, :, components]
    scale = _unit_variance(series)[components].expand(len(frames), used)
    return _Stacked(
        values.reshape(n),
        noise.reshape(n, n),
        series.design[frames][:, components].reshape(n, -1),
        frames[:, None].expand(len(frames), used).reshape(n).to(values.dtype),
        components.expand(len(frames), used).reshape(n),
        scale.reshape(n),
    )


def _restricted_likelihood(problem: _Stacked, variance: float, length: float) -> float:
    """Returns the restricted log likelihood of a Gaussian process plus noise, up to a constant."""
    covariance = problem.noise
    if variance > 0:
        distance = math.sqrt(3.0) * (problem.frames[:, None] - problem.frames).abs() / length
        same = (problem.component[:, None] == problem.component).to(distance.dtype)
        kernel = variance * same * (1.0 + distance) * torch.exp(-distance)
        covariance = covariance + kernel * (problem.scale[:, None] * problem.scale).sqrt()
    factor, failed = torch.linalg.cholesky_ex(covariance)
    if int(failed):
        return -math.inf
    whitened = torch.linalg.solve_triangular(factor, problem.values[:, None], upper=False)
    design = torch.linalg.solve_triangular(factor, problem.design, upper=False)
    u, s, _ = singular_values(design)
    kept = s > 1e-10 * s.max().clamp_min(1e-300)
    u, s = u[:, kept], s[kept]
    left = whitened - u @ (u.T @ whitened)
    logdet = 2 * torch.log(torch.diagonal(factor)).sum() + 2 * torch.log(s).sum()
    return float(-0.5 * (logdet + left.square().sum()))
