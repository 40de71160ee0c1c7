"""Scaling of the cost with elements, pixels, frames, worlds and unknowns: exponents of fitted power laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from benchmarks.report import Progress, Section, footer, new_table, no_progress
from benchmarks.scenes import BEAM_CELLS, INTEGRATOR, Beam, rollout_calls
from benchmarks.timing import Call, Machine, minimum_times, this_machine

SUBSTEPS = 8


@dataclass(frozen=True)
class ScalingRow:
    """Times for several values of one size, all others fixed."""

    size: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """Exponent b of the power law a size^b, by least squares of the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


@dataclass(frozen=True)
class ScalingResults:
    """The measurements, and the machine they were made on."""

    rows: tuple[ScalingRow, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [{**asdict(row), "exponent": row.exponent} for row in self.rows]
        return {"machine": asdict(self.machine), "rows": rows}


def measure_scaling(*, seconds: float = 0.5, progress: Progress = no_progress) -> ScalingResults:
    """Times each size, forward and backward.

    Args:
        seconds: Time spent on each number [s].
        progress: Called with one line before each measurement.
    """
    rows = []
    for size, sizes, make_call in _variations():
        progress(f"scaling with {size}")
        times = minimum_times({str(value): make_call(value) for value in sizes}, seconds=seconds)
        rows.append(ScalingRow(size, tuple(sizes), tuple(times[str(value)] for value in sizes)))
    return ScalingResults(tuple(rows), this_machine("torch", "warp-lang"))


def _variations() -> Iterator[tuple[str, Sequence[int], Callable[[int], Call]]]:
    """Yields a size's name, its values, and the function that returns the call to time at a value."""
    yield "tetrahedra (100 steps, float32)", (400, 1000, 2000, 5000, 10000), _beam
    yield "pixels a side (30 frames of two boxes)", (64, 128, 256, 512), lambda n: _video(pixels=n)
    yield "frames (physics and rendering, 128 px)", (15, 30, 60, 120), lambda n: _video(frames=n)
    yield "worlds of a batch (30 frames, 64 px)", (1, 4, 16, 64), lambda n: _video(worlds=n, pixels=64)
    yield "unknowns of a Gauss-Newton step (30 frames, 64 px)", (1, 2, 4, 8), _gauss_newton_step


def _beam(tets: int) -> Call:
    return rollout_calls(Beam(BEAM_CELLS[tets]), torch.float32, 100)["forward_backward"]


def boxes(velocity: Any) -> gs.Scene:
    """Returns two flying boxes in view of the camera."""
    bodies = [
        gs.Rigid("a", gs.meshes.box(0.5), mass=1.0, position=(-0.5, 0.5, 0.0), velocity=velocity),
        gs.Rigid("b", gs.meshes.box(0.4), mass=1.0, position=(0.5, 0.5, -0.5), angular_velocity=(1.0, 2.0, 3.0)),
    ]
    return gs.Scene(bodies, gravity=(0.0, -0.1, 0.0), camera=gs.Camera(eye=(0.0, 1.0, 4.0), target=(0.0, 0.5, 0.0)))


def _render(scene: gs.Scene, frames: int, pixels: int) -> torch.Tensor:
    """Returns the video of one second, [..., T, H, W, 3]."""
    trajectory = gs.simulate(scene, frames=frames, fps=float(frames), substeps=SUBSTEPS, integrator=INTEGRATOR)
    return gs.render(scene, trajectory, (pixels, pixels))


def _video(frames: int = 30, pixels: int = 128, worlds: int = 1) -> Call:
    velocity = torch.full((worlds, 3), 0.1, dtype=torch.float64, requires_grad=True)
    scene = boxes(velocity)

    def forward_backward() -> None:
        velocity.grad = None
        _render(scene, frames, pixels).square().sum().backward()

    return forward_backward


def _gauss_newton_step(unknowns: int) -> Call:
    """Returns one Gauss-Newton step with this number of scalar unknowns."""
    guesses = {
        "a.velocity": gs.unknown((0.1, 0.0, 0.0)),
        "a.angular_velocity": gs.unknown((0.1, 0.2, 0.3)),
        "b.mass": gs.unknown(1.0, low=0.1, high=10.0),
        "a.mass": gs.unknown(1.0, low=0.1, high=10.0),
    }
    chosen = {1: ["b.mass"], 2: ["b.mass", "a.mass"], 4: ["a.velocity", "b.mass"], 8: list(guesses)}[unknowns]
    scene = boxes((0.1, 0.0, 0.0)).with_values({path: guesses[path] for path in chosen})

    def residuals(filled: gs.Scene) -> torch.Tensor:
        return _render(filled, 30, 64).flatten(-4) - 0.5

    return lambda: gs.minimize(residuals, scene, gs.GaussNewton(iterations=1))


def section(results: ScalingResults) -> Section:
    """Returns the section of the report."""
    return Section("Scaling", table(results), results.as_dict())


def table(results: ScalingResults) -> Table:
    """Returns the measurements as a table."""
    title = "Scaling: milliseconds at each size, and the exponent of the power law"
    found = new_table(title, ("size", "values", "ms", "exponent"))
    for row in results.rows:
        values = " ".join(f"{value:,}" for value in row.sizes)
        times = " ".join(f"{1e3 * time:.3g}" for time in row.seconds)
        found.add_row(row.size, values, times, f"{row.exponent:.2f}")
    found.caption = footer(results.machine)
    return found
