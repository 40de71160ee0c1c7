"""Many bodies that rest on the ground in layers: time of a step without gradients, compared with MuJoCo."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.timing import Machine, minimum_times, this_machine
from gradsim.scene.errors import MissingExtra

COUNTS = (30, 100, 300, 1000)
STEPS, DT = 100, 5e-4  # of a call; [s]
SIDE, MASS = 0.1, 0.5  # of a box [m], [kg]; balls have this diameter
EXPONENT = 1.2  # required growth of the cost from the smallest to the largest count


def places(count: int) -> np.ndarray:
    """Returns the centres of the bodies [m], [count, 3]: three layers on a square, side by side with small gaps."""
    side = math.ceil(math.sqrt(count / 3))
    index = np.arange(count)
    layer, place = index % 3, index // 3
    x, z = place % side, place // side
    return np.stack([1.05 * SIDE * x, SIDE / 2 - 2e-4 + layer * (SIDE - 3e-4), 1.05 * SIDE * z], 1)


def pile(count: int, shape: str, friction: Any) -> gs.Scene:
    """Returns a pile of "boxes" or "balls"; the balls lie in columns."""
    contact = gs.Contact(ke=2e4, kd=40.0, mu=0.5, delta=2e-4, friction=friction)
    bodies: list[gs.Rigid] = []
    for k, place in enumerate(places(count)):
        own: dict[str, Any] = {"mass": MASS, "position": place, "contact": contact}
        ball = shape == "balls"
        bodies.append(
            gs.Ball(f"b{k}", radius=SIDE / 2, **own) if ball else gs.Rigid(f"b{k}", gs.meshes.box(SIDE), **own)
        )
    return gs.Scene(bodies, gs.Ground(ke=5e3, kd=20.0, mu=0.5, friction=friction))


def import_mujoco() -> Any:
    """Returns the package.

    Raises:
        MissingExtra: MuJoCo is not installed.
    """
    try:
        return importlib.import_module("mujoco")
    except ImportError:
        raise MissingExtra("the comparison with MuJoCo", "bench") from None


def mujoco_model(mujoco: Any, count: int, shape: str) -> Any:
    """Returns the same pile for MuJoCo, with its default solver, contact and integrator, and the z axis up."""
    half = SIDE / 2
    geometry = f'type="sphere" size="{half}"' if shape == "balls" else f'type="box" size="{half} {half} {half}"'
    bodies = "".join(
        f'<body pos="{x} {z} {y}"><freejoint/><geom {geometry} mass="{MASS}" friction="0.5"/></body>'
        for x, y, z in places(count)
    )
    ground = '<geom type="plane" size="20 20 1" friction="0.5"/>'
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{DT}"/><size memory="1G"/><worldbody>{ground}{bodies}</worldbody></mujoco>'
    )


@dataclass(frozen=True)
class PilesRow:
    """Time of a step [us] of a number of bodies."""

    shape: str
    count: int
    regularized: float
    sticking: float | None
    mujoco: float | None


@dataclass(frozen=True)
class PilesResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[PilesRow, ...]
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def exponent(self, shape: str) -> float:
        """Returns the exponent with which the time of a step grows, from the smallest count to the largest."""
        first, *_, last = [row for row in self.rows if row.shape == shape]
        return math.log(last.regularized / first.regularized) / math.log(last.count / first.count)

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"machine": asdict(self.machine), "steps": STEPS, "note": self.note, "rows": rows}


def measure_piles(
    counts: Sequence[int] = COUNTS, *, peer: bool = True, seconds: float = 1.0, progress: Progress = no_progress
) -> PilesResults:
    """Measures the time of a step in one thread, from the difference of calls of `STEPS` and of two steps."""
    note = missing_peer_note(import_mujoco) if peer else None
    rows = []
    for shape in ("boxes", "balls"):
        for count in counts:
            progress(f"{count} {shape}")
            rows.append(_measure(shape, count, peer and note is None, seconds))
    return PilesResults(tuple(rows), this_machine("torch", "warp-lang", "mujoco"), note)


def _measure(shape: str, count: int, peer: bool, seconds: float) -> PilesRow:
    frictions = {"regularized": gs.Regularized(), "sticking": gs.Sticking()}
    if count > 100:
        del frictions["sticking"]  # its anchors take much memory
    calls: dict[str, Any] = {}
    for name, friction in frictions.items():
        scene = pile(count, shape, friction)
        for steps in (STEPS, 2):
            calls[f"{name} {steps}"] = _rollout(scene, steps)
    if peer:
        mujoco = import_mujoco()
        model = mujoco_model(mujoco, count, shape)
        data = mujoco.MjData(model)
        mujoco.mj_step(model, data, 200)  # comes to rest
        calls["mujoco"] = lambda: mujoco.mj_step(model, data, STEPS)
    times = minimum_times(calls, seconds=seconds)
    own = {name: (times[f"{name} {STEPS}"] - times[f"{name} 2"]) / (STEPS - 2) * 1e6 for name in frictions}
    other = times["mujoco"] / STEPS * 1e6 if peer else None
    return PilesRow(shape, count, own["regularized"], own.get("sticking"), other)


def _rollout(scene: gs.Scene, steps: int) -> Any:
    def call() -> None:
        with torch.no_grad():
            gs.simulate(scene, frames=2, fps=1.0 / (DT * steps), substeps=steps)

    return call


def section(results: PilesResults) -> Section:
    """Returns the section of the report."""
    requirements = []
    for shape in ("boxes", "balls"):
        found = results.exponent(shape)
        text = f"piles: cost of {shape} grows with an exponent of at most {EXPONENT:g}"
        requirements.append(Requirement(text, f"{found:.2f}", found <= EXPONENT))
    return Section("Many bodies", table(results), results.as_dict(), tuple(requirements))


def table(results: PilesResults) -> Table:
    """Returns the measurements as a table."""
    title = "Piles of bodies, three layers on the ground, float64, one thread: us a step without gradients"
    found = new_table(title, ("bodies", "", "gradsim", "sticking", "MuJoCo"))
    for row in results.rows:
        numbers = (row.regularized, row.sticking, row.mujoco)
        found.add_row(f"{row.count:,}", row.shape, *("-" if value is None else f"{value:.0f}" for value in numbers))
    remark = "gradsim: Midpoint(), two evaluations a step; MuJoCo: its default solver and integrator at the same step"
    found.caption = footer(results.machine, remark, results.note)
    return found
