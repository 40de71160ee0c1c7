"""Intervals for compressed videos by a parametric bootstrap.

The fitted scene is rendered, encoded like the observed video and fitted again; the errors of these fits give the bias
and the standard deviation. Compression errors are correlated with the image, not independent noise: intervals from
residuals are 20 to 50 times too narrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.level_solver import Report
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trial_model import TrialModel
from gradsim.render.render import render
from gradsim.video.encode import encode

COPIES = 6  # re-encoded videos
STUDENT_95 = 2.447  # half width of a 95 % interval from six values, in standard deviations
SPREAD = 0.02  # standard deviation of the copies' true values about the estimate, in coordinate units


def bootstrap(
    problem: EstimationProblem, z: torch.Tensor, optimizer: GaussNewton, seed: int, report: Report
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the estimate corrected for bias and its standard deviation, [P] each, in coordinates.

    Args:
        problem: Problem with loaded videos; observations that are not videos are reused unchanged.
        z: Estimate [P].
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
        trials = tuple(_encoded_trial(problem, k, truth) for k in range(len(problem.trials)))
        repeated = replace(problem, trials=trials, noise=dict(problem.noise))
        extra: dict[str, Any] = {"prior": problem.prior(0), "structure": problem.structure()}
        state = solve(repeated.residual(), truth[None], bounds, options, **extra)
        errors.append(state.z[0] - truth)
        mean_square = float(problem.to_mean_square(state.cost[0], 0, problem.frames))
        report(f"bootstrap, copy {copy + 1} of {COPIES}", state.z[0], mean_square, problem.frames, 0)
    error = torch.stack(errors)
    deviation = ((error**2).mean(0) * (1 + 1 / COPIES)).sqrt()
    return (z - error.mean(0)).clamp(*bounds), deviation


def _encoded_trial(problem: EstimationProblem, number: int, z: torch.Tensor) -> TrialModel:
    """Returns a trial whose videos are renderings at z [P], encoded and downsampled like the observed ones."""
    trial = problem.trials[number]
    if all(video is None for video in trial.videos):
        return trial
    with torch.no_grad():
        scene, trajectory = trial.simulate(problem.parameters.model_values(problem.parameters.values(z), number))
    observations = []
    for observation, video in zip(trial.observations, trial.videos, strict=True):
        if video is None or not isinstance(observation, Pixels):
            observations.append(observation)
            continue
        with torch.no_grad():
            rendered = render(scene, trajectory, video.encoding.size or video.size)
        encoded = encode(rendered, like=video)
        observations.append(
            observation.replaced(video=encoded.downsample(video.size).frames, channels=observation.channels)
        )
    return replace(trial, observations=tuple(observations))
