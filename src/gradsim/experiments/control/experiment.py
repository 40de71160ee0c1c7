"""The paper's experiments on control: the error of every iterate, told of the goal by a picture, by states, or not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradsim.experiments.control.catalogue import KINDS, Kind, Subject
from gradsim.experiments.control.task import Method
from gradsim.experiments.table import Case, Claim, Column, Experiment, Row, Told, errors, largest

UPDATES, WALKED = 3, 0.05  # the walker's error after so many
ROLLED, ROLLED_EACH = 0.01, 0.03  # the gear's at the end, mean and largest
POSED = 0.005  # the posed cloth's at the end, mean
THROWN, THROWN_SHARE = 1e-6, 0.8  # the hidden velocity's relative error, and how many of them
COLUMNS = (
    Column("task", "", 13),
    Column("method", "", 7),
    Column("seed", "d", 4),
    Column("first", ".3g", 9),
    Column("best", ".3g", 9),
    Column("last", ".3g", 9),
    Column("paper", ".3g", 6),
    Column("hidden", ".1e", 8),
    Column("speed", ".2f", 5),
    Column("status", "", 17),
    Column("seconds", ".0f", 7),
)


def case(kind: Kind, method: Method, seed: int) -> Case:
    """One goal, sought once."""

    def run(told: Told) -> Row:
        task = kind.task(seed)
        count = task.iterates(method) - 1
        plan = task.run(
            method, lambda i: told(f"iterate {i.number} of {count}, loss {i.loss:.2e}, error {i.watched:.2e}")
        )
        if plan.status == "interrupted":  # half a search is no row
            raise KeyboardInterrupt
        off = errors(plan.best, task.truth)
        published = kind.paper(method)
        return {
            "task": kind.name,
            "method": method.value,
            "seed": seed,
            "about": task.about,
            "first": plan.history[0].watched,
            "best": plan.best.watched,
            "last": plan.last.watched,
            "paper": published[max(published)] if published else None,
            "hidden": max(off.values(), default=None),
            "speed": None if task.speed is None else float(task.speed(plan.last.trajectory)),
            "status": plan.status,
            "seconds": plan.seconds,
            "errors": [iterate.watched for iterate in plan.history],
            "losses": [iterate.loss for iterate in plan.history],
            "stages": [iterate.stage for iterate in plan.history],
        }

    return Case(f"{kind.name}, {method.value}, seed {seed}", run)


def kinds(only: Sequence[Subject] = ()) -> list[Kind]:
    """The tasks of some subjects, or of all."""
    return [kind for kind in KINDS if not only or kind.subject in only]


def experiment(
    only: Sequence[Subject] = (),
    methods: Sequence[Method] = tuple(Method),
    seeds: int | None = None,
    *,
    held_out: bool = False,
) -> Experiment:
    """Errors at the start, of the best iterate and of the last.

    `hidden` is the relative error of a hidden value, `speed` the last one [m/s] where rest is asked for.
    """
    chosen = kinds(only)
    cases = [case(kind, method, seed) for kind in chosen for method in methods for seed in kind.seeds(held_out)[:seeds]]
    paper = [
        f"{kind.name} {numbers[max(numbers)]:g} from {'a picture' if method is Method.IMAGE else 'states'}"
        for kind in chosen
        for method in methods
        if (numbers := kind.paper(method))
    ]
    title = f"Control from a picture{', held-out goals' if held_out else ''}: errors of {len(cases)} searches"
    return Experiment("control", title, COLUMNS, tuple(cases), claims, "; ".join(paper))


def claims(rows: Sequence[Row]) -> list[Claim]:
    """What is claimed of searches from a picture; the others are there to be held against."""
    seen = {kind.name: [row for row in rows if (row["task"], row["method"]) == (kind.name, "image")] for kind in KINDS}
    found = []
    if walks := seen["walker"]:
        worst = max(abs(row["errors"][: UPDATES + 1][-1]) for row in walks)
        found.append(Claim("walker: largest error of the way after three updates", worst, most=WALKED))
    if rolls := seen["gear"]:
        found.append(Claim("gear: mean error at the end", _mean(rolls), most=ROLLED))
        found.append(Claim("gear: largest error at the end", largest(rolls, "last"), most=ROLLED_EACH))
    if flights := seen["cloth posed"]:
        found.append(Claim("cloth posed: mean error at the end", _mean(flights), most=POSED))
    if throws := seen["cloth hidden"]:
        good = sum(row["hidden"] is not None and row["hidden"] <= THROWN for row in throws)
        what = f"cloth hidden: of {len(throws)} velocities, found to {THROWN:g}"
        found.append(Claim(what, good, least=THROWN_SHARE * len(throws)))
    return found


def curve(row: Row) -> list[float]:
    """Errors over iterates; of draws the error of the best so far, as their loss tells it: what one would keep."""
    if row["method"] != Method.RANDOM.value:
        return row["errors"]
    losses = np.array(row["losses"])
    return [row["errors"][int(np.argmin(losses[: k + 1]))] for k in range(len(losses))]


def _mean(rows: Sequence[Row]) -> float:
    return float(np.mean([row["last"] for row in rows]))
