"""Recording of a scene: its trajectory and its video."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gradsim.fit.simulation import simulate_over
from gradsim.render.render import render
from gradsim.scene.errors import ContactWarning, StabilityWarning
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory


@contextmanager
def soft_ground() -> Iterator[None]:
    """Silences warnings that do not apply to the paper's scenes.

    The paper's ground is soft, so bodies sink in deeply. The stability estimate is conservative there: it assumes that
    more points are in contact at once than actually are.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContactWarning)
        warnings.simplefilter("ignore", StabilityWarning)
        yield


def record(scene: Scene, time: Time, *sides: int) -> tuple[Trajectory, list[torch.Tensor]]:
    """Simulates a scene once and renders it at each size [px]. Returns the trajectory and videos [T, side, side, 3]."""
    with soft_ground():
        trajectory = simulate_over(scene, time)
    return trajectory, [render(scene, trajectory, (side, side)) for side in sides]
