"""Progress of estimates, plans and minimizations, in notebooks and terminals."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import Any

from gradsim.fit.plan import Iterate
from gradsim.fit.result import FitStep

INTERVAL = 0.2  # between two updates [s]
LINE_INTERVAL = 10.0  # between two lines where nothing can be overwritten [s]


class ProgressBar:
    """Shows how far an estimate, a plan or a minimization is: a bar in notebooks, a line in terminals.

    Example:
        `fit = gs.estimate(scene, video, progress=gs.ProgressBar(total=len(video)))`

    Args:
        total: Frames of an estimate, or iterations of `gs.control` and `gs.minimize`; None if they are not known.
    """

    def __init__(self, total: int | None = None):
        self.total = total
        self._begin, self._last = time.perf_counter(), -float("inf")
        self._handle: Any = None  # of what a notebook displays

    def __call__(self, step: Any, loss: float | None = None) -> None:
        """Shows a step: a `FitStep`, an `Iterate`, or the number of an iteration and its loss."""
        done, text = _description(step, loss)
        now = time.perf_counter()
        interval = INTERVAL if self._in_notebook or sys.stderr.isatty() else LINE_INTERVAL
        if now - self._last < interval and done != self.total:
            return
        self._last = now
        text = f"{text}, {now - self._begin:.1f} s"
        if self._in_notebook:
            self._display(done, text)
        else:
            count = f"{done}/{self.total} " if self.total else ""
            end = "" if sys.stderr.isatty() else "\n"
            print(f"\r\x1b[K{count}{text}" if not end else f"{count}{text}", end=end, file=sys.stderr, flush=True)

    @property
    def _in_notebook(self) -> bool:
        """Whether the code runs in a notebook: the kernel of one has loaded IPython and its own message loop."""
        shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
        return getattr(shell, "kernel", None) is not None

    def _display(self, done: int, text: str) -> None:
        from IPython.display import HTML, display

        share = f'value="{done}" max="{self.total}"' if self.total else ""
        page = HTML(f'<progress {share} style="width: 20em"></progress> {escape(text)}')
        if self._handle is None:
            self._handle = display(page, display_id=True)
        else:
            self._handle.update(page)


def _description(step: Any, loss: float | None) -> tuple[int, str]:
    """Returns how many frames or iterations are done, and a text."""
    if isinstance(step, FitStep):
        return step.frames, f"{step.name}: mean squared residual {step.mean_square:.2e}"
    if isinstance(step, Iterate):
        return step.number, f"iterate {step.number}: loss {step.loss:.3e}"
    return int(step), f"iteration {int(step)}" + ("" if loss is None else f": loss {loss:.3e}")
