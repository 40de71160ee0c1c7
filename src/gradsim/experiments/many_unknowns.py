"""Hundreds of unknowns: 300 masses of the nodes of a soft block, and 81 x 3 initial velocities of the nodes of a cloth.

Each is estimated from a video and from noisy 3D positions of the nodes. The search uses products with the Jacobian
(`gs.Adjoint`), whose cost does not depend on the number of unknowns. The recorded motion has smaller time steps and
another integrator than the fitted one. The true fields are smooth, but the priors are independent for each node: they
only state how large the deviations are.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import soft_ground
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row, largest
from gradsim.experiments.protocol import fit_video, relative_errors
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.jacobians import Adjoint
from gradsim.fit.observations.states import States
from gradsim.fit.result import Fit
from gradsim.fit.simulation import simulate_over
from gradsim.render.render import render
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.camera import Camera
from gradsim.scene.integrators import RungeKutta4
from gradsim.scene.looks import Look
from gradsim.scene.materials import Bending, Ground, Membrane, NeoHookean
from gradsim.scene.priors import LogNormal, Normal
from gradsim.scene.quantity import PerElement
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown, unknown

SIDE = 64  # frame height and width [px]
PIXEL_NOISE, POSITION_NOISE = 0.01, 0.001  # standard deviations: of a colour, of a coordinate [m]
FINER = 4  # time steps of the recorded motion relative to the fitted one
MASS, MASS_DEVIATION = 0.0063, 0.3  # median [kg] and standard deviation of the logarithm, of a node of the block
THROW, VELOCITY_DEVIATION = np.array([0.8, 1.6, -0.5]), 0.4  # mean velocity and its deviations in the cloth [m/s]
VIDEO, STATES = "video", "3D states"
COLUMNS = (
    Column("unknowns", "", 20),
    Column("from", "", 10),
    Column("error", ".4f", 8),
    Column("prior", ".4f", 8, "by prior"),
    Column("data", ".2f", 6),
    Column("inside", ".2f", 7),
    Column("identifiable", "d", 13),
    Column("weak", "d", 5),
    Column("from the prior", "d", 15),
    Column("undetermined", "d", 13, "not"),
    Column("chi2", ".3f", 6),
    Column("status", "", 16),
    Column("search", ".0f", 7, "search s"),
    Column("seconds", ".0f", 8),
    Column("cpu", ".0f", 6, "CPU s"),
    Column("peak", ".2f", 8, "peak GB"),
)


@dataclass(frozen=True)
class ManyUnknowns:
    """A body with one unknown, or several, for each node."""

    name: str
    body: str
    path: str
    scene: Callable[[Any], Scene]
    field: Callable[[np.random.Generator], np.ndarray]  # true values
    unknown: Callable[[], Unknown]
    frames: int
    fps: float
    substeps: int  # per frame, of the fit


def smooth_field(points: np.ndarray, rng: np.random.Generator, wavelength: float, waves: int = 12) -> np.ndarray:
    """Returns a random smooth function at points [N, 3] with mean 0 and standard deviation 1, [N]."""
    directions = rng.normal(size=(waves, 3))
    phases = points @ directions.T * (2 * np.pi / wavelength) + rng.uniform(0, 2 * np.pi, waves)
    values = np.cos(phases) @ rng.normal(size=waves)
    return np.asarray((values - values.mean()) / values.std())


def texture(size: int = 256, waves: int = 10) -> np.ndarray:
    """Returns an image [size, size, 3] of random colours that repeat at its edges and vary over a third of it."""
    rng = np.random.default_rng(0)
    place = np.stack(np.meshgrid(np.arange(size), np.arange(size), indexing="ij"), -1) / size
    image = np.zeros((size, size, 3))
    for channel in range(3):
        for _ in range(waves):
            phase = place @ rng.integers(-3, 4, 2) * 2 * np.pi + rng.uniform(0, 2 * np.pi)
            image[..., channel] += rng.normal() * np.cos(phase)
    return np.asarray((0.5 + 0.14 * image).clip(0.05, 0.95))


BLOCK = meshes.tet_box((0.66, 0.24, 0.24), (11, 4, 4))  # 300 nodes, 880 tetrahedra
SHEET = meshes.grid(0.8, 8)  # 81 nodes


def block(mass: Any) -> Scene:
    """Returns a scene with a soft block that hits the ground with one end first."""
    body = Soft(
        "block",
        BLOCK,
        mass=PerElement(mass),
        material=NeoHookean(mu=600.0, lam=900.0, damping=0.6),
        position=(0.0, 0.23, 0.0),
        rotation=(0.0, 0.1, 0.12, 1.0),
        velocity=(0.0, -1.2, 0.0),
        look=Look(texture=texture(), lit=False),
    )
    ground = Ground(ke=60.0, kd=0.05, kf=0.3, mu=0.5, delta=0.01)
    camera = Camera(eye=(0.3, 0.6, 1.1), target=(0.0, 0.13, 0.0), fov=37.0)
    return Scene([body], ground=ground, camera=camera, background=(0.1, 0.12, 0.15))


def cloth(velocity: Any) -> Scene:
    """Returns a scene with a sheet in flight, with drag, whose nodes start with velocities of their own."""
    body = Cloth(
        "cloth",
        SHEET,
        density=0.15,
        material=Membrane(mu=30.0, lam=30.0, damping=0.05),
        bending=Bending(stiffness=5e-4, damping=1e-5),
        drag=0.5,
        lift=0.5,
        position=(-0.2, 0.1, 0.1),
        rotation=(0.5, 0.0, 0.15, 0.85),
        velocity=PerElement(velocity),
        look=Look(texture=texture(), lit=False),
    )
    camera = Camera(eye=(0.3, 0.5, 1.9), target=(0.0, 0.2, 0.0), fov=37.0)
    return Scene([body], camera=camera, background=(0.1, 0.12, 0.15))


def _masses(rng: np.random.Generator) -> np.ndarray:
    return np.asarray(MASS * np.exp(MASS_DEVIATION * smooth_field(BLOCK.vertices, rng, 1.0)))


def _velocities(rng: np.random.Generator) -> np.ndarray:
    fields = [smooth_field(SHEET.vertices, rng, 1.0) for _ in range(3)]
    return np.asarray(THROW + VELOCITY_DEVIATION * np.stack(fields, -1))


def _unknown_masses() -> Unknown:
    return unknown(np.full(len(BLOCK.vertices), MASS), prior=LogNormal(MASS, MASS_DEVIATION))


def _unknown_velocities() -> Unknown:
    mean = np.tile(THROW, (len(SHEET.vertices), 1))
    return unknown(mean, prior=Normal(mean, VELOCITY_DEVIATION))


SUBJECTS = (
    ManyUnknowns(
        "300 masses", "block", "block.mass", block, _masses, _unknown_masses, frames=12, fps=30.0, substeps=32
    ),
    ManyUnknowns(
        "81 x 3 velocities",
        "cloth",
        "cloth.velocity",
        cloth,
        _velocities,
        _unknown_velocities,
        frames=12,
        fps=60.0,
        substeps=8,
    ),
)


def observe(subject: ManyUnknowns, truth: np.ndarray, source: str, seed: int) -> Any:
    """Returns a noisy video [T, H, W, 3], or noisy positions of the nodes, of the true motion."""
    true = subject.scene(truth)
    with soft_ground():
        motion = simulate_over(true, Time(subject.frames, subject.fps, FINER * subject.substeps, RungeKutta4()))
    exact = render(true, motion, (SIDE, SIDE)) if source == VIDEO else motion[subject.body].vertices
    noise = torch.randn(exact.shape, generator=torch.Generator().manual_seed(seed), dtype=exact.dtype)
    if source == VIDEO:
        return exact + PIXEL_NOISE * noise
    return States({f"{subject.body}.vertices": exact + POSITION_NOISE * noise}, noise=POSITION_NOISE)


def case(subject: ManyUnknowns, source: str, seed: int) -> Case:
    """Returns the case of one body and one kind of observation."""

    def run(progress: Progress) -> Row:
        truth = subject.field(np.random.default_rng(seed))
        declared = subject.unknown()
        optimizer = GaussNewton(jacobian=Adjoint())
        observed = observe(subject, truth, source, seed)
        options: dict[str, Any] = {"fps": subject.fps, "substeps": subject.substeps, "optimizer": optimizer}
        begin = time.process_time()
        fit = fit_video(subject.scene(declared), observed, progress, **options)
        prior = np.asarray(declared.guess)
        return {
            "unknowns": subject.name,
            "from": source,
            "error": relative_errors(fit, {subject.path: truth})[subject.path],
            "prior": float(np.linalg.norm(prior - truth) / np.linalg.norm(truth)),
            **_interval_measures(fit, subject.path, truth),
            "chi2": fit.misfit.chi2,
            "status": fit.status,
            "search": fit.history[-1].seconds,
            "seconds": fit.seconds,
            "cpu": time.process_time() - begin,
            "peak": _peak_memory(),
        }

    return Case(f"seed {seed}, {subject.name} from {source}", run)


def _interval_measures(fit: Fit, path: str, truth: np.ndarray) -> Row:
    """Returns how much the observations determine, and how many intervals contain the truth."""
    low, high = fit.intervals[path]
    true = torch.as_tensor(truth)
    prior = fit.parameters.prior_normal()[1]
    levels = [item.level for item in fit.identifiability.values()]
    return {
        "data": float((1.0 - (fit.standard_deviation / prior) ** 2).mean()),
        "inside": float(((low <= true) & (true <= high)).to(torch.float64).mean()),
        "identifiable": levels.count("identifiable"),
        "weak": levels.count("weak"),
        "from the prior": levels.count("from the prior"),
        "undetermined": levels.count("not identifiable") + levels.count("at its bound"),
    }


def _peak_memory() -> float:
    """Returns the largest memory of this process so far [GB]; Linux reports kilobytes, macOS bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    states = [row for row in rows if row["from"] == STATES]
    videos = [row for row in rows if row["from"] == VIDEO]
    found = [
        Claim(
            "smallest fraction of intervals that contain the truth", min(row["inside"] for row in rows), at_least=0.85
        ),
        Claim("largest peak memory [GB]", largest(rows, "peak"), at_most=2.0),
    ]
    for name, selected, allowed in ((STATES, states, 0.5), (VIDEO, videos, 0.8)):
        if selected:
            worst = max(row["error"] / row["prior"] for row in selected)
            found.append(
                Claim(f"largest error from {name}, relative to that of the prior mean", worst, at_most=allowed)
            )
    return found


def experiment(seed: int = 0) -> Experiment:
    """Errors, intervals, seconds and memory for hundreds of unknowns."""
    cases = tuple(case(subject, source, seed) for subject in SUBJECTS for source in (STATES, VIDEO))
    return Experiment("many-unknowns", "Hundreds of unknowns", COLUMNS, cases, _claims)
