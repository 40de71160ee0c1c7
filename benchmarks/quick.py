"""A check of half a minute for performance regressions: native kernels and renderers compared with plain ones.

Each native kernel is timed alternately with its portable reference on the same steps, so that a slow machine slows
both. `Exact` and `SoftRas` are timed alternately with plain SoftRas kernels on the same images. A ratio far below the
usual one means that a fast path is not taken.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.engine_internals import forward_backward_steps
from benchmarks.render import PlainRun
from benchmarks.render_scenes import RasterizerRun, rotating_mesh
from benchmarks.report import Progress, Requirement, Section, footer, new_table, no_progress
from benchmarks.scenes import BEAM_CELLS, SHEET_CELLS, Beam, BenchmarkScene, Cubes, Sheet
from benchmarks.timing import Call, Machine, minimum_times, this_machine

STEPS = 20
SCENES: dict[str, tuple[BenchmarkScene, float]] = {  # scene, required ratio
    "1,000 tetrahedra": (Beam(BEAM_CELLS[1000]), 2.0),
    "512 triangles of cloth": (Sheet(SHEET_CELLS[512]), 3.0),
    "64 rigid cubes": (Cubes(64), 4.0),
}
RENDER_RATIO = 4.0


@dataclass(frozen=True)
class SpeedRatio:
    """How many times faster than a reference something runs, forward and backward."""

    name: str
    reference: str
    ratio: float
    required: float  # about half of the usual ratio

    @property
    def requirement(self) -> Requirement:
        text = f"{self.name}: at least {self.required:g} times as fast as {self.reference}"
        return Requirement(text, f"{self.ratio:.1f}", self.ratio >= self.required)


@dataclass(frozen=True)
class QuickResults:
    """The measurements, and the machine they were made on."""

    ratios: tuple[SpeedRatio, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {"machine": asdict(self.machine), "ratios": [asdict(ratio) for ratio in self.ratios]}


def measure_quick(*, seconds: float = 0.3, progress: Progress = no_progress) -> QuickResults:
    """Measures the ratios.

    Args:
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    ratios = []
    for name, (benchmark, required) in SCENES.items():
        progress(name)
        scene = benchmark.scene(benchmark.unknowns(torch.float32))
        calls = {
            kernels: forward_backward_steps(scene, native=kernels == "native", steps=STEPS)
            for kernels in ("native", "portable")
        }
        times = minimum_times(calls, seconds=seconds)
        ratios.append(SpeedRatio(name, "portable kernels", times["portable"] / times["native"], required))
    progress("rendering")
    ratios += _render_ratios(seconds)
    return QuickResults(tuple(ratios), this_machine("torch", "warp-lang"))


def _render_ratios(seconds: float) -> list[SpeedRatio]:
    """Returns the ratios of SoftRas and Exact to plain SoftRas kernels, on frames of 320 faces and 64 pixels."""
    softras, triangles = gs.SoftRas(), rotating_mesh(320, 64, 4)
    soft = RasterizerRun(softras, triangles, 64, torch.float32, alpha=True)
    exact = RasterizerRun(gs.Exact(), triangles, 64, torch.float64)
    plain = PlainRun(soft, softras)
    calls: dict[str, Call] = {
        "plain": plain.forward_backward,
        "SoftRas": soft.forward_backward,
        "Exact": exact.forward_backward,
    }
    times = minimum_times(calls, seconds=seconds)
    return [
        SpeedRatio(f"{name}, 320 faces", "plain SoftRas kernels", times["plain"] / times[name], RENDER_RATIO)
        for name in ("SoftRas", "Exact")
    ]


def section(results: QuickResults) -> Section:
    """Returns the section of the report."""
    requirements = tuple(ratio.requirement for ratio in results.ratios)
    return Section("Quick check", table(results), results.as_dict(), requirements)


def table(results: QuickResults) -> Table:
    """Returns the measurements as a table."""
    found = new_table("Speed relative to a reference, forward and backward", ("name", "reference", "ratio", "required"))
    for ratio in results.ratios:
        found.add_row(ratio.name, ratio.reference, f"{ratio.ratio:.1f}", f"{ratio.required:g}")
    found.caption = footer(results.machine)
    return found
