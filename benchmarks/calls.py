"""The time that a simulate() call takes beyond its kernels, measured on small scenes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from benchmarks.engine_internals import KernelReplay
from benchmarks.report import Progress, Requirement, Section, footer, format_pair, new_table, no_progress
from benchmarks.scenes import INTEGRATOR
from benchmarks.timing import ROUNDS, WAIT_FACTOR, WARMUP_RUNS, Call, Machine, gc_disabled, steady_rounds, this_machine

CALLS = 1000
FRAMES, FPS, SUBSTEPS = 2, 30.0, 32
OVERHEAD = 0.3  # required: most milliseconds of a call beyond its kernels, median

_BEAM = gs.meshes.tet_box((0.5, 0.2, 0.2), (5, 2, 2))
_CUBE = gs.meshes.box((0.5, 0.5, 0.5))
_SHEET = gs.meshes.grid((0.5, 0.5), (4, 4))


def _beam(value: torch.Tensor) -> gs.Scene:
    material = gs.NeoHookean(1e4 * value, 1e4, 1.0)
    return gs.Scene([gs.Soft("beam", _BEAM, 1000.0, material=material, pinned=range(9))])


def _cube(value: torch.Tensor) -> gs.Scene:
    cube = gs.Rigid("cube", _CUBE, mass=2.0 * value, position=(0.0, 0.248, 0.0), velocity=(1.5, 0.0, 0.0))
    return gs.Scene([cube], ground=gs.Ground(ke=5e3, kd=20.0, kf=50.0, mu=0.5))


def _sheet(value: torch.Tensor) -> gs.Scene:
    material, bending = gs.Membrane(100.0 * value, 100.0, 0.01), gs.Bending(1e-3, 1e-5)
    return gs.Scene([gs.Cloth("sheet", _SHEET, 0.2, material=material, bending=bending, pinned=range(5))])


SCENES: dict[str, Callable[[torch.Tensor], gs.Scene]] = {  # as functions of a factor near 1
    "beam of 100 tets": _beam,
    "cube on a plane": _cube,
    "sheet of 32 triangles": _sheet,
}


def simulate(scene: gs.Scene) -> gs.Trajectory:
    """Returns the rollout that is timed."""
    return gs.simulate(scene, frames=FRAMES, fps=FPS, substeps=SUBSTEPS, integrator=INTEGRATOR)


@dataclass(frozen=True)
class Overhead:
    """Time beyond the kernels [s]: the median, and the minimum, which other processes affect least."""

    median: float
    minimum: float


@dataclass(frozen=True)
class CallRow:
    """One scene and precision."""

    scene: str
    dtype: str
    forward: Overhead
    forward_backward: Overhead  # simulate(), a loss on the last frame, backward()
    kernels_forward: float  # [s]
    kernels_forward_backward: float


@dataclass(frozen=True)
class CallResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[CallRow, ...]
    calls: int
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {"machine": asdict(self.machine), "calls": self.calls, "rows": [asdict(row) for row in self.rows]}


def measure_calls(
    dtypes: Sequence[str] = ("float64",), *, calls: int = CALLS, progress: Progress = no_progress
) -> CallResults:
    """Measures the overhead of calls with new parameter tensors.

    Each call gets a new scene with a parameter that requires its gradient, built before the clock starts. The replay of
    the same kernels alone follows, and its time is subtracted. The difference contains flattening the scene,
    estimating the stable step, looking up the engine, copying states and parameters, building the trajectory, and
    PyTorch's backward pass through all of it.

    Args:
        dtypes: "float32" and "float64".
        calls: Calls of each scene.
        progress: Called with one line before each measurement.
    """
    callers = []
    for name in SCENES:
        for dtype in dtypes:
            progress(f"{name}, {dtype}")
            callers.append(_Caller(name, dtype, calls))
    progress(f"{calls} calls of each")
    with gc_disabled():
        for k in steady_rounds(ROUNDS, WAIT_FACTOR * calls * len(callers) * 2e-3):
            for caller in callers:
                caller.call(k)
    return CallResults(tuple(caller.row() for caller in callers), calls, this_machine("torch", "warp-lang"))


class _Caller:
    """Calls of one scene, with new values each time, in rounds."""

    def __init__(self, name: str, dtype: str, calls: int):
        self.name, self.dtype = name, dtype
        self.values = torch.linspace(0.9, 1.1, calls, dtype=getattr(torch, dtype)).unbind()
        self.replay = KernelReplay(self._scene(0), (FRAMES - 1) * SUBSTEPS)
        self.totals: dict[str, dict[int, float]] = {"forward": {}, "forward_backward": {}}
        self.kernels: dict[str, dict[int, float]] = {"forward": {}, "forward_backward": {}}
        for _ in range(WARMUP_RUNS):
            _time_rollout(self._scene(0))

    def _scene(self, k: int) -> gs.Scene:
        return SCENES[self.name](self.values[k].clone().requires_grad_())

    def call(self, round_number: int) -> None:
        """Runs the calls of one round; a repeated round replaces its measurements."""
        scenes = {k: self._scene(k) for k in range(round_number, len(self.values), ROUNDS)}
        for k, scene in scenes.items():
            forward, backward = _time_rollout(scene)
            kernels_forward, kernels_backward = _time(self.replay.forward), _time(self.replay.backward)
            self.totals["forward"][k], self.totals["forward_backward"][k] = forward, forward + backward
            self.kernels["forward"][k] = kernels_forward
            self.kernels["forward_backward"][k] = kernels_forward + kernels_backward

    def row(self) -> CallRow:
        totals, kernels = ({k: list(v.values()) for k, v in kind.items()} for kind in (self.totals, self.kernels))
        forward, forward_backward = (_overhead(totals[kind], kernels[kind]) for kind in totals)
        medians = (statistics.median(times) for times in kernels.values())
        return CallRow(self.name, self.dtype, forward, forward_backward, *medians)


def _time_rollout(scene: gs.Scene) -> tuple[float, float]:
    """Returns the time of a simulate() call, and of the backward pass through it [s]."""
    start = perf_counter()
    trajectory = simulate(scene)
    forward = perf_counter() - start
    loss = sum(state[-1].sum() for state in trajectory.states.values())
    assert isinstance(loss, torch.Tensor)
    start = perf_counter()
    loss.backward()
    return forward, perf_counter() - start


def _time(call: Call) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _overhead(totals: list[float], kernels: list[float]) -> Overhead:
    differences = [total - part for total, part in zip(totals, kernels, strict=True)]
    return Overhead(statistics.median(differences), min(totals) - min(kernels))


def requirements(results: CallResults) -> list[Requirement]:
    """Returns the required overhead of simulate()."""
    worst = max(results.rows, key=lambda row: row.forward.median)
    overhead = 1e3 * worst.forward.median
    text = f"calls: simulate() takes at most {OVERHEAD} ms beyond its kernels"
    return [Requirement(text, f"at most {overhead:.2f} ms ({worst.scene})", overhead <= OVERHEAD)]


def section(results: CallResults) -> Section:
    """Returns the section of the report."""
    return Section("Calls", table(results), results.as_dict(), tuple(requirements(results)))


def table(results: CallResults) -> Table:
    """Returns the measurements as a table."""
    title = (
        f"Milliseconds a call beyond its kernels, {results.calls} calls with new tensors: simulate() / with backward()"
    )
    found = new_table(title, ("scene", "dtype", "median", "minimum", "kernels"))
    for row in results.rows:
        median = format_pair(1e3 * row.forward.median, 1e3 * row.forward_backward.median, ".2f")
        minimum = format_pair(1e3 * row.forward.minimum, 1e3 * row.forward_backward.minimum, ".2f")
        kernels = format_pair(1e3 * row.kernels_forward, 1e3 * row.kernels_forward_backward, ".2f")
        found.add_row(row.scene, row.dtype, median, minimum, kernels)
    remark = f"{FRAMES} frames with {SUBSTEPS} steps between them; minimum: least affected by other processes"
    found.caption = footer(results.machine, remark)
    return found
