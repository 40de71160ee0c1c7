"""Charts of a fit over its iterations: residual, frames and values."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.result import Fit, FitStep
from gradsim.report.charts import BAND, INK, LINE, stage_bands, svg_chart

BOOTSTRAP = "bootstrap"  # prefix of the stages that fit copies of the video
MAX_CHARTS = 24  # values whose course is drawn


@dataclass(frozen=True)
class StageSummary:
    """Consecutive iterations of one stage with the same frames and resolution."""

    stage: str
    frames: int
    resolution: str
    iterations: int
    mean_square: float
    seconds: float


def stage_summaries(fit: Fit) -> list[StageSummary]:
    """Groups the history of a fit by stage, frames and resolution."""
    summaries = []
    for _, group in itertools.groupby(fit.history, key=lambda stage: (stage.name, stage.frames, stage.level)):
        steps = list(group)
        last = steps[-1]
        size = _resolution(fit, last.level)
        summaries.append(StageSummary(_short_name(last), last.frames, size, len(steps), last.mean_square, last.seconds))
    return summaries


def fit_charts(fit: Fit) -> list[tuple[str, str]]:
    """Returns titles and charts (SVG) of the mean squared residual, the frames and each value."""
    history = [stage for stage in fit.history if not stage.name.startswith(BOOTSTRAP)]
    if not history:
        return []
    steps = np.arange(1, len(history) + 1)
    charts = [
        ("Mean squared residual", _chart(history, lambda axes: _draw_residual(axes, steps, history))),
        ("Frames compared", _chart(history, lambda axes: _draw_frames(axes, steps, history, fit))),
    ]
    for name, unit, value, low, high, _ in fit.rows()[:MAX_CHARTS]:
        path, _, index = name.partition("[")
        scale = next(c.scale for c in fit.parameters.unknowns if c.path in (name, path))
        at = int(index.rstrip("]")) if index and path in history[0].values else None
        key = name if at is None else path
        line = [float(np.ravel(stage.values[key])[at or 0]) for stage in history]
        title = name if unit in ("", "1") else f"{name} [{unit}]"
        draw = partial(_draw_value, steps=steps, line=line, estimate=(value, low, high), scale=scale)
        charts.append((title, _chart(history, draw)))
    return charts


def _draw_residual(axes: Any, steps: np.ndarray, history: list[FitStep]) -> None:
    axes.plot(steps, [max(stage.mean_square, 1e-30) for stage in history], color=LINE, linewidth=1.4)
    axes.set_yscale("log")


def _draw_frames(axes: Any, steps: np.ndarray, history: list[FitStep], fit: Fit) -> None:
    axes.plot(steps, [stage.frames for stage in history], color=BAND, linewidth=1.0, drawstyle="steps-mid")
    levels = sorted({stage.level for stage in history}, reverse=True)
    for k, level in enumerate(levels):
        at = [n for n, stage in zip(steps, history, strict=True) if stage.level == level]
        alpha = 0.25 + 0.75 * (k + 1) / len(levels)
        frames = [history[n - 1].frames for n in at]
        label = _resolution(fit, level)
        axes.plot(at, frames, "o", color=LINE, alpha=alpha, markersize=3, linewidth=0, label=label)
    axes.set_ylim(0, 1.15 * max(stage.frames for stage in history))
    if len(levels) > 1:
        axes.legend(fontsize=7, frameon=False, labelcolor=INK, loc="lower right", handletextpad=0.1)


def _draw_value(
    axes: Any, steps: np.ndarray, line: list[float], estimate: tuple[float, float, float], scale: str
) -> None:
    value, low, high = estimate
    axes.axhspan(low, high, color=LINE, alpha=0.25, linewidth=0)
    axes.axhline(value, color=LINE, linewidth=0.6, linestyle="--")
    axes.plot(steps, line, color=LINE, linewidth=1.4)
    if scale == "log" and min(line) > 0 and max(line) > 8 * min(line):
        axes.set_yscale("log")


def _chart(history: list[FitStep], draw: Callable[[Any], None]) -> str:
    def draw_over_iterations(axes: Any) -> None:
        stage_bands(axes, [_short_name(stage) for stage in history])
        draw(axes)
        axes.set_xlim(0.5, max(1.5, len(history) + 0.5))

    return svg_chart(draw_over_iterations, x_label="iteration", integer_ticks=True)


def _short_name(stage: FitStep) -> str:
    """Returns the name of a stage without its number of frames."""
    return stage.name if stage.name.startswith(BOOTSTRAP) else stage.name.partition(",")[0]


def _resolution(fit: Fit, level: int) -> str:
    observation = fit.trials[0].observations[0]
    if not isinstance(observation, Pixels):
        return ""
    height, width = observation.sizes[max(0, observation.levels - 1 - level)]
    return f"{height} x {width}"
