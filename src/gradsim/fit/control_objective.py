"""The objective of control: from unknowns and policy weights to residuals with respect to the goals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradsim.compare.distances import Cumulative, Distance
from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.goals import Goal
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.optimize import Optimizer
from gradsim.fit.parameters import Parameters
from gradsim.fit.plan import EvaluatedControl
from gradsim.fit.policy_runner import PolicyRollout, PolicyRunner
from gradsim.fit.simulation import simulate_over
from gradsim.scene.errors import InvalidInput
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory

Metric = Callable[[Trajectory], torch.Tensor]  # scalar, or [...] for a batch of worlds


class ControlParameters(Parameters):
    """Decision variables of control: the scene's unknowns and the weights of the policies."""

    def __init__(self, scene: Scene, runner: PolicyRunner, dtype: torch.dtype):
        weights = [_unbounded(path, weight.detach().to(dtype)) for path, weight in runner.weights.items()]
        if not scene.unknowns and not weights:
            remedy = "give policies by path, or mark the quantities to choose in the scene with gs.unknown(...)"
            raise InvalidInput("controls", "none", remedy)
        super().__init__(scene, dtype=dtype, extra=weights)


def _unbounded(path: str, guess: torch.Tensor) -> ScaledUnknown:
    """Returns an unbounded linear unknown whose coordinates equal its values."""
    infinite = torch.full_like(guess, torch.inf)
    return ScaledUnknown(path, "1", tuple(guess.shape), "linear", guess, -infinite, infinite, step=1.0)


class ControlObjective:
    """Loss or residuals of the goals at coordinates of the decision variables."""

    def __init__(
        self,
        runner: PolicyRunner,
        parameters: ControlParameters,
        goals: tuple[Goal, ...],
        time: Time,
        *,
        effort: float,
        metric: Metric | None,
        dtype: torch.dtype,
        memory: float | None,
    ):
        self.runner, self.parameters, self.goals, self.time = runner, parameters, goals, time
        self.effort, self.metric = effort, metric
        self.options: dict[str, Any] = {"dtype": dtype, "memory": memory}
        self.distance: Distance = Cumulative()
        self.least_squares = False  # whether the optimizer needs residuals
        self._metrics: dict[bytes, float] = {}  # by coordinates

    def set_stage(self, distance: Distance, optimizer: Optimizer) -> None:
        """Selects the distance of images and the form of the objective that an optimizer needs."""
        self.distance, self.least_squares = distance, isinstance(optimizer, (GaussNewton, MinimumNorm))
        if self.effort > 0.0 and isinstance(optimizer, MinimumNorm):
            raise InvalidInput(
                "effort", self.effort, "must be 0 for MinimumNorm, whose steps are the smallest possible"
            )

    def simulate(self, z: torch.Tensor) -> PolicyRollout:
        """Simulates the scene at coordinates [P] or [K, P]."""
        values = self.parameters.values(z)
        scene = self.parameters.fill(z)
        if not self.runner.controls:
            return PolicyRollout(scene, simulate_over(scene, self.time, **self.options), {})
        weights = {path: values[path] for path in self.runner.weights}
        return self.runner.run(scene, self.time, weights=weights, **self.options)

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        """Returns losses [K] or residuals [K, N] at coordinates [K, P]."""
        count = len(z)
        rollout = self.simulate(z[0] if count == 1 else z)
        if self.metric is not None:
            metrics = self.metric(rollout.trajectory).detach().reshape(-1)
            for row, value in zip(z.detach(), metrics, strict=True):
                self._metrics[row.numpy().tobytes()] = float(value)
        goals = [goal.residuals(rollout.scene, rollout.trajectory, self.distance) for goal in self.goals]
        residuals = [r.reshape(count, -1) for r in goals]
        if self.effort > 0.0:
            residuals += self._effort_residuals(rollout, z)
        r = torch.cat(residuals, 1)
        return r if self.least_squares else (r * r).sum(1)

    def _effort_residuals(self, rollout: PolicyRollout, z: torch.Tensor) -> list[torch.Tensor]:
        """Returns residuals whose sums of squares are the mean squares of policy outputs and unknowns."""
        outputs = [values.reshape(len(z), -1) for values in rollout.outputs.values()]
        weights = self.runner.weights
        unknowns = [z[:, part] for unknown, part in self.parameters.items() if unknown.path not in weights]
        return [u * (self.effort / u.shape[1]) ** 0.5 for u in (*outputs, *unknowns) if u.numel()]

    def metric_at(self, z: torch.Tensor) -> float | None:
        """Returns the metric at coordinates [P]; None if there is none."""
        if self.metric is None:
            return None
        key = z.numpy().tobytes()
        if key not in self._metrics:
            with torch.no_grad():
                self._metrics[key] = float(self.metric(self.simulate(z).trajectory))
        return self._metrics[key]

    def evaluate(self, z: torch.Tensor, number: int, loss: float) -> EvaluatedControl:
        """Returns the control and the motion at coordinates [P], those of an iterate with a number and a loss."""
        with torch.no_grad():
            rollout = self.simulate(z)
        values = {path: value.detach() for path, value in self.parameters.values(z).items()}
        metric = self.metric_at(z)
        return EvaluatedControl(number, loss, values, rollout.outputs, rollout.scene, rollout.trajectory, metric)
