"""Rigid cubes with eight contacts on a plane, many worlds at once, beside Newton on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

import gradsim as gs
from gradsim.bench.newton_peer import import_newton
from gradsim.bench.newton_rigid import NewtonCubes
from gradsim.bench.timing import Machine, least_times, this_machine

BATCHES = (1, 64, 1024)


@dataclass(frozen=True)
class Cubes:
    """Worlds of one cube each that falls on a plane, tilted, spinning and sliding; every world has its own values."""

    count: int
    edge: float = 0.5  # [m]
    kd: float = 50.0  # [N s/m]
    kf: float = 50.0  # [N s/m]
    delta: float | None = None  # [m]; gradsim's default if None
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 480.0  # [s]
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TriMesh:
        return gs.meshes.box((self.edge, self.edge, self.edge))

    @cached_property
    def mass(self) -> np.ndarray:
        """[kg], [B]."""
        return self._spread(0, 5.0, 15.0)

    @cached_property
    def ke(self) -> np.ndarray:
        """[N/m], [B]."""
        return self._spread(1, 5e3, 1.5e4)

    @cached_property
    def mu(self) -> np.ndarray:
        """[B]."""
        return self._spread(2, 0.2, 0.8)

    @cached_property
    def velocity(self) -> np.ndarray:
        """[m/s], [B, 3]: a metre a second down and about as much sideways."""
        return self._noise(3, 3) + np.array([0.0, -1.0, 0.0])

    @cached_property
    def spin(self) -> np.ndarray:
        """[rad/s], [B, 3]."""
        return 2.0 * self._noise(4, 3)

    @cached_property
    def rotation(self) -> np.ndarray:
        """Quaternions (x, y, z, w), [B, 4]: tilted by some ten degrees."""
        q = np.concatenate([0.1 * self._noise(5, 3), np.ones((self.count, 1))], 1)
        return q / np.linalg.norm(q, axis=1, keepdims=True)

    @cached_property
    def position(self) -> np.ndarray:
        """[m], [B, 3]: the lowest corner a centimetre above the plane."""
        x, y, z, w = self.rotation.T
        up = np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], 1)  # R's row of y
        height = self.edge / 2 * np.abs(up).sum(1) + 0.01
        return np.stack([np.zeros_like(height), height, np.zeros_like(height)], 1)

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [B, 3]."""
        return self._noise(6, 3)

    def _spread(self, stream: int, low: float, high: float) -> np.ndarray:
        return np.random.default_rng((self.seed, stream)).uniform(low, high, self.count)

    def _noise(self, stream: int, width: int) -> np.ndarray:
        return np.random.default_rng((self.seed, stream)).normal(size=(self.count, width))

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """mass, ke and mu [B] and velocity [B, 3], what gradients are taken in."""
        return {n: torch.tensor(getattr(self, n), dtype=dtype) for n in ("mass", "ke", "mu", "velocity")}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """All worlds, as one scene with a batch."""
        dtype = unknowns["mass"].dtype
        cube = gs.Rigid(
            "cube",
            self.mesh,
            mass=unknowns["mass"],
            position=torch.tensor(self.position, dtype=dtype),
            rotation=torch.tensor(self.rotation, dtype=dtype),
            velocity=unknowns["velocity"],
            angular_velocity=torch.tensor(self.spin, dtype=dtype),
        )
        ground = gs.Ground(unknowns["ke"], self.kd, self.kf, unknowns["mu"], self.delta)
        return gs.Scene([cube], gravity=(0.0, self.gravity, 0.0), ground=ground)

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Centres after `steps` steps [m], [B, 3]."""
        trajectory = gs.simulate(scene, frames=2, fps=1.0 / (self.dt * steps), substeps=steps)
        return trajectory["cube"].center_of_mass[..., -1, :]


@dataclass(frozen=True)
class Row:
    """One batch, precision and number of threads. Speeds in world-steps a second; None where nothing was measured."""

    worlds: int
    dtype: str
    threads: int  # of gradsim; Newton has one on a CPU
    forward: float
    both: float  # forward and backward, gradients to mass, ke, mu and velocity of every world
    newton_forward: float | None  # one launch a kernel, from Python
    newton_both: float | None
    newton_graph_forward: float | None  # the whole rollout recorded
    newton_graph_both: float | None

    @property
    def ratio_forward(self) -> float | None:
        """gradsim's speed in units of Newton's best."""
        return self.forward / self.newton_graph_forward if self.newton_graph_forward else None

    @property
    def ratio_both(self) -> float | None:
        return self.both / self.newton_graph_both if self.newton_graph_both else None
