"""Rollouts from the initial state through all frames, and back, on all shards of the batch in parallel."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import torch

from gradsim import bridge
from gradsim.cache import Cache
from gradsim.scene.errors import BrokenGradient
from gradsim.scene.integrators import Integrator
from gradsim.scene.time import Time
from gradsim.simulate.compile.compiled_scene import CompiledScene
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.engine.layout import worlds_per_group
from gradsim.simulate.engine.memory import MemoryPlan, plan_memory

ENGINES: Cache[Engine] = Cache(8)
_engines_lock = threading.Lock()


class LeftFinite(Exception):
    """A world left the finite numbers: where, for the message."""

    def __init__(self, world: int, body: str, step: int):
        self.world, self.body, self.step = world, body, step


class Engine:
    """Everything built once for a topology, batch size, integrator and precision."""

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        integrator: Integrator,
        dtype: torch.dtype,
        device: torch.device,
        threads: int,
    ):
        bridge.initialize()
        self.world_count = world_count
        bounds = shard_bounds(world_count, threads, worlds_per_group(topology, dtype, device))
        self.slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self.shards = [
            BatchShard(topology, s.stop - s.start, integrator, dtype, device, batch=world_count) for s in self.slices
        ]
        self.states, self.families = self.shards[0].state_names, tuple(self.shards[0].parameters)
        others = len(self.shards) - 1  # the calling thread takes the first share
        self.pool = ThreadPoolExecutor(others, initializer=torch.set_num_threads, initargs=(1,)) if others else None
        self._plans: dict[Hashable, MemoryPlan] = {}
        self._ready: tuple[Time, MemoryPlan, float, bool] | None = None  # what the last rollout made room for

    @property
    def history_bytes(self) -> int:
        return sum(shard.history_bytes for shard in self.shards)

    def release(self) -> None:
        """Give back the memory of the histories."""
        self._ready = None
        for shard in self.shards:
            shard.release()

    def plan(self, time: Time, limit: float, gradient: bool) -> MemoryPlan:
        found = self._plans.get((time, limit, gradient))
        if found is None:
            step_bytes = sum(shard.step_bytes for shard in self.shards)
            found = plan_memory(
                frames=time.frames,
                substeps=time.steps_per_frame,
                step_bytes=step_bytes,
                limit=limit,
                gradient=gradient,
                graph_steps=self.shards[0].graph_steps(step_bytes),
            )
            self._plans = {(time, limit, gradient): found}  # the next rollout is likely to be alike
        return found

    @bridge.on_one_torch_thread
    def forward(
        self,
        inputs: Sequence[torch.Tensor],
        batch: tuple[int, ...],
        time: Time,
        plan: MemoryPlan,
        limit: float,
        owner: object,
        begin: float = 0.0,
    ) -> tuple[torch.Tensor, ...]:
        """All states at all frames, [*batch, T, count, width] each."""
        initial = inputs[: len(self.states)]
        results = tuple(x.new_empty(*batch, time.frames, *x.shape[1:]) for x in initial)
        frames = self._by_world(results)

        def roll(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            self._prepare(index, inputs, time, begin)
            shard.owner = owner if plan.keeps_all else None
            _roll(shard, time, plan, self._share(frames, worlds), worlds.start)

        with bridge.running:
            self._reserve(time, plan, limit, backward=False)
            self._parallel(roll)
        return results

    @bridge.on_one_torch_thread
    def backward(
        self,
        inputs: Sequence[torch.Tensor],
        states: tuple[torch.Tensor, ...],
        grads: tuple[torch.Tensor | None, ...],
        wanted: Sequence[int],
        time: Time,
        plan: MemoryPlan,
        limit: float,
        owner: object,
        begin: float = 0.0,
    ) -> list[torch.Tensor]:
        """Gradients of the wanted inputs, from those of the states at the frames; None stands for zeros."""
        results = [torch.empty_like(inputs[place], memory_format=torch.contiguous_format) for place in wanted]
        given = self._by_world(grads)
        finite = [True] * len(self.shards)

        def roll_back(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            if shard.owner is not owner:  # another rollout went over this memory: its history is computed again
                self._prepare(index, inputs, time, begin)
                shard.owner = None
            _roll_back(
                shard,
                time,
                plan,
                lambda: self._share(self._by_world(s.detach() for s in states), worlds),
                self._share(given, worlds),
            )
            found = self._gradients(shard)
            for place, result in zip(wanted, self._share(results, worlds), strict=True):
                result.copy_(found[place])
            finite[index] = shard.adjoints.all_finite_fast() or all(map(all_finite, found))

        with bridge.running:
            self._reserve(time, plan, limit, backward=True)
            self._parallel(roll_back)
            if not all(finite):
                self._blame(grads, time)
        return results

    def _by_world(self, tensors: Iterable[torch.Tensor | None]) -> list[Any]:
        """Tensors [*batch, T, count, width] as [B, T, count, width], to be read and written fast."""
        return [
            None if tensor is None else bridge.fast_view(tensor).reshape(self.world_count, *tensor.shape[-3:])
            for tensor in tensors
        ]

    def _share(self, tensors: Sequence[Any], worlds: slice) -> Sequence[Any]:
        """The part of tensors [B, ...] that belongs to a shard."""
        if self.pool is None:
            return tensors
        return [None if tensor is None else tensor[worlds] for tensor in tensors]

    def _gradients(self, shard: BatchShard) -> tuple[torch.Tensor, ...]:
        """A shard's gradients of all inputs."""
        parameters, samples = shard.gradients()
        return (*shard.states("_adj"), *(parameters[family] for family in self.families), *samples)

    def _blame(self, grads: Iterable[torch.Tensor | None], time: Time) -> None:
        """Say why gradients are not finite."""
        if not all(all_finite(grad) for grad in grads if grad is not None):
            raise BrokenGradient("the gradient that reached the trajectory is not finite: look at the loss")
        signals = (f"{signal.owner}'s signal of {signal.row}" for signal in self.shards[0].topology.signals)
        names = (*self.states, *self.families, *signals)
        for name, pieces in zip(names, zip(*map(self._gradients, self.shards), strict=True), strict=True):
            gradient = torch.cat(pieces)
            if not all_finite(gradient):
                raise BrokenGradient(_broken(self.shards[0].topology, name, gradient, time))

    def _reserve(self, time: Time, plan: MemoryPlan, limit: float, *, backward: bool) -> None:
        """Make room for histories and record the graphs, which is not for threads."""
        if self._ready in ((time, plan, limit, backward), (time, plan, limit, True)):
            return
        needed = sum(shard.step_bytes for shard in self.shards) * plan.chunk
        others = [engine for engine in ENGINES.values() if engine is not self]
        while others and needed + sum(engine.history_bytes for engine in others) > limit:
            others.pop(0).release()  # least recently used first; its backward passes compute again
        for shard in self.shards:
            shard.reserve(plan.chunk, limit * shard.world_count / self.world_count)
            for count in plan.lengths(time.steps_per_frame) if time.frames > 1 else ():
                shard.capture(False, count)
                if backward:
                    shard.capture(True, count)
        self._ready = (time, plan, limit, backward)

    def _prepare(self, index: int, inputs: Sequence[torch.Tensor], time: Time, begin: float) -> None:
        shard, worlds = self.shards[index], self.slices[index]
        values = self._share(inputs, worlds)
        first, count = len(self.states), len(self.states) + len(self.families)
        parameters = dict(zip(self.families, values[first:count], strict=True))
        shard.load(parameters, tuple(values[count:]), time.dt, begin)
        _copy(shard.states(), values[:first])

    def _parallel(self, work: Callable[[int], None]) -> None:
        """Run `work` for every shard, in threads where there are several; kernels release the interpreter."""
        if self.pool is None:
            work(0)
            return

        def unrecorded(index: int) -> None:
            with torch.no_grad():  # the mode belongs to a thread, and a worker's is not the caller's
                work(index)

        futures = [self.pool.submit(unrecorded, index) for index in range(1, len(self.shards))]
        try:
            unrecorded(0)
        finally:
            wait(futures)
        for future in futures:
            future.result()


def shard_bounds(world_count: int, threads: int, together: int) -> list[int]:
    """Where the shares of a batch begin and end: equal numbers of groups of `together` worlds, one share a thread."""
    groups = -(-world_count // together)
    shares = max(1, min(threads, groups))
    return [min(groups * k // shares * together, world_count) for k in range(shares + 1)]


def _broken(topology: Topology, name: str, gradient: torch.Tensor, time: Time) -> str:
    row = ""
    if name in topology.families:
        bad = (~torch.isfinite(gradient)).any(-1).any(0).nonzero()[0].item()
        row = f".{topology.families[name].rows.names[int(bad)]}"
    return (
        f"the gradient of {name}{row} is not finite after {time.steps} steps of the backward pass: the motion is "
        "unstable or chaotic over this horizon; use fewer frames, a smaller time step or more damping"
    )


def _roll(shard: BatchShard, time: Time, plan: MemoryPlan, frames: Sequence[Any], first_world: int) -> None:
    """Run through all frames, from the state that is loaded."""
    states = shard.fast_states()
    _write(frames, 0, states)
    for frame in range(1, time.frames):
        first = (frame - 1) * time.steps_per_frame
        for step, count in plan.segments(first, time.steps_per_frame):
            shard.run(step, count, step if plan.keeps_all else 0, time.steps, keep=plan.keeps_all)
        _write(frames, frame, states)
    # A step adds to what there was: a number that is not finite stays so until the end.
    if not shard.moving.all_finite_fast() and not all(map(all_finite, shard.states())):
        places = [[torch.as_tensor(result[:, k]) for result in frames] for k in range(time.frames)]
        frame = next(k for k, place in enumerate(places) if not all(map(all_finite, place)))
        start, first = places[max(frame - 1, 0)], max(frame - 1, 0) * time.steps_per_frame
        world, body, step = _locate(shard, time, plan, start, first)
        raise LeftFinite(first_world + world, body, step)


def _write(frames: Sequence[Any], frame: int, states: Sequence[Any]) -> None:
    for result, state in zip(frames, states, strict=True):
        result[:, frame] = state


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no number is NaN or infinite. A sum tells, and takes less than a look at each; unless it overflows."""
    return math.isfinite(tensor.sum().item()) or bool(torch.isfinite(tensor).all())


def _copy(targets: Iterable[torch.Tensor], sources: Iterable[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


def _locate(
    shard: BatchShard, time: Time, plan: MemoryPlan, start: Sequence[torch.Tensor], first: int
) -> tuple[int, str, int]:
    """World, body and step at which a frame that started finite left the finite numbers."""
    _copy(shard.states(), start)
    shard.clear_forces()
    shard.owner = None
    for step, count in plan.segments(first, time.steps_per_frame):
        shard.run(step, count, 0, time.steps)
        evaluations = shard.integrator.evaluations
        earliest: tuple[int, int, str] | None = None
        for name in shard.state_names:
            part = name.partition(".")[0]
            rows = shard.recorded(name)[: count * evaluations : evaluations]
            states = torch.cat([rows, shard.vectors(name).flatten(0, 1)[None]])
            bad = (~torch.isfinite(states)).any(-1).nonzero()
            if len(bad) and (earliest is None or int(bad[0, 0]) < earliest[0]):
                world, index = divmod(int(bad[0, 1]), shard.topology.elements[part])
                earliest = (int(bad[0, 0]), world, shard.topology.owner(part, index))
        if earliest is not None:
            return earliest[1], earliest[2], step + earliest[0]
    raise AssertionError("a repeated rollout must repeat its end")


def _roll_back(
    shard: BatchShard,
    time: Time,
    plan: MemoryPlan,
    states: Callable[[], Sequence[Any]],
    grads: Sequence[Any],
) -> None:
    """Bring the adjoint from the last frame to the first; `states` gives what a lost history is computed from."""
    shard.clear_gradients()
    adjoints = shard.fast_states("_adj")
    for adjoint, grad in zip(adjoints, grads, strict=True):
        adjoint[:] = 0.0 if grad is None else grad[:, -1]
    given = [(adjoint, grad) for adjoint, grad in zip(adjoints, grads, strict=True) if grad is not None]
    starts = states() if shard.owner is None else ()
    for frame in range(time.frames - 1, 0, -1):
        first = (frame - 1) * time.steps_per_frame
        if shard.owner is not None:
            for step, count in reversed(plan.segments(first, time.steps_per_frame)):
                shard.run_back(step, count, step, time.steps)
        else:
            start = [torch.as_tensor(state[:, frame - 1]) for state in starts]
            _recompute_back(shard, time, plan, start, first)
        for adjoint, grad in given:
            adjoint += grad[:, frame - 1]


def _recompute_back(shard: BatchShard, time: Time, plan: MemoryPlan, start: list[torch.Tensor], first: int) -> None:
    """One frame backwards, its steps computed again from the state at its start."""
    chunk = min(plan.chunk, time.steps_per_frame)
    end = first + time.steps_per_frame
    shard.clear_forces()
    checkpoints = [start]
    for begin in range(first, end - chunk, chunk):
        _copy(shard.states(), checkpoints[-1])
        for step, count in plan.segments(begin, chunk):
            shard.run(step, count, step - begin, time.steps)
        checkpoints.append([state.clone() for state in shard.states()])
    for begin in reversed(range(first, end, chunk)):
        _copy(shard.states(), checkpoints.pop())
        segments = plan.segments(begin, min(chunk, end - begin))
        for step, count in segments:
            shard.run(step, count, step - begin, time.steps)
        for step, count in reversed(segments):
            shard.run_back(step, count, step - begin, time.steps)


def engine_for(compiled: CompiledScene, integrator: Integrator) -> Engine:
    """The engine for a scene's topology, from a cache if one was built before."""
    signature = compiled.signature
    threads = torch.get_num_threads() if signature.device.type == "cpu" else 1
    key = (signature.topology, math.prod(signature.batch), integrator, signature.dtype, signature.device, threads)

    def build() -> Engine:
        with bridge.running:  # what is built while another thread captures a graph would become part of it
            return Engine(*key)

    with _engines_lock:
        return ENGINES.get(key, build)
