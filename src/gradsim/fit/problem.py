"""An estimate as a least-squares problem: unknowns shared by trials, at any resolution and over any first frames."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

from gradsim.fit.observations import Trial
from gradsim.fit.parameters import Parameters
from gradsim.fit.residuals import Residual, evaluated, jacobian

REFERENCE_NOISE = 0.01  # of a pixel: what "determined" is judged by where the noise is not known


@dataclass(frozen=True, eq=False)
class Problem:
    """Residuals are divided by the root of their number in a frame: a cost is a sum over frames of mean squares."""

    parameters: Parameters
    trials: tuple[Trial, ...]
    worlds: int = 64  # most worlds at once, at the coarsest level
    slack: float = 1.3  # of the noise floor: how far above the first frame's differences others may be

    @cached_property
    def frames(self) -> int:
        return max(trial.observation.frames for trial in self.trials)

    @cached_property
    def levels(self) -> int:
        """Levels of detail; 0 is the finest."""
        return max(trial.observation.levels for trial in self.trials)

    def residual(self, level: int = 0, frames: int | None = None) -> Residual:
        """Residuals [B, N] of coordinates [B, P], at a level of detail and over the first frames."""
        horizon = self.frames if frames is None else frames

        def function(z: torch.Tensor) -> torch.Tensor:
            values = self.parameters.values(z)
            parts = [trial.residual(values, level, horizon) for trial in self.trials]
            return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

        return function

    def batch(self, level: int) -> int:
        """Worlds that fit in memory at a level: half as many for each finer one."""
        return max(2, self.worlds >> max(0, self.levels - 1 - level))

    def mean_square(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Mean square of a pixel's difference for worlds z [B, P], [B]."""
        r = evaluated(self.residual(level, frames), z, self.batch(level))
        return (r * r).sum(1) / (frames * len(self.trials))

    def bar(self, level: int, besides: float) -> float:
        """Mean square that a fit at the noise floor does not exceed."""
        return besides + self.slack * (self.floors[level] or 0.0)

    @cached_property
    def floors(self) -> list[float | None]:
        """Noise at each level: the mean square of the first frame, if nothing that is sought is seen in it; or None."""
        found: list[float | None] = []
        z = self.parameters.start()[None]
        for level in range(self.levels):
            moved = jacobian(self.residual(level, 1), z, self.batch(level))
            seen = bool(moved.abs().amax() > 1e-9)
            found.append(None if seen else float(self.mean_square(z, level, 1)))
        return found

    def deviations(self, z: torch.Tensor, level: int, frames: int) -> torch.Tensor:
        """Standard deviations [P] of the coordinates at z [P] for pixels with the reference noise."""
        residual = self.residual(level, frames)
        J = jacobian(residual, z[None], self.batch(level))[0]
        J = torch.where(torch.isfinite(J), J, 0.0)
        pixels = J.shape[1] / (frames * len(self.trials))
        A = J @ J.T * pixels / REFERENCE_NOISE**2
        weak = torch.diag(1.0 / self.parameters.prior()[1] ** 2)  # what is not seen at all stays within its range
        return torch.diagonal(torch.linalg.inv(A + weak)).sqrt()
