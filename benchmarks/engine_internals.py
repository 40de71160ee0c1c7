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
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.engine.batch_shard import BatchShard
from gradsim.simulate.engine.engine import engine_for
from gradsim.simulate.engine.layout import worlds_per_group
from gradsim.simulate.engine.structures import MOST_THREADS
from gradsim.simulate.engine.team import can_share, team_size

CPU = torch.device("cpu")


def thread_shares(scene: gs.Scene) -> int:
    """Returns the number of shares of the batch, or of one large world, that can run on separate threads.

    Rigid worlds that share a block of SIMD lanes take as long as one of them, so a block is never divided.
    """
    compiled = compile_scene(scene)
    group = worlds_per_group(compiled.topology, compiled.dtype, compiled.device)
    groups = -(-compiled.world_count // group)
    if groups > 1 or not can_share(compiled.topology, INTEGRATOR, compiled.device):
        return groups
    return team_size(compiled.topology, 1, compiled.dtype, MOST_THREADS)


def history_bytes_per_step(scene: gs.Scene) -> int:
    """Returns the memory that a rollout with gradients stores for each step [bytes]."""
    return sum(shard.step_bytes for shard in engine_for(compile_scene(scene), INTEGRATOR).shards)


class KernelReplay:
    """Replays the kernels of the last rollout of a scene, without the Python code around them.

    Args:
        scene: One world; the engine of its rollouts is used.
        steps: Steps of the rollout.
    """

    def __init__(self, scene: gs.Scene, steps: int):
        self._engine = engine_for(compile_scene(scene), INTEGRATOR)
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
    compiled = compile_scene(scene)
    bridge.initialize()
    shard = BatchShard(compiled.topology, compiled.world_count, INTEGRATOR, compiled.dtype, CPU, native)
    shard.reserve(steps, math.inf)
    shard.load(compiled.parameters, compiled.signals, dt)

    def forward_backward() -> None:
        for name, state in compiled.states.items():
            shard.vectors(name).copy_(state)
        shard.clear_forces()
        shard.run(0, steps, 0, steps)
        shard.clear_gradients()
        for adjoint in shard.states("_adj"):
            adjoint.fill_(1e-3)
        shard.run_back(0, steps, 0, steps)

    return forward_backward
