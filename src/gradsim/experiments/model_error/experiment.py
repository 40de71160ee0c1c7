"""Estimates where the scene is slightly wrong: is a wrong answer called certain?

Every video shows a scene that differs from the fitted one in a known way, or in none, or shows something else. It is
fitted twice: with everything in the scene declared exact, and with camera, start, light and shape declared rough.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import torch

from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row
from gradsim.experiments.model_error.errors import ERRORS, NONSENSE, RIGHT, RIGHT_MODEL, WRONG, ModelError
from gradsim.experiments.model_error.scenes import FAMILIES, FPS, Family
from gradsim.experiments.protocol import fit_video
from gradsim.fit.result import Fit
from gradsim.video.video import Video

EXACT, ROUGH = "exact", "rough"
ROUGHLY = {EXACT: (), ROUGH: ("camera", "start", "light", "shape")}
TUNING_SEEDS, HELD_OUT_SEEDS = (0, 1), (100, 101)  # one of two is used where everything is rough
RIGHT_SEED = 1000  # of the first video with a right model
COVERAGE = (0.90, 0.98)  # fraction of the intervals that contain the truth, for right models
MAX_WIDENING = 2.0  # of intervals, relative to those from independent noise alone
HONEST, CERTAIN = 0.95, 0.95  # fractions of wrong and right models
MIN_VIDEOS = 60  # right models needed before coverage is tested

COLUMNS = (
    Column("scene", "", 6),
    Column("error", "", 27),
    Column("seed", "d", 5),
    Column("mode", "", 5),
    Column("status", "", 27),
    Column("certain", "", 7),
    Column("honest", "", 6),
    Column("worst", ".1f", 6, "worst"),
    Column("width", ".2f", 7, "width %"),
    Column("chi2", ".2f", 8),
    Column("explained", ".3f", 9),
    Column("cause", "", 30),
    Column("seconds", ".1f", 8),
)


def case(family: Family, error: ModelError, seed: int, mode: str) -> Case:
    """Returns the case of one video, fitted in one mode."""

    def run(progress: Progress) -> Row:
        true = error.scene(family.true_scene(seed))
        # Noise of its own for each error: a rare noise of one seed would otherwise fail all of them.
        video = error.recording.record(family, true, (seed, zlib.crc32(error.name.encode())))
        timing: dict[str, Any] = {} if isinstance(video, Video) else {"fps": FPS}
        fit = fit_video(family.guessed_scene(seed), video, progress, roughly=ROUGHLY[mode], **timing)
        names: Row = {"scene": family.name, "error": error.name, "kind": error.kind, "held out": error.held_out}
        return {**names, "seed": seed, "mode": mode, **_row(fit, family.draw_truth(seed), error.kind)}

    return Case(f"{family.name}, {error.name}, seed {seed}, {mode}", run)


def _row(fit: Fit, truth: dict[str, float], kind: str) -> Row:
    """Returns what a table of fits needs: the errors in half widths, the status and the likely cause."""
    errors, widths, widenings = {}, {}, {}
    plain = dict(zip(fit.parameters.names, _plain_half_widths(fit), strict=True))
    for name, _, value, low, high, _ in fit.rows():
        half = max((high - low) / 2, 1e-300)
        errors[name] = abs(value - truth[name]) / half
        widths[name] = half / abs(truth[name])
        widenings[name] = float(fit.standard_deviation[fit.parameters.names.index(name)]) / plain[name]
    inside = sum(error <= 1.0 for error in errors.values()) / len(errors)
    named = bool(fit.misfit.causes or fit.misfit.corrections or fit.misfit.nonsense)
    levels = [item.level for item in fit.identifiability.values()]
    return {
        "status": fit.status,
        "certain": "yes" if fit.certain else "no",
        "inside": inside,
        "honest": "yes" if inside == 1.0 or (not fit.certain and named) else "no",
        "named": named,
        "any identifiable": "identifiable" in levels,
        "errors": errors,
        "worst": max(errors.values()),
        "width": 100.0 * float(torch.tensor(list(widths.values())).median()),
        "widening": max(widenings.values()),
        "chi2": fit.misfit.chi2,
        "moving chi2": _finite(fit.misfit.moving_chi2),
        "explained": _finite(fit.misfit.explained),
        "overlap": _finite(fit.misfit.overlap),
        "cause": _cause(fit),
        "seconds": fit.seconds,
    }


def _plain_half_widths(fit: Fit) -> list[float]:
    deviation = fit.standard_deviation if fit.plain_deviation is None else fit.plain_deviation
    return [max(float(value), 1e-300) for value in deviation]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _cause(fit: Fit) -> str:
    """The error of the scene that the fit names first."""
    if fit.misfit.corrections:
        return fit.misfit.corrections[0]
    return fit.misfit.causes[0].description if fit.misfit.causes else ""


def experiment(
    *, quick: bool = False, held_out: bool = False, scenes: Sequence[str] = (), right: int | None = None
) -> Experiment:
    """All errors with two seeds and both modes, and right models.

    Args:
        quick: One seed for every fourth error, and few right models.
        held_out: Use the seeds that were not used during development.
        scenes: Names of the scenes; all if empty.
        right: Number of videos with a right model; 200, or 12 for `quick`.
    """
    families = [family for family in FAMILIES if not scenes or family.name in scenes]
    seeds: Sequence[int] = HELD_OUT_SEEDS if held_out else TUNING_SEEDS
    cases = []
    for family in families:
        errors = [error for error in ERRORS if family.name in error.families]
        if quick:
            errors, seeds = errors[FAMILIES.index(family) :: 6], seeds[:1]
        for number, error in enumerate(errors):
            cases += [case(family, error, seed, EXACT) for seed in seeds]
            cases.append(case(family, error, seeds[number % len(seeds)], ROUGH))
    count = right if right is not None else 12 if quick else 200
    first = RIGHT_SEED * (2 if held_out else 1)
    cases += [case(families[k % len(families)], RIGHT_MODEL, first + k, EXACT) for k in range(count)]
    title = "Estimates where the scene is slightly wrong"
    return Experiment("model error", title, COLUMNS, tuple(cases), claims)


def claims(rows: Sequence[Row]) -> list[Claim]:
    """The statements about the table."""
    found = []
    for mode in ROUGHLY:
        for held_out in (False, True):
            wrong = [r for r in rows if r["kind"] == WRONG and r["mode"] == mode and r["held out"] == held_out]
            label = f"{len(wrong)} wrong models, {mode}{', kinds that were held out' if held_out else ''}"
            if wrong:
                found.append(
                    Claim(f"inside the interval or not certain and named, {label}", _honest(wrong), None, HONEST)
                )
    nonsense = [row for row in rows if row["kind"] == NONSENSE]
    if nonsense:
        accepted = float(sum(row["any identifiable"] for row in nonsense))
        found.append(Claim(f"nonsense called identifiable, of {len(nonsense)} videos", accepted, 0.0))
    right = [row for row in rows if row["kind"] == RIGHT]
    if right:
        certain = sum(row["certain"] == "yes" for row in right) / len(right)
        found.append(Claim(f"certain, of {len(right)} right models", certain, None, CERTAIN))
        inside = [error <= 1.0 for row in right for error in row["errors"].values()]
        low, high = COVERAGE if len(right) >= MIN_VIDEOS else (COVERAGE[0], None)
        found.append(
            Claim(f"coverage of {len(inside)} intervals of right models", sum(inside) / len(inside), high, low)
        )
        widening = float(torch.tensor([row["widening"] for row in right]).quantile(0.95))
        found.append(Claim("interval over that of independent noise, right models, 95 %", widening, MAX_WIDENING))
    return found


def _honest(rows: Sequence[Row]) -> float:
    """Fraction of the values inside their interval, or of a fit that is not certain and names a cause."""
    values = [
        error <= 1.0 or (row["certain"] == "no" and row["named"]) for row in rows for error in row["errors"].values()
    ]
    return sum(values) / len(values)
