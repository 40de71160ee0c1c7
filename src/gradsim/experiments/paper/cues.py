"""Figure 7 of the paper: convergence of the mass with colour only, with shading, and with texture.

Adam on the logarithm of the density with gradients of the pixels, as in the paper; `gs.estimate` needs a few iterations
of Gauss-Newton instead.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import record, soft_ground
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.many_unknowns import texture
from gradsim.experiments.paper.landscapes import EDGE, FPS, FRAMES, SIDE, SUBSTEPS, TRUE_MASS, cube
from gradsim.fit.simulation import simulate_over
from gradsim.render.render import render
from gradsim.scene.looks import Look
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time

LOOKS = {
    "only color": Look(color=(0.8, 0.5, 0.3), lit=False),
    "shading": Look(color=(0.8, 0.5, 0.3), smooth=0.0),
    "texture": Look(texture=texture(), smooth=0.0),
}
STARTS = (0.4, 2.0, 3.5)  # initial masses [kg]
RATE, DECAY = 0.1, 0.97  # of Adam, and from step to step
COLUMNS = (
    Column("cue", "", 12),
    Column("start", ".1f", 7),
    Column("last", ".1e", 9, "last error"),
    Column("steps", "d", 8, "steps to 1 %"),
)


def _scene(density: Any, look: Look) -> Scene:
    scene = cube(density)
    body: Any = scene["body"]
    return dataclasses.replace(scene, bodies=[dataclasses.replace(body, look=look)])


def case(cue: str, start: float, steps: int) -> Case:
    """Returns the case of one appearance and one initial mass."""

    def run(progress: Progress) -> Row:
        time = Time(FRAMES, FPS, SUBSTEPS)
        with torch.no_grad():
            _, (target,) = record(_scene(TRUE_MASS / EDGE**3, LOOKS[cue]), time, SIDE)
        logarithm = torch.tensor(math.log(start), dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.Adam([logarithm], lr=RATE)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, DECAY)
        errors = [abs(start - TRUE_MASS) / TRUE_MASS]
        for step in range(steps):
            progress(f"step {step + 1} of {steps}")
            scene = _scene(logarithm.exp() / EDGE**3, LOOKS[cue])
            with soft_ground():
                video = render(scene, simulate_over(scene, time), (SIDE, SIDE))
            optimizer.zero_grad()
            (video - target).square().mean().backward()
            optimizer.step()
            schedule.step()
            errors.append(abs(math.exp(float(logarithm.detach())) - TRUE_MASS) / TRUE_MASS)
        within = next((k for k in range(len(errors)) if max(errors[k:]) <= 0.01), None)
        return {"cue": cue, "start": start, "last": errors[-1], "steps": within, "errors": errors}

    return Case(f"{cue}, {start} kg, {steps} steps", run)


def experiment(steps: int = 60, starts: Sequence[float] = STARTS) -> Experiment:
    """Errors of the mass at each step."""
    cases = tuple(case(cue, start, steps) for cue in LOOKS for start in starts)
    return Experiment("paper-cues", "Figure 7: colour, shading, texture", COLUMNS, cases, _claims)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    best = [row["last"] for row in rows if row["cue"] == "texture"]
    return (
        [Claim("median error with texture after the last step", float(np.median(best)), at_most=0.05)] if best else []
    )
