"""Sheets of cloth of 128 to 1,922 triangles: steps a second, compared with Newton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_cloth import NewtonSheet
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import HEADINGS, Speeds, newton_fields, newton_requirements
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.scenes import SHEET_CELLS, Sheet, describe_steps, rollout_calls, rollout_steps
from benchmarks.timing import Machine, minimum_times, this_machine

SIZES = tuple(SHEET_CELLS)


@dataclass(frozen=True, kw_only=True)
class ClothRow(Speeds):
    """One size and precision, with gradients of mu, lam and the bending stiffness of every triangle."""

    triangles: int
    nodes: int
    dtype: str


@dataclass(frozen=True)
class ClothResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[ClothRow, ...]
    steps: int | None  # of a rollout; `rollout_steps` if None
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [row.as_dict() for row in self.rows]
        return {"machine": asdict(self.machine), "steps": self.steps, "note": self.note, "rows": rows}


def measure_cloth(
    sizes: Sequence[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32",),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Progress = no_progress,
) -> ClothResults:
    """Measures steps a second of one world on one core.

    Args:
        sizes: Numbers of triangles, from `SIZES`.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; `rollout_steps` of the size if None.
        peer: Whether to time Newton too, which supports float32 only.
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    for size in sizes:
        if size not in SHEET_CELLS:
            raise gs.InvalidInput("sizes", size, f"must be among {', '.join(map(str, SIZES))}")
    note = missing_peer_note(import_newton) if peer else None
    rows = []
    for size in sizes:
        sheet = Sheet(SHEET_CELLS[size])
        for dtype in dtypes:
            with_newton = peer and note is None and dtype == "float32"
            progress(f"{size} triangles, {dtype}{', and Newton' if with_newton else ''}")
            rows.append(_measure_row(sheet, dtype, steps or rollout_steps(size), with_newton, seconds))
    return ClothResults(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _measure_row(sheet: Sheet, dtype: str, steps: int, with_newton: bool, seconds: float) -> ClothRow:
    calls = rollout_calls(sheet, getattr(torch, dtype), steps)
    if with_newton:
        calls |= NewtonSheet(sheet, steps=steps).calls()
    speeds = {name: steps / time for name, time in minimum_times(calls, seconds=seconds).items()}
    return ClothRow(
        triangles=len(sheet.mesh.faces),
        nodes=len(sheet.mesh.vertices),
        dtype=dtype,
        forward=speeds["forward"],
        forward_backward=speeds["forward_backward"],
        **newton_fields(speeds),
    )


def requirements(results: ClothResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    single = [(f"{row.triangles:,} triangles", row.triangles, row) for row in results.rows if row.dtype == "float32"]
    return newton_requirements("cloth", single, forward=False)


def section(results: ClothResults) -> Section:
    """Returns the section of the report."""
    return Section("Cloth", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: ClothResults) -> Table:
    """Returns the measurements as a table."""
    steps = describe_steps(results.steps)
    title = f"Cloth: thousand steps a second, one world, rollouts of {steps}: forward / with backward"
    found = new_table(title, ("triangles", "dtype", *HEADINGS))
    for row in results.rows:
        found.add_row(f"{row.triangles:,}", row.dtype, *row.columns())
    remark = "membrane and bending; Newton bends each inner edge independently, gradsim couples the edges of a triangle"
    found.caption = footer(results.machine, remark, results.note)
    return found
