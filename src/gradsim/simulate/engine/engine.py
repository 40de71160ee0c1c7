"""Forward and backward passes of a rollout, on all shards of the batch in parallel."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
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
from gradsim.simulate.engine.passes import all_finite, run_backward, run_forward
from gradsim.simulate.engine.team import can_share, follow_backward, follow_forward, team_size

ENGINES: Cache[Engine] = Cache(8)
_engines_lock = threading.Lock()


class Engine:
    """Everything that is built once for a topology, batch size, integrator and precision."""

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
        self.group = worlds_per_group(topology, dtype, device)
        shared = can_share(topology, integrator, device)
        self.team = team_size(topology, world_count, dtype, threads) if shared else 1  # threads that share one shard
        bounds = shard_bounds(world_count, 1 if shared else threads, self.group)
        self.slices = [slice(a, b) for a, b in itertools.pairwise(bounds)]
        self.shards = [
            BatchShard(topology, s.stop - s.start, integrator, dtype, device, batch=world_count) for s in self.slices
        ]
        self.states, self.families = self.shards[0].state_names, tuple(self.shards[0].parameters)
        others = len(self.shards) + self.team - 2  # the calling thread runs the first shard
        self.pool = ThreadPoolExecutor(others, initializer=torch.set_num_threads, initargs=(1,)) if others else None
        self._planned: tuple[Any, MemoryPlan | None] = (None, None)  # arguments of the last plan, and the plan
        self._ready: tuple[Time, MemoryPlan, float, bool] | None = (
            None  # the rollout that memory and graphs were last prepared for
        )

    @property
    def history_bytes(self) -> int:
        """Memory of all histories [bytes]."""
        return sum(shard.history_bytes for shard in self.shards)

    def release(self) -> None:
        """Frees the histories."""
        self._ready = None
        for shard in self.shards:
            shard.release()

    def plan(self, time: Time, limit: float, gradient: bool) -> MemoryPlan:
        """Returns the memory plan of a rollout."""
        last, plan = self._planned
        if plan is None or last != (time, limit, gradient):
            step_bytes = self._step_bytes()
            plan = plan_memory(
                frames=time.frames,
                substeps=time.steps_per_frame,
                step_bytes=step_bytes,
                limit=limit,
                gradient=gradient,
                graph_steps=self.shards[0].graph_steps(step_bytes),
            )
            self._planned = (time, limit, gradient), plan  # the next rollout is likely the same
        return plan

    def _step_bytes(self) -> int:
        """Returns the history of one step of the batch [bytes], or more, whatever the number of shards.

        Shards of single worlds may each leave lanes empty. Gradients are summed launch by launch, so a plan that
        depended on the shards would change their last bits.
        """
        if self.group > 1:
            return sum(shard.step_bytes for shard in self.shards)
        return self.shards[0].world_step_bytes * self.world_count

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
        """Computes all states at all frames, [*batch, T, count, width] each.

        Args:
            inputs: Initial states, parameter arrays and signals, in the order of `SceneSignature.inputs`.
            batch: Batch shape.
            time: Frames and steps.
            plan: What to store for the backward pass.
            limit: Memory for histories [bytes].
            owner: Identifies the rollout whose history is stored.
            begin: Start time [s].
        """
        initial = inputs[: len(self.states)]
        results = tuple(x.new_empty(*batch, time.frames, *x.shape[1:]) for x in initial)
        frames = self._by_world(results)

        def run(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            self._load(index, inputs, time, begin)
            shard.owner = owner if plan.keeps_all else None
            run_forward(shard, time, plan, self._slice(frames, worlds), worlds.start)

        with bridge.graph_lock:
            self._reserve(time, plan, limit, backward=False)
            self._parallel(run, lambda number: follow_forward(self.shards[0], time, plan, number))
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
        """Computes the gradients of the inputs at the positions `wanted`.

        Args as for `forward`, and:
            states: The results of `forward`.
            grads: Their gradients; None for zeros.
            wanted: Positions of inputs.
        """
        results = [torch.empty_like(inputs[place], memory_format=torch.contiguous_format) for place in wanted]
        given = self._by_world(grads)
        finite = [True] * len(self.shards)

        def run(index: int) -> None:
            shard, worlds = self.shards[index], self.slices[index]
            if shard.owner is not owner:  # another rollout has overwritten the history, so it is recomputed
                self._load(index, inputs, time, begin)
                shard.owner = None
            run_backward(
                shard,
                time,
                plan,
                lambda: self._slice(self._by_world(s.detach() for s in states), worlds),
                self._slice(given, worlds),
            )
            found = self._gradients(shard)
            for place, result in zip(wanted, self._slice(results, worlds), strict=True):
                result.copy_(found[place])
            finite[index] = shard.adjoint_pool.all_finite_fast() or all(map(all_finite, found))

        with bridge.graph_lock:
            self._reserve(time, plan, limit, backward=True)
            saved = self.shards[0].owner is owner
            self._parallel(run, lambda number: follow_backward(self.shards[0], time, plan, number, saved))
            if not all(finite):
                self._raise_broken_gradient(grads, time)
        return results

    def _by_world(self, tensors: Iterable[torch.Tensor | None]) -> list[Any]:
        """Returns tensors [*batch, T, count, width] as fast views [B, T, count, width]."""
        return [
            None if tensor is None else bridge.fast_view(tensor).reshape(self.world_count, *tensor.shape[-3:])
            for tensor in tensors
        ]

    def _slice(self, tensors: Sequence[Any], worlds: slice) -> Sequence[Any]:
        """Returns the worlds of one shard of tensors [B, ...]."""
        if self.pool is None:
            return tensors
        return [None if tensor is None else tensor[worlds] for tensor in tensors]

    def _gradients(self, shard: BatchShard) -> tuple[torch.Tensor, ...]:
        """Returns a shard's gradients of all inputs."""
        parameters, samples = shard.gradients()
        return (*shard.states("_adj"), *(parameters[family] for family in self.families), *samples)

    def _raise_broken_gradient(self, grads: Iterable[torch.Tensor | None], time: Time) -> None:
        """Raises an error that names the gradient that is not finite."""
        if not all(all_finite(grad) for grad in grads if grad is not None):
            raise BrokenGradient("the gradient that reached the trajectory is not finite: look at the loss")
        signals = (f"{signal.owner}'s signal of {signal.row}" for signal in self.shards[0].topology.signals)
        names = (*self.states, *self.families, *signals)
        for name, pieces in zip(names, zip(*map(self._gradients, self.shards), strict=True), strict=True):
            gradient = torch.cat(pieces)
            if not all_finite(gradient):
                raise BrokenGradient(_broken_message(self.shards[0].topology, name, gradient, time))

    def _reserve(self, time: Time, plan: MemoryPlan, limit: float, *, backward: bool) -> None:
        """Allocates histories and captures graphs, before threads start because Warp captures one graph at a time."""
        if self._ready in ((time, plan, limit, backward), (time, plan, limit, True)):
            return
        needed = sum(shard.step_bytes for shard in self.shards) * plan.chunk
        others = [engine for engine in ENGINES.values() if engine is not self]
        while others and needed + sum(engine.history_bytes for engine in others) > limit:
            others.pop(0).release()  # least recently used first; its backward passes recompute
        for shard in self.shards:
            shard.reserve(plan.chunk, limit * shard.world_count / self.world_count)
            shard.frame_steps = time.steps_per_frame
            lengths = list(plan.lengths(time.steps_per_frame)) if time.frames > 1 else []
            for count in [*lengths, *([0] if shard.topology.is_prescribed else [])]:
                for direction, starts in itertools.product((False, True)[: 1 + backward], shard.frame_starts):
                    for number in range(self.team):
                        shard.capture(direction, count, starts, (number, self.team))
        self._ready = (time, plan, limit, backward)

    def _load(self, index: int, inputs: Sequence[torch.Tensor], time: Time, begin: float) -> None:
        """Copies the inputs of a shard."""
        shard, worlds = self.shards[index], self.slices[index]
        values = self._slice(inputs, worlds)
        first, end = len(self.states), len(self.states) + len(self.families)
        parameters = dict(zip(self.families, values[first:end], strict=True))
        shard.load(parameters, values[end:], time.dt, begin)
        shard.load_states(values[:first])

    def _parallel(self, run: Callable[[int], None], follow: Callable[[int], None]) -> None:
        """Calls `run` for every shard, each in a thread of its own; graphs release the interpreter lock.

        A team of several threads on one shard consists of `run` and of `follow` for each of the others.
        """
        if self.pool is None:
            run(0)
            return

        shard = self.shards[0]
        shard.begin_team(self.team)

        def call(function: Callable[[int], None], index: int) -> None:
            try:
                with torch.no_grad():  # a worker does not inherit the mode of the calling thread
                    function(index)
            except BaseException:
                shard.team_state.stop = 1
                raise

        futures: list[Future[None]] = []
        try:
            futures += [self.pool.submit(call, run, index) for index in range(1, len(self.shards))]
            futures += [self.pool.submit(call, follow, number) for number in range(1, self.team)]
            call(run, 0)
        except BaseException:
            shard.team_state.stop = 1
            raise
        finally:
            if self.team > 1:
                futures = [future for future in futures if not future.cancel()]  # those that woke too late to help
            wait(futures)
            shard.team = 1
        for future in futures:
            future.result()


def shard_bounds(world_count: int, threads: int, group: int) -> list[int]:
    """Returns the bounds of the shards, one per thread, with equal numbers of groups of `group` worlds."""
    groups = -(-world_count // group)
    shards = max(1, min(threads, groups))
    return [min(groups * k // shards * group, world_count) for k in range(shards + 1)]


def _broken_message(topology: Topology, name: str, gradient: torch.Tensor, time: Time) -> str:
    row = ""
    if name in topology.families:
        bad = (~torch.isfinite(gradient)).any(-1).any(0).nonzero()[0].item()
        row = f".{topology.families[name].rows.names[int(bad)]}"
    return (
        f"the gradient of {name}{row} is not finite after {time.steps} steps of the backward pass: the motion is "
        "unstable or chaotic over this horizon; use fewer frames, a smaller time step or more damping"
    )


def engine_for(compiled: CompiledScene, integrator: Integrator) -> Engine:
    """Returns the engine for a scene, from the cache if one was built before."""
    signature = compiled.signature
    threads = bridge.kernel_threads() if signature.device.type == "cpu" else 1
    key = (signature.topology, signature.world_count, integrator, signature.dtype, signature.device, threads)

    def build() -> Engine:
        with bridge.graph_lock:  # arrays allocated while another thread captures would become part of its graph
            return Engine(*key)

    with _engines_lock:
        return ENGINES.get(key, build)
