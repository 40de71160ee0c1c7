"""Charts of a plan: loss over iterates, and control signals over time."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gradsim.fit.plan import Iterate, Plan
from gradsim.report.charts import BAND, INK, LINE, MARK, stage_bands, svg_chart

MAX_LINES = 6  # signals drawn as separate lines
COLORS = (LINE, MARK, "#3f9b63", "#c98a1b", "#7a5ba6", BAND)
SMALLEST = 1e-30  # value shown on a logarithmic axis


def loss_chart(plan: Plan) -> str:
    """Returns a chart of the loss at every iterate. Lines end with each stage, because stages have different losses."""

    def draw(axes: Any) -> None:
        for _, group in itertools.groupby(plan.history, key=lambda iterate: iterate.stage):
            _draw_line(axes, [(iterate.number, max(iterate.loss, SMALLEST)) for iterate in group])
        axes.plot(plan.best.number, max(plan.best.loss, SMALLEST), "o", color=MARK, markersize=4)
        axes.set_yscale("log")

    return _over_iterates(plan.history, draw)


def watched_chart(plan: Plan) -> str:
    """Returns a chart of the metric at every iterate, logarithmic if it is positive and its range is wide."""
    pairs = [(iterate.number, iterate.metric) for iterate in plan.history if iterate.metric is not None]

    def draw(axes: Any) -> None:
        _draw_line(axes, pairs)
        axes.plot(plan.best.number, plan.best.metric, "o", color=MARK, markersize=4)
        values = [value for _, value in pairs]
        if min(values) > 0 and max(values) > 8 * min(values):
            axes.set_yscale("log")

    return _over_iterates(plan.history, draw)


def _draw_line(axes: Any, pairs: list[tuple[int, float]]) -> None:
    axes.plot(*zip(*pairs, strict=True), ".-", color=LINE, linewidth=1.4, markersize=3)


def _over_iterates(history: tuple[Iterate, ...], draw: Any) -> str:
    def draw_over_iterates(axes: Any) -> None:
        stage_bands(axes, [iterate.stage for iterate in history], history[0].number)
        draw(axes)
        first, last = history[0].number, history[-1].number
        axes.set_xlim(first - 0.5, max(first + 1, last) + 0.5)

    return svg_chart(draw_over_iterates, x_label="iterate", integer_ticks=True)


def signal_charts(plan: Plan) -> list[tuple[str, str]]:
    """Returns titles and charts of the control signals: lines, or for many elements a map, and mean and RMS."""
    specs = {path: spec for path, _, spec in plan.scene.quantities()}
    charts = []
    for path, values in plan.best.policy_outputs.items():
        array = values.numpy().reshape(len(values), -1)
        time = np.arange(len(array)) / plan.time.fps
        spec = specs.get(path)
        unit = f" [{spec.unit}]" if spec is not None and spec.unit not in ("", "1") else ""
        if array.shape[1] <= MAX_LINES:
            charts.append((f"{path}{unit}", _line_chart(time, array)))
            continue
        element = spec.per if spec is not None and spec.per and not spec.shape else "value"
        charts.append((f"{path}{unit} of each {element}, sorted by phase", _map_chart(time, array, element)))
        charts.append((f"{path}{unit}: mean and RMS", _mean_chart(time, array)))
    return charts


def _line_chart(time: np.ndarray, array: np.ndarray) -> str:
    def draw(axes: Any) -> None:
        for k, line in enumerate(array.T):
            axes.plot(time, line, color=COLORS[k], linewidth=1.4, label=str(k))
        if array.shape[1] > 1:
            _add_legend(axes)

    return svg_chart(draw, x_label="time [s]")


def _mean_chart(time: np.ndarray, array: np.ndarray) -> str:
    def draw(axes: Any) -> None:
        axes.plot(time, array.mean(1), color=LINE, linewidth=1.4, label="mean")
        axes.plot(time, np.sqrt((array**2).mean(1)), color=MARK, linewidth=1.4, label="RMS")
        _add_legend(axes)

    return svg_chart(draw, x_label="time [s]")


def _add_legend(axes: Any) -> None:
    """Puts a legend above the axes, where it covers no line."""
    position: Any = {"ncols": MAX_LINES, "loc": "lower right", "bbox_to_anchor": (1.0, 0.97)}
    axes.legend(fontsize=7, frameon=False, labelcolor=INK, **position)


def _map_chart(time: np.ndarray, array: np.ndarray, element: str) -> str:
    limit = max(float(np.abs(array).max()), SMALLEST)
    rows = array.T[_phase_order(array)]
    extent = (float(time[0]), float(time[-1]), 0, len(rows))

    def draw(axes: Any) -> None:
        scale: Any = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "interpolation": "none"}
        image = axes.imshow(rows, aspect="auto", origin="lower", extent=extent, **scale)
        axes.figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02)
        axes.set_ylabel(f"{element}s")

    return svg_chart(draw, x_label="time [s]")


def _phase_order(array: np.ndarray) -> np.ndarray:
    """Returns the order of signals [K, N] by phase, the angle in the plane of their first two principal components."""
    _, _, components = np.linalg.svd(array - array.mean(0), full_matrices=False)
    return np.argsort(np.arctan2(components[1], components[0]), kind="stable")
