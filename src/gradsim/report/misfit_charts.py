"""Charts of residuals over time, and of posteriors against priors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.images import ImageObservation
from gradsim.fit.result import Fit
from gradsim.fit.student import NORMAL_95
from gradsim.report.charts import BAND, INK, LINE, MARK, svg_chart

MAX_LINES = 12  # entries of a frame that are drawn
MAX_BARS = 12  # unknowns in the chart of priors
LOG_RANGE = 5.0  # ratio of chi^2 to its limit above which the axis is logarithmic


@dataclass(frozen=True)
class PriorRow:
    """Prior and posterior of one value."""

    name: str
    unit: str
    prior: tuple[float, float]  # ends of the 95 % interval
    posterior: tuple[float, float]
    shift: float  # of the posterior, in standard deviations of the prior
    sd: float  # of the posterior, in the same unit


def misfit_charts(fit: Fit) -> list[tuple[str, str]]:
    """Returns titles and charts (SVG) of the residuals of the first trial over time."""
    trial = fit.trials[0]
    of = f", {trial.name}" if len(fit.trials) > 1 else ""
    charts = []
    if fit.misfit.frames:
        title = f"Squared residual over noise variance, by frame{of}"
        charts.append((title, svg_chart(lambda axes: _draw_frames(axes, fit), x_label="frame", integer_ticks=True)))
    return charts + _series_charts(fit, of)


def _draw_frames(axes: Any, fit: Fit) -> None:
    """Draws chi^2 of the frames; 1 is the noise, the dashed line the limit of the mean."""
    values, limit = np.array(fit.misfit.frames), fit.misfit.chi2_limit
    axes.bar(np.arange(len(values)), values, color=LINE, width=0.8)
    axes.axhline(1.0, color=BAND, linewidth=0.8)
    axes.axhline(limit, color=MARK, linewidth=0.8, linestyle="--", label=f"limit of the mean, {limit:.3g}")
    if values.max() > LOG_RANGE * limit:
        axes.set_yscale("log")
    else:
        axes.set_ylim(0.0, 1.2 * max(values.max(), limit))
    axes.legend(fontsize=7, frameon=False, labelcolor=INK, loc="upper right")


def _series_charts(fit: Fit, of: str) -> list[tuple[str, str]]:
    """Charts of the residuals of the first trial's tracks and states, by kind of entry."""
    trial, values = fit.trials[0], fit.trial_values(0)
    with torch.no_grad():
        scene = trial.fill(values)
        trajectory = trial.simulate_grid(scene)
        series = [
            (item, trial.difference(scene, trajectory, values, number, 0))
            for number, item in enumerate(trial.observations)
            if not isinstance(item, ImageObservation)
        ]
    return [chart for item, difference in series for chart in _group_charts(item, difference, of)]


def _group_charts(item: Observation, difference: torch.Tensor, of: str) -> list[tuple[str, str]]:
    charts = []
    for name, index in item.groups():
        lines = difference[:, index].numpy()
        chosen = np.linspace(0, lines.shape[1] - 1, min(MAX_LINES, lines.shape[1])).round().astype(int)
        some = f", {len(chosen)} of {lines.shape[1]} entries" if len(chosen) < lines.shape[1] else ""
        title = f"Fitted minus observed {name} [{item.group_unit(name)}]{of}{some}"
        charts.append((title, _line_chart(lines[:, chosen])))
    return charts


def _line_chart(lines: np.ndarray) -> str:
    def draw(axes: Any) -> None:
        axes.axhline(0.0, color=BAND, linewidth=0.8)
        axes.plot(lines, linewidth=1.0, alpha=0.8)

    return svg_chart(draw, x_label="frame", integer_ticks=True)


def prior_rows(fit: Fit) -> list[PriorRow]:
    """Returns prior and posterior of every value that has a prior; errors of the scene last."""
    rows = []
    for unknown, part in fit.parameters.items():
        if unknown.scale == "rotation" or not bool(torch.isfinite(unknown.prior_sd).all()):
            continue
        mean, spread = unknown.prior_mean, unknown.prior_sd
        z, deviation = fit.coordinates[part], fit.standard_deviation[part]
        low, high = unknown.bounds()
        ends = [
            mean - NORMAL_95 * spread,
            mean + NORMAL_95 * spread,
            z - NORMAL_95 * deviation,
            z + NORMAL_95 * deviation,
        ]
        values = [unknown.to_value(end.clamp(low, high)).reshape(-1).tolist() for end in ends]
        for k in range(unknown.size):
            name = unknown.path if unknown.size == 1 else f"{unknown.path}[{k}]"
            prior, posterior = (values[0][k], values[1][k]), (values[2][k], values[3][k])
            shift, sd = float((z - mean)[k] / spread[k]), float(deviation[k] / spread[k])
            rows.append(PriorRow(name, unknown.unit, prior, posterior, shift, sd))
    return rows


def prior_chart(rows: Sequence[PriorRow]) -> str:
    """Returns a chart of the 95 % intervals of the posteriors, in standard deviations of their priors."""
    shown = list(rows[:MAX_BARS])

    def draw(axes: Any) -> None:
        at = np.arange(len(shown))[::-1]
        axes.axvspan(-NORMAL_95, NORMAL_95, color=BAND, alpha=0.25, linewidth=0)
        axes.axvline(0.0, color=BAND, linewidth=0.8)
        axes.errorbar(
            [row.shift for row in shown],
            at,
            xerr=[NORMAL_95 * row.sd for row in shown],
            fmt="o",
            color=LINE,
            markersize=3,
        )
        axes.set_yticks(at, [row.name for row in shown])
        axes.set_ylim(-0.7, len(shown) - 0.3)

    return svg_chart(draw, x_label="distance from the prior's mean")
