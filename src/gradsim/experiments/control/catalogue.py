"""The tasks of control by name: what each is made by, which seeds it has, and what the paper has for it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gradsim.experiments.control.task import Method, Task
from gradsim.scene.errors import InvalidInput


class Subject(str, Enum):
    """What is moved."""

    WALKER = "walker"
    GEAR = "gear"
    CLOTH = "cloth"


@dataclass(frozen=True)
class Kind:
    """Tasks that differ in their seed only."""

    name: str
    subject: Subject
    goal: str  # in a word
    maker: str  # the function of a seed, in the subject's module
    published: bool = True  # the paper has it

    def task(self, seed: int) -> Task:
        return getattr(self._module, self.maker)(seed)

    def seeds(self, held_out: bool = False) -> tuple[int, ...]:
        """Those the search was made with, or those that were never looked at."""
        return self._module.HELD_OUT if held_out else self._module.SEEDS

    def paper(self, method: Method) -> Mapping[int, float]:
        """The paper's errors by iteration, as far as it has them."""
        names = {Method.IMAGE: "PAPER", Method.STATE: "PAPER_STATE"}
        found = getattr(self._module, names.get(method, ""), None) if self.published else None
        return found if isinstance(found, Mapping) else {}

    @property
    def _module(self) -> Any:
        """Imported late: its meshes and goals take time."""
        return importlib.import_module(f"gradsim.experiments.control.{self.subject.value}")


KINDS = (  # the first of a subject is the one that is meant without a goal
    Kind("walker", Subject.WALKER, "place", "task"),
    Kind("gear", Subject.GEAR, "place", "task"),
    Kind("gear at rest", Subject.GEAR, "rest", "at_rest", published=False),
    Kind("cloth posed", Subject.CLOTH, "posed", "posed"),
    Kind("cloth hidden", Subject.CLOTH, "hidden", "hidden", published=False),
)


def kind_of(subject: Subject, goal: str | None = None) -> Kind:
    """The tasks of a subject, and of one of its goals."""
    known = [kind for kind in KINDS if kind.subject is subject]
    found = [kind for kind in known if goal in (None, kind.goal)]
    if not found:
        raise InvalidInput("--goal", str(goal), f"the {subject.value} has {', '.join(kind.goal for kind in known)}")
    return found[0]
