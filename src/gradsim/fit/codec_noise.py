"""Errors of compressed videos: how large they are, and how they are correlated.

Compression removes part of the noise and adds errors that follow the image. Temporal differences show little of either,
because an encoder repeats what hardly changes. The errors are therefore simulated: the fitted scene is rendered, noise
is added, and the result is encoded as the observed video was. The noise is chosen so that the residuals of both have
the same amplitude from pixel to pixel.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from gradsim.fit.linearization import Linearization, differences, linearize
from gradsim.fit.noise import MAD_TO_SD, ROUNDING_8_BIT, NoiseLevel
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.problem import EstimationProblem
from gradsim.render.render import render
from gradsim.video.encode import encode
from gradsim.video.video import Video

DRAWS = 4  # simulated errors, with different noise before compression
NOISE_LEVELS = (0.0, 0.005, 0.01, 0.02, 0.04)  # noise before compression that is tried
SECOND_DIFFERENCE = 1.5**0.5  # factor by which a pixel minus the mean of its neighbours amplifies white noise


def with_codec_noise(problem: EstimationProblem, z: torch.Tensor, seed: int = 0) -> EstimationProblem:
    """Returns the problem with the noise of compressed videos as simulated at coordinates z [P]."""
    compressed = [key for key in problem.blocks if is_compressed(problem, key)]
    if not compressed:
        return problem
    noise, errors = dict(problem.noise), {}
    residuals = differences(problem, z[None])
    for key in compressed:
        draws = [_simulated_errors(problem, key, z, residuals[key][0], seed + k) for k in range(DRAWS)]
        errors[key] = torch.stack(draws)
        sigma = errors[key].square().mean().sqrt()
        noise[key] = NoiseLevel(sigma, "codec", ROUNDING_8_BIT)
    updated = replace(problem, noise=noise, codec_errors=errors)
    return replace(updated, noise_correlation=codec_correlation(linearize(updated, z)))


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


def _simulated_errors(
    problem: EstimationProblem, key: tuple[int, int], z: torch.Tensor, residual: torch.Tensor, seed: int
) -> torch.Tensor:
    """Returns errors [T, N] of the compared channels with the pixel-to-pixel amplitude of a residual [T, N]."""
    trial, observation = problem.trials[key[0]], problem.observation(key)
    video = trial.videos[key[1]]
    assert video is not None
    with torch.no_grad():
        values = problem.parameters.model_values(problem.parameters.values(z), key[0])
        scene, trajectory = trial.simulate(values)
        adjust = trial.adjustment(values) or (lambda colors: colors)
        rendered = adjust(render(observation.view(scene), trajectory, video.encoding.size or video.size))
        exact = observation.mix_channels(adjust(render(observation.view(scene), trajectory, video.size)))
    generator = torch.Generator().manual_seed(seed)
    white = torch.randn(rendered.shape, generator=generator, dtype=rendered.dtype)
    shape = exact.shape
    wanted = _pixel_noise(residual.view(shape))
    like: Video = video
    candidates = []
    for level in NOISE_LEVELS:
        like_encoded = encode((rendered + level * white).clamp(0.0, 1.0), like=like)
        like = replace(video, encoding=like_encoded.encoding)  # the quality is searched once
        error = observation.mix_channels(like_encoded.frames) - exact
        candidates.append((_pixel_noise(error), error))
        if candidates[-1][0] >= wanted:
            break
    return _interpolated(candidates, wanted).flatten(1)


def _interpolated(candidates: list[tuple[float, torch.Tensor]], wanted: float) -> torch.Tensor:
    """Returns the error with the wanted amplitude, scaled between the last two that were tried."""
    amplitude, error = candidates[-1]
    if len(candidates) == 1 or amplitude <= wanted:
        return error * max(1.0, wanted / max(amplitude, 1e-12))
    below, weaker = candidates[-2]
    share = (wanted - below) / max(amplitude - below, 1e-12)
    return weaker.lerp(error, share)


def _pixel_noise(images: torch.Tensor) -> float:
    """Robust standard deviation of a pixel [T, H, W, C] about the mean of its neighbours in a row."""
    second = images[:, :, 1:-1] - 0.5 * (images[:, :, :-2] + images[:, :, 2:])
    return float(second.abs().flatten()[::7].median()) * MAD_TO_SD / SECOND_DIFFERENCE
