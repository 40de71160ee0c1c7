"""A plot of convergence: mean and range over seeds, with published results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput

COLORS = ("#2e86ab", "#3f9b63", "#8895a5", "#d1495b")
SMALLEST = 1e-16  # value shown on the logarithmic axis


def save_convergence(
    path: Path,
    title: str,
    curves: Mapping[str, Sequence[Sequence[float]]],
    published: Mapping[str, Mapping[int, float]],
) -> None:
    """Plots errors over iterates and saves the plot, atomically.

    Args:
        path: .png, .svg or .pdf.
        title: Of the plot.
        curves: Errors at the iterates by method, one list per search. A search that ends early keeps its last error.
        published: Published errors by iteration, by method. A method has the same colour in both.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    color = dict(zip(dict.fromkeys([*curves, *published]), COLORS, strict=False))
    for method, searches in curves.items():
        errors = _padded(searches)
        steps = np.arange(errors.shape[1])
        count = f", mean of {len(errors)}" if len(errors) > 1 else ""
        axes.plot(steps, errors.mean(0), color=color[method], linewidth=1.8, label=f"{method}{count}")
        axes.fill_between(steps, errors.min(0), errors.max(0), color=color[method], alpha=0.18, linewidth=0)
    for method, points in published.items():
        steps, values = np.array(sorted(points.items())).T
        axes.plot(steps, values, "o--", color=color[method], linewidth=1.0, markersize=4, label=f"{method}, paper")
    axes.set_yscale("log")
    axes.set_xlabel("iterate")
    axes.set_ylabel("error")
    axes.set_title(title)
    axes.grid(alpha=0.25)
    axes.legend()
    write_atomically(path, lambda target: figure.savefig(target), InvalidInput)


def _padded(searches: Sequence[Sequence[float]]) -> np.ndarray:
    """Returns errors [searches, iterates]; shorter searches are padded with their last error."""
    longest = max(map(len, searches))
    return np.array([np.maximum(np.abs([*s, *[s[-1]] * (longest - len(s))]), SMALLEST) for s in searches])
