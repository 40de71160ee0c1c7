"""Table 3 of the paper: Lamé parameters of a hanging beam, and the initial velocity of a cloth."""

from __future__ import annotations

import numpy as np

from gradsim.datasets.deformable import beam, cloth
from gradsim.experiments.experiment import Experiment
from gradsim.experiments.recovery import COLUMNS, Recovery, max_error_claim
from gradsim.scene.integrators import Verlet

ALLOWED = 1e-5
VELOCITY = np.array([1.3, 2.6, -0.6])  # initial velocity of the cloth [m/s]


RECOVERIES = (
    Recovery(
        "hanging beam",
        beam,
        truth={"mu": 1000.0, "lam": 1000.0},  # [Pa]
        start={"mu": 1400.0, "lam": 600.0},
        bounds=(200.0, 4000.0),
        paths={"mu": "beam.material.mu", "lam": "beam.material.lam"},
        frames=30,
        substeps=96,
        integrator=Verlet(),
        paper="5.4e-3, 5.6e-3",
    ),
    Recovery(
        "flying cloth",
        cloth,
        truth={"velocity": VELOCITY},
        start={"velocity": VELOCITY * (0.6, 0.6, 1.4)},
        bounds=(-6.0, 6.0),
        paths={"velocity": "cloth.velocity"},
        frames=24,
        substeps=64,
        integrator=Verlet(),
        paper="2.6e-2",
    ),
)


def experiment() -> Experiment:
    """Errors from exact frames of 64 x 64 pixels, with starts 40 % off the truth."""
    cases = tuple(recovery.case() for recovery in RECOVERIES)
    return Experiment("deformable", "Beam and cloth parameters from video", COLUMNS, cases, max_error_claim(ALLOWED))
