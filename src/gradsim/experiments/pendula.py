"""Lengths of a simple and a double pendulum from video."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.experiments.experiment import Experiment
from gradsim.experiments.recovery import COLUMNS, Recovery, max_error_claim
from gradsim.scene.camera import Camera
from gradsim.scene.looks import Look
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.scene import Scene

ALLOWED = 1e-6
GRAVITY = (0.0, -9.91, 0.0)  # [m/s^2], as in the paper's code
CAMERA = Camera(eye=(0.0, -0.5, 5.5), target=(0.0, -0.5, 0.0), fov=40.0)
LOOK = Look(color=(0.5, 0.35, 0.7))


def single(length: Any) -> Scene:
    """Returns a scene with a damped pendulum released at 1.4 rad."""
    body = Pendulum("pendulum", length=length, angle=1.4, damping=0.5, look=LOOK)
    return Scene([body], gravity=GRAVITY, camera=CAMERA)


def double(lengths: Any) -> Scene:
    """Returns a scene with a double pendulum released at angles from which it does not flip over."""
    body = DoublePendulum("pendulum", lengths=lengths, angles=(0.9, 1.3), look=LOOK)
    return Scene([body], gravity=GRAVITY, camera=CAMERA)


RECOVERIES = (
    Recovery(
        "pendulum",
        single,
        truth={"length": 1.0},  # [m]
        start={"length": 1.4},
        bounds=(0.3, 2.0),
        paths={"length": "pendulum.length"},
        frames=60,
        substeps=16,
    ),
    Recovery(
        "double pendulum",
        double,
        truth={"lengths": np.array([1.0, 1.0])},
        start={"lengths": np.array([0.7, 1.3])},
        bounds=(0.3, 2.0),
        paths={"lengths": "pendulum.lengths"},
        frames=60,
        substeps=16,
    ),
)


def experiment() -> Experiment:
    """Errors from exact frames of 64 x 64 pixels, with starts 30 and 40 % off the truth."""
    cases = tuple(recovery.case() for recovery in RECOVERIES)
    return Experiment("pendula", "Lengths of pendula from video", COLUMNS, cases, max_error_claim(ALLOWED))
