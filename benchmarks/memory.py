"""Memory that the backward pass stores for each step, and growth of a process over a rollout with gradients."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Group
from rich.table import Table

import gradsim as gs
from benchmarks.chain import CONTACT_STEPS, contact_scene, estimate_contact
from benchmarks.engine_internals import history_bytes_per_step
from benchmarks.report import Progress, Section, footer, new_table, no_progress
from benchmarks.rigid import BATCHES
from benchmarks.scenes import BEAM_CELLS, INTEGRATOR, SHEET_CELLS, Beam, BenchmarkScene, Cubes, Sheet
from benchmarks.timing import Machine, this_machine

DTYPE = torch.float64  # float32 stores half
CONTACT = "five contact parameters"
TETS = 1000
STEPS = (100, 1_000, 10_000)
LIMITS = (None, 200e6, 20e6)  # [bytes]; None: a quarter of the machine's memory


@dataclass(frozen=True)
class StepMemory:
    """Memory stored for one step of a scene."""

    scene: str
    elements: int  # tetrahedra, triangles or bodies of all worlds
    step_bytes: int

    @property
    def element_bytes(self) -> float:
        return self.step_bytes / self.elements


@dataclass(frozen=True)
class ProcessGrowth:
    """Growth of the peak memory of a new process over a rollout, beyond that of a rollout of one step [bytes]."""

    rollout: str
    steps: int
    limit: float | None  # of the history [bytes]; a quarter of the machine's memory if None
    history: int | None  # size of the history with every step stored [bytes]
    growth: int


@dataclass(frozen=True)
class MemoryResults:
    """The measurements, and the machine they were made on."""

    step_memory: tuple[StepMemory, ...]
    process_growth: tuple[ProcessGrowth, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {
            "machine": asdict(self.machine),
            "step_memory": [{**asdict(row), "element_bytes": row.element_bytes} for row in self.step_memory],
            "process_growth": [asdict(row) for row in self.process_growth],
        }


def measure_memory(
    *,
    steps: Sequence[int] = STEPS,
    limits: Sequence[float | None] = LIMITS,
    chain: bool = True,
    progress: Progress = no_progress,
) -> MemoryResults:
    """Measures the memory of a step, and the growth of new processes.

    Args:
        steps: Lengths of the rollouts of 1,000 tetrahedra, float64, with gradients.
        limits: Of their history [bytes].
        chain: Whether to measure an estimation of five contact parameters from a video too.
        progress: Called with one line before each measurement.
    """
    progress("memory of a step")
    step_memory = tuple(StepMemory(name, count, history_bytes_per_step(scene)) for name, count, scene in _scenes())
    step_bytes = history_bytes_per_step(_require_gradients(Beam(BEAM_CELLS[TETS])))
    growth = []
    for count in steps:
        for limit in limits:
            progress(f"memory of {count:,} steps, {_format_limit(limit)}")
            grown = _in_new_process(_beam_growth, count, limit)
            growth.append(ProcessGrowth(f"beam of {TETS:,} tets", count, limit, count * step_bytes, grown))
    if chain:
        progress(f"memory of {CONTACT}")
        growth.append(ProcessGrowth(CONTACT, CONTACT_STEPS, None, None, _in_new_process(_contact_growth)))
    return MemoryResults(step_memory, tuple(growth), this_machine("torch", "warp-lang"))


def _scenes() -> Iterator[tuple[str, int, gs.Scene]]:
    """Yields name, number of elements and scene."""
    for tets, beam_cells in BEAM_CELLS.items():
        yield f"beam of {tets:,} tets", tets, _require_gradients(Beam(beam_cells))
    for triangles, sheet_cells in SHEET_CELLS.items():
        yield f"sheet of {triangles:,} triangles", triangles, _require_gradients(Sheet(sheet_cells))
    for worlds in BATCHES:
        yield f"{worlds:,} cube(s)", worlds, _require_gradients(Cubes(worlds))
    yield CONTACT, 1, contact_scene(DTYPE)


def _require_gradients(benchmark: BenchmarkScene) -> gs.Scene:
    return benchmark.scene({name: values.requires_grad_() for name, values in benchmark.unknowns(DTYPE).items()})


# --- growth of a process ---------------------------------------------------------------------------------------------


def _in_new_process(measure: Callable[..., int], *arguments: Any) -> int:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def _beam_growth(steps: int, limit: float | None) -> int:
    beam = Beam(BEAM_CELLS[TETS])
    scene = _require_gradients(beam)

    def forward_backward(count: int) -> None:
        fps = 1.0 / (beam.dt * count)
        motion = gs.simulate(scene, frames=2, fps=fps, substeps=count, integrator=INTEGRATOR, memory=limit)
        motion.vertices[-1].sum().backward()

    return _peak_growth(lambda: forward_backward(steps), warm_up=lambda: forward_backward(1))


def _contact_growth() -> int:
    """Measures a whole estimation with its images and the loading of kernels, since no part of it runs alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _peak_growth(estimate_contact)


def _peak_growth(call: Callable[[], object], warm_up: Callable[[], object] = lambda: None) -> int:
    """Returns the growth of this process's peak memory during `call` [bytes]."""
    torch.set_num_threads(1)
    warm_up()
    gc.collect()
    before = _peak_memory()
    call()
    return _peak_memory() - before


def _peak_memory() -> int:
    """Returns the peak memory of this process [bytes]."""
    status = Path("/proc/self/status")
    if status.exists():  # on Linux, rusage of a spawned process includes the peak of its parent
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on macOS


# --- report ----------------------------------------------------------------------------------------------------------


def section(results: MemoryResults) -> Section:
    """Returns the section of the report."""
    return Section("Memory", Group(_step_table(results), _growth_table(results)), results.as_dict())


def _step_table(results: MemoryResults) -> Table:
    headings = ("scene", "bytes a step", "bytes a step\nand element")
    found = new_table("History stored for the backward pass, float64", headings)
    for row in results.step_memory:
        found.add_row(row.scene, f"{row.step_bytes:,}", f"{row.element_bytes:.1f}")
    found.caption = "elements: tetrahedra, triangles or bodies; the history holds their nodes; float32 stores half"
    return found


def _growth_table(results: MemoryResults) -> Table:
    headings = ("rollout with gradients", "steps", "memory=", "history MB", "growth MB")
    found = new_table("Growth of a new process, float64", headings)
    for row in results.process_growth:
        history = "-" if row.history is None else f"{row.history / 1e6:.1f}"
        found.add_row(row.rollout, f"{row.steps:,}", _format_limit(row.limit), history, f"{row.growth / 1e6:.1f}")
    remark = (
        "history: every step stored; growth: beyond a rollout of one step, captured graphs and gradients included;\n"
        f"{CONTACT}: the whole estimation with its images and the loading of kernels"
    )
    found.caption = footer(results.machine, remark)
    return found


def _format_limit(limit: float | None) -> str:
    return "default" if limit is None else f"{limit / 1e6:g} MB"
