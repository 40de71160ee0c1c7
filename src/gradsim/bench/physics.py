"""Physics steps a second on a beam of growing size, beside Newton on the same machine and the paper's GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.newton_peer import NewtonBeam, import_newton
from gradsim.bench.result import (
    Speeds,
    footer,
    new_table,
    newton_speeds,
    peer_note,
    rollout_steps,
    thousands,
    told_steps,
)
from gradsim.bench.timing import Machine, both_ways, least_times, this_machine, undisturbed
from gradsim.scene.integrators import SymplecticEuler
from gradsim.simulate.assemble import assemble
from gradsim.simulate.engine import Schedule, engine_for
from gradsim.simulate.memory import default_limit
from gradsim.simulate.simulate import rollout_inputs

CELLS = {
    100: (5, 2, 2),
    200: (10, 2, 2),
    400: (20, 2, 2),
    1000: (8, 5, 5),
    2000: (16, 5, 5),
    5000: (10, 10, 10),
    10000: (20, 10, 10),
}
SIZES = tuple(CELLS)

# Rates on a GPU that the paper prints, forward and backward [1/s].
PAPER = {
    100: (9057.0, 3721.0),
    200: (9057.0, 3780.0),
    400: (8751.0, 3750.0),
    1000: (4174.0, 1644.0),
    2000: (3967.0, 1655.0),
    5000: (3871.0, 1553.0),
    10000: (3721.0, 1429.0),
}

OVERHEAD_CALLS = 31


@dataclass(frozen=True)
class Beam:
    """A block of five tetrahedra a cell, held at one end, that starts out of rest."""

    cells: tuple[int, int, int]
    cell: float = 0.1  # edge of a cell [m]
    density: float = 1000.0  # [kg/m^3]
    mu: float = 1e4  # [Pa]
    lam: float = 1e4  # [Pa]
    damping: float = 1.0  # [Pa s]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 3000.0  # [s]
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TetMesh:
        return gs.meshes.tet_box(np.array(self.cells) * self.cell, self.cells)

    @cached_property
    def pinned(self) -> np.ndarray:
        """Which nodes are held, [N]."""
        x = self.mesh.vertices[:, 0]
        return np.asarray(x < x.min() + 0.5 * self.cell)

    @cached_property
    def start(self) -> np.ndarray:
        """Positions the free nodes start from [m], [N, 3]: off their rest by some 5 % of a cell."""
        return self.mesh.vertices + 0.05 * self.cell * self._noise[0]

    @cached_property
    def velocity(self) -> np.ndarray:
        """Velocities the free nodes start with [m/s], [N, 3]."""
        return 0.1 * self._noise[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [N, 3]."""
        return np.random.default_rng(self.seed + 1).normal(size=self.mesh.vertices.shape)

    @cached_property
    def _noise(self) -> np.ndarray:
        noise = np.random.default_rng(self.seed).normal(size=(2, *self.mesh.vertices.shape))
        return noise * ~self.pinned[:, None]

    def lame(self, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """mu and lam of every element [Pa], [T] each."""
        count = len(self.mesh.tets)
        return torch.full((count,), self.mu, dtype=dtype), torch.full((count,), self.lam, dtype=dtype)

    def scene(self, mu: torch.Tensor, lam: torch.Tensor) -> gs.Scene:
        """The beam with Lame parameters for every element [Pa], [T] each."""
        beam = gs.Soft(
            "beam",
            self.mesh,
            density=self.density,
            material=gs.NeoHookean(gs.per_element(mu), gs.per_element(lam), self.damping),
            vertices=self.start,
            velocity=gs.per_element(self.velocity),
            pinned=self.pinned,
        )
        return gs.Scene([beam], gravity=(0.0, self.gravity, 0.0))

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Positions after `steps` steps [m], [..., N, 3]."""
        return gs.simulate(scene, frames=2, fps=1.0 / (self.dt * steps), substeps=steps).vertices[..., -1, :, :]


@dataclass(frozen=True, kw_only=True)
class Row(Speeds):
    """One size and precision, with gradients to mu and lam of every element; None where the paper prints nothing."""

    tets: int
    nodes: int
    dtype: str
    paper_forward: float | None  # steps a second on a GPU
    paper_backward: float | None
    overhead: float  # of a call with new parameter values beyond the rollout itself [s]; see `simulate_overhead`


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    rows: tuple[Row, ...]
    steps: int | None  # of one rollout; `rollout_steps` if None
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        rows = [row.as_dict() for row in self.rows]
        return {"machine": asdict(self.machine), "steps": self.steps, "note": self.note, "rows": rows}


def bench_physics(
    sizes: Sequence[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Callable[[str], None] | None = None,
) -> Bench:
    """Measure steps a second, one world on one core.

    Args:
        sizes: Beams to simulate, by their number of tetrahedra, of `SIZES`.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; `rollout_steps` of the size if None.
        peer: Whether to time Newton too, which knows float32 only.
        seconds: Time spent on each number [s].
        progress: Called with a line before each measurement.
    """
    for size in sizes:
        if size not in CELLS:
            raise gs.InvalidInput("sizes", size, f"must be among {', '.join(map(str, SIZES))}")
    say = progress or (lambda _: None)
    note = peer_note(import_newton) if peer else None
    rows = []
    for size in sizes:
        beam = Beam(CELLS[size])
        for dtype in dtypes:
            rival = peer and note is None and dtype == "float32"
            say(f"{size} tets, {dtype}{', and Newton' if rival else ''}")
            rows.append(_row(beam, dtype, steps or rollout_steps(size), rival, seconds))
    return Bench(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _row(beam: Beam, dtype: str, steps: int, rival: bool, seconds: float) -> Row:
    precision: torch.dtype = getattr(torch, dtype)
    calls = _own_calls(beam, precision, steps)
    if rival:
        calls |= NewtonBeam(beam, steps=steps, weights=beam.weights).calls()
    speeds = {name: steps / time for name, time in least_times(calls, seconds=seconds).items()}
    tets = len(beam.mesh.tets)
    paper_forward, paper_backward = PAPER[tets]
    return Row(
        tets=tets,
        nodes=len(beam.mesh.vertices),
        dtype=dtype,
        forward=speeds["forward"],
        both=speeds["both"],
        **newton_speeds(speeds),
        paper_forward=paper_forward,
        paper_backward=paper_backward,
        overhead=simulate_overhead(beam, precision, steps),
    )


def _own_calls(beam: Beam, dtype: torch.dtype, steps: int) -> dict[str, Callable[[], object]]:
    mu, lam = (values.requires_grad_() for values in beam.lame(dtype))
    scene = beam.scene(mu, lam)
    weights = torch.as_tensor(beam.weights, dtype=dtype)

    return both_ways(lambda: beam.simulate(scene, steps), (mu, lam), weights)


def simulate_overhead(beam: Beam, dtype: torch.dtype, steps: int) -> float:
    """What a simulate() with new parameter values costs beyond the rollout itself [s].

    Each call gets a scene with Lame parameters of its own, made before the clock starts, and is followed by the
    engine's forward alone on the very tensors that scene assembles to; the median of the differences counts. So it
    holds what Python does with a scene at every call: flattening it, estimating the stable step, finding the engine,
    making the trajectory.
    """
    mu, lam = beam.lame(dtype)
    schedule, limit = Schedule(2, steps, beam.dt), float(default_limit())
    differences = []
    with torch.no_grad(), undisturbed():
        beam.simulate(beam.scene(mu, lam), steps)
        for factor in torch.linspace(0.9, 1.1, OVERHEAD_CALLS, dtype=dtype):
            scene = beam.scene(mu * factor, lam * factor)
            start = perf_counter()
            beam.simulate(scene, steps)
            whole = perf_counter() - start
            assembly = assemble(scene)
            engine = engine_for(assembly, SymplecticEuler())
            inputs = rollout_inputs(assembly)
            plan = engine.plan(schedule, limit, False)
            start = perf_counter()
            engine.forward(inputs, assembly.batch, schedule, plan, limit, object())
            differences.append(whole - (perf_counter() - start))
    return statistics.median(differences)


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    title = (
        f"Thousand physics steps a second, one world, rollouts of {told_steps(bench.steps)}: forward / with backward"
    )
    pairs = ("gradsim", "Newton\nlaunches", "Newton\ngraph", "gradsim per\nNewton graph", "paper's GPU\nfwd / bwd")
    result = new_table(title, ("tets", "dtype", *pairs, "call\nms"))
    for row in bench.rows:
        paper = thousands(row.paper_forward, row.paper_backward)
        result.add_row(f"{row.tets:,}", row.dtype, *row.columns(), paper, f"{1e3 * row.overhead:.2f}")
    remark = "call: what a simulate() with new parameter values costs beyond its rollout"
    result.caption = footer(bench.machine, remark, bench.note)
    return result
