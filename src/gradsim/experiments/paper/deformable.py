"""Table 3 of the paper: masses of all nodes of a solid, Lamé parameters, and velocities of all nodes of a cloth.

The objects are those of the deformable data set. The videos are exact frames, simulated with the time step of the fit.
"DiffPhysics" sees the positions of all nodes at the frames instead. The noise of both is declared as 1e-6: with that of
8 bits, which is assumed where none is given, the priors of masses and velocities would bias them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.datasets import deformable
from gradsim.datasets.recording import record
from gradsim.datasets.sample import generators
from gradsim.experiments.baselines.problem import STATE_NOISE as NOISE
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.many_unknowns import smooth_field, texture
from gradsim.experiments.protocol import fit_video, relative_errors
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.jacobians import Adjoint
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.observations.states import States
from gradsim.scene import meshes
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.looks import Look
from gradsim.scene.priors import LogNormal, Normal
from gradsim.scene.quantity import PerElement
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

SIDE = 64  # frame height and width [px]
FPS = 30.0
BALL_CELLS, SHEET_CELLS = 4, 6  # across a ball and along a sheet: 125 and 49 nodes
COARSE_BALL, COARSE_SHEET = 2, 4  # the same in the quick form: 27 and 25 nodes
DENSE = 50  # most unknowns whose whole Jacobian is computed in the search
MASS_DEVIATION = 0.2  # standard deviation of the logarithm of a node's mass
VELOCITY_DEVIATION = 0.3  # of a node's velocity [m/s]
WAVELENGTH = 1.0  # of the true fields [m]
VIDEO, STATES = "gradsim", "diffphysics"  # methods: from video, from 3D states
ALLOWED = {"mass": 0.02, "mu": 1e-6, "lam": 1e-6, "velocity": 1e-3}  # mean relative errors from video
PAPER = {  # relative mean absolute errors
    STATES: {"mass": 0.032, "mu": 0.0025, "lam": 0.0024, "velocity": 0.127},
    VIDEO: {"mass": 0.048, "mu": 0.0054, "lam": 0.0056, "velocity": 0.026},
}
COLUMNS = (
    Column("object", "", 8),
    Column("method", "", 12),
    Column("unknowns", "d", 9),
    *(Column(name, ".1e", 9) for name in ALLOWED),
    Column("start", ".2f", 7),
    Column("identifiable", "d", 13),
    Column("status", "", 26),
    Column("seconds", ".0f", 8),
)


@dataclass(frozen=True)
class Instance:
    """A scene with unknowns and their true values."""

    scene: Scene
    truth: dict[str, np.ndarray]  # by path
    names: dict[str, str]  # path by name in the table
    time: Time

    @property
    def size(self) -> int:
        """Number of unknowns."""
        return int(sum(np.size(value) for value in self.truth.values()))


def beam(seed: int, number: int, *, coarse: bool = False) -> Instance:
    """A hanging beam with unknown Lamé parameters."""
    sample = deformable.sample(seed, 3 * number)
    truth = {path: np.asarray(value) for path, value in sample.truth.items()}
    names = {"mu": "beam.material.mu", "lam": "beam.material.lam"}
    return Instance(sample.scene, truth, names, sample.time)


def ball(seed: int, number: int, *, coarse: bool = False) -> Instance:
    """A soft ball that hits the ground, with an unknown mass of each node. It is textured."""
    rng, _ = generators(seed, number)
    radius, density = rng.uniform(0.2, 0.3), rng.uniform(5.0, 15.0)
    velocity = rng.uniform((1.0, -1.0, -0.3), (2.2, 0.5, 0.3))
    mu, lam = rng.uniform(500.0, 2000.0, 2)
    scene = deformable.ball(density, mu, lam, radius=radius, velocity=velocity)
    mesh = meshes.tet_ball(radius, COARSE_BALL if coarse else BALL_CELLS)
    volumes = np.bincount(mesh.tets.ravel(), np.repeat(mesh.volumes / 4.0, 4), len(mesh.vertices))
    mean = density * volumes
    truth = mean * np.exp(MASS_DEVIATION * smooth_field(mesh.vertices, rng, WAVELENGTH))
    body = scene["ball"]
    assert isinstance(body, Soft)
    masses: Any = PerElement(unknown(mean, prior=LogNormal(mean, MASS_DEVIATION)))
    look = Look(texture=texture(), lit=False)
    changed = dataclasses.replace(body, mesh=mesh, density=None, mass=masses, look=look)
    time = Time(deformable.FRAMES, FPS, deformable.SUBSTEPS["ball"])
    return Instance(_with_body(scene, changed), {"ball.mass": truth}, {"mass": "ball.mass"}, time)


def cloth(seed: int, number: int, *, coarse: bool = False) -> Instance:
    """A sheet in flight with an unknown initial velocity of each node. It is textured."""
    rng, _ = generators(seed, number)
    mean = rng.uniform((0.8, 1.8, -1.0), (1.8, 3.2, 0.0))
    scene = deformable.cloth(mean, stiffness=rng.uniform(30.0, 80.0))
    mesh = meshes.grid(0.8, COARSE_SHEET if coarse else SHEET_CELLS)
    fields = [smooth_field(mesh.vertices, rng, WAVELENGTH) for _ in range(3)]
    truth = mean + VELOCITY_DEVIATION * np.stack(fields, -1)
    body = scene["cloth"]
    assert isinstance(body, Cloth)
    guess = np.tile(mean, (len(mesh.vertices), 1))
    velocity: Any = PerElement(unknown(guess, prior=Normal(guess, VELOCITY_DEVIATION)))
    changed = dataclasses.replace(body, mesh=mesh, velocity=velocity, look=Look(texture=texture(), lit=False))
    time = Time(deformable.FRAMES, FPS, deformable.SUBSTEPS["cloth"])
    names = {"velocity": "cloth.velocity"}
    return Instance(_with_body(scene, changed), {"cloth.velocity": truth}, names, time)


def _with_body(scene: Scene, body: Any) -> Scene:
    return dataclasses.replace(scene, bodies=[body])


INSTANCES: dict[str, Callable[..., Instance]] = {"beam": beam, "ball": ball, "cloth": cloth}


def case(kind: str, method: str, number: int, seed: int, *, coarse: bool = False) -> Case:
    """Returns the case of one object and one kind of observation."""

    def run(progress: Progress) -> Row:
        subject = INSTANCES[kind](seed, number, coarse=coarse)
        true = subject.scene.with_values({path: torch.as_tensor(v) for path, v in subject.truth.items()})
        with torch.no_grad():
            trajectory, (video,) = record(true, subject.time, SIDE)
        observed: Any = Pixels(video, noise=NOISE)
        if method == STATES:
            observed = States({f"{kind}.vertices": trajectory[kind].vertices}, noise=NOISE)
        options: dict[str, Any] = {"fps": FPS, "substeps": subject.time.substeps, "bootstrap": False}
        if subject.size > DENSE:
            options["optimizer"] = GaussNewton(jacobian=Adjoint())
        fit = fit_video(subject.scene, observed, progress, **options)
        errors = relative_errors(fit, subject.truth)
        guesses = {path: np.asarray(item.guess) for path, item in subject.scene.unknowns.items()}
        start = [np.linalg.norm(guesses[path] - v) / np.linalg.norm(v) for path, v in subject.truth.items()]
        return {
            "object": kind,
            "method": method,
            "unknowns": subject.size,
            **{name: errors[path] for name, path in subject.names.items()},
            "start": float(max(start)),
            "identifiable": sum(item.level == "identifiable" for item in fit.identifiability.values()),
            "status": fit.status,
            "seconds": fit.seconds,
        }

    return Case(f"seed {seed}, {kind} {number} from {method}{', coarse' if coarse else ''}", run)


def experiment(instances: int, seed: int = 0, *, coarse: bool = False) -> Experiment:
    """Relative errors, ||value - truth|| / ||truth||, of objects that take turns, with few nodes if `coarse`."""
    kinds = list(INSTANCES)
    cases = tuple(
        case(kinds[k % len(kinds)], method, k // len(kinds), seed, coarse=coarse)
        for k in range(instances)
        for method in (STATES, VIDEO)
    )
    title = f"Table 3: {instances} deformable objects"
    return Experiment("paper-deformable", title, COLUMNS, cases, claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    means = mean_errors(rows).get(VIDEO, {})
    return [Claim(f"mean relative error of {n}, from video", e, at_most=ALLOWED[n]) for n, e in means.items()]


def mean_errors(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Returns the mean errors by method and name."""
    found: dict[str, dict[str, float]] = {}
    for method in (STATES, VIDEO):
        for name in ALLOWED:
            errors = [row[name] for row in rows if row["method"] == method and row.get(name) is not None]
            if errors:
                found.setdefault(method, {})[name] = float(np.mean(errors))
    return found
