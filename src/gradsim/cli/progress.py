"""Progress on the standard error stream: a progress bar on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gradsim.cli.console import stderr

LINE_INTERVAL = 5.0  # [s]


class ProgressBar:
    """A progress bar over frames or another unit, with the name of the current stage.

    Args:
        stage: Name of the first stage.
        total: Number of units.
        unit: What is counted.
        interval: Least time between lines if there is no terminal [s].
    """

    def __init__(self, stage: str, total: int, *, unit: str = "frames", interval: float = LINE_INTERVAL):
        self.stage, self.total, self.unit, self.interval = stage, total, unit, interval
        self.begin = self.last_line = time.perf_counter()
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}"),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            console=stderr,
            transient=True,
            disable=not stderr.is_terminal,
        )

    def __enter__(self) -> ProgressBar:
        self.progress.start()
        self.task = self.progress.add_task(self.stage, total=self.total, note="")
        self._print_line(self.stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def update(self, completed: int, stage: str, note: str = "") -> None:
        """Sets the number of completed units, the stage and a note."""
        self.progress.update(self.task, completed=completed, description=stage, note=note)
        changed = stage != self.stage
        if changed or time.perf_counter() - self.last_line >= self.interval:
            self.stage = stage
            self._print_line(f"{stage}, {completed} of {self.total} {self.unit}{', ' + note if note else ''}")

    def _print_line(self, text: str) -> None:
        if stderr.is_terminal:
            return
        self.last_line = time.perf_counter()
        stderr.print_line(f"{self.last_line - self.begin:7.1f} s  {text}")
