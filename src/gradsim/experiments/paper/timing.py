"""Table 4 of the paper, right: steps a second of physics and rendering, forward and backward, for growing beams.

A rollout is rendered at every step, as in the paper. The backward pass includes the forward pass that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import torch

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.render.render import render
from gradsim.scene import meshes
from gradsim.scene.bodies import Region, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.materials import NeoHookean
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate

CELLS = {  # tetrahedra: cells of the beam, with five to a cell
    100: (5, 2, 2),
    200: (10, 2, 2),
    400: (20, 2, 2),
    1000: (20, 5, 2),
    2000: (20, 5, 4),
    5000: (40, 5, 5),
    10000: (80, 5, 5),
}
STEPS = 100  # of a rollout
SIDE = 64  # frame height and width [px]
RATE = 1e4  # steps of a second of simulated time
SECONDS = 1.0  # of measurement for each number
NAMES = ("forward physics", "forward rendering", "backward physics", "backward both")
PAPER = {  # steps a second on a GPU
    100: (9057, 3504, 3721, 3057),
    200: (9057, 3478, 3780, 2963),
    400: (8751, 3357, 3750, 1360),
    1000: (4174, 1690, 1644, 1041),
    2000: (3967, 1584, 1655, 698),
    5000: (3871, 1529, 1553, 424),
    10000: (3721, 1500, 1429, 248),
}
COLUMNS = (Column("tets", ",d", 7), *(Column(name, ",.0f", 18) for name in NAMES))


def scene(tets: int, stiffness: torch.Tensor) -> Scene:
    """Returns a scene with a clamped beam."""
    cells = CELLS[tets]
    size = tuple(0.1 * n for n in cells)
    material = NeoHookean(mu=stiffness, lam=1e4, damping=1.0)
    pinned = Region(high=(1e-3 - size[0] / 2, None, None))
    beam = Soft("beam", meshes.tet_box(size, cells), density=1000.0, material=material, pinned=pinned)
    camera = Camera(eye=(0.0, 0.3 * size[0], 1.6 * size[0] + 0.5), target=(0.0, 0.0, 0.0), fov=40.0)
    return Scene([beam], camera=camera)


def case(tets: int) -> Case:
    """Returns the case of one size."""

    def run(progress: Progress) -> Row:
        stiffness = torch.tensor(1e4, dtype=torch.float32, requires_grad=True)
        beam = scene(tets, stiffness)

        def roll_out(frames: int, substeps: int) -> Trajectory:
            rate = RATE / substeps
            return simulate(beam, frames=frames, fps=rate, substeps=substeps, integrator=SymplecticEuler())

        def physics() -> None:
            with torch.no_grad():
                roll_out(2, STEPS)

        def physics_backward() -> None:
            stiffness.grad = None
            roll_out(2, STEPS)["beam"].vertices.square().sum().backward()

        with torch.no_grad():
            shown = roll_out(STEPS, 1)

        def rendering() -> None:
            with torch.no_grad():
                render(beam, shown, (SIDE, SIDE))

        def both_backward() -> None:
            stiffness.grad = None
            render(beam, roll_out(STEPS, 1), (SIDE, SIDE)).square().mean().backward()

        calls = (physics, rendering, physics_backward, both_backward)
        return {"tets": tets, **{name: _rate(call) for name, call in zip(NAMES, calls, strict=True)}}

    return Case(f"{tets} tets", run)


def _rate(call: Callable[[], None]) -> float:
    """Returns steps a second, from the fastest of the calls in a second."""
    call()
    least, end = float("inf"), perf_counter() + SECONDS
    while True:
        begin = perf_counter()
        call()
        now = perf_counter()
        least = min(least, now - begin)
        if now >= end:
            return STEPS / least


def experiment(sizes: Sequence[int] = tuple(CELLS)) -> Experiment:
    """Steps a second on this machine, in float32."""
    cases = tuple(case(tets) for tets in sizes)
    return Experiment("paper-timing", "Table 4, right: steps a second", COLUMNS, cases, _no_claims)


def _no_claims(rows: Sequence[Row]) -> list[Claim]:
    """Speed is reported, not required: `make bench` compares with peers."""
    return []
