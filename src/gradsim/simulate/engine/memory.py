"""Memory plans: what a rollout stores for its backward pass and what it recomputes.

The states at the frames are always stored, because they are the result. Either the history has the states and forces of
all steps, or of one chunk of steps at a time, which the backward pass recomputes from the frame before. A frame longer
than a chunk is first simulated once more to store a checkpoint at the start of each chunk. Memory is then bounded by
frames plus chunk, never by their product.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

from gradsim.scene.errors import OutOfMemory
from gradsim.scene.memory import memory_text, total_memory

GRAPH_STEPS = 128  # longest graph of single launches [steps]


class MemoryPlan(NamedTuple):
    """How many steps of history are in memory at once."""

    keeps_all: bool  # whether the history of the whole rollout is kept for the backward pass
    chunk: int  # steps of history in memory
    graph: int  # steps of the longest captured graph

    def segments(self, first: int, count: int) -> list[tuple[int, int]]:
        """Divides the `count` steps from `first` on into graphs: (first step, steps)."""
        return [(s, min(self.graph, first + count - s)) for s in range(first, first + count, self.graph)]

    def lengths(self, substeps: int) -> set[int]:
        """Returns the lengths of all graphs that the forward and backward passes of a frame replay."""
        stretches = [substeps, *(min(self.chunk, substeps - s) for s in range(0, substeps, max(self.chunk, 1)))]
        return {count for stretch in stretches for _, count in self.segments(0, stretch)}


@functools.cache
def default_limit() -> int:
    """Returns a quarter of the machine's memory [bytes]."""
    return total_memory() // 4


@functools.lru_cache(maxsize=128)
def plan_memory(
    *, frames: int, substeps: int, step_bytes: int, limit: float, gradient: bool, graph_steps: int = GRAPH_STEPS
) -> MemoryPlan:
    """Chooses what to store.

    Args:
        frames: Frames of the rollout.
        substeps: Time steps between two frames.
        step_bytes: History of one step in all worlds [bytes].
        limit: Memory for history [bytes].
        gradient: Whether a backward pass may follow.
        graph_steps: Steps of the longest graph.
    """
    steps = max(frames - 1, 0) * substeps
    if not gradient:
        graph = min(substeps, graph_steps)
        return MemoryPlan(keeps_all=False, chunk=graph, graph=graph)
    if steps * step_bytes <= limit:
        return MemoryPlan(keeps_all=True, chunk=steps, graph=min(substeps, graph_steps))
    most = int(limit // step_bytes)
    chunk = substeps if substeps <= most else _largest_chunk(substeps, most)
    if chunk == 0:
        needed = (2 * math.isqrt(substeps) + 2) * step_bytes
        raise OutOfMemory(
            "memory",
            memory_text(limit),
            f"the backward pass over {substeps} substeps needs at least {memory_text(needed)}",
        )
    return MemoryPlan(keeps_all=False, chunk=chunk, graph=min(chunk, graph_steps))


def _largest_chunk(substeps: int, most: int) -> int:
    """Returns the longest chunk that fits together with a frame's substeps / chunk checkpoints; 0 if none does."""
    if most * most < 4 * substeps:
        return 0
    chunk = (most + math.isqrt(most * most - 4 * substeps)) // 2
    while chunk > 0 and chunk + math.ceil(substeps / chunk) > most:
        chunk -= 1
    return chunk
