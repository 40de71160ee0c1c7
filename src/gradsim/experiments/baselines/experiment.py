"""Tables 1 and 2 of the paper: parameters of objects of the test split, estimated by each method."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradsim.experiments.baselines.learning import Training
from gradsim.experiments.baselines.methods import methods
from gradsim.experiments.baselines.problem import ALL, MASS, PATHS, problem, training_values
from gradsim.experiments.contact import undetermined
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row

ALLOWED_MASS, ALLOWED = 5e-9, 1e-6  # mean relative errors of ours, and of those with 3D states
RECORDED = ("convlstm", "efficientnet", "mujoco", "cma-es", "diffphysics", "gradsim")  # methods that see the recording
EXACT = ("diffphysics", "gradsim")
CONVERGED = "converged"  # how the status of a fit begins that explains the observation
TABLE_1 = (
    "average",
    "random",
    "convlstm",
    "efficientnet",
    "pybullet",
    "mujoco",
    "cma-es",
    "diffphysics",
    "gradsim",
)
TABLE_2 = ("average", "random", "convlstm", "efficientnet", "diffphysics", "gradsim")
PAPER_1 = {  # mean absolute [kg] and relative error of Table 1
    "average": (0.2022, 0.1031),
    "random": (0.2653, 0.1344),
    "convlstm": (0.1347, 0.0094),
    "pybullet": (0.0928, 0.3668),
    "diffphysics": (1.35e-9, 5.17e-9),
    "gradsim": (2.36e-5, 9.01e-5),
}
PAPER_2 = {  # mean relative errors of mass, kd, ke, kf and mu in Table 2
    "average": (1.7713, 3.7145, 2.3410, 4.1157, 0.4463),
    "random": (10.0007, 4.18, 2.5454, 5.0241, 0.5558),
    "convlstm": (0.029, 0.14, 0.14, 0.17, 0.096),
    "diffphysics": (1.70e-8, 0.036, 0.0020, 0.0007, 0.0107),
    "gradsim": (2.87e-4, 0.4, 0.0026, 0.0017, 0.0073),
}
COLUMNS_1 = (
    Column("method", "", 12),
    Column("object", "", 9),
    Column("truth", ".4f", 8, "mass kg"),
    Column("estimate", ".4f", 9),
    Column("absolute", ".1e", 9, "error kg"),
    Column("mass", ".1e", 9, "relative"),
    Column("simulations", "d", 12),
    Column("seconds", ".1f", 8),
)
COLUMNS_2 = (
    Column("method", "", 12),
    Column("object", "", 9),
    *(Column(name, ".1e", 9) for name in ALL),
    Column("undetermined", "", 14),
    Column("seconds", ".1f", 8),
)


def case(method: str, number: int, seed: int, asked: tuple[str, ...], training: Training) -> Case:
    """Returns the case of one object and one method."""

    def run(progress: Progress) -> Row:
        subject = problem(seed, number, asked)
        if method in RECORDED:
            assert len(subject.video)  # recorded before the clock starts
        if method in ("average", "random"):
            assert len(training_values(0))
        begin = time.perf_counter()
        estimate = methods(training)[method](subject)
        seconds, truth = time.perf_counter() - begin, subject.truth
        errors = {name: abs(estimate.values[name] - truth[name]) / truth[name] for name in asked}
        row: Row = {"method": method, "object": subject.sample.object, **errors}
        if asked == MASS:
            row |= {"truth": truth["mass"], "estimate": estimate.values["mass"]}
            row["absolute"] = abs(row["estimate"] - row["truth"])
        elif estimate.fit is not None:
            # Widths from exact 3D states are those of the noise that they are compared with.
            allowed = ALLOWED if method == "gradsim" else math.inf
            hidden = undetermined(estimate.fit, {path: subject.sample.truth[path] for path in PATHS.values()}, allowed)
            row["undetermined"] = " ".join(name for name, path in PATHS.items() if path in hidden)
            row["status"], row["certain"] = estimate.fit.status, estimate.fit.certain
        return row | {"simulations": estimate.simulations, "seconds": seconds}

    return Case(f"seed {seed}, {method}, object {number}", run)


def table_1(objects: int, seed: int, training: Training, chosen: Sequence[str] = TABLE_1) -> Experiment:
    """The mass of objects, all else known; all methods on the same objects."""
    cases = tuple(case(method, number, seed, MASS, training) for number in range(objects) for method in chosen)
    title = f"Mass of {objects} objects of the test split, by {len(chosen)} methods"
    return Experiment("baselines", title, COLUMNS_1, cases, _claims_1, summary=summary_1)


def table_2(objects: int, seed: int, training: Training, chosen: Sequence[str] = TABLE_2) -> Experiment:
    """Mass and four contact parameters, jointly; all methods on the same objects."""
    cases = tuple(case(method, number, seed, ALL, training) for number in range(objects) for method in chosen)
    title = f"Five parameters of {objects} objects of the test split, by {len(chosen)} methods"
    return Experiment("baselines-contact", title, COLUMNS_2, cases, _claims_2, summary=summary_2)


def _claims_1(rows: Sequence[Row]) -> list[Claim]:
    means = means_1(rows)
    return [
        Claim(f"mean relative error, {method}", means[method]["mass"], at_most=ALLOWED_MASS)
        for method in EXACT
        if method in means
    ]


def _claims_2(rows: Sequence[Row]) -> list[Claim]:
    means = means_2(rows)
    found = []
    for method in EXACT:
        if method in means:
            worst = max((means[method][name] for name in ALL if means[method][name] is not None), default=0.0)
            found.append(Claim(f"largest mean relative error of a determined parameter, {method}", worst, ALLOWED))
            missed = sum(bool(row.get("certain")) for row in rows if row["method"] == method and not _is_accurate(row))
            found.append(Claim(f"wrong answers that are certain, {method}", missed, at_most=0))
    return found


def _is_accurate(row: Row) -> bool:
    """Whether the parameters that the observation determines have the allowed errors."""
    hidden = str(row.get("undetermined") or "").split()
    return all(row[name] <= ALLOWED for name in ALL if name not in hidden)


def means_1(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Returns the means of each method: absolute and relative error of the mass, seconds."""
    return {method: _means(own, ("absolute", "mass", "seconds")) for method, own in _by_method(rows).items()}


def means_2(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """Returns the means and medians of each method: relative errors where the observation determines a parameter.

    How often it does not is counted, and for our engine for how many objects all parameters are accurate and how many
    fits say that they have failed.
    """
    found: dict[str, dict[str, Any]] = {}
    for method, own in _by_method(rows).items():
        hidden = [str(row.get("undetermined") or "").split() for row in own]
        found[method] = {"seconds": float(np.mean([row["seconds"] for row in own]))}
        for name in ALL:
            errors = [row[name] for row, names in zip(own, hidden, strict=True) if name not in names]
            found[method][name] = float(np.mean(errors)) if errors else None
            found[method][f"{name} median"] = float(np.median(errors)) if errors else None
            found[method][f"{name} undetermined"] = len(own) - len(errors)
        if method in EXACT:
            found[method]["accurate"] = sum(map(_is_accurate, own))
            found[method]["failed"] = sum(not str(row.get("status", CONVERGED)).startswith(CONVERGED) for row in own)
    return found


def _by_method(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    return {m: [row for row in rows if row["method"] == m] for m in TABLE_1 if any(row["method"] == m for row in rows)}


def _means(rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in names}


def summary_1(rows: Sequence[Row]) -> list[str]:
    """The means of each method beside the paper's."""
    lines = ["method        mean error kg  mean relative  seconds  paper kg  paper relative"]
    for method, means in means_1(rows).items():
        paper = "  ".join(f"{value:.2e}" for value in PAPER_1[method]) if method in PAPER_1 else "-"
        lines.append(f"{method:12}  {means['absolute']:13.2e}  {means['mass']:13.2e}  {means['seconds']:7.1f}  {paper}")
    return lines


def summary_2(rows: Sequence[Row]) -> list[str]:
    """The means of each method beside the paper's; undetermined parameters are left out and counted."""
    lines = ["method        " + "".join(f"{name:>10}" for name in ALL) + "  undetermined  paper"]
    for method, means in means_2(rows).items():
        errors = "".join(f"{'-' if means[name] is None else format(means[name], '.1e'):>10}" for name in ALL)
        hidden = sum(means[f"{name} undetermined"] for name in ALL)
        paper = "  ".join(f"{value:.1e}" for value in PAPER_2[method]) if method in PAPER_2 else "-"
        lines.append(f"{method:12}  {errors}  {hidden:12}  {paper}")
    return lines
