"""Half a minute that tells whether something became slow: native kernels beside their portable twins, in one run.

The portable twin is timed in turn with the native kernel on the same steps, so a slow machine slows both; and Exact is
held against plain SoftRas kernels on the same picture. A ratio far below the usual one means that a fast way was lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from gradsim import bridge
from gradsim.bench.cloth import CELLS as SHEETS
from gradsim.bench.cloth import Sheet
from gradsim.bench.physics import CELLS as BEAMS
from gradsim.bench.physics import Beam
from gradsim.bench.pictures import Drawing, turning
from gradsim.bench.render import Plain
from gradsim.bench.result import footer, new_table
from gradsim.bench.rigid import Cubes
from gradsim.bench.timing import Machine, least_times, this_machine
from gradsim.scene.integrators import SymplecticEuler
from gradsim.simulate.assemble import assemble
from gradsim.simulate.shard import Shard

STEPS = 20
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Ratio:
    """How many times faster than its reference something is, forward and backward."""

    what: str
    reference: str
    ratio: float
    least: float  # below it something was lost; about half of the usual

    @property
    def met(self) -> bool:
        return self.ratio >= self.least


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    ratios: tuple[Ratio, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"machine": asdict(self.machine), "ratios": [asdict(ratio) for ratio in self.ratios]}


def bench_quick(*, seconds: float = 0.3, progress: Callable[[str], None] = lambda text: None) -> Bench:
    """Time each pair in turn; `seconds` are spent on each of them."""
    beam, sheet, cubes = Beam(BEAMS[1000]), Sheet(SHEETS[512]), Cubes(64)
    scenes = {
        "1,000 tetrahedra": (beam.scene(*beam.lame(torch.float32)), 2.0),
        "512 triangles of cloth": (sheet.scene(sheet.unknowns(torch.float32)), 3.0),
        "64 rigid cubes": (cubes.scene(cubes.unknowns(torch.float32)), 4.0),
    }
    ratios = []
    for what, (scene, least) in scenes.items():
        progress(what)
        calls = {name: _steps(scene, native) for name, native in (("native", True), ("portable", False))}
        times = least_times(calls, seconds=seconds)
        ratios.append(Ratio(what, "portable kernels", times["portable"] / times["native"], least))
    progress("pictures")
    ratios += _pictures(seconds)
    return Bench(tuple(ratios), this_machine("torch", "warp-lang"))


def _steps(scene: gs.Scene, native: bool) -> Callable[[], None]:
    """Some steps forward and back, without anything about them."""
    assembly = assemble(scene)
    bridge.initialize()
    shard = Shard(assembly.topology, assembly.world_count, SymplecticEuler(), assembly.dtype, CPU, native)
    shard.reserve(STEPS, math.inf)
    shard.load(assembly.tables, assembly.signals, 1e-5)

    def both() -> None:
        for name, state in assembly.states.items():
            shard.vectors(name).copy_(state)
        shard.clear_forces()
        shard.run(0, STEPS, 0, STEPS)
        shard.clear_gradients()
        for adjoint in shard.states("_adj"):
            adjoint.fill_(1e-3)
        shard.run_back(0, STEPS, 0, STEPS)

    return both


def _pictures(seconds: float) -> list[Ratio]:
    """Exact and SoftRas beside plain SoftRas kernels, on frames of 320 faces and 64 pixels."""
    softras, scene = gs.SoftRas(), turning(320, 64, 4)
    soft = Drawing(softras, scene, 64, torch.float32, alpha=True)
    exact = Drawing(gs.Exact(), turning(320, 64, 4), 64, torch.float64)
    calls = {"plain": Plain(soft, softras).both, "softras": soft.both, "exact": exact.both}
    times = least_times(calls, seconds=seconds)
    found = []
    for name, what, least in (("softras", "SoftRas, 320 faces", 4.0), ("exact", "Exact, 320 faces", 4.0)):
        found.append(Ratio(what, "plain SoftRas kernels", times["plain"] / times[name], least))
    return found


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    result = new_table("How many times faster, forward and backward", ("what", "than", "ratio", "at least"))
    for ratio in bench.ratios:
        result.add_row(ratio.what, ratio.reference, f"{ratio.ratio:.1f}", f"{ratio.least:g}")
    result.caption = footer(bench.machine)
    return result
