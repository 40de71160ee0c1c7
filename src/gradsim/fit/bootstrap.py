"""Intervals for compressed videos: encode the fitted video the same way, fit it, and see how far off that comes.

The differences a codec makes are no noise: they follow the picture, and intervals from residuals come out 20 to 50
times too small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, descend
from gradsim.fit.observations import Pixels
from gradsim.fit.problem import Problem
from gradsim.render.render import render
from gradsim.video.encode import encode
from gradsim.video.video import Video

COPIES = 6
STUDENT = 2.447  # half width of a 95 % interval, in standard deviations from six values
SPREAD = 0.02  # of the copies' truths about the answer, in natural units


def bootstrapped(
    problem: Problem, z: torch.Tensor, videos: Sequence[Any], optimizer: GaussNewton, seed: int, told: Any
) -> tuple[torch.Tensor, torch.Tensor, float]:
    """The answer without the bias that copies show, their deviation [P], and how many of it an interval is wide."""
    generator = torch.Generator().manual_seed(seed)
    options = replace(optimizer, iterations=8, tolerance=1e-6, worlds=problem.batch(0))
    errors = []
    for copy in range(COPIES):
        step = SPREAD * torch.randn(len(z), generator=generator, dtype=z.dtype) if copy else torch.zeros_like(z)
        truth = (z + step).clamp(*problem.parameters.limits())
        trials = []
        for trial, video in zip(problem.trials, videos, strict=True):
            observation = trial.observation
            if isinstance(video, Video) and isinstance(observation, Pixels):
                values = problem.parameters.values(truth)
                scene = trial.scene.with_values({p: v for p, v in values.items() if p in trial.scene.unknowns})
                with torch.no_grad():
                    height, width = video.encoding.size or video.size
                    clean = render(scene, trial.clock.run(scene, len(video)), (height, width))
                coded = encode(clean, like=video)
                observation = replace(observation, video=coded.downsample(video.size).frames)
            trials.append(replace(trial, observation=observation))
        copied = replace(problem, trials=tuple(trials))
        done = descend(copied.residual(), truth[None], problem.parameters.limits(), options)
        errors.append(done.z[0] - truth)
        square = float(done.cost[0]) / problem.frames
        told(f"bootstrap, copy {copy + 1} of {COPIES}", done.z[0], square, problem.frames, 0)
    off = torch.stack(errors)
    bias = off.mean(0)
    deviation = ((off**2).mean(0) * (1 + 1 / COPIES)).sqrt()
    return (z - bias).clamp(*problem.parameters.limits()), deviation, STUDENT
