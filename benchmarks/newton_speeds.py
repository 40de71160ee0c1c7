"""Speeds relative to Newton, and the ratios that are required."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.report import Requirement, format_pair

FORWARD_BACKWARD_RATIO = 5.0  # required speed with gradients, in units of Newton's captured graph
SMALL_RATIOS = {100: 4.0}  # the same at small sizes
FORWARD_RATIO = 3.0  # required speed without gradients
HEADINGS = ("gradsim", "Newton\nlaunches", "Newton\ngraph", "gradsim /\nNewton graph")


@dataclass(frozen=True, kw_only=True)
class Speeds:
    """Steps a second of gradsim and of Newton; None where Newton was not measured."""

    forward: float
    forward_backward: float
    newton_forward: float | None  # one launch a kernel, from Python
    newton_forward_backward: float | None
    newton_graph_forward: float | None  # the whole rollout as a captured graph
    newton_graph_forward_backward: float | None

    @property
    def ratio_forward(self) -> float | None:
        """gradsim's speed in units of Newton's captured graph."""
        return self.forward / self.newton_graph_forward if self.newton_graph_forward else None

    @property
    def ratio_forward_backward(self) -> float | None:
        """The same, with gradients."""
        newton = self.newton_graph_forward_backward
        return self.forward_backward / newton if newton else None

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON."""
        ratios = {"ratio_forward": self.ratio_forward, "ratio_forward_backward": self.ratio_forward_backward}
        return {**asdict(self), **ratios}

    def columns(self) -> tuple[str, ...]:
        """Returns the cells under `HEADINGS`, each forward / with backward."""
        return (
            format_thousands(self.forward, self.forward_backward),
            format_thousands(self.newton_forward, self.newton_forward_backward),
            format_thousands(self.newton_graph_forward, self.newton_graph_forward_backward),
            format_pair(self.ratio_forward, self.ratio_forward_backward, ".2f"),
        )


def newton_fields(speeds: dict[str, float]) -> dict[str, float | None]:
    """Returns Newton's fields of `Speeds`; None where nothing was measured."""
    ways = ("forward", "forward_backward")
    names = [f"{peer}_{way}" for peer in ("newton", "newton_graph") for way in ways]
    return {name: speeds.get(name) for name in names}


def newton_requirements(
    label: str, rows: Iterable[tuple[str, int, Speeds]], *, forward: bool = True
) -> list[Requirement]:
    """Returns the required ratios to Newton's captured graph, where Newton was measured.

    Args:
        label: Name of the benchmark.
        rows: Name, size and speeds of each scene.
        forward: Whether the speed without gradients is required too.
    """
    requirements = []
    for name, size, speeds in rows:
        ratio = speeds.ratio_forward_backward
        if ratio is not None:
            least = SMALL_RATIOS.get(size, FORWARD_BACKWARD_RATIO)
            text = f"{label}: {name} with gradients at least {least:g} times Newton's graph"
            requirements.append(Requirement(text, f"{ratio:.2f}", ratio >= least))
        ratio = speeds.ratio_forward
        if forward and ratio is not None:
            text = f"{label}: {name} forward at least {FORWARD_RATIO:g} times Newton's graph"
            requirements.append(Requirement(text, f"{ratio:.2f}", ratio >= FORWARD_RATIO))
    return requirements


def format_thousands(forward: float | None, forward_backward: float | None) -> str:
    """Returns two speeds in thousands a second, for one cell of a table."""
    first, second = (None if speed is None else speed / 1e3 for speed in (forward, forward_backward))
    return format_pair(first, second, ".1f")
