"""Elastic beams of 100 to 10,000 tetrahedra: steps a second, compared with Newton and with the paper's GPU."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_beam import NewtonBeam
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import HEADINGS, Speeds, format_thousands, newton_fields, newton_requirements
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.scenes import BEAM_CELLS, Beam, describe_steps, rollout_calls, rollout_steps
from benchmarks.timing import Machine, gc_disabled, minimum_times, this_machine

SIZES = tuple(BEAM_CELLS)
REQUIRED_SIZES = (100, 1000, 5000, 10000)  # sizes with required ratios to Newton; the others are only reported
DOUBLE_TIME = 2.2  # required: most time of float64, in units of float32

# Steps a second on a GPU that the paper prints: forward and backward.
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


@dataclass(frozen=True, kw_only=True)
class BeamRow(Speeds):
    """One size and precision, with gradients of mu and lam of every tetrahedron."""

    tets: int
    nodes: int
    dtype: str
    paper_forward: float  # steps a second on a GPU
    paper_backward: float
    overhead: float  # of a call with new parameter values [s]; see `call_overhead`

    @property
    def ratio_paper(self) -> float:
        """Speed in units of the paper's GPU: the smaller of forward and of forward and backward together."""
        paper_time = 1.0 / self.paper_forward + 1.0 / self.paper_backward
        return min(self.forward / self.paper_forward, self.forward_backward * paper_time)


@dataclass(frozen=True)
class BeamResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[BeamRow, ...]
    steps: int | None  # of a rollout; `rollout_steps` if None
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [row.as_dict() for row in self.rows]
        return {"machine": asdict(self.machine), "steps": self.steps, "note": self.note, "rows": rows}


def measure_beams(
    sizes: Sequence[int] = SIZES,
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Progress = no_progress,
) -> BeamResults:
    """Measures steps a second of one world on one core.

    Args:
        sizes: Numbers of tetrahedra, from `SIZES`.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; `rollout_steps` of the size if None.
        peer: Whether to time Newton too, which supports float32 only.
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    for size in sizes:
        if size not in BEAM_CELLS:
            raise gs.InvalidInput("sizes", size, f"must be among {', '.join(map(str, SIZES))}")
    note = missing_peer_note(import_newton) if peer else None
    rows = []
    for size in sizes:
        beam = Beam(BEAM_CELLS[size])
        for dtype in dtypes:
            with_newton = peer and note is None and dtype == "float32"
            progress(f"{size} tets, {dtype}{', and Newton' if with_newton else ''}")
            rows.append(_measure_row(beam, dtype, steps or rollout_steps(size), with_newton, seconds))
    return BeamResults(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _measure_row(beam: Beam, dtype: str, steps: int, with_newton: bool, seconds: float) -> BeamRow:
    precision: torch.dtype = getattr(torch, dtype)
    calls = rollout_calls(beam, precision, steps)
    if with_newton:
        calls |= NewtonBeam(beam, steps=steps).calls()
    speeds = {name: steps / time for name, time in minimum_times(calls, seconds=seconds).items()}
    tets = len(beam.mesh.tets)
    paper_forward, paper_backward = PAPER[tets]
    return BeamRow(
        tets=tets,
        nodes=len(beam.mesh.vertices),
        dtype=dtype,
        forward=speeds["forward"],
        forward_backward=speeds["forward_backward"],
        **newton_fields(speeds),
        paper_forward=paper_forward,
        paper_backward=paper_backward,
        overhead=call_overhead(beam, precision, 1.0 / speeds["forward"]),
    )


def call_overhead(beam: Beam, dtype: torch.dtype, step_time: float) -> float:
    """Returns the time that a simulate() call with new parameter values takes beyond its steps [s].

    It is the median over rollouts of one step, less the time of that step. Each call gets a scene with its own Lame
    parameters, built before the clock starts.

    Args:
        beam: The scene.
        dtype: Precision.
        step_time: Time of a step [s].
    """
    unknowns = beam.unknowns(dtype)
    times = []
    with torch.no_grad(), gc_disabled():
        beam.simulate(beam.scene(unknowns), 1)
        for factor in torch.linspace(0.9, 1.1, OVERHEAD_CALLS, dtype=dtype):
            scene = beam.scene({name: factor * values for name, values in unknowns.items()})
            start = perf_counter()
            beam.simulate(scene, 1)
            times.append(perf_counter() - start)
    return statistics.median(times) - step_time


def requirements(results: BeamResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    single = [row for row in results.rows if row.dtype == "float32"]
    required = [(f"{row.tets:,} tets", row.tets, row) for row in single if row.tets in REQUIRED_SIZES]
    found = newton_requirements("tets", required)
    double = {row.tets: row for row in results.rows if row.dtype == "float64"}
    ratios = [row.forward_backward / double[row.tets].forward_backward for row in single if row.tets in double]
    if ratios:
        text = f"tets: float64 takes at most {DOUBLE_TIME} times as long as float32"
        found.append(Requirement(text, f"at most {max(ratios):.2f}", max(ratios) <= DOUBLE_TIME))
    if single:
        least = min(row.ratio_paper for row in single)
        text = "tets: faster than the paper's GPU at every size"
        found.append(Requirement(text, f"at least {least:.1f} times", least > 1))
    return found


def section(results: BeamResults) -> Section:
    """Returns the section of the report."""
    return Section("Elastic beams", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: BeamResults) -> Table:
    """Returns the measurements as a table."""
    steps = describe_steps(results.steps)
    title = f"Thousand steps a second, one world, rollouts of {steps}: forward / with backward"
    found = new_table(title, ("tets", "dtype", *HEADINGS, "paper's GPU\nfwd / bwd", "call\nms"))
    for row in results.rows:
        paper = format_thousands(row.paper_forward, row.paper_backward)
        found.add_row(f"{row.tets:,}", row.dtype, *row.columns(), paper, f"{1e3 * row.overhead:.2f}")
    remark = "call: time of a simulate() call with new parameter values beyond its steps"
    found.caption = footer(results.machine, remark, results.note)
    return found
