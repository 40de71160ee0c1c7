"""The sections of the report of an estimate, as HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import torch

from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.result import Fit
from gradsim.fit.uncertainty import Identifiability
from gradsim.report.comparison import Comparison, comparison_video
from gradsim.report.fit_charts import StageSummary, fit_charts, stage_summaries
from gradsim.report.html import (
    chart_grid,
    image_element,
    number_cell,
    panel_figure,
    player_section,
    section,
    table_head,
    verdict_box,
    video_element,
)
from gradsim.report.summary_text import (
    TONES,
    fit_findings,
    fit_summary,
    relative_half_width,
    round_to_interval,
    scatter_rows,
    search_text,
    shared_rows,
    short,
)

MAX_VIDEOS = 4  # trials whose videos are shown
MAX_NAMES = 16  # values in the table of correlations


def verdict(fit: Fit) -> str:
    """The status and advice."""
    return verdict_box(*fit_summary(fit))


def values(fit: Fit, truth: Mapping[str, float]) -> str:
    """The table of estimated values."""
    heads = ["parameter", *(["true value"] if truth else []), "value", "95 % interval", "half width", "unit", "verdict"]
    head = table_head(heads, ("true value", "value", "95 % interval", "half width"))
    guesses = {c.path: c for c in fit.parameters.unknowns}
    rows = []
    for name, unit, value, low, high, judged in [*shared_rows(fit), *scatter_rows(fit)]:
        shown, least, most = round_to_interval(value, low, high)
        guess = guesses.get(name)
        prior = "" if guess is None else f'<span class="small">{escape(_guess_text(guess))}</span>'
        cells = [
            f'<td class="name">{escape(name)}{prior}</td>',
            *([_true_value_cell(truth.get(name), low, high)] if truth else []),
            number_cell("value", f'<span class="value">{shown}</span>'),
            number_cell("95 % interval", f"{least} – {most}"),
            number_cell("half width", relative_half_width(value, low, high)),
            f'<td data-label="unit">{escape(unit if unit not in ("", "1") else "–")}</td>',
            _verdict_cell(judged),
        ]
        rows.append(f"<tr>{''.join(cells)}</tr>")
    noise = f"Standard deviation of the residuals: {fit.noise:.2g}{_noise_unit(fit)}."
    own = (
        " Values that each trial has of its own are listed under Trials."
        if fit.scatter or len(rows) < len(fit.rows())
        else ""
    )
    note = f"Intervals from {fit.interval_method}. {noise} {search_text(fit)}{own}"
    return section(
        "Estimated values",
        f'<table class="cards">{head}<tbody>{"".join(rows)}</tbody></table>'
        f'<p class="note">{escape(note)}</p>{_alternatives(fit)}',
    )


def _noise_unit(fit: Fit) -> str:
    """Returns the unit of the residuals after a space; nothing if they have several."""
    observed = fit.trials[0].observations
    units = {own.unit for own in observed}
    if isinstance(observed[0], Pixels):
        return " of full scale"
    return f" {units.pop()}" if len(units) == 1 and units.isdisjoint(("", "1")) else ""


def _true_value_cell(true: float | None, low: float, high: float) -> str:
    if true is None:
        return number_cell("true value", "")
    side = "inside" if low <= true <= high else "outside"
    return number_cell("true value", f'<div>{true:.6g}<span class="small">{side} the interval</span></div>')


def _verdict_cell(judged: Identifiability) -> str:
    reason = f'<span class="small reason">{escape(judged.reason)}</span>' if judged.reason else ""
    chip = f'<span class="chip {TONES.get(judged.level, "caution")}">{escape(judged.level)}</span>'
    return f'<td data-label="verdict"><div>{chip}{reason}</div></td>'


def _guess_text(unknown: ScaledUnknown) -> str:
    text = f"guess {short(unknown.guess)}"
    bounds = [x.item() if x.numel() == 1 else None for x in (unknown.low, unknown.high)]
    if None not in bounds and all(abs(float(x or 0.0)) != float("inf") for x in bounds):
        text += f", bounds {short(bounds[0])} to {short(bounds[1])}"
    return text


def _alternatives(fit: Fit) -> str:
    """The table of other values that explain the observation as well."""
    if not fit.alternative_minima:
        return ""
    paths = list(fit.alternative_minima[0])
    head = "".join(f'<th class="number">{escape(path)}</th>' for path in paths)
    rows = "".join(
        "<tr>" + "".join(number_cell(path, short(values[path])) for path in paths) + "</tr>"
        for values in fit.alternative_minima
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h3>Alternative values that fit equally well</h3><div class="wide">{table}</div>'


def videos(fit: Fit) -> str:
    """The observed and the fitted video and their difference, side by side, for the first trials and the outliers."""
    order = sorted(range(len(fit.trials)), key=lambda k: fit.trials[k].name not in fit.outliers)
    figures = []
    for k in sorted(order[:MAX_VIDEOS]):
        comparison = comparison_video(fit.trials[k], fit.trial_values(k))
        if comparison is not None:
            title = f"<h3>{escape(fit.trials[k].name)}</h3>" if len(fit.trials) > 1 else ""
            figures.append(f"{title}{_video_figures(comparison)}")
    if not figures:
        return ""
    hidden = len(fit.trials) - MAX_VIDEOS
    note = f'<p class="note">{hidden} further trials are not shown.</p>' if hidden > 0 else ""
    return section("Observed and fitted video", f"{''.join(figures)}{note}")


def _video_figures(comparison: Comparison) -> str:
    video = video_element(comparison.video, comparison.poster, comparison.height, comparison.width)
    strip = image_element(comparison.strip, *comparison.strip_size, "differences at a few frames")
    caption = f"{comparison.labels[-1].capitalize()} over time. A right scene leaves noise without a pattern."
    return panel_figure(comparison.labels, video, comparison.caption) + panel_figure(
        comparison.strip_labels, strip, caption
    )


def motion(fit: Fit) -> str:
    """The fitted motion of the first trial, in three dimensions."""
    with torch.no_grad():
        scene, trajectory = fit.trials[0].simulate(fit.trial_values(0))
    note = f"Trial {fit.trials[0].name}." if len(fit.trials) > 1 else ""
    return player_section("Fitted motion in 3D", scene, trajectory, note)


def identifiability(fit: Fit) -> str:
    """Which values the observation determines, and the correlation of the estimates."""
    items = "".join(f"<li>{escape(text)}</li>" for text in fit_findings(fit))
    content = f"<div><ul>{items}</ul></div>"
    if 1 < len(fit.identifiability) <= MAX_NAMES:
        heat = f'<div class="wide"><h3>Correlation of the estimates</h3>{_correlation_table(fit)}</div>'
        content = f'<div class="columns">{content}{heat}</div>'
    return section("Identifiability", content)


def _correlation_table(fit: Fit) -> str:
    names = [name for name in fit.parameters.names if name in fit.identifiability]  # without errors of the scene
    index = [fit.parameters.names.index(name) for name in names]
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in names)
    rows = []
    for name, row in zip(names, fit.correlation[index][:, index].tolist(), strict=True):
        cells = "".join(f'<td style="background: {_shade(r)}">{round(r, 2) + 0.0:.2f}</td>' for r in row)
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _shade(r: float) -> str:
    """Blue for positive correlations, red for negative ones."""
    color = "46, 134, 171" if r > 0 else "209, 73, 91"
    return f"rgba({color}, {0.75 * min(1.0, abs(r)):.2f})"


def convergence(fit: Fit) -> str:
    """Charts over the iterations, and the table of stages."""
    if not fit.history:
        return ""
    rows = "".join(_stage_row(summary) for summary in stage_summaries(fit))
    heads = ("stage", "frames", "resolution", "iterations", "mean squared residual", "time")
    head = table_head(heads, heads[1:])
    return section(
        "Convergence",
        "<p>The search proceeds from coarse to fine images, and from the first frames to all of them. Finer images "
        "contain more noise. Grey bands separate the stages; the blue band is the 95 % interval of the estimate.</p>"
        f"{chart_grid(fit_charts(fit))}"
        f'<details><summary>All stages</summary><div class="wide"><table>{head}'
        f"<tbody>{rows}</tbody></table></div></details>",
    )


def _stage_row(summary: StageSummary) -> str:
    residual, time = f"{summary.mean_square:.3g}", f"{summary.seconds:.1f} s"
    cells = (str(summary.frames or ""), summary.resolution, str(summary.iterations), residual, time)
    return f"<tr><td>{escape(summary.stage)}</td>{''.join(number_cell('', cell) for cell in cells)}</tr>"
