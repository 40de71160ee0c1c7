"""Batches of 16 worlds, and one large world, on one thread and on two, compared with two independent processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.engine_internals import thread_shares
from benchmarks.report import Progress, Requirement, Section, footer, format_pair, new_table, no_progress
from benchmarks.scenes import BEAM_CELLS, SHEET_CELLS, Beam, BenchmarkScene, Cubes, Sheet, rollout_steps
from benchmarks.timing import (
    Call,
    Machine,
    forward_backward_calls,
    minimum_times,
    on_threads,
    this_machine,
    torch_threads,
)

WORLDS = 16
CUBE_STEPS = 48_000  # a step of all cubes takes 0.25 us, a call as much as thousands of steps
SPEEDUP = 1.7  # required on two threads, where a batch can be divided
LARGE_CELLS, LARGE_STEPS = (20, 20, 10), 60  # of a beam of 20,000 tetrahedra
TEAM_SPEEDUP = 1.6  # required on two threads for one large world
LARGE = "one beam of 20,000 tets"


@dataclass(frozen=True)
class Batch:
    """Worlds with different parameters."""

    scene: gs.Scene
    simulate: Callable[[gs.Scene, int], torch.Tensor]  # returns positions after some steps [m]
    unknowns: tuple[torch.Tensor, ...]
    weights: torch.Tensor  # of the positions in the loss
    steps: int

    @property
    def shares(self) -> int:
        """Number of shares that can run on separate threads."""
        return thread_shares(self.scene)

    def calls(self, steps: int) -> dict[str, Call]:
        return forward_backward_calls(lambda: self.simulate(self.scene, steps), self.unknowns, self.weights)

    def results(self, steps: int) -> list[torch.Tensor]:
        """Returns the final positions and the gradients of the unknowns."""
        end = self.simulate(self.scene, steps)
        return [end.detach(), *torch.autograd.grad((end * self.weights).sum(), self.unknowns)]


def _batch(benchmark: BenchmarkScene, unknowns: dict[str, torch.Tensor], steps: int) -> Batch:
    leaves = {name: values.requires_grad_() for name, values in unknowns.items()}
    weights = torch.as_tensor(benchmark.weights, dtype=next(iter(leaves.values())).dtype)
    return Batch(benchmark.scene(leaves), benchmark.simulate, tuple(leaves.values()), weights, steps)


def _scale_by_world(unknowns: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns values of the elements [E] scaled by a different factor in each world, [WORLDS, E]."""
    factors = torch.linspace(0.9, 1.1, WORLDS, dtype=torch.float64)
    return {name: factors.to(values.dtype)[:, None] * values for name, values in unknowns.items()}


def _beam(dtype: torch.dtype) -> Batch:
    beam = Beam(BEAM_CELLS[1000])
    return _batch(beam, _scale_by_world(beam.unknowns(dtype)), rollout_steps(1000))


def _large_beam(dtype: torch.dtype) -> Batch:
    beam = Beam(LARGE_CELLS)
    return _batch(beam, beam.unknowns(dtype), LARGE_STEPS)


def _sheet(dtype: torch.dtype) -> Batch:
    sheet = Sheet(SHEET_CELLS[512])
    return _batch(sheet, _scale_by_world(sheet.unknowns(dtype)), rollout_steps(512))


def _cubes(dtype: torch.dtype) -> Batch:
    cubes = Cubes(WORLDS)
    return _batch(cubes, cubes.unknowns(dtype), CUBE_STEPS)


SCENES: dict[str, Callable[[torch.dtype], Batch]] = {
    f"{WORLDS} of a beam of 1,000 tets": _beam,
    f"{WORLDS} of a sheet of 512 triangles": _sheet,
    f"{WORLDS} of a cube on a plane": _cubes,
    LARGE: _large_beam,
}


@dataclass(frozen=True)
class Times:
    """Minimum times of a rollout [s], or ratios of such times."""

    forward: float
    forward_backward: float

    @property
    def minimum(self) -> float:
        return min(self.forward, self.forward_backward)

    def __truediv__(self, other: Times) -> Times:
        return Times(self.forward / other.forward, self.forward_backward / other.forward_backward)

    def __rmul__(self, factor: float) -> Times:
        return Times(factor * self.forward, factor * self.forward_backward)


@dataclass(frozen=True)
class WorldsRow:
    """One scene and precision."""

    scene: str
    dtype: str
    steps: int
    shares: int  # of the batch that can run on separate threads
    one: Times  # on one thread
    two: Times  # on two threads
    contended: Times  # on one thread, while another process runs the same batch on a thread of its own
    equal: bool  # whether final positions and gradients are bitwise equal on one thread and on two

    @property
    def speedup(self) -> Times:
        return self.one / self.two

    @property
    def process_speedup(self) -> Times:
        """Throughput of two independent processes, in units of one: the upper limit of the speed-up."""
        return 2.0 * (self.one / self.contended)


@dataclass(frozen=True)
class WorldsResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[WorldsRow, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [
            {**asdict(row), "speedup": asdict(row.speedup), "process_speedup": asdict(row.process_speedup)}
            for row in self.rows
        ]
        return {"machine": asdict(self.machine), "worlds": WORLDS, "rows": rows}


def measure_worlds(
    scenes: Sequence[str] = tuple(SCENES),
    *,
    dtypes: Sequence[str] = ("float32", "float64"),
    steps: int | None = None,
    seconds: float = 1.0,
    progress: Progress = no_progress,
) -> WorldsResults:
    """Measures batches on one thread, on two, and on one thread while another process runs.

    Args:
        scenes: Names of scenes, from `SCENES`.
        dtypes: "float32" and "float64".
        steps: Steps of a rollout; the same as in the other benchmarks if None, 48,000 for cubes.
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    rows = []
    with torch_threads(torch.get_num_threads()):
        for scene in scenes:
            for dtype in dtypes:
                progress(f"worlds: {scene}, {dtype}")
                rows.append(_measure_row(scene, dtype, steps, seconds))
    return WorldsResults(tuple(rows), this_machine("torch", "warp-lang"))


def _measure_row(scene: str, dtype: str, steps: int | None, seconds: float) -> WorldsRow:
    batch = SCENES[scene](getattr(torch, dtype))
    steps = steps or batch.steps
    calls: dict[str, Call] = {}
    with _competing_process(scene, dtype, steps) as contended:
        for name, call in batch.calls(steps).items():
            calls[f"{name} one"] = on_threads(1, call)
            calls[f"{name} two"] = on_threads(2, call)
            calls[f"{name} contended"] = on_threads(1, contended(call))
        least = minimum_times(calls, seconds=seconds)
    times = {
        way: Times(least[f"forward {way}"], least[f"forward_backward {way}"]) for way in ("one", "two", "contended")
    }
    results = [on_threads(threads, lambda: batch.results(steps))() for threads in (1, 2)]
    equal = all(map(torch.equal, *results))
    return WorldsRow(scene=scene, dtype=dtype, steps=steps, shares=batch.shares, equal=equal, **times)


@contextlib.contextmanager
def _competing_process(scene: str, dtype: str, steps: int) -> Iterator[Callable[[Call], Call]]:
    """Starts a process that repeats the same batch; yields a wrapper that lets it run only during a call."""
    spawn = multiprocessing.get_context("spawn")
    parent_end, child_end = spawn.Pipe()
    process = spawn.Process(target=_repeat_rollouts, args=(child_end, scene, dtype, steps), daemon=True)
    process.start()
    assert process.pid is not None
    pid = process.pid

    def contended(call: Call) -> Call:
        def run() -> None:
            os.kill(pid, signal.SIGCONT)
            try:
                call()
            finally:
                os.kill(pid, signal.SIGSTOP)

        return run

    try:
        child_end.close()  # the process holds the only other copy, so recv() fails if the process ends
        parent_end.recv()
        os.kill(pid, signal.SIGSTOP)
        yield contended
    finally:
        process.kill()
        process.join()


def _repeat_rollouts(ready: Connection, scene: str, dtype: str, steps: int) -> None:
    torch.set_num_threads(1)
    forward_backward = SCENES[scene](getattr(torch, dtype)).calls(steps)["forward_backward"]
    forward_backward()
    ready.send(True)
    while True:
        forward_backward()


def requirements(results: WorldsResults) -> list[Requirement]:
    """Returns the requirements: the speed-up where the batch can be divided, and bitwise equal results."""
    found = []
    for row in (row for row in results.rows if row.shares > 1):
        least, limit = row.speedup.minimum, row.process_speedup.minimum
        required = TEAM_SPEEDUP if row.scene == LARGE else SPEEDUP
        text = f"worlds: {row.scene}, {row.dtype}: two threads at least {required} times as fast"
        found.append(Requirement(text, f"{least:.2f} (two processes: {limit:.2f})", least >= required))
    equal = sum(row.equal for row in results.rows)
    text = "worlds: states and gradients on two threads are bitwise equal"
    return [*found, Requirement(text, f"{equal} of {len(results.rows)}", equal == len(results.rows))]


def section(results: WorldsResults) -> Section:
    """Returns the section of the report."""
    return Section("Worlds on two threads", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: WorldsResults) -> Table:
    """Returns the measurements as a table."""
    title = "Worlds on one thread and on two, milliseconds a rollout: forward / with backward"
    headings = ("worlds", "dtype", "steps", "one thread", "two threads", "speed-up", "two\nprocesses", "bitwise\nequal")
    found = new_table(title, headings)
    for row in results.rows:
        times = [format_pair(1e3 * time.forward, 1e3 * time.forward_backward, ".1f") for time in (row.one, row.two)]
        ratios = [
            format_pair(ratio.forward, ratio.forward_backward, ".2f") for ratio in (row.speedup, row.process_speedup)
        ]
        found.add_row(row.scene, row.dtype, f"{row.steps:,}", *times, *ratios, "yes" if row.equal else "NO")
    remark = "two processes: their throughput, with one thread and the whole batch each, in units of one process"
    single = sorted({f"{row.scene} in {row.dtype}" for row in results.rows if row.shares == 1})
    single_remark = f"{', '.join(single)}: the worlds fill one block of SIMD lanes and run on one thread"
    found.caption = footer(results.machine, remark, single_remark if single else None)
    return found
