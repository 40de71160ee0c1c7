"""Evaluation of policies during a simulation, with gradients and batches of weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.fit.policies import Feedback, Policy, module_of
from gradsim.fit.simulation import simulate_over
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.scene.quantity import PerElement, Signal, Spec
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.scene.time import Time
from gradsim.scene.trajectory import State, Trajectory

Weights = Mapping[str, torch.Tensor]  # by path and name, "gear.actuation.weight": [..., *shape]


@dataclass(frozen=True, eq=False)
class PolicyOutput:
    """Values of a quantity at K times, for a whole body or for each of its elements."""

    values: torch.Tensor  # [..., K, *shape] or [..., K, count, *shape]
    per_element: bool
    quantity_dims: int  # number of dimensions of the quantity's shape

    @property
    def time_dim(self) -> int:
        """Index of the dimension of time."""
        return self.values.ndim - 1 - int(self.per_element) - self.quantity_dims

    def signal(self) -> Signal:
        """Returns the values as a time-dependent quantity of a scene."""
        return Signal(PerElement(self.values) if self.per_element else self.values)

    def interval(self, frame: int) -> PolicyOutput:
        """Returns the values at a frame and at the next one."""
        return replace(self, values=self.values.narrow(self.time_dim, frame, 2))

    def held(self) -> PolicyOutput:
        """Returns a single value repeated at two times."""
        return replace(self, values=torch.cat([self.values, self.values], self.time_dim))


def joined_outputs(outputs: list[PolicyOutput]) -> PolicyOutput:
    """Concatenates outputs in time and repeats the last value, which holds until the last frame."""
    last = outputs[-1]
    return replace(last, values=torch.cat([*(output.values for output in outputs), last.values], last.time_dim))


@dataclass(frozen=True, eq=False)
class PolicyRollout:
    """A simulated motion and the policy outputs that caused it."""

    scene: Scene  # with the policy outputs as signals
    trajectory: Trajectory
    outputs: dict[str, torch.Tensor]  # by path, [..., K, ...]


def checked_controls(controls: Any) -> Mapping[str, Policy]:
    """Returns policies by path; raises WrongType for anything else."""
    if not isinstance(controls, Mapping) or not all(isinstance(path, str) for path in controls):
        raise WrongType("controls", abbreviate(controls), "must be policies by path, {'block.actuation': policy}")
    return controls


class PolicyRunner:
    """Simulates a scene under policies.

    Attributes:
        controls: Policies by the path of the quantity they set.
    """

    def __init__(self, scene: Scene, controls: Mapping[str, Policy]):
        specs = {path: spec for path, _, spec in scene.quantities() if spec.signal}
        for path, policy in controls.items():
            _check_policy(path, policy, specs)
        self.controls = dict(controls)
        self.specs: dict[str, Spec] = {path: specs[path] for path in controls}
        self.closed_loop = any(self._is_feedback(path) for path in controls)
        if self.closed_loop:
            for path, value, _ in scene.quantities():
                if isinstance(value, Signal) and path not in controls:
                    remedy = "cannot be combined with gs.Feedback: pass it as an open-loop policy in `controls`"
                    raise InvalidInput(path, "a Signal", remedy)

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """Trainable weights of the policies, by path and name."""
        return {
            f"{path}.{name}": value
            for path, policy in self.controls.items()
            for name, value in module_of(policy).named_parameters()
            if value.requires_grad
        }

    def run(
        self, scene: Scene, time: Time, *, weights: Weights | None = None, start: State | None = None, **options: Any
    ) -> PolicyRollout:
        """Simulates a scene under the policies.

        Args:
            scene: Scene to simulate.
            time: Frames and time steps.
            weights: Weights that replace those of the policies, optionally with a leading batch dimension of worlds.
            start: Initial state; that of the scene if None.
            options: `dtype` and `memory`, as for `gs.simulate`.
        """
        if time.frames < 2:
            raise OutOfRange("frames", time.frames, "must be >= 2: a policy acts between two frames")
        begin = 0.0 if start is None else start.time
        times = begin + torch.arange(time.frames, dtype=torch.float64) / time.fps
        outputs = {path: self._at_times(path, times, weights) for path in self.controls if not self._is_feedback(path)}
        if self.closed_loop:
            return self._run_closed_loop(scene, time, weights, start, outputs, options)
        filled = _fill(scene, outputs)
        return PolicyRollout(filled, simulate_over(filled, time, start=start, **options), _values(outputs))

    def _run_closed_loop(
        self,
        scene: Scene,
        time: Time,
        weights: Weights | None,
        start: State | None,
        outputs: dict[str, PolicyOutput],
        options: dict[str, Any],
    ) -> PolicyRollout:
        """Simulates frame by frame; each observation determines the feedback until the next frame."""
        segments: list[Trajectory] = []
        observed = simulate_over(scene, replace(time, frames=1), start=start, **options)
        feedback: dict[str, list[PolicyOutput]] = {path: [] for path in self.controls if self._is_feedback(path)}
        interval = replace(time, frames=2)
        for frame in range(time.frames - 1):
            for path, history in feedback.items():
                history.append(self._at_state(path, observed, weights))
            current = {path: output.interval(frame) for path, output in outputs.items()}
            current |= {path: history[-1].held() for path, history in feedback.items()}
            segment = simulate_over(_fill(scene, current), interval, start=observed.final, **options)
            # Policies may turn one world into a batch, so the first frame is taken from the first segment.
            segments.append(segment if frame == 0 else segment[1:])
            observed = segment[1:]
        outputs = {**outputs, **{path: joined_outputs(history) for path, history in feedback.items()}}
        return PolicyRollout(_fill(scene, outputs), Trajectory.joined(segments), _values(outputs))

    def _is_feedback(self, path: str) -> bool:
        return isinstance(self.controls[path], Feedback)

    def _at_times(self, path: str, times: torch.Tensor, weights: Weights | None) -> PolicyOutput:
        """Evaluates an open-loop policy at times [K]."""
        values, batched = self._evaluate(path, weights, lambda world: times)
        single, quantity_dims = values[0], len(self.specs[path].shape)
        extra = single.ndim - 1 - quantity_dims
        if len(single) != len(times) or extra not in (0, 1):
            valid = "must be [K, ...] or [K, count, ...] at K times"
            raise WrongShape(f"controls[{path!r}]", f"shape {tuple(single.shape)} at {len(times)} times", valid)
        return PolicyOutput(torch.stack(values) if batched else single, bool(extra), quantity_dims)

    def _at_state(self, path: str, observed: Trajectory, weights: Weights | None) -> PolicyOutput:
        """Evaluates a closed-loop policy for a trajectory of one frame."""
        policy: Any = self.controls[path]
        inputs: torch.Tensor = policy.observe(observed)
        shared = inputs.ndim == 1  # by all worlds of a batch of weights
        outputs, batched = self._evaluate(
            path, weights, lambda world: inputs if world is None or shared else inputs[world]
        )
        values = torch.stack(outputs) if batched else outputs[0]
        quantity_dims = len(self.specs[path].shape)
        extra = values.ndim - max(inputs.ndim - 1, int(batched)) - quantity_dims
        if extra not in (0, 1):
            valid = "must map [..., F] to [...] or [..., count], followed by the shape of the quantity"
            shapes = f"output {tuple(values.shape)} for observation {tuple(inputs.shape)}"
            raise WrongShape(f"controls[{path!r}]", shapes, valid)
        return PolicyOutput(values.unsqueeze(values.ndim - quantity_dims - extra), bool(extra), quantity_dims)

    def _evaluate(
        self, path: str, weights: Weights | None, inputs: Callable[[int | None], torch.Tensor]
    ) -> tuple[list[torch.Tensor], bool]:
        """Evaluates the module of a policy with its own weights, with single weights, or with a batch of weights.

        `inputs` returns the input of a world, or that of a single evaluation for None. Returns the outputs, one per
        world of a batch, and whether the weights are a batch.
        """
        module = module_of(self.controls[path])
        own = dict(module.named_parameters())
        frozen = {name: value for name, value in own.items() if not value.requires_grad}
        dtype = next((value.dtype for value in own.values()), torch.float64)
        if weights is None:
            return [module(inputs(None).to(dtype))], False
        given = {name: weights[f"{path}.{name}"] for name, value in own.items() if value.requires_grad}
        dtype = next((value.dtype for value in given.values()), dtype)
        worlds = next((len(value) for name, value in given.items() if value.ndim > own[name].ndim), None)
        outputs = [
            torch.func.functional_call(
                module,
                {**frozen, **{name: value if world is None else value[world] for name, value in given.items()}},
                (inputs(world).to(dtype),),
            )
            for world in ([None] if worlds is None else range(worlds))
        ]
        return outputs, worlds is not None


def _check_policy(path: str, policy: Any, specs: Mapping[str, Spec]) -> None:
    if path not in specs:
        remedy = (
            f"{did_you_mean(path, specs)}quantities of this scene that can vary in time: {', '.join(specs) or 'none'}"
        )
        raise UnknownName("controls", repr(path), remedy)
    if not isinstance(policy, (torch.nn.Module, Feedback)):
        valid = "must be a torch.nn.Module of time, or gs.Feedback"
        raise WrongType(f"controls[{path!r}]", type(policy).__name__, valid)


def _fill(scene: Scene, outputs: Mapping[str, PolicyOutput]) -> Scene:
    """Returns the scene with the policy outputs as signals, in place of the previous values."""
    return scene.with_values({path: output.signal() for path, output in outputs.items()})


def _values(outputs: Mapping[str, PolicyOutput]) -> dict[str, torch.Tensor]:
    return {path: output.values for path, output in outputs.items()}
