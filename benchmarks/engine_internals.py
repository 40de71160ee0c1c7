"""Quantities of the simulation engine that no public function returns.

This is the only file of the benchmarks that imports internals of `gradsim.simulate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

import gradsim as gs
from benchmarks.scenes import INTEGRATOR
from gradsim import bridge
from gradsim.simulate.assemble import assemble
from gradsim.simulate.engine import engine_for
from gradsim.simulate.layout import worlds_together
from gradsim.simulate.shard import Shard

CPU = torch.device("cpu")


def thread_shares(scene: gs.Scene) -> int:
    """Returns the number of shares of the batch that can run on separate threads.

    Rigid worlds that share a block of SIMD lanes take as long as one of them, so a block is never divided.
    """
    assembly = assemble(scene)
    together = worlds_together(assembly.topology, assembly.dtype, assembly.device)
    return -(-assembly.world_count // together)


def history_bytes_per_step(scene: gs.Scene) -> int:
    """Returns the memory that a rollout with gradients stores for each step [bytes]."""
    return sum(shard.step_bytes for shard in engine_for(assemble(scene), INTEGRATOR).shards)


class KernelReplay:
    """Replays the kernels of the last rollout of a scene, without the Python code around them.

    Args:
        scene: One world; the engine of its rollouts is used.
        steps: Steps of the rollout.
    """

    def __init__(self, scene: gs.Scene, steps: int):
        self._engine = engine_for(assemble(scene), INTEGRATOR)
        self._steps = steps

    def forward(self) -> None:
        (shard,) = self._engine.shards
        shard.run(0, self._steps, 0, self._steps)

    def backward(self) -> None:
        (shard,) = self._engine.shards
        shard.run_back(0, self._steps, 0, self._steps)


def forward_backward_steps(scene: gs.Scene, *, native: bool, steps: int, dt: float = 1e-5) -> Callable[[], None]:
    """Returns a call that runs some steps forward and backward with the native or the portable kernels.

    Args:
        scene: The scene.
        native: Whether to use the native kernels.
        steps: Number of steps.
        dt: Time step [s].
    """
    assembly = assemble(scene)
    bridge.initialize()
    shard = Shard(assembly.topology, assembly.world_count, INTEGRATOR, assembly.dtype, CPU, native)
    shard.reserve(steps, math.inf)
    shard.load(assembly.tables, assembly.signals, dt)

    def forward_backward() -> None:
        for name, state in assembly.states.items():
            shard.vectors(name).copy_(state)
        shard.clear_forces()
        shard.run(0, steps, 0, steps)
        shard.clear_gradients()
        for adjoint in shard.states("_adj"):
            adjoint.fill_(1e-3)
        shard.run_back(0, steps, 0, steps)

    return forward_backward
