"""How cost grows: with elements, pixels, frames, unknowns and worlds, as exponents of fitted power laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from gradsim.bench.physics import CELLS, Beam
from gradsim.bench.result import footer, new_table
from gradsim.bench.timing import Machine, both_ways, least_times, this_machine

Make = Callable[[int], Callable[[], object]]  # of a size, what is to be timed


@dataclass(frozen=True)
class Growth:
    """One size that is turned up, all else being equal."""

    what: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def exponent(self) -> float:
        """b of the power law a size^b with the least squared error of the logarithms."""
        return float(np.polyfit(np.log(self.sizes), np.log(self.seconds), 1)[0])


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    growths: tuple[Growth, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        growths = [{**asdict(growth), "exponent": growth.exponent} for growth in self.growths]
        return {"machine": asdict(self.machine), "growths": growths}


def bench_growth(*, seconds: float = 0.5, progress: Callable[[str], None] = lambda text: None) -> Bench:
    """Time each size, forward and backward; `seconds` are spent on each number."""
    found = []
    for what, sizes, make in _questions():
        progress(f"growth with {what}")
        calls = {str(size): make(size) for size in sizes}
        times = least_times(calls, seconds=seconds)
        found.append(Growth(what, tuple(sizes), tuple(times[str(size)] for size in sizes)))
    return Bench(tuple(found), this_machine("torch", "warp-lang"))


def _questions() -> Iterator[tuple[str, Sequence[int], Make]]:
    yield "tetrahedra (100 steps, float32)", (400, 1000, 2000, 5000, 10000), _beam
    yield "pixels a side (30 frames of two boxes)", (64, 128, 256, 512), lambda n: _film(pixels=n)
    yield "frames (physics and rendering, 128 px)", (15, 30, 60, 120), lambda n: _film(frames=n)
    yield "worlds of a batch (30 frames, 64 px)", (1, 4, 16, 64), lambda n: _film(worlds=n, pixels=64)
    yield "unknowns of a Gauss-Newton step (30 frames, 64 px)", (1, 2, 4, 8), _jacobian


def _beam(tets: int) -> Callable[[], object]:
    beam = Beam(CELLS[tets])
    mu, lam = (values.requires_grad_() for values in beam.lame(torch.float32))
    scene, weights = beam.scene(mu, lam), torch.as_tensor(beam.weights, dtype=torch.float32)

    return both_ways(lambda: beam.simulate(scene, 100), (mu, lam), weights)["both"]


def boxes(speed: Any) -> gs.Scene:
    """Two boxes in flight, in view."""
    bodies = [
        gs.Rigid("a", gs.meshes.box(0.5), mass=1.0, position=(-0.5, 0.5, 0.0), velocity=speed),
        gs.Rigid("b", gs.meshes.box(0.4), mass=1.0, position=(0.5, 0.5, -0.5), angular_velocity=(1.0, 2.0, 3.0)),
    ]
    return gs.Scene(bodies, gravity=(0.0, -0.1, 0.0), camera=gs.Camera(eye=(0.0, 1.0, 4.0), target=(0.0, 0.5, 0.0)))


def _film(frames: int = 30, pixels: int = 128, worlds: int = 1) -> Callable[[], object]:
    speed = torch.full((worlds, 3), 0.1, dtype=torch.float64, requires_grad=True)
    scene = boxes(speed)

    def both() -> None:
        speed.grad = None
        trajectory = gs.simulate(scene, frames=frames, fps=30.0 * frames / 30, substeps=8)
        gs.render(scene, trajectory, (pixels, pixels)).square().sum().backward()

    return both


def _jacobian(unknowns: int) -> Callable[[], object]:
    """One step of Gauss and Newton's method on so many numbers of the two boxes' state."""
    guesses = {
        "a.velocity": gs.unknown((0.1, 0.0, 0.0)),
        "a.angular_velocity": gs.unknown((0.1, 0.2, 0.3)),
        "b.mass": gs.unknown(1.0, low=0.1, high=10.0),
        "a.mass": gs.unknown(1.0, low=0.1, high=10.0),
    }
    chosen = {1: ["b.mass"], 2: ["b.mass", "a.mass"], 4: ["a.velocity", "b.mass"], 8: list(guesses)}[unknowns]
    scene = boxes((0.1, 0.0, 0.0)).with_values({path: guesses[path] for path in chosen})

    def residuals(filled: gs.Scene) -> torch.Tensor:
        film = gs.render(filled, gs.simulate(filled, frames=30, fps=30.0, substeps=8), (64, 64))
        return film.flatten(-4) - 0.5

    return lambda: gs.minimize(residuals, scene, gs.GaussNewton(iterations=1))


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    result = new_table(
        "How cost grows: milliseconds at each size, and the exponent", ("with", "sizes", "ms", "exponent")
    )
    for growth in bench.growths:
        sizes = " ".join(f"{size:,}" for size in growth.sizes)
        times = " ".join(f"{1e3 * time:.3g}" for time in growth.seconds)
        result.add_row(growth.what, sizes, times, f"{growth.exponent:.2f}")
    result.caption = footer(bench.machine)
    return result
