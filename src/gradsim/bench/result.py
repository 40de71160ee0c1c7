"""What a bench found beside its peers, for terminals and for JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from gradsim.bench.timing import Machine
from gradsim.scene.errors import MissingExtra


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Steps a second beside Newton's; None where nothing was measured."""

    forward: float
    both: float  # forward and backward
    newton_forward: float | None  # one launch a kernel, from Python
    newton_both: float | None
    newton_graph_forward: float | None  # the whole rollout recorded
    newton_graph_both: float | None

    @property
    def ratio_forward(self) -> float | None:
        """gradsim's speed in units of Newton's best."""
        return self.forward / self.newton_graph_forward if self.newton_graph_forward else None

    @property
    def ratio_both(self) -> float | None:
        return self.both / self.newton_graph_both if self.newton_graph_both else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {**asdict(self), "ratio_forward": self.ratio_forward, "ratio_both": self.ratio_both}

    def columns(self) -> tuple[str, ...]:
        """gradsim, Newton by launches, Newton as a graph, and the ratio, each forward / with backward."""
        return (
            thousands(self.forward, self.both),
            thousands(self.newton_forward, self.newton_both),
            thousands(self.newton_graph_forward, self.newton_graph_both),
            pair(self.ratio_forward, self.ratio_both, ".2f"),
        )


@dataclass(frozen=True)
class Bar:
    """What must hold at all sizes."""

    what: str
    got: str  # the worst of it
    met: bool

    def __str__(self) -> str:
        return f"{'met' if self.met else 'MISSED'}: {self.what}; {self.got}"


def rollout_steps(elements: int) -> int:
    """Steps of a rollout of so many elements: small ones get more, so that a call, which is measured by itself, is no
    large part of it."""
    return max(100, 200_000 // elements)


def told_steps(steps: int | None) -> str:
    """How long rollouts are, for a title."""
    return "100 steps and more where they are small" if steps is None else f"{steps} steps"


def newton_speeds(speeds: dict[str, float]) -> dict[str, float | None]:
    """Newton's fields of `Speeds`, as far as they were measured."""
    names = ("newton_forward", "newton_both", "newton_graph_forward", "newton_graph_both")
    return {name: speeds.get(name) for name in names}


def peer_note(load: Callable[[], object]) -> str | None:
    """Nothing if a peer can be loaded, otherwise what to do about it."""
    try:
        load()
    except MissingExtra as missing:
        return str(missing)
    return None


def new_table(title: str, headings: tuple[str, ...]) -> Table:
    """An empty table whose columns are numbers."""
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def footer(machine: Machine, *lines: str | None) -> str:
    """What stands below a table: remarks, if there are any, and the machine."""
    versions = ", ".join(f"{name} {version or '-'}" for name, version in machine.versions.items())
    return "\n".join(filter(None, (*lines, f"{machine.cpu}, {machine.cores} cores; {versions}")))


def thousands(forward: float | None, other: float | None) -> str:
    """Two speeds in thousands a second."""
    first, second = (None if speed is None else speed / 1e3 for speed in (forward, other))
    return pair(first, second, ".1f")


def pair(first: float | None, second: float | None, form: str) -> str:
    """Two numbers in one cell, a dash for what is missing."""
    return " / ".join("-" if value is None else format(value, form) for value in (first, second))
