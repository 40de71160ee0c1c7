"""The paper's control experiments: the error of every iterate, from an image, from states, and by random search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradsim.experiments.control.catalogue import TASK_FAMILIES, Subject, TaskFamily
from gradsim.experiments.control.panels import encoded_panels
from gradsim.experiments.control.task import Method
from gradsim.experiments.experiment import Case, Claim, Column, Experiment, Progress, Row, largest
from gradsim.experiments.protocol import relative_errors

WALKER_UPDATES, WALKER_ERROR = 3, 0.05  # allowed error after this number of updates
GEAR_MEAN, GEAR_LARGEST = 0.01, 0.03  # allowed errors of the last iterate
POSED_MEAN = 0.005  # allowed mean error of the posed cloth
HIDDEN_ERROR, HIDDEN_FRACTION = 1e-6, 0.8  # allowed relative error of the hidden velocity, and how many must meet it
COLUMNS = (
    Column("task", "", 13),
    Column("method", "", 7),
    Column("seed", "d", 4),
    Column("first", ".3g", 9),
    Column("best", ".3g", 9),
    Column("last", ".3g", 9),
    Column("paper", ".3g", 6),
    Column("hidden", ".1e", 9, "rel error"),
    Column("speed", ".2f", 5),
    Column("status", "", 17),
    Column("seconds", ".0f", 7),
)


def case(family: TaskFamily, method: Method, seed: int) -> Case:
    """Returns the case of one search for one goal."""

    def run(progress: Progress) -> Row:
        task = family.task(seed)
        count = task.iterates(method) - 1
        plan = task.run(
            method, lambda i: progress(f"iterate {i.number} of {count}, loss {i.loss:.2e}, error {i.metric:.2e}")
        )
        if plan.status == "interrupted":  # only complete searches are saved
            raise KeyboardInterrupt
        errors = relative_errors(plan.best, task.truth)
        published = family.paper(method)
        panels = {"panels": encoded_panels(task, plan)} if method is Method.IMAGE else {}
        return {
            "task": family.name,
            "method": method.value,
            "seed": seed,
            "about": task.description,
            "first": plan.history[0].metric,
            "best": plan.best.metric,
            "last": plan.last.metric,
            "paper": published[max(published)] if published else None,
            "hidden": max(errors.values(), default=None),
            "speed": None if task.final_speed is None else float(task.final_speed(plan.last.trajectory)),
            "status": plan.status,
            "seconds": plan.seconds,
            "errors": [iterate.metric for iterate in plan.history],
            "losses": [iterate.loss for iterate in plan.history],
            "stages": [iterate.stage for iterate in plan.history],
            **panels,
        }

    return Case(f"{family.name}, {method.value}, seed {seed}", run)


def families(only: Sequence[Subject] = (), *, published: bool = False) -> list[TaskFamily]:
    """Returns the task families of some subjects, or all; with `published` those that the paper has."""
    return [f for f in TASK_FAMILIES if (not only or f.subject in only) and (f.published or not published)]


def experiment(
    only: Sequence[Subject] = (),
    methods: Sequence[Method] = tuple(Method),
    seeds: int | None = None,
    *,
    baseline_seeds: int | None = None,
    held_out: bool = False,
    published: bool = False,
) -> Experiment:
    """Errors of the first, the best and the last iterate.

    `rel error` is the relative error of a hidden value, `speed` the final speed [m/s] for goals at rest.

    Args:
        only: Subjects; all if empty.
        methods: How searches use the goal.
        seeds: Number of seeds of each task; all if None.
        baseline_seeds: Number of seeds of the methods other than the image; as many as of the image if None.
        held_out: Use the goals that were not used during development.
        published: Only the tasks that the paper has.
    """
    chosen = families(only, published=published)
    others = seeds if baseline_seeds is None else baseline_seeds
    counts = {method: seeds if method is Method.IMAGE else others for method in methods}
    cases = [
        case(family, method, seed)
        for family in chosen
        for method, count in counts.items()
        for seed in family.seeds(held_out)[:count]
    ]
    paper = [
        f"{family.name} {errors[max(errors)]:g} from {'an image' if method is Method.IMAGE else 'states'}"
        for family in chosen
        for method in methods
        if (errors := family.paper(method))
    ]
    title = f"Control from an image{', held-out goals' if held_out else ''}: errors of {len(cases)} searches"
    return Experiment("control", title, COLUMNS, tuple(cases), claims, "; ".join(paper))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """Returns the claims about searches from an image; the other methods are baselines."""
    image = [row for row in rows if row["method"] == Method.IMAGE.value]
    by_task = {family.name: [row for row in image if row["task"] == family.name] for family in TASK_FAMILIES}
    results = []
    if walks := by_task["walker"]:
        worst = max(abs(row["errors"][: WALKER_UPDATES + 1][-1]) for row in walks)
        results.append(Claim("walker: largest relative error after three updates", worst, at_most=WALKER_ERROR))
    if rolls := by_task["gear"]:
        results.append(Claim("gear: mean error of the last iterate", _mean(rolls), at_most=GEAR_MEAN))
        results.append(Claim("gear: largest error of the last iterate", largest(rolls, "last"), at_most=GEAR_LARGEST))
    if flights := by_task["cloth posed"]:
        results.append(Claim("cloth posed: mean error of the last iterate", _mean(flights), at_most=POSED_MEAN))
    if throws := by_task["cloth hidden"]:
        good = sum(row["hidden"] is not None and row["hidden"] <= HIDDEN_ERROR for row in throws)
        text = f"cloth hidden: velocities (of {len(throws)}) with relative errors of at most {HIDDEN_ERROR:g}"
        results.append(Claim(text, good, at_least=HIDDEN_FRACTION * len(throws)))
    return results


def curve(row: Row) -> list[float]:
    """Returns the error at each iterate; for random search the error of the iterate with the lowest loss so far."""
    if row["method"] != Method.RANDOM.value:
        return row["errors"]
    losses = np.array(row["losses"])
    return [row["errors"][int(np.argmin(losses[: k + 1]))] for k in range(len(losses))]


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row["last"] for row in rows]))
