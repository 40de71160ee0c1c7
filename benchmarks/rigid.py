"""Rigid cubes with eight contact points on a plane, in batches of worlds: steps a second, compared with Newton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_rigid import NewtonCubes
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import HEADINGS, Speeds, newton_fields, newton_requirements
from benchmarks.report import (
    Progress,
    Requirement,
    Section,
    footer,
    format_pair,
    missing_peer_note,
    new_table,
    no_progress,
)
from benchmarks.scenes import Cubes, rollout_calls
from benchmarks.timing import Call, Machine, minimum_times, on_threads, this_machine, torch_threads

BATCHES = (1, 64, 1024)
REQUIRED_BATCH = 64  # worlds with a required ratio to Newton; the others are only reported
STEPS = 960  # 2 s of motion
SINGLE_STEPS = 4800  # of a single world: its steps are so short that a call costs as much as a thousand of them


@dataclass(frozen=True, kw_only=True)
class CubesRow(Speeds):
    """One batch, precision and thread count: steps of all worlds, with gradients of mass, ke, mu and velocity."""

    worlds: int
    dtype: str
    threads: int  # of gradsim; Newton uses one on a CPU
    call_forward: float  # time of a rollout of one step, the minimum cost of a call [s]
    call_forward_backward: float


@dataclass(frozen=True)
class CubesResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[CubesRow, ...]
    steps: int | None  # of a rollout; `STEPS` and `SINGLE_STEPS` if None
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {
            "machine": asdict(self.machine),
            "steps": self.steps or {"one world": SINGLE_STEPS, "more": STEPS},
            "note": self.note,
            "rows": [row.as_dict() for row in self.rows],
        }


def measure_rigid(
    batches: Sequence[int] = BATCHES,
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    steps: int | None = None,
    peer: bool = True,
    seconds: float = 1.0,
    progress: Progress = no_progress,
) -> CubesResults:
    """Measures steps a second of all worlds, on one thread and on all of torch's threads.

    Args:
        batches: Numbers of worlds.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; 960 if None, 4,800 of a single world.
        peer: Whether to time Newton too, which supports float32 only.
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    for batch in batches:
        if batch < 1:
            raise gs.InvalidInput("batches", batch, "a batch needs at least one world")
    note = missing_peer_note(import_newton) if peer else None
    threads = sorted({1, torch.get_num_threads()})
    rows: list[CubesRow] = []
    with torch_threads(threads[-1]):
        for batch in batches:
            for dtype in dtypes:
                with_newton = peer and note is None and dtype == "float32"
                progress(f"{batch} cubes, {dtype}{', and Newton' if with_newton else ''}")
                count = steps or (SINGLE_STEPS if batch == 1 else STEPS)
                rows += _measure_rows(Cubes(batch), dtype, count, threads, with_newton, seconds)
    return CubesResults(tuple(rows), steps, this_machine("torch", "warp-lang", "newton"), note)


def _measure_rows(
    cubes: Cubes, dtype: str, steps: int, threads: Sequence[int], with_newton: bool, seconds: float
) -> list[CubesRow]:
    """Returns one row for each thread count; all calls are interleaved with Newton's."""
    precision: torch.dtype = getattr(torch, dtype)
    calls: dict[str, Call] = {}
    for count in threads:
        for prefix, length in (("", steps), ("call_", 1)):
            for name, call in rollout_calls(cubes, precision, length).items():
                calls[f"{prefix}{name} {count}"] = on_threads(count, call)
    if with_newton:
        calls |= NewtonCubes(cubes, steps=steps).calls()
    times = minimum_times(calls, seconds=seconds)
    speeds = {name: cubes.count * steps / time for name, time in times.items()}
    return [
        CubesRow(
            worlds=cubes.count,
            dtype=dtype,
            threads=count,
            forward=speeds[f"forward {count}"],
            forward_backward=speeds[f"forward_backward {count}"],
            **newton_fields(speeds),
            call_forward=times[f"call_forward {count}"],
            call_forward_backward=times[f"call_forward_backward {count}"],
        )
        for count in threads
    ]


def requirements(results: CubesResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    required = [
        (f"{row.worlds} cubes, {row.threads} thread(s)", row.worlds, row)
        for row in results.rows
        if row.dtype == "float32" and row.worlds == REQUIRED_BATCH
    ]
    return newton_requirements("rigid", required, forward=False)


def section(results: CubesResults) -> Section:
    """Returns the section of the report."""
    return Section("Rigid cubes", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: CubesResults) -> Table:
    """Returns the measurements as a table."""
    steps = f"{results.steps}" if results.steps else f"{STEPS} (one world: {SINGLE_STEPS})"
    title = (
        "Rigid cubes with eight contact points on a plane, one a world:\n"
        f"thousand steps a second of all worlds, rollouts of {steps} steps: forward / with backward"
    )
    found = new_table(title, ("worlds", "dtype", "threads", *HEADINGS, "call\nms"))
    for row in results.rows:
        call = format_pair(1e3 * row.call_forward, 1e3 * row.call_forward_backward, ".2f")
        found.add_row(f"{row.worlds:,}", row.dtype, str(row.threads), *row.columns(), call)
    remark = "threads: gradsim's; Newton uses one on a CPU; call: a rollout of one step, the minimum cost of simulate()"
    found.caption = footer(results.machine, remark, results.note)
    return found
