"""Teams: threads that advance the worlds of one shard together, launch by launch.

The calling thread runs the passes of `passes.py`; the others follow it through the same launches, without touching the
state in between. `native/team.h` says how they share the work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from gradsim.scene.integrators import Integrator
from gradsim.scene.time import Time
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.engine.layout import lane_count
from gradsim.simulate.engine.memory import MemoryPlan
from gradsim.simulate.engine.partition import partition
from gradsim.simulate.engine.structures import MOST_THREADS


def can_share(topology: Topology, integrator: Integrator, device: torch.device) -> bool:
    """Whether threads can share the worlds of a shard: worlds of nodes without working memory common to all."""
    if device.type != "cpu" or not topology.is_native or integrator.implicit:
        return False
    own_memory = not any(force.per_world and force.native_arrays is not None for force in topology.forces)
    return set(topology.state_layout) == {"node"} and own_memory


def team_size(topology: Topology, world_count: int, dtype: torch.dtype, threads: int) -> int:
    """Returns how many threads share the worlds of a shard, or the subdomains of a single one."""
    if world_count > 1:
        return min(threads, world_count, MOST_THREADS)
    if topology.signals or topology.is_prescribed:
        return 1
    return min(threads, partition(topology, lane_count(dtype)).subdomain_count, MOST_THREADS)


def follow_forward(shard: BatchShard, time: Time, plan: MemoryPlan, number: int) -> None:
    """Takes the part of thread `number` in `run_forward`."""
    counts = [count for _, count in plan.segments(0, time.steps_per_frame)]
    for launch, count in enumerate(itertools.chain.from_iterable(itertools.repeat(counts, time.frames - 1)), 1):
        shard.follow(False, count, number, launch)


def follow_backward(shard: BatchShard, time: Time, plan: MemoryPlan, number: int, saved: bool) -> None:
    """Takes the part of thread `number` in `run_backward`; `saved` if the history is not recomputed."""
    frames = itertools.repeat(list(_frame_back(time.steps_per_frame, plan, saved)), time.frames - 1)
    for launch, (backward, count) in enumerate(itertools.chain.from_iterable(frames), 1):
        shard.follow(backward, count, number, launch)


def _frame_back(length: int, plan: MemoryPlan, saved: bool) -> Iterator[tuple[bool, int]]:
    """Yields the launches of the backward pass over a frame: whether each takes the adjoint, and its steps."""
    chunk = length if saved else min(plan.chunk, length)
    for begin in range(0, length - chunk, chunk):
        yield from ((False, count) for _, count in plan.segments(begin, chunk))
    for begin in reversed(range(0, length, chunk)):
        counts = [count for _, count in plan.segments(begin, min(chunk, length - begin))]
        yield from ((False, count) for count in counts if not saved)
        yield from ((True, count) for count in reversed(counts))
