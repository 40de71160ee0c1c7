"""Smoothed tetrahedra beside constant-strain ones: cost of a step, stable step, and speed relative to Newton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_beam import NewtonBeam
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import format_thousands
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.scenes import BEAM_CELLS, Beam, describe_steps, rollout_calls, rollout_steps
from benchmarks.timing import Machine, minimum_times, this_machine

SIZES = (1000, 5000)
ELEMENTS: dict[str, gs.LinearTet | gs.SmoothedTet] = {"linear": gs.LinearTet(), "smoothed": gs.SmoothedTet()}
REQUIRED_COST = 2.5  # most time of a step with gradients, in units of a constant-strain one


@dataclass(frozen=True)
class SmoothedRow:
    """One size and precision, with gradients of mu and lam of every tetrahedron; steps a second."""

    tets: int
    dtype: str
    linear_forward: float
    linear_forward_backward: float
    forward: float
    forward_backward: float
    newton_graph_forward_backward: float | None  # of constant-strain tetrahedra
    stable_ratio: float  # of the stable steps with Verlet, smoothed over constant-strain

    @property
    def cost(self) -> float:
        """Time of a step with gradients, in units of a constant-strain one."""
        return self.linear_forward_backward / self.forward_backward


@dataclass(frozen=True)
class SmoothedResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[SmoothedRow, ...]
    machine: Machine
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [{**asdict(row), "cost": row.cost} for row in self.rows]
        return {"machine": asdict(self.machine), "note": self.note, "rows": rows}


def measure_smoothed(
    sizes: Sequence[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    peer: bool = True,
    seconds: float = 1.0,
    progress: Progress = no_progress,
) -> SmoothedResults:
    """Measures both elements alternately, one world on one core.

    Args:
        sizes: Numbers of tetrahedra, from `beams.SIZES`.
        dtypes: "float32" and "float64".
        peer: Whether to time Newton too, which supports float32 only.
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    note = missing_peer_note(import_newton) if peer else None
    rows = []
    for size in sizes:
        for dtype in dtypes:
            progress(f"{size} tets, {dtype}")
            rows.append(_measure_row(size, dtype, peer and note is None and dtype == "float32", seconds))
    return SmoothedResults(tuple(rows), this_machine("torch", "warp-lang", "newton"), note)


def _measure_row(size: int, dtype: str, with_newton: bool, seconds: float) -> SmoothedRow:
    precision: torch.dtype = getattr(torch, dtype)
    steps = rollout_steps(size)
    scenes = {name: Beam(BEAM_CELLS[size], element=own) for name, own in ELEMENTS.items()}
    calls = {
        f"{name}_{way}": call
        for name, beam in scenes.items()
        for way, call in rollout_calls(beam, precision, steps).items()
    }
    if with_newton:
        newton = NewtonBeam(scenes["linear"], steps=steps).calls()
        calls["newton"] = newton["newton_graph_forward_backward"]
    speeds = {name: steps / time for name, time in minimum_times(calls, seconds=seconds).items()}
    stable = {name: gs.stable_dt(beam.scene(beam.unknowns(precision)), gs.Verlet()) for name, beam in scenes.items()}
    return SmoothedRow(
        tets=len(scenes["linear"].mesh.tets),
        dtype=dtype,
        linear_forward=speeds["linear_forward"],
        linear_forward_backward=speeds["linear_forward_backward"],
        forward=speeds["smoothed_forward"],
        forward_backward=speeds["smoothed_forward_backward"],
        newton_graph_forward_backward=speeds.get("newton"),
        stable_ratio=stable["smoothed"] / stable["linear"],
    )


def requirements(results: SmoothedResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    found = []
    for row in results.rows:
        text = f"smoothed: {row.tets:,} tets, {row.dtype}, with gradients at most {REQUIRED_COST} times constant strain"
        found.append(Requirement(text, f"{row.cost:.2f}", row.cost <= REQUIRED_COST))
        if row.newton_graph_forward_backward:
            ratio = row.forward_backward / row.newton_graph_forward_backward
            text = f"smoothed: {row.tets:,} tets with gradients faster than Newton's graph of constant-strain ones"
            found.append(Requirement(text, f"{ratio:.2f}", ratio > 1))
    return found


def section(results: SmoothedResults) -> Section:
    """Returns the section of the report."""
    return Section("Smoothed tetrahedra", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: SmoothedResults) -> Table:
    """Returns the measurements as a table."""
    title = f"Thousand steps a second, one world, rollouts of {describe_steps(None)}: forward / with backward"
    headings = ("tets", "dtype", "LinearTet", "SmoothedTet", "cost", "Newton\ngraph", "stable step\nratio")
    found = new_table(title, headings)
    for row in results.rows:
        linear = format_thousands(row.linear_forward, row.linear_forward_backward)
        smoothed = format_thousands(row.forward, row.forward_backward)
        newton = format_thousands(None, row.newton_graph_forward_backward)
        found.add_row(
            f"{row.tets:,}", row.dtype, linear, smoothed, f"{row.cost:.2f}", newton, f"{row.stable_ratio:.2f}"
        )
    remark = "cost: time of a step with gradients relative to LinearTet; Newton has constant-strain tetrahedra"
    found.caption = footer(results.machine, remark, results.note)
    return found
