"""Time to answer: from a video to the mass, to five parameters of contact; from a picture to the gear's control."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

from rich.table import Table

from gradsim.bench.result import footer, new_table
from gradsim.bench.timing import Machine, this_machine
from gradsim.experiments import contact, mass
from gradsim.experiments.control import gear
from gradsim.experiments.control.task import Method
from gradsim.fit.optimizers import Adam

OBJECT = 0  # of the lists of objects: a box


@dataclass(frozen=True)
class Answer:
    """One question, asked with warm caches."""

    question: str
    seconds: float
    most: float  # seconds allowed
    error: float  # relative, of the worst value; of the gear the squared distance [m^2]

    @property
    def met(self) -> bool:
        return self.seconds <= self.most


@dataclass(frozen=True)
class Bench:
    """What was measured, and on what."""

    answers: tuple[Answer, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"machine": asdict(self.machine), "answers": [asdict(answer) for answer in self.answers]}


def bench_chain(progress: Callable[[str], None] = lambda text: None) -> Bench:
    """Ask each question once for the caches, shortened where it is long, and once for the clock."""
    questions = (
        ("mass from 60 frames of 128 px", 2.0, _mass, _mass),
        ("five contact parameters from 60 frames of 128 px", 15.0, _contact, _contact),
        ("gear to a picture, 40 iterations of 5,760 steps", 30.0, lambda: _gear(40), lambda: _gear(2)),
    )
    answers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for question, most, ask, warm in questions:
            progress(f"{question}: caches")
            warm()
            progress(question)
            seconds, error = ask()
            answers.append(Answer(question, seconds, most, error))
    return Bench(tuple(answers), this_machine("torch", "warp-lang"))


def _mass() -> tuple[float, float]:
    row = mass.case(OBJECT, 0, sources=("float",)).run(lambda text: None)
    return row["seconds"], row["float"]


def _contact() -> tuple[float, float]:
    row = contact.case(OBJECT, 0, eight_bit=False).run(lambda text: None)
    return row["seconds"], row["worst"]


def _gear(iterations: int) -> tuple[float, float]:
    task = gear.task(0)
    ((distance, optimizer),) = task.stages[Method.IMAGE]
    assert isinstance(optimizer, Adam)
    start = perf_counter()
    plan = replace(task, stages={Method.IMAGE: [(distance, replace(optimizer, iterations=iterations))]}).run()
    assert plan.last.metric is not None
    return perf_counter() - start, plan.last.metric


def table(bench: Bench) -> Table:
    """The measurements for a terminal."""
    result = new_table("Time to answer, warm", ("question", "seconds", "allowed", "error"))
    for answer in bench.answers:
        result.add_row(answer.question, f"{answer.seconds:.1f}", f"{answer.most:g}", f"{answer.error:.1e}")
    result.caption = footer(bench.machine)
    return result
