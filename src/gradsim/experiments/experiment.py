"""Declaration of an experiment, and the runner that fills its table row by row and saves each row when it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradsim.datasets.compilation import build_kernels
from gradsim.parallel import Workers, run_tasks
from gradsim.scene.atomic import remove_unfinished, write_atomically
from gradsim.scene.errors import InvalidInput

Row = dict[str, Any]  # plain values, for JSON
Progress = Callable[[str], None]  # receives a line of text about the current step


@dataclass(frozen=True)
class Column:
    """A value of the rows, and how it is formatted."""

    name: str
    format: str = ".1e"  # "" for text
    width: int = 10
    title: str | None = None  # defaults to the name

    def head(self) -> str:
        return self._aligned(self.title or self.name)

    def cell(self, row: Row) -> str:
        value = row.get(self.name)
        return self._aligned("-" if value is None else format(value, self.format))

    def _aligned(self, text: str) -> str:
        return text.rjust(self.width) if self.format else text.ljust(self.width)


@dataclass(frozen=True)
class Case:
    """One row of a table, and the function that computes it."""

    key: str  # unique among the cases that may be saved in the same file
    run: Callable[[Progress], Row]


@dataclass(frozen=True)
class Claim:
    """A statement about the rows: a value within bounds."""

    description: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def ok(self) -> bool:
        above = self.at_most is None or self.value <= self.at_most
        return above and (self.at_least is None or self.value >= self.at_least)

    def __str__(self) -> str:
        bounds = (("at most", self.at_most), ("at least", self.at_least))
        required = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        return f"{self.description}: {self.value:.3g} ({required})"


@dataclass(frozen=True)
class Experiment:
    """A table: its columns, its cases, the claims about them, and the paper's numbers."""

    name: str
    title: str
    columns: tuple[Column, ...]
    cases: tuple[Case, ...]
    claims: Callable[[Sequence[Row]], list[Claim]]
    paper: str = ""
    summary: Callable[[Sequence[Row]], list[str]] = lambda rows: []  # lines printed below the table


def run_experiment(
    experiment: Experiment, file: Path | None, progress: Progress = lambda text: None, workers: Workers = Workers()
) -> Iterator[Row]:
    """Yields the rows. Rows found in the file are not computed again; each new row is saved immediately.

    Args:
        experiment: Experiment; its cases run in their order.
        file: JSON file of the rows, or None.
        progress: Receives text about the current step.
        workers: Processes or machines. Rows then come in the order of completion; their content is the same.
    """
    if file is not None and file.parent.is_dir():
        remove_unfinished(file.parent)  # of a run that was killed; this one writes nothing if it has all rows
    rows = {} if file is None else _read_rows(file, experiment.name)
    yield from (rows[case.key] for case in experiment.cases if case.key in rows)
    missing = [case for case in experiment.cases if case.key not in rows]
    for key, row in _compute_rows(missing, progress, workers):
        rows[key] = row
        if file is not None:
            content = json.dumps({"experiment": experiment.name, "rows": rows}, indent=2) + "\n"
            write_atomically(file, lambda target, text=content: target.write_text(text), InvalidInput)  # type: ignore[misc]
        yield row


def _compute_rows(cases: Sequence[Case], progress: Progress, workers: Workers) -> Iterator[tuple[str, Row]]:
    if workers.in_process:
        for case in cases:
            yield case.key, case.run(lambda text, key=case.key: progress(f"{key}: {text}"))  # type: ignore[misc]
        return
    for number, (case, row) in enumerate(run_tasks(_run_quietly, cases, workers, prepare=build_kernels), start=1):
        progress(f"{number} of {len(cases)} cases")
        yield case.key, row


def _run_quietly(case: Case) -> Row:
    return case.run(lambda text: None)


def _read_rows(file: Path, name: str) -> dict[str, Row]:
    if not file.exists():
        return {}
    try:
        if not file.is_file():
            raise ValueError("a folder, device or pipe")
        content = json.loads(file.read_text())
        stored, rows = content["experiment"], dict(content["rows"])
    except (ValueError, KeyError, TypeError) as error:
        valid = "name a new file, or one written by `gradsim reproduce`"
        raise InvalidInput(str(file), "not a table of an experiment", valid) from error
    if stored != name:
        raise InvalidInput(str(file), f"contains rows of {stored}", f"name another file for {name}")
    return rows


def largest(rows: Sequence[Row], name: str) -> float:
    """Returns the largest value of a column, NaN if it is empty."""
    return max((row[name] for row in rows if row.get(name) is not None), default=float("nan"))
