"""rollout(): a scene moves under policies, open or closed loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gradsim.fit.policies import Feedback, Policy, module_of
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongShape, WrongType
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.quantity import PerElement, Signal, Spec
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import did_you_mean
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.simulate import simulate

Weights = Mapping[str, torch.Tensor]  # by path and name, "gear.actuation.weight": [..., *shape]


def rollout(
    scene: Scene,
    controls: Mapping[str, Policy],
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    integrator: Integrator = SymplecticEuler(),
    start: State | None = None,
    dtype: torch.dtype | None = None,
    memory: float | None = None,
) -> Trajectory:
    """Let a scene move under policies.

    Gradients flow to the policies' weights, also through the states that they saw.

    Args:
        scene: What there is.
        controls: Policies by the path of what they set, such as `{"gear.actuation": gs.Sinusoids(...)}`: modules of
            time are asked once for all frames, and what they say is linear between; `gs.Feedback` once a frame.
        frames, fps, substeps, integrator, start, dtype, memory: As for `gs.simulate`.
    """
    clock = Rhythm(fps, substeps, integrator, dtype, memory)
    return Driver(scene, controls).run(scene, clock, frames, start=start).trajectory


@dataclass(frozen=True)
class Rhythm:
    """How a scene is let move: time steps, precision, memory."""

    fps: float
    substeps: int
    integrator: Integrator = SymplecticEuler()
    dtype: torch.dtype | None = None
    memory: float | None = None

    def simulate(self, scene: Scene, frames: int, start: State | None = None) -> Trajectory:
        options: dict[str, Any] = {"integrator": self.integrator, "dtype": self.dtype, "memory": self.memory}
        return simulate(scene, frames=frames, fps=self.fps, substeps=self.substeps, start=start, **options)


@dataclass(frozen=True, eq=False)
class Drive:
    """A motion, and what the policies said."""

    scene: Scene  # with the signals in place
    trajectory: Trajectory
    signals: dict[str, torch.Tensor]  # by path, [..., K, ...]


class Driver:
    """Policies of a scene, checked."""

    def __init__(self, scene: Scene, controls: Mapping[str, Policy]):
        specs = {path: spec for path, _, spec in scene.quantities() if spec.signal}
        for path, policy in controls.items():
            if path not in specs:
                remedy = f"{did_you_mean(path, specs)}what changes in time here is {', '.join(specs) or 'nothing'}"
                raise UnknownName("controls", repr(path), remedy)
            if not isinstance(policy, (torch.nn.Module, Feedback)):
                raise WrongType(
                    f"controls[{path!r}]", type(policy).__name__, "must be a torch.nn.Module of time, or gs.Feedback"
                )
        self.controls = dict(controls)
        self.specs: dict[str, Spec] = {path: specs[path] for path in controls}
        self.closed = any(isinstance(policy, Feedback) for policy in controls.values())
        if self.closed:
            for path, value, _ in scene.quantities():
                if isinstance(value, Signal) and path not in controls:
                    raise InvalidInput(path, "a Signal", "beside gs.Feedback give it as a policy of time in `controls`")

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The policies' trainable weights by path and name."""
        return {
            f"{path}.{name}": value
            for path, policy in self.controls.items()
            for name, value in module_of(policy).named_parameters()
            if value.requires_grad
        }

    def run(
        self, scene: Scene, rhythm: Rhythm, frames: int, *, weights: Weights | None = None, start: State | None = None
    ) -> Drive:
        """Let a scene move; `weights`, with a batch of worlds in front or not, stand for the policies' own."""
        if frames < 2:
            raise OutOfRange("frames", frames, "must be >= 2: a policy needs time to act in")
        begin = 0.0 if start is None else start.time
        time = begin + torch.arange(frames, dtype=torch.float64) / rhythm.fps
        signals = {path: self._at_times(path, time, weights) for path in self.controls if not self._sees(path)}
        if self.closed:
            return self._closed_loop(scene, rhythm, frames, weights, start, signals)
        filled = _filled(scene, signals)
        return Drive(filled, rhythm.simulate(filled, frames, start), _values(signals))

    def _closed_loop(
        self,
        scene: Scene,
        rhythm: Rhythm,
        frames: int,
        weights: Weights | None,
        start: State | None,
        signals: dict[str, Said],
    ) -> Drive:
        """Frame by frame: what is seen decides what is done until the next."""
        pieces: list[Trajectory] = []
        seen = rhythm.simulate(scene, 1, start)
        told: dict[str, list[Said]] = {path: [] for path in self.controls if self._sees(path)}
        for frame in range(frames - 1):
            for path, said in told.items():
                said.append(self._of_state(path, seen, weights))
            now = {path: said.frames(frame) for path, said in signals.items()}
            now |= {path: said[-1].held() for path, said in told.items()}
            piece = rhythm.simulate(_filled(scene, now), 2, seen.final)
            pieces.append(piece if frame == 0 else piece[1:])  # policies may make one world many, from the first frame
            seen = piece[1:]
        signals = {**signals, **{path: said[-1].after(said[:-1]) for path, said in told.items()}}
        return Drive(_filled(scene, signals), Trajectory.joined(pieces), _values(signals))

    def _sees(self, path: str) -> bool:
        return isinstance(self.controls[path], Feedback)

    def _at_times(self, path: str, time: torch.Tensor, weights: Weights | None) -> Said:
        answers, batched = self._asked(path, weights, lambda k: time)
        single, count = answers[0], len(self.specs[path].shape)
        extra = single.ndim - 1 - count
        if len(single) != len(time) or extra not in (0, 1):
            wanted = "[K, ...] or [K, count, ...] at K times"
            raise WrongShape(f"controls[{path!r}]", f"shape {tuple(single.shape)} at {len(time)} times", wanted)
        return Said(torch.stack(answers) if batched else single, bool(extra), count)

    def _of_state(self, path: str, seen: Trajectory, weights: Weights | None) -> Said:
        policy: Any = self.controls[path]
        told: torch.Tensor = policy.sees(seen)
        single = told.ndim == 1  # all of a batch of weights see the same start
        answers, batched = self._asked(path, weights, lambda k: told if k is None or single else told[k])
        values, count = torch.stack(answers) if batched else answers[0], len(self.specs[path].shape)
        extra = values.ndim - max(told.ndim - 1, int(batched)) - count
        if extra not in (0, 1):
            wanted = "[..., F] must become [...] or [..., count], with the quantity's own shape behind"
            raise WrongShape(
                f"controls[{path!r}]", f"{tuple(values.shape)} of what was seen, {tuple(told.shape)}", wanted
            )
        return Said(values.unsqueeze(values.ndim - count - extra), bool(extra), count)

    def _asked(
        self, path: str, weights: Weights | None, question: Callable[[int | None], torch.Tensor]
    ) -> tuple[list[torch.Tensor], bool]:
        """Answers of a policy: one with its own or with single weights, or one for each world of a batch of them."""
        module = module_of(self.controls[path])
        own = dict(module.named_parameters())
        given = {name: value for name, value in own.items() if not value.requires_grad}
        dtype = next((value.dtype for value in own.values()), torch.float64)
        if weights is None:
            return [module(question(None).to(dtype))], False
        mine = {name: weights[f"{path}.{name}"] for name, value in own.items() if value.requires_grad}
        dtype = next((value.dtype for value in mine.values()), dtype)
        worlds = next((len(value) for name, value in mine.items() if value.ndim > own[name].ndim), None)
        answers = [
            torch.func.functional_call(
                module,
                {**given, **{name: value if k is None else value[k] for name, value in mine.items()}},
                (question(k).to(dtype),),
            )
            for k in ([None] if worlds is None else range(worlds))
        ]
        return answers, worlds is not None


@dataclass(frozen=True, eq=False)
class Said:
    """What a policy said: values at times, of the whole body or of each of its elements."""

    values: torch.Tensor  # [..., K, *shape] or [..., K, count, *shape]
    per_element: bool
    dims: int  # of the quantity's own shape

    @property
    def axis(self) -> int:
        """The dimension of time."""
        return self.values.ndim - 1 - int(self.per_element) - self.dims

    def signal(self) -> Signal:
        return Signal(PerElement(self.values) if self.per_element else self.values)

    def frames(self, frame: int) -> Said:
        """From a frame to the next."""
        return Said(self.values.narrow(self.axis, frame, 2), self.per_element, self.dims)

    def held(self) -> Said:
        """The only value, at two times."""
        return Said(torch.cat([self.values, self.values], self.axis), self.per_element, self.dims)

    def after(self, others: list[Said]) -> Said:
        """Others, then this one, held at the end."""
        all_values = [*(other.values for other in others), self.values, self.values]
        return Said(torch.cat(all_values, self.axis), self.per_element, self.dims)


def _filled(scene: Scene, said: Mapping[str, Said]) -> Scene:
    """The scene with signals in place of what the policies set, whatever stood there."""
    return scene.with_values({path: what.signal() for path, what in said.items()})


def _values(said: Mapping[str, Said]) -> dict[str, torch.Tensor]:
    return {path: what.values for path, what in said.items()}
