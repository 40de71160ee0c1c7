"""Memory: what the backward pass keeps of each step, and how far a process grows over a rollout with gradients."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Group
from rich.table import Table

import gradsim as gs
from gradsim.bench.chain import OBJECT
from gradsim.bench.cloth import CELLS as SHEETS
from gradsim.bench.cloth import Sheet
from gradsim.bench.physics import CELLS as BEAMS
from gradsim.bench.physics import Beam
from gradsim.bench.result import footer, new_table
from gradsim.bench.rigid import BATCHES, Cubes
from gradsim.bench.timing import Machine, this_machine
from gradsim.experiments import contact
from gradsim.experiments.objects import KINDS
from gradsim.scene.integrators import SymplecticEuler
from gradsim.simulate.assemble import assemble
from gradsim.simulate.engine import engine_for

DTYPE = torch.float64  # float32 keeps half
CHAIN = "five contact parameters"
TETS = 1000
STEPS = (100, 1_000, 10_000)
LIMITS = (None, 200e6, 20e6)  # [bytes]; None: a quarter of the machine's memory


@dataclass(frozen=True)
class Kept:
    """History of one step of a scene."""

    scene: str
    elements: int  # tetrahedra, triangles or bodies, of all worlds
    step_bytes: int

    @property
    def element_bytes(self) -> float:
        return self.step_bytes / self.elements


@dataclass(frozen=True)
class Peak:
    """How far a fresh process grows beyond what a rollout of one step needs [bytes]."""

    what: str
    steps: int
    limit: float | None  # of the history [bytes]; a quarter of the machine's memory if None
    history: int | None  # what keeping every step takes [bytes]
    grown: int


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    kept: tuple[Kept, ...]
    peaks: tuple[Peak, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        kept = [{**asdict(row), "element_bytes": row.element_bytes} for row in self.kept]
        return {"machine": asdict(self.machine), "kept": kept, "peaks": [asdict(peak) for peak in self.peaks]}


def bench_memory(
    *,
    steps: Sequence[int] = STEPS,
    limits: Sequence[float | None] = LIMITS,
    chain: bool = True,
    progress: Callable[[str], None] = lambda text: None,
) -> Bench:
    """Count what is kept, and see processes grow.

    Args:
        steps: Lengths of the rollouts of 1,000 tetrahedra, float64, with gradients.
        limits: For their history [bytes].
        chain: Whether to search five contact parameters in a video too.
        progress: Called with a line before each measurement.
    """
    progress("memory of a step")
    kept = tuple(Kept(name, elements, _step_bytes(scene)) for name, elements, scene in _scenes())
    step_bytes = _step_bytes(_beam(TETS)[1])
    peaks = []
    for count in steps:
        for limit in limits:
            progress(f"memory of {count:,} steps, {_told(limit)}")
            grown = _in_fresh_process(_beam_growth, count, limit)
            peaks.append(Peak(f"beam of {TETS:,} tets", count, limit, count * step_bytes, grown))
    if chain:
        progress(f"memory of {CHAIN}")
        count = (contact.FRAMES - 1) * contact.SUBSTEPS
        peaks.append(Peak(CHAIN, count, None, None, _in_fresh_process(_contact_growth)))
    return Bench(kept, tuple(peaks), this_machine("torch", "warp-lang"))


def _scenes() -> Iterator[tuple[str, int, gs.Scene]]:
    """The scenes of the benches, with the number of elements in them."""
    for tets in BEAMS:
        yield f"beam of {tets:,} tets", tets, _beam(tets)[1]
    for triangles, cells in SHEETS.items():
        sheet = Sheet(cells)
        yield f"sheet of {triangles:,} triangles", triangles, sheet.scene(_leaves(sheet.unknowns(DTYPE)))
    for worlds in BATCHES:
        cubes = Cubes(worlds)
        yield f"{worlds:,} cube(s)", worlds, cubes.scene(_leaves(cubes.unknowns(DTYPE)))
    values = _leaves({path: torch.tensor(low, dtype=DTYPE) for path, (low, _) in contact.RANGES.items()})
    yield CHAIN, 1, contact.scene(KINDS[OBJECT], np.random.default_rng(0), values)


def _beam(tets: int) -> tuple[Beam, gs.Scene]:
    beam = Beam(BEAMS[tets])
    mu, lam = (values.requires_grad_() for values in beam.lame(DTYPE))
    return beam, beam.scene(mu, lam)


def _leaves(unknowns: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: values.requires_grad_() for name, values in unknowns.items()}


def _step_bytes(scene: gs.Scene) -> int:
    """What a rollout with gradients keeps of a step."""
    return sum(shard.step_bytes for shard in engine_for(assemble(scene), SymplecticEuler()).shards)


# --- growth ---------------------------------------------------------------------------------------------------------


def _in_fresh_process(measure: Callable[..., int], *arguments: Any) -> int:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def _beam_growth(steps: int, limit: float | None) -> int:
    beam, scene = _beam(TETS)

    def both(count: int) -> None:
        motion = gs.simulate(scene, frames=2, fps=1.0 / (beam.dt * count), substeps=count, memory=limit)
        motion.vertices[-1].sum().backward()

    return _growth(lambda: both(steps), lambda: both(1))


def _contact_growth() -> int:
    """Over a whole search, pictures included; loading of kernels counts, as no step of it can be had alone."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _growth(lambda: contact.case(OBJECT, 0, eight_bit=False).run(lambda text: None))


def _growth(call: Callable[[], object], warm: Callable[[], object] | None = None) -> int:
    """How far the most memory that this process ever had grows in a call [bytes], after another one."""
    torch.set_num_threads(1)
    if warm is not None:
        warm()
    gc.collect()
    before = _peak()
    call()
    return _peak() - before


def _peak() -> int:
    """The most memory that this process had [bytes]."""
    status = Path("/proc/self/status")
    if status.exists():  # what rusage says of a process here, it has from the one that started it
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # in bytes on a Mac


# --- for a terminal --------------------------------------------------------------------------------------------------


def report(bench: Bench) -> Group:
    """The measurements for a terminal."""
    headings = ("scene", "bytes a step", "bytes a step\nand element")
    kept = new_table("History kept for the backward pass, float64", headings)
    for row in bench.kept:
        kept.add_row(row.scene, f"{row.step_bytes:,}", f"{row.element_bytes:.1f}")
    kept.caption = "elements: tetrahedra, triangles, bodies; what is kept are their nodes; float32 keeps half"
    return Group(kept, _peak_table(bench))


def _peak_table(bench: Bench) -> Table:
    headings = ("rollout with gradients", "steps", "memory=", "history MB", "grown MB")
    result = new_table("How far a fresh process grows, float64", headings)
    for peak in bench.peaks:
        history = "-" if peak.history is None else f"{peak.history / 1e6:.1f}"
        result.add_row(peak.what, f"{peak.steps:,}", _told(peak.limit), history, f"{peak.grown / 1e6:.1f}")
    remark = (
        "history: all steps kept; grown: beyond a rollout of one step, recorded graphs and gradients among it;\n"
        "five contact parameters: the whole search with its pictures, and kernels as they are loaded"
    )
    result.caption = footer(bench.machine, remark)
    return result


def _told(limit: float | None) -> str:
    return "default" if limit is None else f"{limit / 1e6:g} MB"
