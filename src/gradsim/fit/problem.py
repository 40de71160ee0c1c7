"""Estimation as a nonlinear least-squares problem over trials that share unknowns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from gradsim.fit.parameters import Parameters
from gradsim.fit.residuals import Residual, evaluate, jacobian
from gradsim.fit.trials import Trial

REFERENCE_NOISE = 0.01  # standard deviation of a pixel for which identifiability is judged
UNAFFECTED = 1e-9  # largest derivative of a residual that does not depend on the unknowns


@dataclass(frozen=True, eq=False)
class EstimationProblem:
    """Least-squares problem at any level of detail and over any number of first frames.

    Residuals are divided by the square root of their number in a frame, so the cost is a sum over frames of mean
    squared differences. Level 0 is the finest.
    """

    parameters: Parameters
    trials: tuple[Trial, ...]
    max_worlds: int = 64  # in one rollout, at the coarsest level
    noise_factor: float = 1.3  # mean square of a fit at the noise floor, relative to that of the first frame

    @cached_property
    def frames(self) -> int:
        return max(trial.observation.frames for trial in self.trials)

    @cached_property
    def levels(self) -> int:
        """Number of levels of detail."""
        return max(trial.observation.levels for trial in self.trials)

    def residual(self, level: int = 0, frames: int | None = None) -> Residual:
        """Returns the residual function, from coordinates [B, P] to residuals [B, N], over the first frames."""
        count = self.frames if frames is None else frames

        def function(z: torch.Tensor) -> torch.Tensor:
            values = self.parameters.values(z)
            own = [self.trial_values(values, k) for k in range(len(self.trials))]
            residuals = [trial.residual(v, level, count) for trial, v in zip(self.trials, own, strict=True)]
            return residuals[0] if len(residuals) == 1 else torch.cat(residuals, -1)

        return function

    def trial_values(self, values: Mapping[str, torch.Tensor], trial: int) -> dict[str, torch.Tensor]:
        """Returns the values of a trial's unknowns, in its scene and in time, by their paths in the trial."""
        return self.parameters.trial_values(values, trial) | self.parameters.trial_times(values, trial)

    def batch_size(self, level: int) -> int:
        """Maximum number of worlds in one rollout at a level: half as many at each finer one, to limit memory."""
        return max(2, self.max_worlds >> max(0, self.levels - 1 - level))

    def mean_square(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Returns the mean squared difference of a pixel at coordinates z [B, P], [B]."""
        r = evaluate(self.residual(level, frames), z, self.batch_size(level))
        return (r * r).sum(1) / (frames * len(self.trials))

    def noise_threshold(self, level: int, excess: float) -> float:
        """Returns the largest mean square of a fit at the noise floor, plus `excess`."""
        return excess + self.noise_factor * (self.noise_floors[level] or 0.0)

    @cached_property
    def noise_floors(self) -> list[float | None]:
        """Mean square of the first frame at each level; None if that frame depends on the unknowns."""
        floors: list[float | None] = []
        z = self.parameters.initial()[None]
        for level in range(self.levels):
            J = jacobian(self.residual(level, 1), z, self.batch_size(level))
            affected = bool(J.abs().amax() > UNAFFECTED)
            floors.append(None if affected else float(self.mean_square(z, level, 1)))
        return floors

    def standard_deviations(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Returns the standard deviations [P] of the coordinates at z [P] for pixels with the reference noise."""
        residual = self.residual(level, frames)
        J = jacobian(residual, z[None], self.batch_size(level))[0]
        J = torch.where(torch.isfinite(J), J, 0.0)
        pixels = J.shape[1] / (frames * len(self.trials))
        information = J @ J.T * pixels / REFERENCE_NOISE**2
        prior = torch.diag(1.0 / self.parameters.prior()[1] ** 2)  # limits what the video does not determine
        return torch.diagonal(torch.linalg.inv(information + prior)).sqrt()
