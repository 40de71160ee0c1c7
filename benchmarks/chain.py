"""Time to solution of the whole chain: mass and contact parameters from a video, and control from an image."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
import torch
from rich.table import Table

import gradsim as gs
from benchmarks.report import Progress, Requirement, Section, footer, new_table, no_progress
from benchmarks.timing import Machine, this_machine
from gradsim.datasets.objects import KINDS
from gradsim.experiments import contact, mass
from gradsim.experiments.control import gear
from gradsim.experiments.control.task import Method

OBJECT = 0  # a box, in the experiments' list of objects
CONTACT_STEPS = (contact.FRAMES - 1) * contact.SUBSTEPS


@dataclass(frozen=True)
class Solution:
    """One estimation or control task, with warm caches."""

    task: str
    seconds: float
    max_seconds: float  # required
    error: float  # largest relative error; for the gear the squared distance [m^2]

    @property
    def requirement(self) -> Requirement:
        text = f"{self.task}: at most {self.max_seconds:g} s"
        return Requirement(text, f"{self.seconds:.1f} s", self.seconds <= self.max_seconds)


@dataclass(frozen=True)
class ChainResults:
    """The measurements, and the machine they were made on."""

    solutions: tuple[Solution, ...]
    machine: Machine

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {"machine": asdict(self.machine), "solutions": [asdict(solution) for solution in self.solutions]}


@dataclass(frozen=True)
class ChainTask:
    """A task to time; each function returns the time [s] and the error."""

    name: str
    max_seconds: float
    run: Callable[[], tuple[float, float]]
    warm_up: Callable[[], tuple[float, float]]  # fills the caches


def estimate_mass() -> tuple[float, float]:
    """Estimates the mass of a box from a video; returns the time [s] and the relative error."""
    row = mass.case(OBJECT, 0, sources=("float",)).run(no_progress)
    return row["seconds"], row["float"]


def estimate_contact() -> tuple[float, float]:
    """Estimates five contact parameters from a video; returns the time [s] and the largest relative error."""
    row = contact.case(OBJECT, 0, eight_bit=False).run(no_progress)
    return row["seconds"], row["worst"]


def contact_scene(dtype: torch.dtype) -> gs.Scene:
    """Returns the scene of `estimate_contact`, with parameters that require gradients."""
    values = {path: torch.tensor(low, dtype=dtype).requires_grad_() for path, (low, _) in contact.RANGES.items()}
    return contact.scene(KINDS[OBJECT], np.random.default_rng(0), values)


def control_gear(iterations: int) -> tuple[float, float]:
    """Optimizes the control of the gear towards an image; returns the time [s] and the squared distance [m^2]."""
    task = gear.task(0)
    ((distance, optimizer),) = task.stages[Method.IMAGE]
    assert isinstance(optimizer, gs.Adam)
    start = perf_counter()
    plan = replace(task, stages={Method.IMAGE: [(distance, replace(optimizer, iterations=iterations))]}).run()
    assert plan.last.metric is not None
    return perf_counter() - start, plan.last.metric


TASKS = (
    ChainTask("mass from 60 frames of 128 px", 2.0, estimate_mass, estimate_mass),
    ChainTask("five contact parameters from 60 frames of 128 px", 15.0, estimate_contact, estimate_contact),
    ChainTask(
        "gear to an image, 40 iterations of 5,760 steps", 30.0, lambda: control_gear(40), lambda: control_gear(2)
    ),
)


def measure_chain(tasks: tuple[ChainTask, ...] = TASKS, *, progress: Progress = no_progress) -> ChainResults:
    """Runs each task once to fill the caches, with fewer iterations where it is long, and once to time it."""
    solutions = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for task in tasks:
            progress(f"{task.name}: warm-up")
            task.warm_up()
            progress(task.name)
            seconds, error = task.run()
            solutions.append(Solution(task.name, seconds, task.max_seconds, error))
    return ChainResults(tuple(solutions), this_machine("torch", "warp-lang"))


def section(results: ChainResults) -> Section:
    """Returns the section of the report."""
    requirements = tuple(solution.requirement for solution in results.solutions)
    return Section("Time to solution", table(results), results.as_dict(), requirements)


def table(results: ChainResults) -> Table:
    """Returns the measurements as a table."""
    found = new_table("Time to solution, warm caches", ("task", "seconds", "allowed", "error"))
    for solution in results.solutions:
        numbers = (f"{solution.seconds:.1f}", f"{solution.max_seconds:g}", f"{solution.error:.1e}")
        found.add_row(solution.task, *numbers)
    found.caption = footer(results.machine)
    return found
