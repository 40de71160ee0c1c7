"""Charts of a prepared recording: tracks and predicted tracks over time, and their residuals."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.footage.footage_view import FootageView
from gradsim.report.charts import BAND, INK, LINE, MARK, svg_chart
from gradsim.report.footage_overlay import PredictedTrack

AXES = ("x, to the right", "y, down")
NOT_DESCRIBED = 3.0  # spread over measurement errors from which on a coordinate hardly counts


def hardly_used(view: FootageView) -> tuple[bool, bool]:
    """Whether x and y hardly count in the fit, because the kind of motion does not describe them."""
    flags = _spread(view) > NOT_DESCRIBED * view.summary["motion"]["sigma_px"]
    return bool(flags[0]), bool(flags[1])


def _spread(view: FootageView) -> np.ndarray:
    return np.array(view.summary["motion"]["spread_px"])


def track_charts(view: FootageView, predicted: PredictedTrack) -> list[tuple[str, str]]:
    """Returns titles and charts (SVG) of both coordinates, and of predicted minus observed ones."""
    charts = []
    for axis, (name, unused) in enumerate(zip(AXES, hardly_used(view), strict=True)):
        charts.append((f"Centre, {name} [px]", _track_chart(view, predicted, axis)))
        mark = f": hardly used (± {_spread(view)[axis]:.3g} px), as the motion does not describe it" if unused else ""
        charts.append((f"Predicted minus observed, {name[0]} [px]{mark}", _residual_chart(view, predicted, axis)))
    return charts


def _track_chart(view: FootageView, predicted: PredictedTrack, axis: int) -> str:
    def draw(axes: Any) -> None:
        axes.plot(view.times, predicted.points[:, axis], color=LINE, linewidth=1.4, label="predicted")
        axes.plot(view.times, view.points[:, axis], ".", color=MARK, markersize=4, label="observed")
        if axis == 1:
            axes.invert_yaxis()
        axes.legend(fontsize=7, frameon=False, labelcolor=INK)

    return svg_chart(draw, x_label="time [s]")


def _residual_chart(view: FootageView, predicted: PredictedTrack, axis: int) -> str:
    residual, sd = predicted.points[:, axis] - view.points[:, axis], view.deviations[:, axis]

    def draw(axes: Any) -> None:
        label = "2 standard deviations"
        axes.fill_between(view.times, -2 * sd, 2 * sd, color=BAND, alpha=0.25, linewidth=0, label=label)
        axes.axhline(0.0, color=BAND, linewidth=0.8)
        axes.plot(view.times, residual, ".-", color=LINE, linewidth=0.8, markersize=4)
        if sd.min() > np.abs(residual).max():  # the band would hide the residuals
            reach = 1.2 * float(np.abs(residual).max())
            axes.set_ylim(-reach, reach)
        axes.legend(fontsize=7, frameon=False, labelcolor=INK, loc="upper right")

    return svg_chart(draw, x_label="time [s]")
