"""Rigid cubes with eight contacts on a plane, many worlds at once, beside Newton on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.newton_peer import import_newton
from gradsim.bench.newton_rigid import NewtonCubes
from gradsim.bench.result import Speeds, footer, new_table, newton_speeds, pair, peer_note
from gradsim.bench.timing import Machine, least_times, this_machine

BATCHES = (1, 64, 1024)
STEPS = 960  # two seconds of motion
SINGLE_STEPS = 4800  # of a single world, whose steps take microseconds: a call costs as much as a thousand of them


@dataclass(frozen=True)
class Cubes:
    """Worlds of one cube each that falls on a plane, tilted, spinning and sliding; every world has its own values."""

    count: int
    edge: float = 0.5  # [m]
    kd: float = 50.0  # [N s/m]
    kf: float = 50.0  # [N s/m]
    mu_range: tuple[float, float] = (0.2, 0.8)
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
        return self._spread(2, *self.mu_range)

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


@dataclass(frozen=True, kw_only=True)
class Row(Speeds):
    """One batch, precision and number of threads: steps of all worlds, gradients to mass, ke, mu, velocity of each."""

    worlds: int
    dtype: str
    threads: int  # of gradsim; Newton has one on a CPU
    call_forward: float  # a rollout of one step, what a call costs at least [s]
    call_both: float


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    rows: tuple[Row, ...]
    steps: int | None  # of one rollout, where one number was asked for
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [row.as_dict() for row in self.rows]
        return {
            "machine": asdict(self.machine),
            "steps": self.steps or {"one world": SINGLE_STEPS, "more": STEPS},
            "note": self.note,
            "rows": rows,
        }


def bench_rigid(
    batches: Sequence[int] = BATCHES,
    *,
    dtypes: Sequence[str] = ("float32",),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Callable[[str], None] | None = None,
) -> Bench:
    """Measure steps a second of cubes on a plane, on one thread and on as many as torch has.

    Args:
        batches: Numbers of worlds.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; 960 if None, 4,800 of a single world.
        peer: Whether to time Newton too, which knows float32 only.
        seconds: Time spent on each number [s].
        progress: Called with a line before each measurement.
    """
    for batch in batches:
        if batch < 1:
            raise gs.InvalidInput("batches", batch, "a batch needs at least one world")
    say = progress or (lambda _: None)
    note = peer_note(import_newton) if peer else None
    threads = sorted({1, torch.get_num_threads()})
    rows: list[Row] = []
    try:
        for batch in batches:
            for dtype in dtypes:
                rival = peer and note is None and dtype == "float32"
                say(f"{batch} cubes, {dtype}{', and Newton' if rival else ''}")
                count = steps or (SINGLE_STEPS if batch == 1 else STEPS)
                rows += _rows(Cubes(batch), dtype, count, threads, rival, seconds)
    finally:
        torch.set_num_threads(threads[-1])
    return Bench(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _rows(cubes: Cubes, dtype: str, steps: int, threads: Sequence[int], rival: bool, seconds: float) -> list[Row]:
    """One row a number of threads; all take turns with Newton."""
    precision: torch.dtype = getattr(torch, dtype)
    calls: dict[str, Callable[[], object]] = {}
    for count in threads:
        calls |= {f"{name} {count}": call for name, call in _own_calls(cubes, precision, steps, count).items()}
        calls |= {f"call_{name} {count}": call for name, call in _own_calls(cubes, precision, 1, count).items()}
    if rival:
        calls |= NewtonCubes(cubes, steps=steps).calls()
    times = least_times(calls, seconds=seconds)
    speeds = {name: cubes.count * steps / time for name, time in times.items()}
    return [
        Row(
            worlds=cubes.count,
            dtype=dtype,
            threads=count,
            forward=speeds[f"forward {count}"],
            both=speeds[f"both {count}"],
            **newton_speeds(speeds),
            call_forward=times[f"call_forward {count}"],
            call_both=times[f"call_both {count}"],
        )
        for count in threads
    ]


def _own_calls(cubes: Cubes, dtype: torch.dtype, steps: int, threads: int) -> dict[str, Callable[[], object]]:
    unknowns = {name: values.requires_grad_() for name, values in cubes.unknowns(dtype).items()}
    scene, known = cubes.scene(unknowns), cubes.scene(cubes.unknowns(dtype))
    weights = torch.as_tensor(cubes.weights, dtype=dtype)

    def forward() -> None:
        torch.set_num_threads(threads)
        cubes.simulate(known, steps)

    def both() -> None:
        torch.set_num_threads(threads)
        for values in unknowns.values():
            values.grad = None
        (cubes.simulate(scene, steps) * weights).sum().backward()

    return {"forward": forward, "both": both}


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    steps = f"{bench.steps}" if bench.steps else f"{STEPS} (one world: {SINGLE_STEPS})"
    title = (
        "Rigid cubes with eight contacts on a plane, each in a world of its own:\n"
        f"thousand steps a second over all worlds, rollouts of {steps} steps: forward / with backward"
    )
    pairs = ("gradsim", "Newton\nlaunches", "Newton\ngraph", "gradsim per\nNewton graph", "call\nms")
    result = new_table(title, ("worlds", "dtype", "threads", *pairs))
    for row in bench.rows:
        call = pair(1e3 * row.call_forward, 1e3 * row.call_both, ".2f")
        result.add_row(f"{row.worlds:,}", row.dtype, str(row.threads), *row.columns(), call)
    remark = "threads: gradsim's; Newton has one on a CPU; call: a rollout of one step, what simulate() costs at least"
    result.caption = footer(bench.machine, remark, bench.note)
    return result
