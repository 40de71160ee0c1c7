"""Motion capture of a cube that is tossed onto a table: fit some tosses, predict the others.

The recordings (Pfrommer, Halm and Posa, "ContactNets", 2020) are not part of this package. A prediction starts from the
measured first state and covers the whole recording. Its error is the distance between predicted and measured centre in
percent of the side, and the angle between predicted and measured rotation, each averaged over the recording.

The cube is not a uniform solid: its centre of mass and its moment of inertia are estimated along with the contact.
This form of the model was found by inspecting all recordings. Predicted tosses are therefore held out from the fitted
values, in every split, but not from the choice of the model; only other recordings test that.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from gradsim.datasets.recording import soft_ground
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.protocol import fit_video
from gradsim.fit.observations.robust import Cauchy
from gradsim.fit.observations.states import States
from gradsim.fit.result import Fit
from gradsim.fit.simulation import simulate_over
from gradsim.fit.trials import Trial
from gradsim.scene.errors import InvalidInput
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotation_vector
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

FILE = "cube_tosses.npz"
SIDE, MASS = 0.1048, 0.37  # [m], [kg]
FPS, SUBSTEPS = 148.0, 16
GRAVITY = (0.0, 0.0, -9.81)  # [m/s^2]
TRAINING = 50  # tosses of a fit
MAX_SECONDS = 60.0
MAX_POSITION, MAX_ROTATION = 12.0, 8.0  # mean error [% of the side], median error [degrees]
FRICTION = (0.17, 0.21)
SCALES = {"position": 0.01, "rotation": 0.2}  # residuals beyond which a measurement counts less [m], [rad]
REFERENCE = "none; a plain L1 fit of 16 other tosses predicts to 13.1 % and 8.9 degrees; friction of the authors 0.18"
DEVELOPMENT = 0  # seed of the split on which the options of the fit were chosen
QUANTITIES = {
    "mu": ("ground.mu", 1.0),
    "ke, N/m": ("ground.ke", 1.0),
    "kd, N s/m": ("ground.kd", 1.0),
    "center x, mm": ("cube.center[0]", 1e3),
    "center y, mm": ("cube.center[1]", 1e3),
    "center z, mm": ("cube.center[2]", 1e3),
    "inertia, g m^2": ("cube.inertia[0][0]", 1e3),
}  # path, and factor of the unit
COLUMNS = (
    Column("split", "", 12),
    Column("position", ".2f", 12, "position, %"),
    Column("rotation", ".2f", 13, "rotation, deg"),
    Column("mean rotation", ".2f", 9, "mean"),
    *(Column(f"{name} interval", "", 26, name) for name in QUANTITIES),
    Column("outliers", "", 24),
    Column("seconds", ".1f", 8),
    Column("CPU seconds", ".1f", 11),
    Column("status", "", 12),
)

CUBE = box(SIDE)


@dataclass(frozen=True, eq=False)
class Recording:
    """Measured states of one toss, z up."""

    name: str
    position: torch.Tensor  # of the centre [m], [T, 3]
    rotation: torch.Tensor  # quaternions (x, y, z, w), [T, 4]
    velocity: torch.Tensor  # at the first frame [m/s], [3]
    angular_velocity: torch.Tensor  # at the first frame, in world axes [rad/s], [3]

    def __len__(self) -> int:
        return len(self.position)


def load_tosses(folder: Path) -> list[Recording]:
    """Reads the recordings.

    Recorded velocities are differences from the frame before, half a frame old: gravity has acted since.
    """
    file = folder / FILE
    if not file.is_file():
        raise InvalidInput("data", str(folder), f"must be a folder with {FILE}")
    with np.load(file) as arrays:
        tables = {name: torch.tensor(arrays[name], dtype=torch.float64) for name in sorted(arrays)}
    fall = torch.tensor(GRAVITY, dtype=torch.float64) / (2 * FPS)
    return [
        Recording(name, table[:, :3], _unit(table[:, 3:7]), table[0, 7:10] + fall, table[0, 10:13])
        for name, table in tables.items()
    ]


def _unit(rotation: torch.Tensor) -> torch.Tensor:
    return rotation / rotation.norm(dim=-1, keepdim=True)


def trial(recording: Recording) -> Trial:
    """Returns a recording as a trial that starts in the measured first state."""

    inertia = unknown(6.8e-4, low=3e-4, high=3e-3)  # guess: that of a uniform solid
    cube = Rigid(
        "cube",
        CUBE,
        mass=MASS,
        center=tuple(unknown(0.0, low=-0.02, high=0.02) for _ in range(3)),
        inertia=((inertia, 0.0, 0.0), (0.0, inertia, 0.0), (0.0, 0.0, inertia)),
        position=recording.position[0],
        rotation=recording.rotation[0],
        velocity=recording.velocity,
        angular_velocity=recording.angular_velocity,
        velocity_point=(0.0, 0.0, 0.0),
    )
    table = Ground(
        ke=unknown(5e3, low=5e2, high=5e4),
        kd=unknown(50.0, low=3.0, high=500.0),
        kf=unknown(30.0, low=3.0, high=300.0),
        mu=unknown(0.4, low=0.02, high=1.0),
        delta=SIDE / 200,
        normal=(0.0, 0.0, 1.0),
        offset=unknown(0.0, low=-0.005, high=0.005),
    )
    states = {"cube.position": recording.position, "cube.rotation": recording.rotation}
    robust = {name: Cauchy(scale) for name, scale in SCALES.items()}
    return Trial(
        Scene([cube], ground=table, gravity=GRAVITY), States(states, robust=robust), fps=FPS, name=recording.name
    )


def predict(fit: Fit, recordings: Sequence[Recording]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the errors of predictions from measured first states: position [% of the side] and angle [degrees], [K].

    All recordings are simulated as one batch of worlds.
    """
    start = {name: torch.stack([_first(recording, name) for recording in recordings]) for name in STATE}
    scene = fit.scene.with_values({f"cube.{name}": value for name, value in start.items()})
    length = max(map(len, recordings))
    with torch.no_grad(), soft_ground():
        motion = simulate_over(scene, Time(length, FPS, SUBSTEPS))["cube"]
    errors = [
        (_mean_distance(motion.position[k], own), _mean_angle(motion.rotation[k], own))
        for k, own in enumerate(recordings)
    ]
    position, angle = (torch.stack(column) for column in zip(*errors, strict=True))
    return position, angle


STATE = ("position", "rotation", "velocity", "angular_velocity")


def _first(recording: Recording, name: str) -> torch.Tensor:
    value: torch.Tensor = getattr(recording, name)
    return value[0] if value.ndim > 1 else value


def _mean_distance(position: torch.Tensor, recording: Recording) -> torch.Tensor:
    return (position[: len(recording)] - recording.position).norm(dim=-1).mean() * (100 / SIDE)


def _mean_angle(rotation: torch.Tensor, recording: Recording) -> torch.Tensor:
    vectors = rotation_vector(recording.rotation, rotation[: len(recording)])
    return torch.rad2deg(vectors.norm(dim=-1)).mean()


def case(recordings: Sequence[Recording], count: int, seed: int) -> Case:
    """Returns the case of one random split: a fit of `count` recordings, and predictions of the others."""

    def run(progress: Progress) -> Row:
        order = np.random.default_rng(seed).permutation(len(recordings)).tolist()
        fitted, others = ([recordings[k] for k in part] for part in (order[:count], order[count:]))
        begin = time.process_time()
        fit = fit_video([trial(own) for own in fitted], None, progress, substeps=SUBSTEPS, corrections=0)
        computing = time.process_time() - begin  # unlike the elapsed time, without that of other processes
        position, angle = predict(fit, others)
        use = "tuned on" if seed == DEVELOPMENT else "not tuned"
        return {
            "split": f"{seed} {use}",
            "position": float(position.mean()),
            "rotation": float(angle.median()),
            "mean rotation": float(angle.mean()),
            **_values(fit),
            "outliers": ", ".join(fit.outliers) or "none",
            "seconds": fit.seconds,
            "CPU seconds": computing,
            "status": fit.status,
        }

    return Case(f"{count} of {len(recordings)} tosses, split {seed}", run)


def _values(fit: Fit) -> Row:
    row: Row = {"mu": float(fit.values["ground.mu"])}
    for name, (path, factor) in QUANTITIES.items():
        value, low, high = (float(x) * factor for x in (fit.values[path], *fit.intervals[path]))
        row[f"{name} interval"] = f"{value:.4g} ({low:.4g} .. {high:.4g})"
    return row


def experiment(folder: Path, splits: int = 3, count: int = TRAINING) -> Experiment:
    """Fits of some tosses that predict the others, for several random splits."""

    def claims(rows: Sequence[Row]) -> list[Claim]:
        return [
            Claim("largest mean position error, in % of the side", max(r["position"] for r in rows), MAX_POSITION),
            Claim("largest median rotation error, in degrees", max(r["rotation"] for r in rows), MAX_ROTATION),
            Claim("smallest mu", min(r["mu"] for r in rows), at_least=FRICTION[0]),
            Claim("largest mu", max(r["mu"] for r in rows), FRICTION[1]),
            Claim("longest fit, in seconds on two cores", max(r["seconds"] for r in rows), MAX_SECONDS),
        ]

    recordings = load_tosses(folder)
    cases = tuple(case(recordings, count, seed) for seed in range(splits))
    title = f"Tosses of a cube: {count} of {len(recordings)} fitted, the others predicted from their first state"
    return Experiment("tosses", title, COLUMNS, cases, claims, REFERENCE)
