"""How well a scene explains measured series: tracks and states."""

from __future__ import annotations

import math

import torch

from gradsim.fit.least_squares import least_squares
from gradsim.fit.linearized import Block
from gradsim.fit.noise import series_noise
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.problem import EstimationProblem

MIN_DEVIATION = 4.0  # mean squared deviation of tracks from uniform motion, relative to the noise, that is judged


def explained_series(problem: EstimationProblem, block: Block) -> float:
    """Fraction of the deviation from uniform motion that the scene explains, beyond the noise, for tracks and states.

    NaN where uniform motion itself fits to the noise, and for images of other kinds.
    """
    series = problem.observation(block.key).series()
    if series is None or len(series) < 4:
        return math.nan
    present = torch.isfinite(series) if block.weights is None else torch.isfinite(series) & (block.weights > 0)
    basis = _uniform_motion(problem, block)
    weights = present.to(series.dtype) if block.weights is None else torch.where(present, block.weights, 0.0)
    factors = weights.expand(series.shape).sqrt() / block.sigma
    left = 0.0
    for column, own in zip(series.nan_to_num().T, factors.T, strict=True):
        if int((own > 0).sum()) > 2:
            weighted, target = basis * own[:, None], column * own
            line = least_squares(weighted, target[:, None])[:, 0]
            left += float((target - weighted @ line).square().sum())
    noise = _noise_square(problem, block, series, present)
    if left < MIN_DEVIATION * noise:
        return math.nan
    return 1.0 - max(0.0, float(block.gram[:, 0, 0].sum()) - noise) / (left - noise)


def _uniform_motion(problem: EstimationProblem, block: Block) -> torch.Tensor:
    """A constant and the times of the frames, scaled to [-1, 1], [T, 2]."""
    times = problem.trials[block.key[0]].sampling.times
    count = len(block.gram)
    t = torch.arange(count, dtype=torch.float64) if times is None else times[:count].to(torch.float64)
    t = 2.0 * (t - t[0]) / (t[-1] - t[0]) - 1.0
    return torch.stack([torch.ones_like(t), t], 1)


def _noise_square(problem: EstimationProblem, block: Block, series: torch.Tensor, present: torch.Tensor) -> float:
    """Expected sum of squares of the noise alone, in units of `block.sigma`.

    A noise taken from the residuals would explain any misfit: there, that of the series itself counts.
    """
    if problem.noise[block.key].source != "residuals":
        return float(present.sum())
    sigma, total = block.sigma.expand(series.shape[-1]), 0.0
    for _, index in problem.observation(block.key).groups():
        ratio = series_noise(series[:, index]) / float(sigma[index].mean())
        total += min(1.0, ratio) ** 2 * float(present[:, index].sum())
    return total


def center_error(problem: EstimationProblem, block: Block, z: torch.Tensor) -> float:
    """Root mean square residual of tracked centres in the image beyond the noise, relative to the apparent diameter.

    The largest over the tracked centres; NaN if there are none.
    """
    observation = problem.observation(block.key)
    if not isinstance(observation, Tracks) or observation.size is None:
        return math.nan
    values = problem.parameters.model_values(problem.parameters.values(z), block.key[0])
    with torch.no_grad():
        diameters = observation.apparent_diameters(*problem.trials[block.key[0]].simulate(values))
    weights = torch.ones_like(block.difference) if block.weights is None else block.weights.expand_as(block.difference)
    known = problem.noise[block.key].source != "residuals"
    errors = [math.nan]
    for k, diameter in enumerate(diameters):
        own = slice(2 * k, 2 * k + 2)
        sigma = block.sigma.expand(block.difference.shape[-1])[own].mean()
        noise = float(sigma) if known else min(float(sigma), series_noise(observation.series()[:, own]))
        count = max(float((weights[:, own] > 0).sum()), 1.0)
        square = float((weights[:, own] * block.difference[:, own].square()).sum()) / count - noise**2
        errors.append(math.sqrt(2.0 * max(square, 0.0)) / diameter)  # of both coordinates
    return max((error for error in errors if math.isfinite(error)), default=math.nan)
