"""Errors of compressed videos, and of 8-bit videos with little noise: how large they are, and how they are correlated.

Compression removes part of the noise and adds errors that follow the image. Temporal differences show little of either,
because an encoder repeats what hardly changes. Rounding to 8 bits moves a uniform area as a whole unless noise dithers
it. These errors are therefore simulated: the fitted scene is rendered, noise is added, and the result is encoded or
rounded as the observed video was. For a compressed video the noise is chosen so that the residuals of both have the
same amplitude from pixel to pixel.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from gradsim.fit.linearization import differences, linearize
from gradsim.fit.linearized import Columns, Linearization
from gradsim.fit.noise import MAD_TO_SD, ROUNDING_8_BIT, NoiseLevel
from gradsim.fit.observations.noise import LEVELS
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.problem import EstimationProblem
from gradsim.render.render import render
from gradsim.video.encode import encode

DRAWS = 3  # simulated errors, with different noise before compression
NOISE_LEVELS = (0.0, 0.005, 0.01, 0.02, 0.04)  # noise before compression that is tried
SECOND_DIFFERENCE = 1.5**0.5  # factor by which a pixel minus the mean of its neighbours amplifies white noise
MIN_SIGMA = 1e-6  # smallest noise of a video
DITHERED = 0.6  # noise above which errors of rounding are independent, in steps of 8-bit values


def with_codec_noise(
    problem: EstimationProblem, z: torch.Tensor, seed: int = 0
) -> tuple[EstimationProblem, Columns | None]:
    """Returns the problem with the noise of compressed videos as simulated at coordinates z [P], and the Jacobian at z
    if it was computed for that."""
    simulated = [key for key in problem.blocks if is_compressed(problem, key) or is_rounded(problem, key)]
    if not simulated:
        return problem, None
    noise, errors = dict(problem.noise), {}
    residuals = differences(problem, z[None])
    for key in simulated:
        source = _Source(problem, key, z)
        level = noise[key].before
        if level is None:
            level = source.noise_before(residuals[key][0]) if source.lossy else _dithering(noise[key])
        draws = [source.errors(level, seed + k).flatten(1) for k in range(DRAWS if level > 0 else 1)]
        errors[key] = torch.stack(draws).expand(DRAWS, -1, -1)  # without noise all are equal
        sigma = errors[key].square().mean().sqrt()
        noise[key] = NoiseLevel(sigma, "codec", MIN_SIGMA, before=level)
    updated = replace(problem, noise=noise, codec_errors=errors)
    lin = linearize(updated, z, shifts=False)
    return replace(updated, noise_correlation=codec_correlation(lin)), lin.columns


def codec_correlation(lin: Linearization) -> float:
    """Returns how much larger the simulated errors of compressed videos are along the coordinates than independent
    noise, as a ratio of variances; 1 without compression."""
    products = codec_products(lin, 0)
    if products is None:
        return 1.0
    values, vectors = torch.linalg.eigh(lin.information())
    kept = values > 1e-12 * values[-1].clamp_min(1e-300)
    ratios = (vectors[:, kept].mT @ products[: len(values)]).square() / values[kept][:, None]
    return max(1.0, float(ratios.mean()))


def codec_products(lin: Linearization, nuisances: int) -> torch.Tensor | None:
    """Returns the products of the simulated errors with coordinates and nuisances, [P + Q, K]; None if there are none.

    Args:
        lin: Linearization.
        nuisances: Number Q of nuisances that are scored.
    """
    blocks = [(block, block.codec_products) for block in lin.blocks if block.codec_products is not None]
    if not blocks:
        return None
    size = len(lin.information())
    total = torch.zeros(size + nuisances, blocks[0][1].shape[1], dtype=torch.float64)
    for block, own in blocks:
        total[torch.tensor(block.coordinates)] += own[block.coordinate_columns]
        if nuisances:
            total[size : size + block.nuisances] += own[block.nuisance_columns]
    return total


def is_compressed(problem: EstimationProblem, key: tuple[int, int]) -> bool:
    """Whether an observation is a compressed video whose encoding can be repeated."""
    observation = problem.observation(key)
    if not isinstance(observation, Pixels) or observation.group_noise("pixels") is not None:
        return False
    video = problem.trials[key[0]].videos[key[1]]
    return video is not None and video.encoding.lossy


def is_rounded(problem: EstimationProblem, key: tuple[int, int]) -> bool:
    """Whether an observation is an 8-bit video without enough noise to make the errors of rounding independent."""
    observation = problem.observation(key)
    if not isinstance(observation, Pixels) or observation.group_noise("pixels") is not None:
        return False
    return problem.noise[key].source == "codec" or (
        observation.is_8_bit and float(problem.noise[key].sigma) < DITHERED / LEVELS
    )


def _dithering(noise: NoiseLevel) -> float:
    """Noise before rounding, from the noise after it."""
    return float((noise.sigma.square() - ROUNDING_8_BIT**2).clamp_min(0.0).sqrt())


class _Source:
    """A rendering of a fitted scene that is stored as an observed video was."""

    def __init__(self, problem: EstimationProblem, key: tuple[int, int], z: torch.Tensor):
        trial, self.observation = problem.trials[key[0]], problem.observation(key)
        video = trial.videos[key[1]]
        self.video = video if video is not None and video.encoding.lossy else None
        size = self.observation.size if self.video is None else self.video.encoding.size or self.video.size
        with torch.no_grad():
            values = problem.parameters.model_values(problem.parameters.values(z), key[0])
            scene, trajectory = trial.simulate(values)
            adjust = trial.adjustment(values) or (lambda colors: colors)
            view = self.observation.view(scene)
            self.rendered = adjust(render(view, trajectory, size)).to(torch.float32)  # far finer than 8 bits
            exact = adjust(render(view, trajectory, self.observation.size))
        self.exact = self.observation.mix_channels(exact)

    @property
    def lossy(self) -> bool:
        return self.video is not None

    def errors(self, noise: float, seed: int) -> torch.Tensor:
        """Returns errors of the compared channels [T, H, W, C], with noise before the video is stored."""
        generator = torch.Generator().manual_seed(seed)
        white = torch.randn(self.rendered.shape, generator=generator, dtype=torch.float32)
        frames = white.mul_(noise).add_(self.rendered).clamp_(0.0, 1.0)
        if self.video is None:
            stored = frames.mul_(LEVELS).round_().to(torch.float64) / LEVELS
        else:
            encoded = encode(frames, like=self.video)
            self.video = replace(self.video, encoding=encoded.encoding)  # the quality is searched once
            stored = encoded.frames
        return self.observation.mix_channels(stored) - self.exact

    def noise_before(self, residual: torch.Tensor) -> float:
        """Returns the noise before compression that gives the pixel-to-pixel amplitude of a residual [T, N]."""
        wanted = _pixel_noise(residual.view(self.exact.shape))
        amplitudes: list[float] = []
        for level in NOISE_LEVELS:
            amplitudes.append(_pixel_noise(self.errors(level, 0)))
            if amplitudes[-1] >= wanted:
                break
        if len(amplitudes) == 1 or amplitudes[-1] < wanted:
            return NOISE_LEVELS[len(amplitudes) - 1]
        share = (wanted - amplitudes[-2]) / max(amplitudes[-1] - amplitudes[-2], 1e-12)
        low, high = NOISE_LEVELS[len(amplitudes) - 2 : len(amplitudes)]
        return low + share * (high - low)


def _pixel_noise(images: torch.Tensor) -> float:
    """Robust standard deviation of a pixel [T, H, W, C] about the mean of its neighbours in a row."""
    second = images[:, :, 1:-1] - 0.5 * (images[:, :, :-2] + images[:, :, 2:])
    return float(second.abs().flatten()[::7].median()) * MAD_TO_SD / SECOND_DIFFERENCE
