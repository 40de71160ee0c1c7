"""The control tasks by name: how they are created, their seeds, and the paper's numbers."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gradsim.experiments.control.task import Method, Task
from gradsim.scene.errors import InvalidInput


class Subject(str, Enum):
    """The controlled body."""

    WALKER = "walker"
    GEAR = "gear"
    CLOTH = "cloth"


@dataclass(frozen=True)
class TaskFamily:
    """Tasks that differ only in their seed."""

    name: str
    subject: Subject
    goal: str  # value of the option --goal
    factory: str  # function in the subject's module that creates a task from a seed
    published: bool = True  # whether the paper has this task

    def task(self, seed: int) -> Task:
        return getattr(self._module, self.factory)(seed)

    def seeds(self, held_out: bool = False) -> tuple[int, ...]:
        """Returns the seeds used during development, or the held-out ones."""
        return self._module.HELD_OUT if held_out else self._module.SEEDS

    def paper(self, method: Method) -> Mapping[int, float]:
        """Returns the paper's errors by iteration; empty if it has none."""
        names = {Method.IMAGE: "PAPER", Method.STATE: "PAPER_STATE"}
        errors = getattr(self._module, names.get(method, ""), None) if self.published else None
        return errors if isinstance(errors, Mapping) else {}

    @property
    def _module(self) -> Any:
        """The subject's module, imported on first use because it builds meshes and goals."""
        return importlib.import_module(f"gradsim.experiments.control.{self.subject.value}")


TASK_FAMILIES = (  # the first family of a subject is its default
    TaskFamily("walker", Subject.WALKER, "place", "task"),
    TaskFamily("gear", Subject.GEAR, "place", "task"),
    TaskFamily("gear at rest", Subject.GEAR, "rest", "at_rest", published=False),
    TaskFamily("cloth posed", Subject.CLOTH, "posed", "posed"),
    TaskFamily("cloth hidden", Subject.CLOTH, "hidden", "hidden", published=False),
)


def find_family(subject: Subject, goal: str | None = None) -> TaskFamily:
    """Returns the task family of a subject and a goal; without a goal the default of the subject."""
    known = [family for family in TASK_FAMILIES if family.subject is subject]
    matching = [family for family in known if goal in (None, family.goal)]
    if not matching:
        valid = f"must be one of {', '.join(family.goal for family in known)} for the {subject.value}"
        raise InvalidInput("--goal", str(goal), valid)
    return matching[0]
