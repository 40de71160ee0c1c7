"""Simulation of a scene over the frames of a `Time`."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.simulate import simulate


def simulate_over(
    scene: Scene,
    time: Time,
    *,
    start: State | None = None,
    dtype: torch.dtype | None = None,
    memory: float | None = None,
) -> Trajectory:
    """Simulates a scene over the frames of `time`; `start`, `dtype` and `memory` as for `gs.simulate`."""
    steps: dict[str, Any] = {"substeps": time.substeps, "integrator": time.integrator}
    return simulate(scene, frames=time.frames, fps=time.fps, start=start, dtype=dtype, memory=memory, **steps)
