"""Figures 4, 11 and 12 of the paper: the loss over the mass of a cube and over the Lamé parameters of a beam.

The cube has 1 kg, is pushed by a known impulse and thrown to the ground; masses are .1 to 5 kg. The mean squared error
is taken over all frames, over the first and the last one, and over shorter videos. PyBullet's own loss is beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from gradsim.datasets import deformable
from gradsim.datasets.recording import record, soft_ground
from gradsim.datasets.sample import Sample
from gradsim.experiments.baselines.problem import MASS, Problem
from gradsim.experiments.baselines.reinforce import NOISE, Bullet
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.fit.landscape import landscape
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Look
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

SIDE = 64  # frame height and width [px]
FRAMES, FPS, SUBSTEPS = 60, 30.0, 64
TRUE_MASS = 1.0  # [kg]
MASSES = tuple(  # [kg], the true one among them
    np.round([*np.geomspace(0.1, TRUE_MASS, 36, endpoint=False), *np.geomspace(TRUE_MASS, 5.0, 25)], 4).tolist()
)
EDGE = 0.6  # of the cube [m]
LAME = 1000.0  # true Lamé parameters of the beam [Pa]
BULLET = "PyBullet, all frames"
MEANS = (0.5, 1.0, 2.0)  # current estimates of REINFORCE [kg]
COLUMNS = (
    Column("series", "", 30),
    Column("minimum", ".4g", 9),
    Column("minima", "d", 7, "number of minima"),
    Column("range", ".1e", 9),
)


def cube(density: Any) -> Scene:
    """Returns a scene with a cube that is thrown to the ground and pushed at the start."""
    body = Rigid(
        "body",
        box(1.0),
        size=(EDGE, EDGE, EDGE),
        density=density,
        position=(-1.2, 1.0, 0.0),
        rotation=(0.1, 0.2, 0.15, 0.95),
        velocity=(0.6, 0.0, 0.0),
        angular_velocity=(0.5, 0.3, -0.8),
        pushes=[Push(impulse=(0.8, 0.3, 0.0), point=(0.0, 0.05, 0.0))],
        look=Look(face_colors=np.random.default_rng(0).uniform(0.2, 1.0, (12, 3)), smooth=0.0),
    )
    ground = Ground(ke=300.0, kd=2.0, kf=10.0, mu=0.5, delta=0.01)
    camera = Camera(eye=(0.4, 2.0, 7.0), target=(0.4, 0.5, 0.0), fov=40.0)
    return Scene([body], ground=ground, camera=camera, background=(0.05, 0.08, 0.12))


@cache
def _squared_errors() -> np.ndarray:
    """Returns the mean squared error of each frame for each mass, [masses, frames]."""
    time = Time(FRAMES, FPS, SUBSTEPS)
    densities = torch.tensor(MASSES, dtype=torch.float64) / EDGE**3
    with torch.no_grad():
        _, (target,) = record(cube(TRUE_MASS / EDGE**3), time, SIDE)
        rows = []
        for density in densities:
            _, (video,) = record(cube(density), time, SIDE)
            rows.append((video - target).square().flatten(1).mean(1))
    return torch.stack(rows).numpy()


def _chosen_frames(name: str) -> np.ndarray:
    if name == "first and last frame":
        return np.array([0, FRAMES - 1])
    if name == "last frame":
        return np.array([FRAMES - 1])
    return np.arange(FRAMES if name == "all frames" else int(name.split()[1]))


SERIES = ("all frames", "first and last frame", "last frame", "first 10 frames", "first 20 frames", "first 40 frames")


def mass_case(name: str) -> Case:
    """Returns the case of one choice of frames."""

    def run(progress: Progress) -> Row:
        losses = _squared_errors()[:, _chosen_frames(name)].mean(1)
        return _mass_row(name, losses)

    return Case(name, run)


def bullet_case() -> Case:
    """Returns the case of PyBullet, with a target of its own."""

    return Case(BULLET, lambda progress: _mass_row(BULLET, _bullet_losses()))


@cache
def _bullet_losses() -> np.ndarray:
    """Returns the mean squared error of PyBullet's videos for each mass, [masses]."""
    time = Time(FRAMES, FPS, SUBSTEPS)
    guess = unknown(2.0 / EDGE**3, low=0.1 / EDGE**3, high=5.0 / EDGE**3)
    sample = Sample("box", cube(guess), {"body.density": TRUE_MASS / EDGE**3}, time)
    with Bullet(Problem(sample, MASS, 0)) as bullet:
        target = bullet.video(TRUE_MASS)
        return np.array([((bullet.video(mass) - target) ** 2).mean() for mass in MASSES])


def reinforce_case(mean: float) -> Case:
    """Returns the case of what REINFORCE minimizes at a current estimate of the mass [kg] (Figure 11, right).

    That is the negative log likelihood of a sample, times its reward, which is normalized over the masses.
    """
    name = f"REINFORCE at {mean:g} kg"

    def run(progress: Progress) -> Row:
        rewards = -_bullet_losses()
        normalized = (rewards - rewards.mean()) / rewards.std()
        negative_logs = ((np.array(MASSES) - mean) / NOISE) ** 2 / 2 + np.log(NOISE * np.sqrt(2 * np.pi))
        row = _mass_row(name, negative_logs * normalized)
        row["products"] = row.pop("losses")
        return row

    return Case(name, run)


def _mass_row(name: str, losses: np.ndarray) -> Row:
    return {
        "series": name,
        "minimum": MASSES[int(losses.argmin())],
        "minima": local_minima(losses),
        "range": float(losses.max()),
        "masses": list(MASSES),
        "losses": losses.tolist(),
    }


def local_minima(losses: Sequence[float] | np.ndarray) -> int:
    """Returns the number of points of a curve that are lower than both neighbours; ends count."""
    padded = np.concatenate([[np.inf], np.asarray(losses, dtype=float), [np.inf]])
    return int(((padded[1:-1] < padded[:-2]) & (padded[1:-1] < padded[2:])).sum())


def lame_case(points: int) -> Case:
    """Returns the case of the Lamé parameters of a hanging beam."""

    def run(progress: Progress) -> Row:
        time = Time(deformable.FRAMES, deformable.FPS, deformable.SUBSTEPS["beam"])
        with torch.no_grad():
            _, (target,) = record(deformable.beam(LAME, LAME), time, SIDE)
        unknowns = [unknown(LAME, low=LAME / 4, high=4 * LAME) for _ in range(2)]
        with soft_ground():
            found = landscape(
                deformable.beam(*unknowns),
                target,
                ["beam.material.mu", "beam.material.lam"],
                points=points,
                fps=time.fps,
                substeps=time.substeps,
            )
        first, second = found.axes
        return {
            "series": "Lamé parameters",
            "minimum": found.minimum[first.name],
            "minima": grid_minima(found.mean_square.numpy()),
            "range": float(found.mean_square.max()),
            "mu": first.values.tolist(),
            "lam": second.values.tolist(),
            "losses": found.mean_square.tolist(),
        }

    return Case(f"Lamé parameters, {points} x {points}", run)


def grid_minima(losses: np.ndarray) -> int:
    """Returns the number of points of a grid that are lower than their eight neighbours."""
    padded = np.pad(losses, 1, constant_values=np.inf)
    rows, columns = losses.shape
    lower = np.ones(losses.shape, dtype=bool)
    for i in range(3):
        for j in range(3):
            if (i, j) != (1, 1):
                lower &= losses < padded[i : i + rows, j : j + columns]
    return int(lower.sum())


def experiment(points: int = 25, *, bullet: bool = True) -> Experiment:
    """Losses over the mass and over the Lamé parameters, where they are lowest, and the number of their minima."""
    estimators = (bullet_case(), *map(reinforce_case, MEANS)) if bullet else ()
    cases = (*map(mass_case, SERIES), *estimators, lame_case(points))
    return Experiment("paper-landscapes", "Figures 4, 11, 12: loss landscapes", COLUMNS, cases, claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The truth has the lowest loss; how many other minima there are is reported. REINFORCE minimizes no loss."""
    masses = [(row["series"], row["minimum"], TRUE_MASS) for row in rows if "masses" in row and "losses" in row]
    lame = [(row["series"], row["minimum"], LAME) for row in rows if "lam" in row]
    return [
        Claim(f"lowest loss relative to the truth, {name}", value / truth, at_least=1 - 1e-9, at_most=1 + 1e-9)
        for name, value, truth in (*masses, *lame)
    ]
