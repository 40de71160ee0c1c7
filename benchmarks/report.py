"""What all benchmarks share in their output: required values, sections of the report, and table formatting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table

from benchmarks.timing import Machine
from gradsim.scene.errors import MissingExtra

Progress = Callable[[str], None]  # called with one line before each measurement


def no_progress(text: str) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class Requirement:
    """A required value and the worst measured one."""

    text: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"{'met' if self.met else 'MISSED'}: {self.text}; {self.measured}"


@dataclass(frozen=True)
class Section:
    """The results of one benchmark, as they appear in results.md and results.json."""

    title: str
    report: RenderableType  # for the terminal and for results.md
    data: dict[str, Any]  # plain values, for JSON
    requirements: tuple[Requirement, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        return {**self.data, "requirements": [asdict(requirement) for requirement in self.requirements]}


def missing_peer_note(load: Callable[[], object]) -> str | None:
    """Returns None if `load` can import a peer, otherwise how to install it."""
    try:
        load()
    except MissingExtra as missing:
        return str(missing)
    return None


def new_table(title: str, headings: tuple[str, ...]) -> Table:
    """Returns an empty table with right-aligned columns."""
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def footer(machine: Machine, *lines: str | None) -> str:
    """Returns the caption of a table: the remarks that are not None, then the machine."""
    versions = ", ".join(f"{name} {version or '-'}" for name, version in machine.versions.items())
    return "\n".join(filter(None, (*lines, f"{machine.cpu}, {machine.cores} cores; {versions}")))


def format_pair(first: float | None, second: float | None, form: str) -> str:
    """Returns two numbers for one cell of a table; a dash stands for None."""
    return " / ".join("-" if value is None else format(value, form) for value in (first, second))
