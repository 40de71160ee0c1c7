"""Intervals for compressed videos by a parametric bootstrap.

The fitted scene is rendered, encoded like the observed video and fitted again; the errors of these fits give the bias
and the standard deviation. Compression errors are correlated with the image, not independent noise: intervals from
residuals are 20 to 50 times too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.search import Report
from gradsim.fit.trials import Trial
from gradsim.render.render import render
from gradsim.video.encode import encode
from gradsim.video.video import Video

COPIES = 6  # re-encoded videos
STUDENT_95 = 2.447  # half width of a 95 % interval from six values, in standard deviations
SPREAD = 0.02  # standard deviation of the copies' true values about the estimate, in coordinate units


def bootstrap(
    problem: EstimationProblem,
    z: torch.Tensor,
    videos: Sequence[Any],
    optimizer: GaussNewton,
    seed: int,
    report: Report,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the estimate corrected for bias and its standard deviation, [P] each, in coordinates.

    Args:
        problem: Problem whose trials belong to `videos`.
        z: Estimate [P].
        videos: Observed videos; observations that are not videos are reused unchanged.
        optimizer: Options of the least-squares solver.
        seed: Seed of the copies' true values.
        report: Called after every copy.
    """
    generator = torch.Generator().manual_seed(seed)
    options = replace(optimizer, iterations=8, tolerance=1e-6, max_worlds=problem.batch_size(0))
    bounds = problem.parameters.bounds()
    errors = []
    for copy in range(COPIES):
        offset = SPREAD * torch.randn(len(z), generator=generator, dtype=z.dtype) if copy else torch.zeros_like(z)
        truth = (z + offset).clamp(*bounds)
        pairs = zip(problem.trials, videos, strict=True)
        trials = tuple(_encoded_trial(problem, trial, video, truth) for trial, video in pairs)
        state = solve(replace(problem, trials=trials).residual(), truth[None], bounds, options)
        errors.append(state.z[0] - truth)
        mean_square = float(state.cost[0]) / problem.frames
        report(f"bootstrap, copy {copy + 1} of {COPIES}", state.z[0], mean_square, problem.frames, 0)
    error = torch.stack(errors)
    deviation = ((error**2).mean(0) * (1 + 1 / COPIES)).sqrt()
    return (z - error.mean(0)).clamp(*bounds), deviation


def _encoded_trial(problem: EstimationProblem, trial: Trial, video: Any, z: torch.Tensor) -> Trial:
    """Returns a trial whose video is the rendering at z [P], encoded and downsampled like the observed video."""
    observation = trial.observation
    if not (isinstance(video, Video) and isinstance(observation, Pixels)):
        return trial
    with torch.no_grad():
        scene, trajectory = trial.simulate(problem.parameters.values(z))
        height, width = video.encoding.size or video.size
        rendered = render(scene, trajectory, (height, width))
    encoded = encode(rendered, like=video)
    return replace(trial, observation=observation.replaced(video=encoded.downsample(video.size)))
