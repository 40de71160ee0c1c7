"""What an experiment declares, and how its table is filled: row by row, each kept as soon as it is there."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.fit.estimate import estimate
from gradsim.fit.observations import Clock
from gradsim.fit.plan import Reached
from gradsim.fit.result import Fit, Stage
from gradsim.render.render import render
from gradsim.scene.atomic import write_whole
from gradsim.scene.errors import ContactWarning, InvalidInput, StabilityWarning
from gradsim.scene.scene import Scene

Row = dict[str, Any]  # plain values, for JSON
Told = Callable[[str], None]  # what is being done


@dataclass(frozen=True)
class Column:
    """A value of the rows, and how it is shown."""

    name: str
    format: str = ".1e"  # "" for words
    width: int = 10
    title: str | None = None  # if not the name

    def head(self) -> str:
        return self._placed(self.title or self.name)

    def cell(self, row: Row) -> str:
        value = row.get(self.name)
        return self._placed("-" if value is None else format(value, self.format))

    def _placed(self, text: str) -> str:
        return text.rjust(self.width) if self.format else text.ljust(self.width)


@dataclass(frozen=True)
class Case:
    """One row, still to be found."""

    key: str  # tells it from all others that may stand in the same file
    run: Callable[[Told], Row]


@dataclass(frozen=True)
class Claim:
    """What the rows must show: a value within bounds."""

    what: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def ok(self) -> bool:
        above = self.most is None or self.value <= self.most
        return above and (self.least is None or self.value >= self.least)

    def __str__(self) -> str:
        bounds = (("at most", self.most), ("at least", self.least))
        asked = " and ".join(f"{word} {bound:g}" for word, bound in bounds if bound is not None)
        return f"{self.what}: {self.value:.3g} ({asked})"


@dataclass(frozen=True)
class Experiment:
    """A table, declared: its cases, what is asked of them, and what the paper has."""

    name: str
    title: str
    columns: tuple[Column, ...]
    cases: tuple[Case, ...]
    claims: Callable[[Sequence[Row]], list[Claim]]
    paper: str = ""


def filled(experiment: Experiment, file: Path | None, told: Told = lambda text: None) -> Iterator[Row]:
    """The rows in turn; those that stand in the file are not run again, and new ones are written to it at once."""
    known = {} if file is None else _read(file, experiment.name)
    for case in experiment.cases:
        if case.key not in known:
            known[case.key] = case.run(lambda text, key=case.key: told(f"{key}: {text}"))  # type: ignore[misc]
            if file is not None:
                content = json.dumps({"experiment": experiment.name, "rows": known}, indent=2) + "\n"
                write_whole(file, lambda target, text=content: target.write_text(text), InvalidInput)  # type: ignore[misc]
        yield known[case.key]


def _read(file: Path, name: str) -> dict[str, Row]:
    if not file.exists():
        return {}
    try:
        content = json.loads(file.read_text())
        found, rows = content["experiment"], dict(content["rows"])
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInput(str(file), "no table of an experiment", "name a new file, or one of `reproduce`") from error
    if found != name:
        raise InvalidInput(str(file), f"holds {found}", f"name another file for {name}")
    return rows


@contextmanager
def _soft_ground() -> Iterator[None]:
    """The paper's ground is so soft that things sink in; and fewer points touch at once than a warning has to count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContactWarning)
        warnings.simplefilter("ignore", StabilityWarning)
        yield


def filmed(scene: Scene, clock: Clock, frames: int, *sides: int) -> list[torch.Tensor]:
    """Videos [T, side, side, 3] of what happens in a scene, one for each size [px]."""
    with _soft_ground():
        trajectory = clock.run(scene, frames)
    return [render(scene, trajectory, (side, side)) for side in sides]


def fitted(scene: Scene, video: Any, told: Told, label: str = "", **options: Any) -> Fit:
    """As `gs.estimate`, but half a search is no row."""

    def progress(stage: Stage) -> None:
        told(f"{label} {stage.name} ({stage.mean_square:.1e}, {stage.seconds:.0f} s)".strip())

    with _soft_ground():
        fit = estimate(scene, video, progress=progress, **options)
    if fit.status == "interrupted":
        raise KeyboardInterrupt
    return fit


def errors(fit: Fit | Reached, truth: Mapping[str, Any]) -> dict[str, float]:
    """Relative errors by path; of vectors the length of the difference over the length of the truth."""
    found = {}
    for path, value in truth.items():
        true = torch.as_tensor(np.asarray(value), dtype=torch.float64)
        found[path] = float(torch.linalg.vector_norm(fit.values[path] - true) / torch.linalg.vector_norm(true))
    return found


def largest(rows: Sequence[Row], name: str) -> float:
    """The largest value of a column."""
    return max((row[name] for row in rows if row.get(name) is not None), default=float("nan"))
