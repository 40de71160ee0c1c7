"""How a fit went: its cost, frames and values over the steps, drawn in the ink of the page."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gradsim.fit.observations import Pixels
from gradsim.fit.result import Fit, Stage
from gradsim.report.charts import BAND, INK, LINE, bands, drawn

COPIES = "bootstrap"  # stages that fit other videos


@dataclass(frozen=True)
class Reach:
    """Steps of one stage over the same frames and pictures."""

    stage: str
    frames: int
    size: str
    steps: int
    mean_square: float
    seconds: float


def reaches(fit: Fit) -> list[Reach]:
    """The history, steps of a kind taken together."""
    found = []
    for _, group in itertools.groupby(fit.history, key=lambda stage: (stage.name, stage.frames, stage.level)):
        steps = list(group)
        last = steps[-1]
        found.append(
            Reach(_stage(last), last.frames, _size(fit, last.level), len(steps), last.mean_square, last.seconds)
        )
    return found


def traces(fit: Fit) -> list[tuple[str, str]]:
    """Titles and drawings (SVG): the mean square, the frames, and each value."""
    history = [stage for stage in fit.history if not stage.name.startswith(COPIES)]
    if not history:
        return []
    steps = np.arange(1, len(history) + 1)
    found = [
        ("Mean square of a pixel's difference", _drawn(history, lambda axes: _cost(axes, steps, history))),
        ("Frames compared", _drawn(history, lambda axes: _horizon(axes, steps, history, fit))),
    ]
    for name, unit, value, low, high, _ in fit.rows():
        path, _, index = name.partition("[")
        scale = next(c.scale for c in fit.parameters.coordinates if c.path in (name, path))
        at = int(index.rstrip("]")) if index and path in history[0].values else None
        key = name if at is None else path
        line = [float(np.ravel(stage.values[key])[at or 0]) for stage in history]
        title = name if unit in ("", "1") else f"{name} [{unit}]"
        draw = partial(_value, steps=steps, line=line, ends=(value, low, high), scale=scale)
        found.append((title, _drawn(history, draw)))
    return found


def _cost(axes: Any, steps: np.ndarray, history: list[Stage]) -> None:
    axes.plot(steps, [max(stage.mean_square, 1e-30) for stage in history], color=LINE, linewidth=1.4)
    axes.set_yscale("log")


def _horizon(axes: Any, steps: np.ndarray, history: list[Stage], fit: Fit) -> None:
    axes.plot(steps, [stage.frames for stage in history], color=BAND, linewidth=1.0, drawstyle="steps-mid")
    levels = sorted({stage.level for stage in history}, reverse=True)
    for k, level in enumerate(levels):
        at = [n for n, stage in zip(steps, history, strict=True) if stage.level == level]
        shade = 0.25 + 0.75 * (k + 1) / len(levels)
        frames = [history[n - 1].frames for n in at]
        axes.plot(at, frames, "o", color=LINE, alpha=shade, markersize=3, linewidth=0, label=_size(fit, level))
    axes.set_ylim(0, 1.15 * max(stage.frames for stage in history))
    if len(levels) > 1:
        axes.legend(fontsize=7, frameon=False, labelcolor=INK, loc="lower right", handletextpad=0.1)


def _value(axes: Any, steps: np.ndarray, line: list[float], ends: tuple[float, float, float], scale: str) -> None:
    value, low, high = ends
    axes.axhspan(low, high, color=LINE, alpha=0.25, linewidth=0)
    axes.axhline(value, color=LINE, linewidth=0.6, linestyle="--")
    axes.plot(steps, line, color=LINE, linewidth=1.4)
    if scale == "log" and min(line) > 0 and max(line) > 8 * min(line):
        axes.set_yscale("log")


def _drawn(history: list[Stage], draw: Callable[[Any], None]) -> str:
    def over_steps(axes: Any) -> None:
        bands(axes, [_stage(stage) for stage in history])
        draw(axes)
        axes.set_xlim(0.5, max(1.5, len(history) + 0.5))

    return drawn(over_steps, across="step", whole=True)


def _stage(stage: Stage) -> str:
    return stage.name if stage.name.startswith(COPIES) else stage.name.partition(",")[0]


def _size(fit: Fit, level: int) -> str:
    observation = fit.trials[0].observation
    if not isinstance(observation, Pixels):
        return ""
    height, width = observation.sizes[max(0, observation.levels - 1 - level)]
    return f"{height} x {width}"
