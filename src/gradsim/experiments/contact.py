"""Table 2 of the paper: density and the four parameters of contact together, of objects that bounce and slide.

A known push at the start makes masses visible; everything else about the motion is known too. Which of the parameters a
video can tell is judged at the truth, so that a fit cannot excuse itself: one that it does not determine at all, or, in
frames rounded to 8 bits, one whose interval there is wider than the error that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradsim.experiments.objects import KINDS, depth, painted, stretched, turned, volume
from gradsim.experiments.table import Case, Claim, Column, Experiment, Row, Told, errors, filmed, fitted
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.result import Fit
from gradsim.fit.uncertainty import NORMAL_95, estimate_uncertainty
from gradsim.scene.camera import Camera
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

FRAMES, FPS, SIZE, SUBSTEPS = 60, 30.0, 128, 256
DELTA = 0.01  # depth over which contact sets in [m]
RANGES = {  # of true values, of starts, and the bounds of the search
    "body.density": (2.0, 12.0),
    "ground.ke": (1.0, 500.0),
    "ground.kd": (1.0, 500.0),
    "ground.kf": (1.0, 500.0),
    "ground.mu": (0.2, 1.0),
}
SEEDS = tuple(range(20))  # looked at while the search was made
HELD_OUT = tuple(range(1000, 1010))  # never looked at
ALLOWED, ALLOWED_8 = 1e-6, 5e-3
PAPER = "mass 2.9e-4, kd .4, ke .0026, kf .0017, mu .0073 (means of relative errors)"
NAMES = {path: path.split(".")[1] for path in RANGES}
EIGHT_BIT, HIDDEN_8 = "8 bit", "hidden in 8 bit"


def scene(kind: str, rng: np.random.Generator, values: Mapping[str, Any]) -> Scene:
    """An object that is thrown at the ground, and pushed as it leaves."""
    shape = stretched(kind, rng)
    rotation = turned(rng)
    height = depth(shape, rotation) + rng.uniform(0.4, 1.2)
    impulse = np.array([rng.uniform(1.5, 3.5), rng.uniform(-1.0, 1.0), rng.uniform(-1.0, 1.0)])
    body = Rigid(
        "body",
        shape,
        density=values["body.density"],
        position=(rng.uniform(-1.6, -1.0), height, rng.uniform(-0.5, 0.5)),
        rotation=rotation,
        velocity=(rng.uniform(0.3, 1.0), rng.uniform(-1.0, 1.0), rng.uniform(-0.3, 0.3)),
        angular_velocity=rng.uniform(-3.0, 3.0, 3),
        pushes=[Push(impulse=2.0 * volume(shape) * impulse, point=rng.uniform(-0.2, 0.2, 3))],
        look=painted(shape, rng),
    )
    ground = Ground(**{name: values[f"ground.{name}"] for name in ("ke", "kd", "kf", "mu")}, delta=DELTA)
    camera = Camera(eye=(0.4, 2.6, 7.5), target=(0.4, 0.35, 0.0), fov=40.0)
    return Scene([body], ground=ground, camera=camera, background=(0.05, 0.08, 0.12))


def case(number: int, seed: int, eight_bit: bool) -> Case:
    kind = KINDS[number % len(KINDS)]

    def run(told: Told) -> Row:
        rng = np.random.default_rng([seed, number, 1])
        truth = {path: rng.uniform(*ends) for path, ends in RANGES.items()}
        start = {path: unknown(rng.uniform(*ends), low=ends[0], high=ends[1]) for path, ends in RANGES.items()}
        drawn = [seed, number, 0]
        true = scene(kind, np.random.default_rng(drawn), truth)
        (video,) = filmed(true, Time(FRAMES, FPS, SUBSTEPS), SIZE)
        guess = scene(kind, np.random.default_rng(drawn), start)
        fit = fitted(guess, video, told, fps=FPS, substeps=SUBSTEPS, seed=number)
        row = {"object": f"{number} {kind}", "truth": truth, **_judged(fit, truth, ALLOWED)}
        if eight_bit:
            rounded = fitted(
                guess, (video * 255).round() / 255, told, EIGHT_BIT, fps=FPS, substeps=SUBSTEPS, seed=number
            )
            judged = _judged(rounded, truth, ALLOWED_8)
            row |= {EIGHT_BIT: judged["worst"], HIDDEN_8: judged["hidden"], f"{EIGHT_BIT} fit": judged}
        return row

    return Case(f"seed {seed}, object {number}" + (", 8 bit" if eight_bit else ""), run)


def _judged(fit: Fit, truth: Mapping[str, float], allowed: float) -> Row:
    """Errors, the largest among those the video can tell, and what the fit says of itself."""
    off = errors(fit, truth)
    z = fit.parameters.coordinates({path: torch.tensor(v, dtype=torch.float64) for path, v in truth.items()})
    limit = estimate_uncertainty(EstimationProblem(fit.parameters, fit.trials), z)
    half_widths = (NORMAL_95 * limit.standard_deviation).tolist()  # of logarithms
    widths = dict(zip(fit.parameters.names, half_widths, strict=True))
    words = {name: v.level for name, v in zip(fit.parameters.names, limit.identifiability, strict=True)}
    hidden = [path for path in RANGES if words[path] == "not identifiable" or widths[path] > allowed]
    inside = [path for path, (low, high) in fit.intervals.items() if low <= truth[path] <= high]
    return {
        **{NAMES[path]: error for path, error in off.items()},
        "worst": max((error for path, error in off.items() if path not in hidden), default=0.0),
        "hidden": " ".join(NAMES[path] for path in hidden),
        "half widths": {NAMES[path]: width for path, width in widths.items()},
        "inside": [NAMES[path] for path in inside],
        "verdicts": {NAMES[name]: verdict.level for name, verdict in fit.identifiability.items()},
        "status": fit.status,
        "certain": fit.certain,
        "seconds": fit.seconds,
    }


def experiment(objects: int | None, seed: int, *, held_out: bool = False, eight_bit: bool = False) -> Experiment:
    """Errors of the five; `worst` is the largest of those that the video can tell, `hidden` are the others."""
    numbers = (HELD_OUT if held_out else SEEDS)[:objects]
    columns = (
        Column("object", "", 13),
        *(Column(name, ".1e", 8) for name in NAMES.values()),
        Column("worst", ".1e", 8),
        Column("hidden", "", 10),
        *((Column(EIGHT_BIT, ".1e", 8), Column(HIDDEN_8, "", 15)) if eight_bit else ()),
        Column("status", "", 16),
        Column("seconds", ".0f", 7),
    )

    def claims(rows: Sequence[Row]) -> list[Claim]:
        good = sum(row["worst"] <= ALLOWED for row in rows)
        sure = sum(row["worst"] > ALLOWED and row["certain"] for row in rows)
        found = [
            Claim(f"objects of {len(rows)} with all that can be told to {ALLOWED:g}", good, least=0.9 * len(rows)),
            Claim("failures reported as certain", sure, most=0),
        ]
        if eight_bit:
            good = sum(row[EIGHT_BIT] <= ALLOWED_8 for row in rows)
            judged = [row[f"{EIGHT_BIT} fit"] for row in rows]
            sure = sum(fit["certain"] and any(fit[name] > ALLOWED_8 for name in NAMES.values()) for fit in judged)
            told = f"objects of {len(rows)} with all that 8-bit frames can tell to {ALLOWED_8:g}"
            found += [
                Claim(told, good, least=0.9 * len(rows)),
                Claim("failures from 8-bit frames, hidden or not, reported as certain", sure, most=0),
            ]
        return found

    kept = "held-out objects" if held_out else "objects"
    title = f"Density and contact parameters of {len(numbers)} {kept}, together"
    cases = tuple(case(number, seed, eight_bit) for number in numbers)
    return Experiment("contact", title, columns, cases, claims, PAPER)
