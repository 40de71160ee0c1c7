"""Rollouts: from the start state through all frames, and back, on all shares of the batch at once."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import torch

from gradsim import bridge
from gradsim.scene.errors import BrokenGradient
from gradsim.scene.integrators import Integrator
from gradsim.simulate.assemble import Assembly
from gradsim.simulate.layout import worlds_together
from gradsim.simulate.memory import Plan, plan_memory
from gradsim.simulate.shard import Shard
from gradsim.simulate.tables import ROWS
from gradsim.simulate.topology import Topology

CACHED_ENGINES = 8


class Schedule(NamedTuple):
    """When states are asked for."""

    frames: int
    substeps: int
    dt: float  # [s]

    @property
    def steps(self) -> int:
        return (self.frames - 1) * self.substeps


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
        bounds = share_bounds(world_count, threads, worlds_together(topology, dtype, device))
        self.slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self.shards = [
            Shard(topology, s.stop - s.start, integrator, dtype, device, batch=world_count) for s in self.slices
        ]
        self.states, self.families = self.shards[0].state_names, tuple(self.shards[0].tables)
        others = len(self.shards) - 1  # the calling thread takes the first share
        self.pool = ThreadPoolExecutor(others, initializer=torch.set_num_threads, initargs=(1,)) if others else None
        self._plans: dict[Hashable, Plan] = {}
        self._ready: tuple[Schedule, Plan, float, bool] | None = None  # what the last rollout made room for

    @property
    def history_bytes(self) -> int:
        return sum(shard.history_bytes for shard in self.shards)

    def release(self) -> None:
        """Give back the memory of the histories."""
        self._ready = None
        for shard in self.shards:
            shard.release()

    def plan(self, schedule: Schedule, limit: float, gradient: bool) -> Plan:
        found = self._plans.get((schedule, limit, gradient))
        if found is None:
            step_bytes = sum(shard.step_bytes for shard in self.shards)
            found = plan_memory(
                frames=schedule.frames,
                substeps=schedule.substeps,
                step_bytes=step_bytes,
                limit=limit,
                gradient=gradient,
                graph_steps=self.shards[0].graph_steps(step_bytes),
            )
            self._plans = {(schedule, limit, gradient): found}  # the next rollout is likely to be alike
        return found

    @bridge.on_one_torch_thread
    def forward(
        self,
        inputs: Sequence[torch.Tensor],
        batch: tuple[int, ...],
        schedule: Schedule,
        plan: Plan,
        limit: float,
        owner: object,
    ) -> tuple[torch.Tensor, ...]:
        """All states at all frames, [*batch, T, count, width] each."""
        starts = inputs[: len(self.states)]
        results = tuple(x.new_empty(*batch, schedule.frames, *x.shape[1:]) for x in starts)
        seen = self._by_world(results)

        def roll(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            self._prepare(index, inputs, schedule)
            shard.owner = owner if plan.kept else None
            _roll(shard, schedule, plan, self._share(seen, worlds), worlds.start)

        with bridge.running:
            self._reserve(schedule, plan, limit, backward=False)
            self._parallel(roll)
        return results

    @bridge.on_one_torch_thread
    def backward(
        self,
        inputs: Sequence[torch.Tensor],
        states: tuple[torch.Tensor, ...],
        grads: tuple[torch.Tensor | None, ...],
        wanted: Sequence[int],
        schedule: Schedule,
        plan: Plan,
        limit: float,
        owner: object,
    ) -> list[torch.Tensor]:
        """Gradients of the wanted inputs, from those of the states at the frames; None stands for zeros."""
        results = [torch.empty_like(inputs[place], memory_format=torch.contiguous_format) for place in wanted]
        given = self._by_world(grads)
        finite = [True] * len(self.shards)

        def roll_back(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            if shard.owner is not owner:  # another rollout went over this memory: its history is computed again
                self._prepare(index, inputs, schedule)
                shard.owner = None
            _roll_back(
                shard,
                schedule,
                plan,
                lambda: self._share(self._by_world(s.detach() for s in states), worlds),
                self._share(given, worlds),
            )
            found = self._gradients(shard)
            for place, result in zip(wanted, self._share(results, worlds), strict=True):
                result.copy_(found[place])
            finite[index] = shard.adjoints.is_tame() or all(map(all_finite, found))

        with bridge.running:
            self._reserve(schedule, plan, limit, backward=True)
            self._parallel(roll_back)
            if not all(finite):
                self._blame(grads, schedule)
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

    def _gradients(self, shard: Shard) -> tuple[torch.Tensor, ...]:
        """A shard's gradients of all inputs."""
        tables, samples = shard.gradients()
        return (*shard.states("_adj"), *(tables[family] for family in self.families), *samples)

    def _blame(self, grads: Iterable[torch.Tensor | None], schedule: Schedule) -> None:
        """Say why gradients are not finite."""
        if not all(all_finite(grad) for grad in grads if grad is not None):
            raise BrokenGradient("the gradient that reached the trajectory is not finite: look at the loss")
        drivers = self.shards[0].topology.drivers
        names = (*self.states, *self.families, *(f"{d.body}'s signal of {d.row}" for d in drivers))
        for name, pieces in zip(names, zip(*map(self._gradients, self.shards), strict=True), strict=True):
            gradient = torch.cat(pieces)
            if not all_finite(gradient):
                raise BrokenGradient(_broken(name, gradient, schedule))

    def _reserve(self, schedule: Schedule, plan: Plan, limit: float, *, backward: bool) -> None:
        """Make room for histories and record the graphs, which is not for threads."""
        if self._ready in ((schedule, plan, limit, backward), (schedule, plan, limit, True)):
            return
        needed = sum(shard.step_bytes for shard in self.shards) * plan.chunk
        others = [engine for engine in tuple(_engines.values()) if engine is not self]
        while others and needed + sum(engine.history_bytes for engine in others) > limit:
            others.pop(0).release()  # least recently used first; its backward passes compute again
        for shard in self.shards:
            shard.reserve(plan.chunk, limit * shard.world_count / self.world_count)
            for count in plan.lengths(schedule.substeps) if schedule.frames > 1 else ():
                shard.record(False, count)
                if backward:
                    shard.record(True, count)
        self._ready = (schedule, plan, limit, backward)

    def _prepare(self, index: int, inputs: Sequence[torch.Tensor], schedule: Schedule) -> None:
        shard, worlds = self.shards[index], self.slices[index]
        values = self._share(inputs, worlds)
        first, count = len(self.states), len(self.states) + len(self.families)
        shard.load(dict(zip(self.families, values[first:count], strict=True)), tuple(values[count:]), schedule.dt)
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


def share_bounds(world_count: int, threads: int, together: int) -> list[int]:
    """Where the shares of a batch begin and end: equal numbers of groups of `together` worlds, one share a thread."""
    groups = -(-world_count // together)
    shares = max(1, min(threads, groups))
    return [min(groups * k // shares * together, world_count) for k in range(shares + 1)]


def _broken(name: str, gradient: torch.Tensor, schedule: Schedule) -> str:
    row = ""
    if name in ROWS:
        bad = (~torch.isfinite(gradient)).any(-1).any(0).nonzero()[0].item()
        row = f".{ROWS[name][int(bad)]}"
    return (
        f"the gradient of {name}{row} left the finite numbers on its way back over {schedule.steps} steps: the motion "
        "is unstable or chaotic over this horizon; use fewer frames, a smaller time step or more damping"
    )


def _roll(shard: Shard, schedule: Schedule, plan: Plan, frames: Sequence[Any], first_world: int) -> None:
    """Run through all frames, from the state that is loaded."""
    states = shard.fast_states()
    _write(frames, 0, states)
    for frame in range(1, schedule.frames):
        first = (frame - 1) * schedule.substeps
        for step, count in plan.segments(first, schedule.substeps):
            shard.run(step, count, step if plan.kept else 0, schedule.steps, keep=plan.kept)
        _write(frames, frame, states)
    # A step adds to what there was: a number that is not finite stays so until the end.
    if not shard.moving.is_tame() and not all(map(all_finite, shard.states())):
        places = [[torch.as_tensor(result[:, k]) for result in frames] for k in range(schedule.frames)]
        frame = next(k for k, place in enumerate(places) if not all(map(all_finite, place)))
        start, first = places[max(frame - 1, 0)], max(frame - 1, 0) * schedule.substeps
        world, body, step = _locate(shard, schedule, plan, start, first)
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
    shard: Shard, schedule: Schedule, plan: Plan, start: Sequence[torch.Tensor], first: int
) -> tuple[int, str, int]:
    """World, body and step at which a frame that started finite left the finite numbers."""
    _copy(shard.states(), start)
    shard.clear_forces()
    shard.owner = None
    for step, count in plan.segments(first, schedule.substeps):
        shard.run(step, count, 0, schedule.steps)
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
    shard: Shard,
    schedule: Schedule,
    plan: Plan,
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
    for frame in range(schedule.frames - 1, 0, -1):
        first = (frame - 1) * schedule.substeps
        if shard.owner is not None:
            for step, count in reversed(plan.segments(first, schedule.substeps)):
                shard.run_back(step, count, step, schedule.steps)
        else:
            start = [torch.as_tensor(state[:, frame - 1]) for state in starts]
            _recompute_back(shard, schedule, plan, start, first)
        for adjoint, grad in given:
            adjoint += grad[:, frame - 1]


def _recompute_back(shard: Shard, schedule: Schedule, plan: Plan, start: list[torch.Tensor], first: int) -> None:
    """One frame backwards, its steps computed again from the state at its start."""
    chunk = min(plan.chunk, schedule.substeps)
    end = first + schedule.substeps
    shard.clear_forces()
    checkpoints = [start]
    for begin in range(first, end - chunk, chunk):
        _copy(shard.states(), checkpoints[-1])
        for step, count in plan.segments(begin, chunk):
            shard.run(step, count, step - begin, schedule.steps)
        checkpoints.append([state.clone() for state in shard.states()])
    for begin in reversed(range(first, end, chunk)):
        _copy(shard.states(), checkpoints.pop())
        segments = plan.segments(begin, min(chunk, end - begin))
        for step, count in segments:
            shard.run(step, count, step - begin, schedule.steps)
        for step, count in reversed(segments):
            shard.run_back(step, count, step - begin, schedule.steps)


_engines: dict[tuple[Any, ...], Engine] = {}
_engines_lock = threading.Lock()


def engine_for(assembly: Assembly, integrator: Integrator) -> Engine:
    """The engine for a scene's topology, from a cache if one was built before."""
    pattern = assembly.pattern
    threads = torch.get_num_threads() if pattern.device.type == "cpu" else 1
    made_of = (pattern.topology, math.prod(pattern.batch), integrator, pattern.dtype, pattern.device, threads)
    with _engines_lock:
        engine = _engines.get(made_of)
        if engine is None:
            while len(_engines) >= CACHED_ENGINES:
                _engines.pop(next(iter(_engines)))
            with bridge.running:  # what is built while another thread records a graph would become part of it
                engine = _engines[made_of] = Engine(*made_of)
        elif engine is not next(reversed(_engines.values())):
            _engines[made_of] = _engines.pop(made_of)  # most recently used last
    return engine
