"""Estimation as a nonlinear least-squares problem over trials that share unknowns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from gradsim.fit.gauss_newton import Prior
from gradsim.fit.noise import NoiseLevel, is_rounded, noise_level
from gradsim.fit.observations.images import ImageObservation
from gradsim.fit.observations.pixels import Pixels, median_image
from gradsim.fit.parameters import Parameters
from gradsim.fit.residuals import CENTRAL_STEP, Residual, evaluate, jacobian
from gradsim.fit.structure import Structure
from gradsim.fit.trial_groups import TrialGroup, make_groups
from gradsim.fit.trial_model import TrialModel

REFERENCE_NOISE = 0.01  # standard deviation of a pixel for which the search judges what is determined
EQUAL_CHI2 = 12.0  # difference of chi^2 up to which two minima explain the observations equally well
EQUAL_COST_RATIO = 1.05  # the same as a ratio of mean squares, where the model error exceeds the noise
EQUAL_COST_ROUNDING = 1e-13  # mean square added to the comparison, for rounding
MODEL_ERROR = 1.1  # mean square relative to the noise, above which the model error counts
NEGLIGIBLE_CHI2 = 1e-7  # decrease of chi^2 below which a search has converged
UNEXPLAINED = 0.5  # mean square relative to that of a still image, above which no minimum explains the video
MAX_MOTIONS = 1024  # worlds in one rollout of trials without images, which need little memory
UNAFFECTED = 1e-9  # largest derivative of a residual that does not depend on the unknowns


@dataclass(frozen=True, eq=False)
class EstimationProblem:
    """Least-squares problem at any level of detail and over any number of first frames.

    Every difference is divided by the noise of its observation. A common factor makes the cost of a single video a sum
    over frames of mean squared differences. Level 0 is the finest.
    """

    parameters: Parameters
    trials: tuple[TrialModel, ...]
    noise: dict[tuple[int, int], NoiseLevel] = field(default_factory=dict)  # by trial and observation
    codec_errors: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)  # simulated, [K, T, N] by block
    noise_correlation: float = 1.0  # variance of the noise along the coordinates relative to independent noise
    max_worlds: int = 64  # in one rollout, at the coarsest level
    noise_factor: float = 1.3  # mean square of a fit at the noise floor, relative to that of the first frame

    def __post_init__(self) -> None:
        for key in self.blocks:
            if key not in self.noise:
                self.noise[key] = noise_level(self.trials[key[0]].observations[key[1]])

    @cached_property
    def blocks(self) -> list[tuple[int, int]]:
        """Positions of all observations: trial, observation."""
        return [(k, i) for k, trial in enumerate(self.trials) for i in range(len(trial.observations))]

    @cached_property
    def groups(self) -> list[TrialGroup]:
        """Trials that are simulated together."""
        return make_groups(self.trials)

    @cached_property
    def frames(self) -> int:
        return max(trial.frames for trial in self.trials)

    @cached_property
    def levels(self) -> int:
        """Number of levels of detail."""
        return max(trial.levels for trial in self.trials)

    @cached_property
    def nuisance_paths(self) -> frozenset[str]:
        """Paths of the nuisances among the unknowns: errors of the scene, and those that are declared as nuisances."""
        names = {nuisance.path for trial in self.trials for nuisance in trial.nuisances}
        return frozenset(u.path for u in self.parameters.unknowns if u.nuisance or u.path.split("@")[0] in names)

    def observation(self, key: tuple[int, int]) -> Any:
        """Returns an observation by its position."""
        return self.trials[key[0]].observations[key[1]]

    def entries(self, key: tuple[int, int], level: int) -> int:
        """Number of entries N of an observation in a frame."""
        observation = self.observation(key)
        return int(observation.entries(max(0, observation.levels - 1 - level)))

    def unit_scale(self, level: int) -> float:
        """Residual of the minimized cost for a difference of one standard deviation."""
        reference = self.blocks[0]
        count = self.entries(reference, level)
        return self._reference_noise(level) / math.sqrt(count)

    def _reference_noise(self, level: int) -> float:
        """Noise of the first observation at a level; other kinds than videos are scaled to that of a video."""
        if not isinstance(self.observation(self.blocks[0]), Pixels):
            return REFERENCE_NOISE
        return float(self._sigma(self.blocks[0], level).mean())

    def _sigma(self, key: tuple[int, int], level: int) -> torch.Tensor:
        """Noise of an observation at a level: averaging the pixels of an image halves it with each level."""
        sigma = self.noise[key].floored
        observation = self.observation(key)
        if isinstance(observation, Pixels):
            return sigma / 2.0 ** min(level, observation.levels - 1)
        return sigma

    def residual(self, level: int = 0, frames: int | None = None) -> Residual:
        """Returns the residual function, from coordinates [B, P] to residuals [B, N], over the first frames."""
        count = self.frames if frames is None else frames
        scale = self.unit_scale(level)

        def function(z: torch.Tensor) -> torch.Tensor:
            values = self.parameters.values(z)
            own = [self.parameters.model_values(values, k) for k in range(len(self.trials))]
            rows: dict[tuple[int, int], torch.Tensor] = {}
            for group in self.groups:
                simulated = group.simulate([own[k] for k in group.numbers], count)
                for k, (scene, trajectory) in zip(group.numbers, simulated, strict=True):
                    for i in range(len(self.trials[k].observations)):
                        difference = self.trials[k].residual(scene, trajectory, own[k], i, level, count)
                        rows[k, i] = (difference * (scale / self._sigma((k, i), level))).flatten(-2)
            joined = [rows[key].expand(len(z), -1) for key in self.blocks]
            return joined[0] if len(joined) == 1 else torch.cat(joined, -1)

        return function

    def structure(self, level: int = 0, frames: int | None = None) -> Structure | None:
        """Returns which residuals depend on which coordinates; None if each may depend on all."""
        owners = self.parameters.coordinate_trials
        if all(owner is None for owner in owners) or len(self.trials) == 1:
            return None
        count = self.frames if frames is None else frames
        lengths = [min(count, self.trials[key[0]].frames) * self.entries(key, level) for key in self.blocks]
        rows = torch.cat([torch.full((n,), key[0]) for n, key in zip(lengths, self.blocks, strict=True)])
        return Structure(self.parameters.coordinate_groups, [-1 if o is None else o for o in owners], rows)

    def batch_size(self, level: int) -> int:
        """Maximum number of points in one evaluation: half as many at each finer level, to limit memory."""
        worlds = max(2, self.max_worlds >> max(0, self.levels - 1 - level))
        images = any(isinstance(self.observation(key), ImageObservation) for key in self.blocks)
        limit = worlds // max(1, len(self.trials) // 4)
        return max(2, limit if images else max(limit, MAX_MOTIONS // len(self.trials)))

    def mean_square(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Returns the mean squared difference at coordinates z [B, P], [B], in units of the first observation."""
        r = evaluate(self.residual(level, frames), z, self.batch_size(level))
        return self.to_mean_square((r * r).sum(1), level, frames)

    def total_chi2(self, z: torch.Tensor) -> float:
        """Returns the sum of squared residuals at coordinates z [P] in units of the noise, without priors."""
        r = evaluate(self.residual(), z[None], 1)
        return float((r * r).sum()) / self.unit_scale(0) ** 2

    def to_mean_square(self, cost: Any, level: int, frames: int) -> Any:
        """Converts sums of squared residuals to mean squares of an entry, in units of the first observation."""
        total = sum(min(frames, self.trials[key[0]].frames) * self.entries(key, level) for key in self.blocks)
        return cost * (self.entries(self.blocks[0], level) / total)

    def from_mean_square(self, mean_square: float, level: int, frames: int) -> float:
        """Inverse of `to_mean_square`."""
        return mean_square / float(self.to_mean_square(1.0, level, frames))

    def still_square(self, level: int) -> float:
        """Mean square of the change of the videos over time, in units of the first observation; infinite without any.

        A fit with a larger one is worse than a still image.
        """
        total = count = 0.0
        for key in self.blocks:
            observation = self.observation(key)
            if isinstance(observation, Pixels):
                target = observation.targets[max(0, observation.levels - 1 - level)]
                change = (target - median_image(target)) / self._sigma(key, level).mean()
                total, count = total + float(change.square().sum()), count + change.numel()
        return self._reference_noise(level) ** 2 * total / count if count else math.inf

    def is_unexplained(self, z: torch.Tensor, level: int = 0) -> bool:
        """Whether a still image explains the videos about as well as the scene at coordinates z [P]."""
        return float(self.mean_square(z[None], level, self.frames)) > UNEXPLAINED * self.still_square(level)

    def is_equal_cost(self, square: float, lowest: float) -> bool:
        """Whether a minimum explains the observations as well as the lowest one; mean squares at the finest level."""
        noise = self._known_noise(0)
        if noise > 0 and lowest > MODEL_ERROR * noise:
            return square < EQUAL_COST_RATIO * lowest
        entries = self.entries(self.blocks[0], 0) / float(self.to_mean_square(1.0, 0, self.frames))
        return square < lowest + EQUAL_CHI2 * max(noise, lowest) / entries + EQUAL_COST_ROUNDING

    def noise_threshold(self, level: int, excess: float) -> float:
        """Returns the largest mean square of a fit at the noise floor, plus `excess`."""
        return excess + self.noise_factor * self.noise_floors[level]

    @cached_property
    def noise_floors(self) -> list[float]:
        """Mean square at each level of the first frame if that does not depend on the unknowns, else of the noise."""
        z = self.parameters.initial()[None]
        return [self._noise_floor(z, level) for level in range(self.levels)]

    def first_frame_depends(self) -> bool:
        """Whether the first frame changes with the unknowns, at their guesses."""
        return self._first_frame_depends(self.parameters.initial()[None], 0)

    def _noise_floor(self, z: torch.Tensor, level: int) -> float:
        if self._first_frame_depends(z, level):
            return self._known_noise(level)
        return float(self.mean_square(z, level, 1))

    def _first_frame_depends(self, z: torch.Tensor, level: int) -> bool:
        """Whether residuals of the first frame change from z [1, P] along a direction with a part of every unknown."""
        direction = torch.randn(z.shape, generator=torch.Generator().manual_seed(0), dtype=z.dtype)
        points = torch.cat([z + CENTRAL_STEP * direction, z - CENTRAL_STEP * direction])
        points = points.clamp(*self.parameters.bounds())
        ahead, behind = evaluate(self.residual(level, 1), points, 2)
        change = (ahead - behind).abs() / (2 * CENTRAL_STEP)
        return bool((change > UNAFFECTED).any()) or not bool(torch.isfinite(change).all())

    def _known_noise(self, level: int) -> float:
        """Mean square of the noise as far as it is given or measured."""
        known = [self.noise[key] for key in self.blocks if self.noise[key].source != "residuals"]
        if not known:
            return 0.0
        ratios = [float((noise.sigma / noise.floored.clamp_min(1e-300)).square().mean()) for noise in known]
        return self._reference_noise(level) ** 2 * sum(ratios) / len(ratios)

    def resolution(self, level: int, *, from_residuals: bool = False) -> float:
        """Decrease of the cost at a level that changes no value by a notable part of its standard deviation.

        0 if the noise is not known, or too small to limit the accuracy.

        Args:
            level: The level.
            from_residuals: Whether noise counts as known that was taken from the residuals of an earlier fit.
        """
        known = [noise for noise in self.noise.values() if from_residuals or noise.source != "residuals"]
        if len(known) < len(self.noise) or any(float(noise.sigma.min()) < noise.floor for noise in known):
            return 0.0
        return NEGLIGIBLE_CHI2 * self.unit_scale(level) ** 2

    @cached_property
    def is_below_floor(self) -> bool:
        """Whether all observations are videos whose noise is smaller than the rounding to 8 bits."""
        levels = self.noise.values()
        return all(level.source == "measured" and float(level.sigma.mean()) < level.floor for level in levels)

    @cached_property
    def is_exact(self) -> bool:
        """Whether all observations are videos without noise and without rounding to 8 bits."""
        return self.is_below_floor and not any(is_rounded(self.observation(key)) for key in self.blocks)

    @cached_property
    def noise_is_known(self) -> bool:
        """Whether the noise of any observation is given or measured, so that a fit can be compared with it."""
        return any(level.source != "residuals" for level in self.noise.values())

    def prior(self, level: int) -> Prior | None:
        """Returns the declared priors of the unknowns, scaled to the cost at a level; None if there are none."""
        mean, sd = self.parameters.prior_normal()
        if not bool(torch.isfinite(sd).any()):
            return None
        return Prior(mean, sd, self.noise_correlation * self.unit_scale(level) ** 2)

    def jacobian(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Returns the derivatives [P, N] of the residual at z [P], by central differences."""
        residual = self.residual(level, frames)
        structure, bounds = self.structure(level, frames), self.parameters.bounds()
        return jacobian(residual, z[None], self.batch_size(level), structure=structure, bounds=bounds)[0]

    def standard_deviations(self, J: torch.Tensor, level: int) -> torch.Tensor:
        """Returns the standard deviations [P] of the coordinates for pixels with the reference noise.

        Args:
            J: Derivatives of the residual at a level, [P, N].
            level: The level.
        """
        J = torch.where(torch.isfinite(J), J, 0.0) / self.unit_scale(level)
        if isinstance(self.observation(self.blocks[0]), Pixels):
            J = J * (self._reference_noise(level) / REFERENCE_NOISE)
        prior = torch.diag(1.0 / self.parameters.prior()[1] ** 2)  # limits what the video does not determine
        return torch.diagonal(torch.linalg.inv(J @ J.T + prior)).sqrt()

    def subset(self, numbers: Sequence[int]) -> EstimationProblem:
        """Returns the problem of some of the trials; it has the unknowns of their scenes and frame times."""
        trials = tuple(self.trials[k] for k in numbers)
        noise = {
            (new, i): self.noise[k, i] for new, k in enumerate(numbers) for i in range(len(trials[new].observations))
        }
        return replace(self, parameters=self.parameters.subset(numbers), trials=trials, noise=noise)

    def with_substeps(self, factor: int) -> EstimationProblem:
        """Returns the problem with more time steps per frame."""
        trials = tuple(
            replace(trial, time=replace(trial.time, substeps=trial.time.steps_per_frame * factor))
            for trial in self.trials
        )
        return replace(self, trials=trials)
