"""Two boxes on each other in batches of worlds: steps a second, compared with Newton."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from benchmarks.newton_rollout import import_newton
from benchmarks.newton_speeds import HEADINGS, Speeds, newton_fields
from benchmarks.report import Progress, Requirement, Section, footer, missing_peer_note, new_table, no_progress
from benchmarks.scenes import INTEGRATOR, rollout_calls
from benchmarks.timing import Call, Machine, minimum_times, on_threads, this_machine

WORLDS = 64
STEPS = 240  # half a second of motion
RATIO = 10.0  # required speed with gradients, in units of Newton's captured graph


@dataclass(frozen=True)
class Stacks:
    """A batch of worlds with a box on the ground, on which another one slides and comes to rest."""

    count: int
    kd: float = 100.0  # [N s/m]
    kf: float = 100.0  # [N s/m]
    gravity: float = -9.81  # along y [m/s^2]
    dt: float = 1.0 / 480.0  # [s]
    sizes: tuple[tuple[float, float, float], ...] = ((0.8, 0.3, 0.8), (0.4, 0.4, 0.4))  # [m]
    heights: tuple[float, float] = (0.15, 0.5)  # of the centres [m]
    low_mass: float = 20.0  # [kg]
    seed: int = 0

    @cached_property
    def mass(self) -> np.ndarray:
        """Of the upper box [kg], [B]."""
        return np.random.default_rng((self.seed, 0)).uniform(5.0, 15.0, self.count)

    @cached_property
    def ke(self) -> np.ndarray:
        """[N/m], [B]."""
        return np.random.default_rng((self.seed, 1)).uniform(1e4, 2e4, self.count)

    @cached_property
    def mu(self) -> np.ndarray:
        """[B]."""
        return np.random.default_rng((self.seed, 2)).uniform(0.2, 0.8, self.count)

    @cached_property
    def velocity(self) -> np.ndarray:
        """Of the upper box [m/s], [B, 3]: sideways."""
        return np.random.default_rng((self.seed, 3)).normal(size=(self.count, 3)) * np.array([0.3, 0.0, 0.3])

    @cached_property
    def weights(self) -> np.ndarray:
        """Weights of the final positions in the loss, [B, 3]."""
        return np.random.default_rng((self.seed, 4)).normal(size=(self.count, 3))

    def unknowns(self, dtype: torch.dtype) -> dict[str, torch.Tensor]:
        """Returns mass, ke and mu [B] and velocity [B, 3]."""
        return {n: torch.tensor(getattr(self, n), dtype=dtype) for n in ("mass", "ke", "mu", "velocity")}

    def scene(self, unknowns: dict[str, torch.Tensor]) -> gs.Scene:
        """Returns all worlds as one scene with a batch dimension."""
        contact = gs.Contact(unknowns["ke"], self.kd, self.kf, unknowns["mu"])
        low, high = (gs.meshes.box(size) for size in self.sizes)
        bodies = [
            gs.Rigid("low", low, mass=self.low_mass, position=(0.0, self.heights[0], 0.0), contact=contact),
            gs.Rigid(
                "high",
                high,
                mass=unknowns["mass"],
                position=(0.0, self.heights[1], 0.0),
                velocity=unknowns["velocity"],
                contact=contact,
            ),
        ]
        return gs.Scene(bodies, gs.Ground(), gravity=(0.0, self.gravity, 0.0))

    def simulate(self, scene: gs.Scene, steps: int) -> torch.Tensor:
        """Returns the centres of mass of the upper boxes after `steps` steps [m], [B, 3]."""
        fps = 1.0 / (self.dt * steps)
        trajectory = gs.simulate(scene, frames=2, fps=fps, substeps=steps, integrator=INTEGRATOR)
        return trajectory["high"].center_of_mass[..., -1, :]


@dataclass(frozen=True, kw_only=True)
class StacksRow(Speeds):
    """One thread count: steps of all worlds, with gradients of mass, ke, mu and velocity."""

    worlds: int
    threads: int  # of gradsim; Newton uses one on a CPU


@dataclass(frozen=True)
class StacksResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[StacksRow, ...]
    machine: Machine
    note: str | None = None  # why columns are missing, and the remedy

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [row.as_dict() for row in self.rows]
        return {"machine": asdict(self.machine), "steps": STEPS, "note": self.note, "rows": rows}


def measure_stacks(
    *, peer: bool = True, seconds: float = 1.0, steps: int = STEPS, progress: Progress = no_progress
) -> StacksResults:
    """Measures steps a second of all worlds in single precision, on one thread and on all of torch's threads."""
    note = missing_peer_note(import_newton) if peer else None
    with_newton = peer and note is None
    threads: Sequence[int] = sorted({1, torch.get_num_threads()})
    stacks, calls = Stacks(WORLDS), dict[str, Call]()
    progress(f"{WORLDS} worlds of two boxes{', and Newton' if with_newton else ''}")
    for count in threads:
        for name, call in rollout_calls(stacks, torch.float32, steps).items():
            calls[f"{name} {count}"] = on_threads(count, call)
    if with_newton:
        from benchmarks.newton_pairs import NewtonStacks

        calls |= NewtonStacks(stacks, steps=steps).calls()
    times = minimum_times(calls, seconds=seconds)
    speeds = {name: WORLDS * steps / time for name, time in times.items()}
    rows = [
        StacksRow(
            worlds=WORLDS,
            threads=count,
            forward=speeds[f"forward {count}"],
            forward_backward=speeds[f"forward_backward {count}"],
            **newton_fields(speeds),
        )
        for count in threads
    ]
    return StacksResults(tuple(rows), this_machine("torch", "warp-lang", "newton"), note)


def section(results: StacksResults) -> Section:
    """Returns the section of the report."""
    requirements = [
        Requirement(
            f"stacks: {row.worlds} worlds, {row.threads} thread(s), gradients: at least {RATIO:g} times Newton's graph",
            f"{row.ratio_forward_backward:.2f}",
            row.ratio_forward_backward >= RATIO,
        )
        for row in results.rows
        if row.ratio_forward_backward is not None
    ]
    return Section("Boxes on boxes", table(results), results.as_dict(), tuple(requirements))


def table(results: StacksResults) -> Table:
    """Returns the measurements as a table."""
    title = (
        "A box that slides on a box on the ground, float32:\n"
        f"thousand steps a second of all worlds, rollouts of {STEPS} steps: forward / with backward"
    )
    found = new_table(title, ("worlds", "threads", *HEADINGS))
    for row in results.rows:
        found.add_row(f"{row.worlds:,}", str(row.threads), *row.columns())
    remark = "threads: gradsim's; Newton uses one on a CPU, and takes the normals of contact as constant"
    found.caption = footer(results.machine, remark, results.note)
    return found
