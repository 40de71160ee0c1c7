"""An estimation problem with smaller images, for statistics that need many directions but little detail."""

from __future__ import annotations

from dataclasses import replace

import torch

from gradsim.fit.noise import NoiseLevel
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.problem import EstimationProblem
from gradsim.video.downsample import downsample

MAX_SIDE = 64  # shorter side of the images [px]


def coarse_problem(problem: EstimationProblem) -> EstimationProblem:
    """Returns the problem with its videos downsampled to images of at least 32 and at most 64 pixels, if they can be
    halved that often; the noise is that of the means of pixels. The problem itself if no video is larger."""
    if not any(isinstance(o, Pixels) and _coarse_size(o) for trial in problem.trials for o in trial.observations):
        return problem
    noise, errors = dict(problem.noise), dict(problem.codec_errors)
    trials = []
    for k, trial in enumerate(problem.trials):
        observations = list(trial.observations)
        for i, observation in enumerate(observations):
            if not isinstance(observation, Pixels) or (size := _coarse_size(observation)) is None:
                continue
            observations[i] = _downsampled(observation, size)
            factor = observation.size[0] // size[0]
            noise[k, i] = replace(noise[k, i], sigma=noise[k, i].floored / factor, floor=0.0)
            if (k, i) in errors:
                errors[k, i] = _downsampled_errors(errors[k, i], observation, size)
                noise[k, i] = NoiseLevel(errors[k, i].square().mean().sqrt(), "codec", before=noise[k, i].before)
        trials.append(replace(trial, observations=tuple(observations)))
    return replace(problem, trials=tuple(trials), noise=noise, codec_errors=errors)


def _coarse_size(observation: Pixels) -> tuple[int, int] | None:
    """Returns the size to which a video is downsampled; None if it stays as it is."""
    sizes = [size for size in observation.sizes if min(size) <= MAX_SIDE]
    return sizes[-1] if sizes and sizes[-1] != observation.size else None


def _downsampled(observation: Pixels, size: tuple[int, int]) -> Pixels:
    mask = observation.mask
    if mask is not None:
        mask = downsample(mask.reshape(-1, *observation.size, 1), size)[..., 0].reshape((*mask.shape[:-2], *size))
    return observation.replaced(video=downsample(observation.video, size), mask=mask, channels=observation.channels)


def _downsampled_errors(errors: torch.Tensor, observation: Pixels, size: tuple[int, int]) -> torch.Tensor:
    """Returns errors [K, T, N] of an observation at another size."""
    images = errors.reshape(-1, *observation.size, observation.channel_count)
    return downsample(images, size).reshape(*errors.shape[:2], -1)
