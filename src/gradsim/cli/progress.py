"""Progress on the standard error stream: a bar that moves on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from gradsim.cli.shared import aside

QUIET = 5.0  # [s]


class Bar:
    """Frames that are done, of all, with a word on what is going on.

    Args:
        stage: What is going on.
        frames: All of them.
        unit: What is counted, if not frames.
        quiet: Seconds between lines where there is no terminal.
    """

    def __init__(self, stage: str, frames: int, *, unit: str = "frames", quiet: float = QUIET):
        self.stage, self.frames, self.unit, self.quiet = stage, frames, unit, quiet
        self.begin = self.told = time.perf_counter()
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn(f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}"),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=aside,
            transient=True,
            disable=not aside.is_terminal,
        )

    def __enter__(self) -> Bar:
        self.progress.start()
        self.task = self.progress.add_task(self.stage, total=self.frames, note="")
        self._line(self.stage)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def moved(self, frames: int, stage: str, note: str = "") -> None:
        """Frames done so far, or compared now."""
        self.progress.update(self.task, completed=frames, description=stage, note=note)
        changed = stage != self.stage
        if changed or time.perf_counter() - self.told >= self.quiet:
            self.stage = stage
            self._line(f"{stage}, {frames} of {self.frames} {self.unit}{', ' + note if note else ''}")

    def _line(self, text: str) -> None:
        if aside.is_terminal:
            return
        self.told = time.perf_counter()
        aside.print(f"{self.told - self.begin:7.1f} s  {text}", highlight=False, soft_wrap=True)
