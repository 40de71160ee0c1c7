"""Cloth: sheets of growing size that stretch and bend, beside Newton on the same machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.newton_cloth import NewtonSheet
from gradsim.bench.newton_peer import import_newton
from gradsim.bench.result import Speeds, footer, new_table, newton_speeds, peer_note, rollout_steps, told_steps
from gradsim.bench.timing import Machine, both_ways, least_times, this_machine

CELLS = {128: 8, 512: 16, 1922: 31}
SIZES = tuple(CELLS)


@dataclass(frozen=True)
class Sheet:
    """A square sheet of two triangles a cell, held at one edge, that starts crumpled and moving."""

    cells: int
    cell: float = 0.05  # edge of a cell [m]
    density: float = 0.2  # [kg/m^2]
    mu: float = 50.0  # [N/m]
    lam: float = 50.0  # [N/m]
    damping: float = 0.01  # [N s/m]
    stiffness: float = 1e-3  # of bending [N m]
    bending_damping: float = 1e-6  # [N m s]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 3000.0  # [s]
    noise: float = 0.05  # of the start, in cells
    seed: int = 0

    @cached_property
    def mesh(self) -> gs.TriMesh:
        return gs.meshes.grid(self.cells * self.cell, self.cells)

    @cached_property
    def pinned(self) -> np.ndarray:
        """Which nodes are held, [N]."""
        x = self.mesh.vertices[:, 0]
        return np.asarray(x < x.min() + 0.5 * self.cell)

    @cached_property
    def start(self) -> np.ndarray:
        """Positions the free nodes start from [m], [N, 3], off their rest."""
        return self.mesh.vertices + self.noise * self.cell * self._noise[0]

    @cached_property
    def velocity(self) -> np.ndarray:
        """Velocities the free nodes start with [m/s], [N, 3]."""
        return 2.0 * self.noise * self._noise[1]

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [N, 3]."""
        return np.random.default_rng(self.seed + 1).normal(size=self.mesh.vertices.shape)

    @cached_property
    def _noise(self) -> np.ndarray:
        noise = np.random.default_rng(self.seed).normal(size=(2, *self.mesh.vertices.shape))
        return noise * ~self.pinned[:, None]

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """mu and lam [N/m] and the bending stiffness [N m] of every triangle, [F] each."""
        count = len(self.mesh.faces)
        values = {"mu": self.mu, "lam": self.lam, "stiffness": self.stiffness}
        return {name: torch.full((count,), value, dtype=dtype) for name, value in values.items()}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        values = {name: gs.per_element(value) for name, value in unknowns.items()}
        sheet = gs.Cloth(
            "sheet",
            self.mesh,
            density=self.density,
            material=gs.Membrane(values["mu"], values["lam"], self.damping),
            bending=gs.Bending(values["stiffness"], self.bending_damping),
            vertices=self.start,
            velocity=gs.per_element(self.velocity),
            pinned=self.pinned,
        )
        return gs.Scene([sheet], gravity=(0.0, self.gravity, 0.0))

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Positions after `steps` steps [m], [..., N, 3]."""
        return gs.simulate(scene, frames=2, fps=1.0 / (self.dt * steps), substeps=steps).vertices[..., -1, :, :]


@dataclass(frozen=True, kw_only=True)
class Row(Speeds):
    """One size and precision, with gradients to mu, lam and the bending stiffness of every triangle."""

    triangles: int
    nodes: int
    dtype: str


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


def bench_cloth(
    sizes: Sequence[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32",),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Callable[[str], None] | None = None,
) -> Bench:
    """Measure steps a second, one world on one core.

    Args:
        sizes: Sheets to simulate, by their number of triangles, of `SIZES`.
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
        for dtype in dtypes:
            rival = peer and note is None and dtype == "float32"
            say(f"{size} triangles, {dtype}{', and Newton' if rival else ''}")
            rows.append(_row(Sheet(CELLS[size]), dtype, steps or rollout_steps(size), rival, seconds))
    return Bench(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _row(sheet: Sheet, dtype: str, steps: int, rival: bool, seconds: float) -> Row:
    calls = _own_calls(sheet, getattr(torch, dtype), steps)
    if rival:
        calls |= NewtonSheet(sheet, steps=steps).calls()
    speeds = {name: steps / time for name, time in least_times(calls, seconds=seconds).items()}
    return Row(
        triangles=len(sheet.mesh.faces),
        nodes=len(sheet.mesh.vertices),
        dtype=dtype,
        forward=speeds["forward"],
        both=speeds["both"],
        **newton_speeds(speeds),
    )


def _own_calls(sheet: Sheet, dtype: torch.dtype, steps: int) -> dict[str, Callable[[], object]]:
    unknowns = {name: values.requires_grad_() for name, values in sheet.unknowns(dtype).items()}
    scene = sheet.scene(unknowns)
    weights = torch.as_tensor(sheet.weights, dtype=dtype)

    return both_ways(lambda: sheet.simulate(scene, steps), unknowns.values(), weights)


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    title = f"Cloth: thousand steps a second, one world, rollouts of {told_steps(bench.steps)}: forward / with backward"
    pairs = ("gradsim", "Newton\nlaunches", "Newton\ngraph", "gradsim per\nNewton graph")
    result = new_table(title, ("triangles", "dtype", *pairs))
    for row in bench.rows:
        result.add_row(f"{row.triangles:,}", row.dtype, *row.columns())
    remark = "membrane and bending; Newton bends each inner edge for itself, gradsim couples the three of a triangle"
    result.caption = footer(bench.machine, remark, bench.note)
    return result
