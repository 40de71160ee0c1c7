"""What a call of simulate() costs beyond its kernels, on scenes so small that little else counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any

import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.result import footer, new_table, pair
from gradsim.bench.timing import PATIENCE, ROUNDS, Machine, steady_rounds, this_machine, undisturbed
from gradsim.scene.integrators import SymplecticEuler
from gradsim.simulate.assemble import assemble
from gradsim.simulate.engine import Engine, engine_for

CALLS = 1000
FRAMES, FPS, SUBSTEPS = 2, 30.0, 32

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


SCENES: dict[str, Callable[[torch.Tensor], gs.Scene]] = {
    "beam of 100 tets": _beam,
    "cube on a plane": _cube,
    "sheet of 32 triangles": _sheet,
}


@dataclass(frozen=True)
class Cost:
    """Time beyond the kernels [s]: of the median call, and the least, which other work on the machine touches least."""

    median: float
    least: float


@dataclass(frozen=True)
class Row:
    """One scene and precision."""

    scene: str
    dtype: str
    forward: Cost
    both: Cost  # simulate(), a loss of the last frame, backward()
    kernels_forward: float  # [s]
    kernels_both: float


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    rows: tuple[Row, ...]
    calls: int
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"machine": asdict(self.machine), "calls": self.calls, "rows": [asdict(row) for row in self.rows]}


def bench_calls(
    dtypes: Sequence[str] = ("float64",),
    *,
    calls: int = CALLS,
    progress: Callable[[str], None] | None = None,
) -> Bench:
    """Measure the overhead of calls with new parameter tensors.

    Each call gets a scene of its own, made before the clock starts, with a parameter that asks for its gradient. It is
    followed by the replay of its graphs alone, and the difference counts: flattening the scene, estimating the stable
    step, finding the engine, copying states and parameters, the trajectory, and PyTorch's way back through all that.

    Args:
        dtypes: "float32" and "float64".
        calls: Calls of each scene.
        progress: Called with a line before each measurement.
    """
    say = progress or (lambda _: None)
    callers = []
    for name in SCENES:
        for dtype in dtypes:
            say(f"{name}, {dtype}")
            callers.append(_Caller(name, dtype, calls))
    say(f"{calls} calls of each")
    with undisturbed():
        for k in steady_rounds(ROUNDS, PATIENCE * calls * len(callers) * 2e-3):
            for caller in callers:
                caller.call(k)
    return Bench(tuple(caller.row() for caller in callers), calls, this_machine("torch", "warp-lang"))


class _Caller:
    """Calls of one scene, with new values each time, in rounds."""

    def __init__(self, name: str, dtype: str, calls: int):
        self.name, self.dtype = name, dtype
        self.values = torch.linspace(0.9, 1.1, calls, dtype=getattr(torch, dtype)).unbind()
        self.engine = engine_for(assemble(self._scene(0)), SymplecticEuler())
        self.wholes: dict[str, dict[int, float]] = {"forward": {}, "both": {}}
        self.kernels: dict[str, dict[int, float]] = {"forward": {}, "both": {}}
        for _ in range(2):  # compiles, records, touches memory for the first time
            self._timed(self._scene(0))

    def _scene(self, k: int) -> gs.Scene:
        return SCENES[self.name](self.values[k].clone().requires_grad_())

    def call(self, round_number: int) -> None:
        """The calls of one round, which may come again."""
        scenes = {k: self._scene(k) for k in range(round_number, len(self.values), ROUNDS)}
        for k, scene in scenes.items():
            forward, backward = self._timed(scene)
            replayed = _replay(self.engine, False)
            replayed_back = _replay(self.engine, True)
            self.wholes["forward"][k], self.wholes["both"][k] = forward, forward + backward
            self.kernels["forward"][k], self.kernels["both"][k] = replayed, replayed + replayed_back

    def row(self) -> Row:
        wholes, kernels = ({k: list(v.values()) for k, v in kind.items()} for kind in (self.wholes, self.kernels))
        found = {kind: _cost(wholes[kind], kernels[kind]) for kind in wholes}
        alone = {kind: statistics.median(times) for kind, times in kernels.items()}
        return Row(self.name, self.dtype, found["forward"], found["both"], alone["forward"], alone["both"])

    @staticmethod
    def _timed(scene: gs.Scene) -> tuple[float, float]:
        """Seconds of a simulate(), and of the way back from it."""
        start = perf_counter()
        trajectory = gs.simulate(scene, frames=FRAMES, fps=FPS, substeps=SUBSTEPS)
        forward = perf_counter() - start
        loss = sum(state[-1].sum() for state in trajectory.states.values())
        assert isinstance(loss, torch.Tensor)
        start = perf_counter()
        loss.backward()
        return forward, perf_counter() - start


def _replay(engine: Engine, backward: bool) -> float:
    """Time of a rollout's kernels alone [s]."""
    (shard,) = engine.shards
    run, steps = shard.run_back if backward else shard.run, (FRAMES - 1) * SUBSTEPS
    start = perf_counter()
    for first in range(0, steps, SUBSTEPS):
        run(first, SUBSTEPS, first, steps)
    return perf_counter() - start


def _cost(wholes: list[float], kernels: list[float]) -> Cost:
    differences = [whole - part for whole, part in zip(wholes, kernels, strict=True)]
    return Cost(statistics.median(differences), min(wholes) - min(kernels))


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    title = (
        f"Milliseconds a call beyond its kernels, {bench.calls} calls with new tensors: simulate() / with backward()"
    )
    result = new_table(title, ("scene", "dtype", "median", "least", "kernels"))
    for row in bench.rows:
        median = pair(1e3 * row.forward.median, 1e3 * row.both.median, ".2f")
        least = pair(1e3 * row.forward.least, 1e3 * row.both.least, ".2f")
        kernels = pair(1e3 * row.kernels_forward, 1e3 * row.kernels_both, ".2f")
        result.add_row(row.scene, row.dtype, median, least, kernels)
    remark = f"{FRAMES} frames of {SUBSTEPS} steps; least: what other work on the machine touches least"
    result.caption = footer(bench.machine, remark)
    return result
