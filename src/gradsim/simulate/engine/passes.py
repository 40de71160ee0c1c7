"""The passes of one shard over all frames of a rollout: forward, and its adjoint from the last frame to the first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from gradsim.scene.time import Time
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.engine.memory import MemoryPlan


class NonFiniteState(Exception):
    """A state is NaN or infinite."""

    def __init__(self, world: int, body: str, step: int):
        self.world, self.body, self.step = world, body, step


def run_forward(shard: BatchShard, time: Time, plan: MemoryPlan, frames: Sequence[Any], first_world: int) -> None:
    """Simulates all frames of a shard from the loaded state."""
    states = shard.fast_states()
    if shard.topology.is_prescribed:
        shard.run(0, 0, 0, time.steps)  # sets the prescribed states at the start
    _write(frames, 0, states)
    length, total, keep = time.steps_per_frame, time.steps, plan.keeps_all
    segments = plan.segments(0, length)
    for frame in range(1, time.frames):
        for offset, count in segments:
            step = (frame - 1) * length + offset
            shard.run(step, count, step if keep else 0, total, keep)
        _write(frames, frame, states)
    # A step adds to the state, so a number that is not finite remains so until the end.
    if not shard.state_pool.all_finite_fast() and not all(map(all_finite, shard.states())):
        results = [[torch.as_tensor(result[:, k]) for result in frames] for k in range(time.frames)]
        frame = next(k for k, result in enumerate(results) if not all(map(all_finite, result)))
        start, first = results[max(frame - 1, 0)], max(frame - 1, 0) * time.steps_per_frame
        world, body, step = _locate(shard, time, plan, start, first)
        raise NonFiniteState(first_world + world, body, step)


def _write(frames: Sequence[Any], frame: int, states: Sequence[Any]) -> None:
    for result, state in zip(frames, states, strict=True):
        result[:, frame] = state


def all_finite(tensor: torch.Tensor) -> bool:
    """Returns whether no number is NaN or infinite; the sum is checked first because that is faster."""
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def _copy(targets: Iterable[torch.Tensor], sources: Iterable[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def _restore(shard: BatchShard, checkpoint: list[torch.Tensor]) -> None:
    """Copies a checkpoint, or the states at a frame, to a shard."""
    _copy(shard.checkpoint()[: len(checkpoint)], checkpoint)


def _locate(
    shard: BatchShard, time: Time, plan: MemoryPlan, start: Sequence[torch.Tensor], first: int
) -> tuple[int, str, int]:
    """Repeats a frame to find the world, body and step of its first number that is not finite."""
    _copy(shard.states(), start)
    shard.clear_forces()
    shard.owner, shard.team = None, 1  # the other threads of a team have ended
    for step, count in plan.segments(first, time.steps_per_frame):
        shard.run(step, count, 0, time.steps)
        stages, recorded = len(shard.integrator.stages), shard.integrator.recorded_stage
        earliest: tuple[int, int, str] | None = None
        moving = [part for part in shard.state_layout.values() if part.motion is not None]
        for part, name in ((own, name) for own in moving for name in own.state_names):
            rows = shard.recorded(name)[recorded : count * stages : stages]
            states = torch.cat([rows, shard.vectors(name).flatten(0, 1)[None]])
            bad = (~torch.isfinite(states)).any(-1).nonzero()
            if len(bad) and (earliest is None or int(bad[0, 0]) < earliest[0]):
                world, index = divmod(int(bad[0, 1]), shard.topology.elements[part.name])
                earliest = (int(bad[0, 0]), world, shard.topology.owner(part.name, index))
        if earliest is not None:
            return earliest[1], earliest[2], step + earliest[0]
    raise AssertionError("the repeated frame is finite")


def run_backward(
    shard: BatchShard,
    time: Time,
    plan: MemoryPlan,
    states: Callable[[], Sequence[Any]],
    grads: Sequence[Any],
) -> None:
    """Takes the adjoint of a shard from the last frame to the first.

    Args:
        shard: Worlds, with the history of the rollout unless `shard.owner` is None.
        time: Frames and steps.
        plan: What is stored.
        states: Function that returns the states at the frames, called if the history is recomputed.
        grads: Gradients of the states at the frames; None for zeros.
    """
    shard.clear_gradients()
    adjoints = shard.fast_states("_adj")
    for adjoint, grad in zip(adjoints, grads, strict=True):
        adjoint[:] = 0.0 if grad is None else grad[:, -1]
    given = [(adjoint, grad) for adjoint, grad in zip(adjoints, grads, strict=True) if grad is not None]
    frame_states = states() if shard.owner is None else ()
    length, total = time.steps_per_frame, time.steps
    segments = plan.segments(0, length)
    for frame in range(time.frames - 1, 0, -1):
        first = (frame - 1) * length
        if shard.owner is not None:
            for step, count in reversed(segments):
                shard.run_back(first + step, count, first + step, total)
        else:
            start = [torch.as_tensor(state[:, frame - 1]) for state in frame_states]
            _recompute_back(shard, time, plan, start, first)
        for adjoint, grad in given:
            adjoint += grad[:, frame - 1]
    if shard.topology.is_prescribed:
        if time.frames == 1:
            shard.run(0, 0, 0, time.steps)
        shard.run_back(0, 0, 0, time.steps)


def _recompute_back(shard: BatchShard, time: Time, plan: MemoryPlan, start: list[torch.Tensor], first: int) -> None:
    """Takes the adjoint back over one frame, whose steps are recomputed from the state at its start."""
    chunk = min(plan.chunk, time.steps_per_frame)
    end = first + time.steps_per_frame
    shard.clear_forces()
    checkpoints = [start]
    for begin in range(first, end - chunk, chunk):
        _restore(shard, checkpoints[-1])
        for step, count in plan.segments(begin, chunk):
            shard.run(step, count, step - begin, time.steps)
        checkpoints.append([state.clone() for state in shard.checkpoint()])
    for begin in reversed(range(first, end, chunk)):
        _restore(shard, checkpoints.pop())
        segments = plan.segments(begin, min(chunk, end - begin))
        for step, count in segments:
            shard.run(step, count, step - begin, time.steps)
        for step, count in reversed(segments):
            shard.run_back(step, count, step - begin, time.steps)
