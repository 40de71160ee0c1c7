"""Implicit midpoint against velocity Verlet: driven beams of two shapes and three stiffnesses, and a free vibration.

A beam clamped at one end is driven at 1.5 Hz, slowly compared with its stiffness: the loss is the path of its tip, and
the time is that of a rollout of one second with its gradient. Verlet needs its stable step for any accuracy.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from time import process_time
from typing import Any

import numpy as np
import torch
from rich.console import Group
from rich.table import Table

import gradsim as gs
from benchmarks.report import Progress, Requirement, Section, footer, new_table, no_progress
from benchmarks.timing import Machine, this_machine

SHAPES = {"stubby": ((0.2, 0.04, 0.04), (20, 4, 4)), "slender": ((0.4, 0.02, 0.02), (40, 2, 2))}  # [m], cells
STIFFNESSES = (1e6, 1e7, 1e8)  # Young's modulus [Pa]
DENSITY, POISSON = 1000.0, 0.3
FORCING = 1.5  # frequency of the driving force [Hz]
DAMPING = 0.001  # ratio of the first bending mode
FPS = 30  # frames of a second
STEPS = (60, 120, 240, 480)  # implicit steps a second
ACCURACY = 0.01  # rms error of the tip over its largest deflection, at which times are compared
REQUIRED = 10.0  # times faster, the slender beam of 1e7 Pa
MODULUS_BIAS = 0.0033  # of the vibration at 240 steps a second
STABLE_TRIALS = (1.6, 1.4, 1.2, 1.0, 0.8)  # of the estimated stable step: the first that works is used


@dataclass(frozen=True)
class ClampedBeam:
    """A beam of tetrahedra, clamped at one end."""

    shape: str
    young: float  # [Pa]
    driven: bool = True  # by a sinusoidal force across; else it vibrates freely about its sag
    ratio: float = DAMPING

    @property
    def size(self) -> tuple[float, float, float]:
        return SHAPES[self.shape][0]

    @cached_property
    def mesh(self) -> gs.TetMesh:
        return gs.meshes.tet_box(*SHAPES[self.shape])

    @cached_property
    def frequency(self) -> float:
        """Of the first bending mode of a thin beam [rad/s]."""
        length, height, _ = self.size
        return 3.516 * math.sqrt(self.young * height**2 / 12.0 / DENSITY) / length**2

    @property
    def load(self) -> float:
        """Acceleration that bends the beam by a twentieth of its length at rest [m/s^2]."""
        length, height, _ = self.size
        return 0.05 * length * 8.0 * self.young * height**2 / 12.0 / DENSITY / length**4

    def scene(self, young: torch.Tensor | None = None) -> gs.Scene:
        """Returns the scene; the modulus may be a tensor."""
        own = self.young if young is None else young
        mesh = self.mesh
        pinned = np.flatnonzero(mesh.vertices[:, 0] < mesh.vertices[:, 0].min() + 1e-9)
        viscosity = 2.0 * self.ratio * self.young / self.frequency
        material = gs.NeoHookean.from_young(own, POISSON, damping=viscosity)
        times = np.arange(FPS * 40 + 1) / (FPS * 40)
        mass = DENSITY * float(np.prod(self.size)) / len(mesh.vertices)
        push = np.zeros((len(times), 3))
        push[:, 1] = self.load * mass * np.sin(2.0 * np.pi * FORCING * times)
        force: dict[str, Any] = {"force": gs.Signal(torch.tensor(push))} if self.driven else {}
        body = gs.Soft("beam", mesh, material=material, density=DENSITY, pinned=pinned, **force)
        return gs.Scene([body], gravity=(0.0, 0.0 if self.driven else -1.6 * self.load, 0.0))

    @cached_property
    def tip(self) -> int:
        """Index of a node at the free end."""
        return int(np.argmin(((self.mesh.vertices - self.mesh.vertices.max(0)) ** 2).sum(1)))


@dataclass(frozen=True)
class Run:
    """One rollout: steps a second, time with the gradient [s], and the tip's error over its largest deflection."""

    steps: int
    seconds: float
    error: float


@dataclass(frozen=True)
class DrivenRow:
    """One beam: Verlet at its largest stable step, and implicit midpoint with several steps."""

    shape: str
    young: float
    tets: int
    verlet: Run
    implicit: tuple[Run, ...]

    @property
    def speedup(self) -> float | None:
        """Times faster at an error of at most `ACCURACY`; None if the steps tried are too few."""
        enough = [run.seconds for run in self.implicit if run.error <= ACCURACY]
        return self.verlet.seconds / min(enough) if enough else None


@dataclass(frozen=True)
class VibrationRow:
    """A free vibration with implicit steps: errors of modulus and damping that a fit of its frequency would have."""

    steps: int
    modulus_bias: float
    ratio: float  # damping ratio of the motion
    true_ratio: float  # with a fine explicit step


@dataclass(frozen=True)
class ImplicitResults:
    """The measurements, and the machine they were made on."""

    driven: tuple[DrivenRow, ...]
    vibration: tuple[VibrationRow, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        rows = [{**asdict(row), "speedup": row.speedup} for row in self.driven]
        return {"machine": asdict(self.machine), "driven": rows, "vibration": [asdict(row) for row in self.vibration]}


def tip_path(beam: ClampedBeam, integrator: gs.Integrator, substeps: int, fps: int = FPS) -> torch.Tensor:
    """Returns the deflection of the tip at the frames of one second [m]."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.StabilityWarning)
        motion = gs.simulate(beam.scene(), frames=fps + 1, fps=fps, substeps=substeps, integrator=integrator)
    path = motion.vertices[:, beam.tip, 1]
    return path - path[0]


def timed_gradient(beam: ClampedBeam, integrator: gs.Integrator, substeps: int, repeats: int) -> float:
    """Returns the CPU time of a rollout of one second and the gradient of its loss, the least of several [s]."""
    least = math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gs.StabilityWarning)
        for _ in range(repeats):
            young = torch.tensor(beam.young, dtype=torch.float64, requires_grad=True)
            start = process_time()
            motion = gs.simulate(beam.scene(young), frames=FPS + 1, fps=FPS, substeps=substeps, integrator=integrator)
            motion.vertices[:, beam.tip, 1].square().sum().backward()
            least = min(least, process_time() - start)
    return least


def verlet_reference(beam: ClampedBeam, fps: int) -> tuple[int, torch.Tensor]:
    """Returns the fewest steps of a frame with which Verlet is as accurate as asked for, and a more accurate path.

    The steps are those of a few multiples of the estimated stable one.
    """
    estimate = gs.stable_dt(beam.scene(), gs.Verlet())
    reference = tip_path(beam, gs.Verlet(), math.ceil(2.0 / (fps * estimate)), fps)
    for factor in STABLE_TRIALS:
        substeps = math.ceil(1.0 / (fps * estimate * factor))
        with contextlib.suppress(gs.Diverged):
            if relative_error(tip_path(beam, gs.Verlet(), substeps, fps), reference) <= ACCURACY:
                return substeps, reference
    raise AssertionError("no step of Verlet is accurate")


def relative_error(path: torch.Tensor, reference: torch.Tensor) -> float:
    """Returns the rms error of a path over its largest deflection."""
    return float((path - reference).square().mean().sqrt() / reference.abs().max())


def measure_driven(shape: str, young: float, repeats: int) -> DrivenRow:
    """Measures one driven beam."""
    beam = ClampedBeam(shape, young)
    fewest, reference = verlet_reference(beam, FPS)

    def run(integrator: gs.Integrator, substeps: int, times: int) -> Run:
        error = relative_error(tip_path(beam, integrator, substeps), reference)
        return Run(substeps * FPS, timed_gradient(beam, integrator, substeps, times), error)

    implicit = tuple(run(gs.ImplicitMidpoint(), steps // FPS, repeats) for steps in STEPS)
    return DrivenRow(shape, young, len(beam.mesh.tets), run(gs.Verlet(), fewest, 1), implicit)


def damped_cosine(times: np.ndarray, path: np.ndarray, guess: float) -> tuple[float, float]:
    """Returns angular frequency [rad/s] and rate of decay [1/s] of a damped oscillation: a scan, then Gauss-Newton."""
    scan = [(guess * factor, DAMPING * guess) for factor in np.linspace(0.6, 1.4, 161)]
    frequency, rate = min(scan, key=lambda trial: _misfit(times, path, *trial))
    for _ in range(60):
        envelope, phase = np.exp(-rate * times), frequency * times
        waves = np.stack([envelope * np.cos(phase), envelope * np.sin(phase), np.ones_like(times)], 1)
        a, b, _ = np.linalg.lstsq(waves, path, rcond=None)[0]
        slopes = [
            times * envelope * (b * np.cos(phase) - a * np.sin(phase)),
            -times * (a * waves[:, 0] + b * waves[:, 1]),
        ]
        jacobian = np.concatenate([waves, np.stack(slopes, 1)], 1)
        residual = path - waves @ np.linalg.lstsq(waves, path, rcond=None)[0]
        change = np.linalg.lstsq(jacobian, residual, rcond=None)[0][3:]
        frequency, rate = frequency + change[0], rate + change[1]
        if abs(change[0]) < 1e-10 * frequency:
            break
    return float(frequency), float(rate)


def measure_vibration(steps: Sequence[int], fps: int = 120) -> tuple[VibrationRow, ...]:
    """Measures the free vibration of a stubby beam of 1 MPa that is released under its weight."""
    beam = ClampedBeam("stubby", 1e6, driven=False)
    times = np.arange(fps + 1) / fps
    exact = tip_path(beam, gs.Verlet(), math.ceil(2.0 / (fps * gs.stable_dt(beam.scene(), gs.Verlet()))), fps).numpy()
    frequency, rate = damped_cosine(times, exact, beam.frequency)
    rows = []
    for count in steps:
        path = tip_path(beam, gs.ImplicitMidpoint(), count // fps, fps).numpy()
        own, own_rate = damped_cosine(times, path, frequency)
        rows.append(VibrationRow(count, (own / frequency) ** 2 - 1.0, own_rate / own, rate / frequency))
    return tuple(rows)


def _misfit(times: np.ndarray, path: np.ndarray, frequency: float, rate: float) -> float:
    envelope = np.exp(-rate * times)
    waves = np.stack([envelope * np.cos(frequency * times), envelope * np.sin(frequency * times), 1.0 + 0.0 * times], 1)
    return float(np.linalg.lstsq(waves, path, rcond=None)[1].sum())


def measure_implicit(
    *,
    shapes: Sequence[str] = tuple(SHAPES),
    stiffnesses: Sequence[float] = STIFFNESSES,
    vibration: Sequence[int] = (120, 240, 480, 960),
    repeats: int = 3,
    progress: Progress = no_progress,
) -> ImplicitResults:
    """Measures driven beams and a free vibration.

    Args:
        shapes: From `SHAPES`.
        stiffnesses: Young's moduli [Pa].
        vibration: Implicit steps a second of the free vibration, multiples of 120.
        repeats: Timed rollouts with implicit steps, of which the fastest counts.
        progress: Called with one line before each measurement.
    """
    driven = []
    for shape in shapes:
        for young in stiffnesses:
            progress(f"{shape} beam, {young:.0e} Pa")
            driven.append(measure_driven(shape, young, repeats))
    progress("free vibration")
    return ImplicitResults(tuple(driven), measure_vibration(vibration), this_machine("torch", "warp-lang"))


def requirements(results: ImplicitResults) -> list[Requirement]:
    """Returns the requirements for which there are measurements."""
    found = []
    for row in results.driven:
        if (row.shape, row.young) == ("slender", 1e7):
            text = (
                f"implicit: slender beam of 1e7 Pa at least {REQUIRED:g} times faster than Verlet within {ACCURACY:.0%}"
            )
            found.append(Requirement(text, f"{row.speedup or 0.0:.1f}", (row.speedup or 0.0) >= REQUIRED))
    for own in results.vibration:
        if own.steps == 240:
            text = f"implicit: a vibration at 240 steps/s has a modulus bias of at most {MODULUS_BIAS:.2%}, its damping"
            measured = f"{own.modulus_bias:.2%}, {own.ratio:.6f} for {own.true_ratio:.6f}"
            right = abs(own.modulus_bias) <= 1.05 * MODULUS_BIAS and abs(own.ratio / own.true_ratio - 1.0) <= 0.02
            found.append(Requirement(text, measured, right))
    return found


def section(results: ImplicitResults) -> Section:
    """Returns the section of the report."""
    report = Group(driven_table(results), vibration_table(results))
    return Section("Implicit steps", report, results.as_dict(), tuple(requirements(results)))


def driven_table(results: ImplicitResults) -> Table:
    """Returns the driven beams as a table."""
    title = f"Beams driven at {FORCING:g} Hz for 1 s: CPU seconds with the gradient / error of the tip"
    columns = tuple(f"implicit\n{steps}/s" for steps in STEPS)
    found = new_table(
        title, ("beam", "Pa", "tets", "Verlet\nsteps/s", "Verlet", *columns, f"faster\nat {ACCURACY:.0%}")
    )
    for row in results.driven:
        cells = [f"{run.seconds:.2f} / {run.error:.0e}" for run in (row.verlet, *row.implicit)]
        gain = "-" if row.speedup is None else f"{row.speedup:.1f}"
        found.add_row(row.shape, f"{row.young:.0e}", f"{row.tets:,}", f"{row.verlet.steps:,}", *cells, gain)
    return found


def vibration_table(results: ImplicitResults) -> Table:
    """Returns the free vibration as a table."""
    found = new_table(
        "Free vibration of the stubby beam of 1e6 Pa, implicit midpoint",
        ("steps/s", "modulus", "damping ratio", "exact"),
    )
    for row in results.vibration:
        found.add_row(str(row.steps), f"{row.modulus_bias:+.2%}", f"{row.ratio:.6f}", f"{row.true_ratio:.6f}")
    found.caption = footer(results.machine, "modulus: bias of a fit of the frequency; exact: with a fine explicit step")
    return found
