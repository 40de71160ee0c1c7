"""Table 2 of the paper: joint estimation of density and four contact parameters of objects that bounce and slide.

A known impulse at the start makes the density identifiable; the initial motion is known too. Whether a video determines
a parameter is judged at the true values, independently of the fit. A parameter counts as undetermined if the video does
not identify it at all or, for frames rounded to 8 bits, if its interval there is wider than the allowed error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gradsim.datasets.objects import KINDS, extent_below_origin, random_look, random_rotation, random_shape, volume
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.protocol import fit_video, record_video, relative_errors
from gradsim.fit.linearization import linearize
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.result import Fit
from gradsim.fit.student import NORMAL_95
from gradsim.fit.uncertainty import estimate_uncertainty
from gradsim.scene.camera import Camera
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import unknown

FRAMES, FPS, SIZE, SUBSTEPS = 60, 30.0, 128, 256
DELTA = 0.01  # penetration depth over which contact sets in [m]
RANGES = {  # of true values and starts, and the bounds of the search
    "body.density": (2.0, 12.0),
    "ground.ke": (1.0, 500.0),
    "ground.kd": (1.0, 500.0),
    "ground.kf": (1.0, 500.0),
    "ground.mu": (0.2, 1.0),
}
SEEDS = tuple(range(20))  # used while the search was developed
HELD_OUT = tuple(range(1000, 1010))  # not used during development
ALLOWED, ALLOWED_8_BIT = 1e-6, 5e-3
MIN_COVERAGE, WRONG_OFFSET = 0.9, 2.0  # of 95 % intervals from 8-bit frames; half widths
PAPER = "mass 2.9e-4, kd .4, ke .0026, kf .0017, mu .0073 (mean relative errors)"
NAMES = {path: path.split(".")[1] for path in RANGES}
UNDETERMINED = "hidden"  # key in the rows
EIGHT_BIT, UNDETERMINED_8_BIT = "8 bit", "hidden in 8 bit"  # keys in the rows


def scene(kind: str, rng: np.random.Generator, values: Mapping[str, Any]) -> Scene:
    """Returns a scene with an object that is thrown to the ground and pushed at the start."""
    shape = random_shape(kind, rng)
    rotation = random_rotation(rng)
    height = extent_below_origin(shape, rotation) + rng.uniform(0.4, 1.2)
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
        look=random_look(shape, rng),
    )
    ground = Ground(**{name: values[f"ground.{name}"] for name in ("ke", "kd", "kf", "mu")}, delta=DELTA)
    camera = Camera(eye=(0.4, 2.6, 7.5), target=(0.4, 0.35, 0.0), fov=40.0)
    return Scene([body], ground=ground, camera=camera, background=(0.05, 0.08, 0.12))


def case(number: int, seed: int, eight_bit: bool) -> Case:
    """Returns the case of one object, estimated from exact frames and optionally from frames rounded to 8 bits."""
    kind = KINDS[number % len(KINDS)]

    def run(progress: Progress) -> Row:
        rng = np.random.default_rng([seed, number, 1])
        truth = {path: rng.uniform(*ends) for path, ends in RANGES.items()}
        start = {path: unknown(rng.uniform(*ends), low=ends[0], high=ends[1]) for path, ends in RANGES.items()}
        scene_seed = [seed, number, 0]
        true = scene(kind, np.random.default_rng(scene_seed), truth)
        (video,) = record_video(true, Time(FRAMES, FPS, SUBSTEPS), SIZE)
        guess = scene(kind, np.random.default_rng(scene_seed), start)
        options: dict[str, Any] = {"fps": FPS, "substeps": SUBSTEPS, "seed": number}
        fit = fit_video(guess, video, progress, **options)
        row = {"object": f"{number} {kind}", "truth": truth, **_evaluate(fit, truth, ALLOWED)}
        if eight_bit:
            rounded = fit_video(guess, (video * 255).round() / 255, progress, EIGHT_BIT, **options)
            result = _evaluate(rounded, truth, ALLOWED_8_BIT)
            row |= {EIGHT_BIT: result["worst"], UNDETERMINED_8_BIT: result[UNDETERMINED], f"{EIGHT_BIT} fit": result}
        return row

    return Case(f"seed {seed}, object {number}" + (", 8 bit" if eight_bit else ""), run)


def undetermined(fit: Fit, truth: Mapping[str, Any], allowed: float) -> list[str]:
    """Returns the paths of the parameters that the observations do not determine, judged at the true values."""
    widths, levels = _at_truth(fit, truth)
    return [path for path in truth if levels[path] == "not identifiable" or widths[path] > allowed]


def _at_truth(fit: Fit, truth: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Returns the relative half widths of the intervals and the identifiability at the true values, by path."""
    true = {path: torch.tensor(value, dtype=torch.float64) for path, value in truth.items()}
    none = {u.path: torch.zeros(u.shape, dtype=torch.float64) for u in fit.parameters.unknowns}  # errors of the scene
    z = fit.parameters.coordinates(none | true)
    problem = EstimationProblem(fit.parameters, fit.trials)
    at_truth = estimate_uncertainty(problem, linearize(problem, z))
    # The coordinates are logarithms, so these half widths are relative.
    half_widths = (NORMAL_95 * at_truth.standard_deviation).tolist()
    widths = dict(zip(fit.parameters.names, half_widths, strict=True))
    return widths, {name: v.level for name, v in zip(fit.parameters.names, at_truth.identifiability, strict=True)}


def _evaluate(fit: Fit, truth: Mapping[str, float], allowed: float) -> Row:
    """Returns the errors, the largest error of a determined parameter, and the fit's own assessment."""
    errors = relative_errors(fit, truth)
    widths, levels = _at_truth(fit, truth)
    hidden = [path for path in RANGES if levels[path] == "not identifiable" or widths[path] > allowed]
    offsets = {}  # of the truth from the middle of the interval, in half widths
    for path, (low, high) in fit.intervals.items():
        offsets[path] = abs(truth[path] - float(low + high) / 2) / (float(high - low) / 2)
    return {
        **{NAMES[path]: error for path, error in errors.items()},
        "worst": max((error for path, error in errors.items() if path not in hidden), default=0.0),
        UNDETERMINED: " ".join(NAMES[path] for path in hidden),
        "half widths": {NAMES[path]: width for path, width in widths.items()},
        "inside": [NAMES[path] for path, offset in offsets.items() if offset <= 1.0],
        "largest offset": max(offsets.values()),
        "verdicts": {NAMES[name]: verdict.level for name, verdict in fit.identifiability.items()},
        "status": fit.status,
        "certain": fit.certain,
        "seconds": fit.seconds,
    }


def experiment(objects: int | None, seed: int, *, held_out: bool = False, eight_bit: bool = False) -> Experiment:
    """Relative errors of the five parameters; `worst` is the largest one among those that the video determines."""
    numbers = (HELD_OUT if held_out else SEEDS)[:objects]
    eight_bit_columns = (Column(EIGHT_BIT, ".1e", 8), Column(UNDETERMINED_8_BIT, "", 19, "undetermined, 8 bit"))
    columns = (
        Column("object", "", 13),
        *(Column(name, ".1e", 8) for name in NAMES.values()),
        Column("worst", ".1e", 8),
        Column(UNDETERMINED, "", 12, "undetermined"),
        *(eight_bit_columns if eight_bit else ()),
        Column("status", "", 16),
        Column("seconds", ".0f", 7),
    )

    def claims(rows: Sequence[Row]) -> list[Claim]:
        return [*_claims(rows), *(_claims_8_bit(rows) if eight_bit else ())]

    title = f"Density and contact parameters of {len(numbers)} {'held-out ' if held_out else ''}objects, jointly"
    cases = tuple(case(number, seed, eight_bit) for number in numbers)
    return Experiment("contact", title, columns, cases, claims, PAPER)


def _claims(rows: Sequence[Row]) -> list[Claim]:
    good = sum(row["worst"] <= ALLOWED for row in rows)
    overconfident = sum(row["worst"] > ALLOWED and row["certain"] for row in rows)
    accurate = f"objects (of {len(rows)}) with relative errors of at most {ALLOWED:g} in all determined parameters"
    return [
        Claim(accurate, good, at_least=0.9 * len(rows)),
        Claim("failures reported as certain", overconfident, at_most=0),
    ]


def _claims_8_bit(rows: Sequence[Row]) -> list[Claim]:
    good = sum(row[EIGHT_BIT] <= ALLOWED_8_BIT for row in rows)
    fits = [row[f"{EIGHT_BIT} fit"] for row in rows]
    inside = sum(len(fit["inside"]) for fit in fits) / (len(NAMES) * len(fits))
    overconfident = sum(fit["certain"] and fit["largest offset"] > WRONG_OFFSET for fit in fits)
    accurate = f"the same from 8-bit frames, relative errors of at most {ALLOWED_8_BIT:g}"
    return [
        Claim(accurate, good, at_least=0.9 * len(rows)),
        Claim("fraction of 95 % intervals from 8-bit frames that contain the truth", inside, at_least=MIN_COVERAGE),
        Claim(f"certain from 8-bit frames and off by more than {WRONG_OFFSET:g} half widths", overconfident, at_most=0),
    ]
