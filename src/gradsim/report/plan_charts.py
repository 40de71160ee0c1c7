"""How a control was found, and what it says over time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gradsim.fit.plan import Iterate, Plan
from gradsim.report.charts import BAND, INK, LINE, MARK, bands, drawn

LINES = 6  # signals that can be told apart as lines
COLORS = (LINE, MARK, "#3f9b63", "#c98a1b", "#7a5ba6", BAND)
LEAST = 1e-30  # of what is shown on a logarithmic axis


def loss_chart(plan: Plan) -> str:
    """The loss of every iterate; stages, whose losses are of different kinds, are not joined."""

    def draw(axes: Any) -> None:
        for _, group in itertools.groupby(plan.history, key=lambda iterate: iterate.stage):
            _line(axes, [(iterate.number, max(iterate.loss, LEAST)) for iterate in group])
        axes.plot(plan.best.number, max(plan.best.loss, LEAST), "o", color=MARK, markersize=4)
        axes.set_yscale("log")

    return _over_iterates(plan.history, draw)


def watched_chart(plan: Plan) -> str:
    """What was watched at every iterate, on a logarithmic axis where it may stand on one."""
    pairs = [(iterate.number, iterate.metric) for iterate in plan.history if iterate.metric is not None]

    def draw(axes: Any) -> None:
        _line(axes, pairs)
        axes.plot(plan.best.number, plan.best.metric, "o", color=MARK, markersize=4)
        values = [value for _, value in pairs]
        if min(values) > 0 and max(values) > 8 * min(values):
            axes.set_yscale("log")

    return _over_iterates(plan.history, draw)


def _line(axes: Any, pairs: list[tuple[int, float]]) -> None:
    axes.plot(*zip(*pairs, strict=True), ".-", color=LINE, linewidth=1.4, markersize=3)


def _over_iterates(history: tuple[Iterate, ...], draw: Any) -> str:
    def over_iterates(axes: Any) -> None:
        bands(axes, [iterate.stage for iterate in history], history[0].number)
        draw(axes)
        first, last = history[0].number, history[-1].number
        axes.set_xlim(first - 0.5, max(first + 1, last) + 0.5)

    return drawn(over_iterates, across="iterate", whole=True)


def signal_charts(plan: Plan) -> list[tuple[str, str]]:
    """Titles and drawings of what each policy said: lines, or for many elements a map and their mean."""
    specs = {path: spec for path, _, spec in plan.scene.quantities()}
    found = []
    for path, values in plan.best.policy_outputs.items():
        array = values.numpy().reshape(len(values), -1)
        time = np.arange(len(array)) / plan.time.fps
        spec = specs.get(path)
        unit = f" [{spec.unit}]" if spec is not None and spec.unit not in ("", "1") else ""
        if array.shape[1] <= LINES:
            found.append((f"{path}{unit}", _lines(time, array)))
            continue
        each = spec.per if spec is not None and spec.per and not spec.shape else "value"
        found.append((f"{path}{unit} of each {each}, in the order they act", _map(time, array, each)))
        found.append((f"{path}{unit}: mean and root mean square", _means(time, array)))
    return found


def _lines(time: np.ndarray, array: np.ndarray) -> str:
    def draw(axes: Any) -> None:
        for k, line in enumerate(array.T):
            axes.plot(time, line, color=COLORS[k], linewidth=1.4, label=str(k))
        if array.shape[1] > 1:
            _legend(axes)

    return drawn(draw, across="time [s]")


def _means(time: np.ndarray, array: np.ndarray) -> str:
    def draw(axes: Any) -> None:
        axes.plot(time, array.mean(1), color=LINE, linewidth=1.4, label="mean")
        axes.plot(time, np.sqrt((array**2).mean(1)), color=MARK, linewidth=1.4, label="root mean square")
        _legend(axes)

    return drawn(draw, across="time [s]")


def _legend(axes: Any) -> None:
    """Above the lines, where it hides none."""
    axes.legend(fontsize=7, frameon=False, labelcolor=INK, ncols=LINES, loc="lower right", bbox_to_anchor=(1.0, 0.97))


def _map(time: np.ndarray, array: np.ndarray, each: str) -> str:
    most = max(float(np.abs(array).max()), LEAST)
    rows = array.T[_order(array)]
    extent = (float(time[0]), float(time[-1]), 0, len(rows))

    def draw(axes: Any) -> None:
        scale: Any = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "interpolation": "none"}
        shown = axes.imshow(rows, aspect="auto", origin="lower", extent=extent, **scale)
        axes.figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.02)
        axes.set_ylabel(f"{each}s")

    return drawn(draw, across="time [s]")


def _order(array: np.ndarray) -> np.ndarray:
    """Signals [K, N] by when they swing: round the circle of their first two principal components."""
    _, _, parts = np.linalg.svd(array - array.mean(0), full_matrices=False)
    return np.argsort(np.arctan2(parts[1], parts[0]), kind="stable")
