"""Table 1 of the paper with its baselines: the mass of objects of the test split, estimated by each method."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from gradsim.experiments.baselines.methods import METHODS, PAPER
from gradsim.experiments.baselines.problem import problem
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row

ALLOWED = 5e-9  # mean relative error of ours, and of that with 3D states
COLUMNS = (
    Column("method", "", 12),
    Column("object", "", 9),
    Column("truth", ".4f", 8, "mass kg"),
    Column("estimate", ".4f", 9),
    Column("absolute", ".1e", 9, "error kg"),
    Column("relative", ".1e", 9),
    Column("simulations", "d", 12),
    Column("seconds", ".1f", 8),
)


def case(method: str, number: int, seed: int) -> Case:
    """Returns the case of one object and one method."""

    def run(progress: Progress) -> Row:
        subject = problem(seed, number)
        if method in ("gradsim", "diffphysics", "cma-es"):
            assert len(subject.video)  # recorded before the clock starts
        begin = time.perf_counter()
        estimate = METHODS[method](subject)
        error = abs(estimate.mass - estimate.truth)
        return {
            "method": method,
            "object": subject.sample.object,
            "truth": estimate.truth,
            "estimate": estimate.mass,
            "absolute": error,
            "relative": error / estimate.truth,
            "simulations": estimate.simulations,
            "seconds": time.perf_counter() - begin,
        }

    return Case(f"seed {seed}, {method}, object {number}", run)


def experiment(objects: int, seed: int, methods: Sequence[str] = tuple(METHODS)) -> Experiment:
    """All methods on the same objects, one after another."""
    cases = tuple(case(method, number, seed) for number in range(objects) for method in methods)
    title = f"Mass of {objects} objects of the test split, by {len(methods)} methods"
    return Experiment("baselines", title, COLUMNS, cases, claims, summary=summary)


def claims(rows: Sequence[Row]) -> list[Claim]:
    exact = [method for method in ("diffphysics", "gradsim") if any(row["method"] == method for row in rows)]
    return [Claim(f"mean relative error, {name}", _mean(rows, name, "relative"), at_most=ALLOWED) for name in exact]


def summary(rows: Sequence[Row]) -> list[str]:
    """The means of each method beside the paper's."""
    lines = ["method        mean error kg  mean relative  seconds  paper kg  paper relative"]
    for method in METHODS:
        if any(row["method"] == method for row in rows):
            means = [_mean(rows, method, name) for name in ("absolute", "relative", "seconds")]
            paper = "  ".join(f"{value:.2e}" for value in PAPER[method]) if method in PAPER else "-"
            lines.append(f"{method:12}  {means[0]:13.2e}  {means[1]:13.2e}  {means[2]:7.1f}  {paper}")
    return lines


def _mean(rows: Sequence[Row], method: str, name: str) -> float:
    return float(np.mean([row[name] for row in rows if row["method"] == method]))
