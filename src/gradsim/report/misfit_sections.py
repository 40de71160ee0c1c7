"""Sections of the report of an estimate about misfit, intervals, priors and trials, as HTML."""

from __future__ import annotations

import math
from html import escape

from gradsim.fit.result import Fit
from gradsim.report.html import chart_grid, number_cell, section, table_head
from gradsim.report.misfit_charts import PriorRow, misfit_charts, prior_chart, prior_rows
from gradsim.report.misfit_text import Test, holdout_text, interval_sources, misfit_tests, noise_text
from gradsim.report.summary_text import TONES, round_to_interval, shared_rows

MAX_ROWS = 24  # of a table


def misfit(fit: Fit) -> str:
    """The tests of whether the scene explains the observations, likely causes, and residuals over time."""
    tests = "".join(_test_row(test) for test in misfit_tests(fit.misfit))
    head = table_head(("test", "measured", "limit", ""), ("measured", "limit"))
    note = f'<p class="note">{escape(noise_text(fit))}</p>' if noise_text(fit) else ""
    return section(
        "Does the scene explain the observations?",
        f'<div class="columns"><div class="wide"><table>{head}<tbody>{tests}</tbody></table>{note}</div>'
        f"<div>{chart_grid(misfit_charts(fit))}{_causes(fit)}</div></div>",
    )


def _test_row(test: Test) -> str:
    words = {True: ("good", "passed"), False: ("bad", "failed"), None: ("", "does not apply")}
    tone, word = words[test.passed]
    chip = f'<span class="chip {tone}">{word}</span>' if tone else f'<span class="small">{word}</span>'
    cells = number_cell("measured", escape(test.value)) + number_cell("limit", escape(test.limit))
    return f"<tr><td>{escape(test.name)}</td>{cells}<td>{chip}</td></tr>"


def _causes(fit: Fit) -> str:
    """The corrections that were made, and the small errors of the scene that would explain most of the rest."""
    text = ""
    if fit.misfit.corrections:
        items = "".join(f"<li>{escape(item)}</li>" for item in fit.misfit.corrections)
        text += f"<h3>Estimated corrections of the scene</h3><ul>{items}</ul>"
    if fit.misfit.causes and not fit.misfit.nonsense:
        items = "".join(f"<li>{escape(str(cause))}</li>" for cause in fit.misfit.causes)
        text += f"<h3>Likely errors of the scene, each alone</h3><ul>{items}</ul>"
    holdout = holdout_text(fit)
    return text + (f"<h3>First and last frames</h3><p>{escape(holdout)}</p>" if holdout else "")


def intervals(fit: Fit) -> str:
    """What the intervals contain, and how much wider they are than for independent noise alone."""
    items = "".join(f"<li>{escape(text)}</li>" for text in interval_sources(fit))
    return section("What the intervals contain", f'<ul>{items}</ul><div class="wide">{_widths(fit)}</div>')


def _widths(fit: Fit) -> str:
    """The table of half widths from independent noise alone and in all."""
    if fit.plain_deviation is None:
        return ""
    rows: list[str] = []
    pairs = zip(fit.parameters.names, fit.plain_deviation.tolist(), fit.standard_deviation.tolist(), strict=True)
    ratios = {name: total / plain for name, plain, total in pairs if plain > 0}
    for name, unit, _, low, high, _ in shared_rows(fit):
        if name in ratios and math.isfinite(high - low) and len(rows) < MAX_ROWS:
            half, ratio = (high - low) / 2, ratios[name]
            unit = "" if unit in ("", "1") else f" {unit}"
            cells = (f"{half / ratio:.2g}{unit}", f"{half:.2g}{unit}", f"{ratio:.3g}")
            rows.append(f"<tr><td>{escape(name)}</td>{''.join(number_cell('', cell) for cell in cells)}</tr>")
    heads = ("half width of", "independent noise only", "in all", "ratio")
    return f"<table>{table_head(heads, heads[1:])}<tbody>{''.join(rows)}</tbody></table>" if rows else ""


def priors(fit: Fit) -> str:
    """Prior against posterior of the unknowns with a prior and of the estimated errors of the scene."""
    rows = prior_rows(fit)
    if not rows:
        return ""
    heads = ("", "prior, 95 %", "posterior, 95 %", "width")
    head = table_head(heads, ("prior, 95 %", "posterior, 95 %", "width"))
    body = "".join(_prior_row(row) for row in rows[:MAX_ROWS])
    return section(
        "Prior and posterior",
        "<p>Unknowns with a prior, and errors of the scene that are estimated along with them, whose prior is zero "
        "within a typical size. The last column is the width of the posterior relative to the prior: at 100 % the "
        "observations add nothing. A posterior outside its prior contradicts it.</p>"
        f'<div class="columns"><div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'
        f"{chart_grid([('Posterior in standard deviations of the prior', prior_chart(rows))])}</div>",
    )


def _prior_row(row: PriorRow) -> str:
    prior = f"{row.prior[0]:.3g} – {row.prior[1]:.3g}"
    _, low, high = round_to_interval(sum(row.posterior) / 2, *row.posterior)
    name = row.name if row.unit in ("", "1") else f"{row.name} [{row.unit}]"
    cells = (prior, f"{low} – {high}", f"{100 * row.sd:.2g} %")
    return f"<tr><td>{escape(name)}</td>{''.join(number_cell('', cell) for cell in cells)}</tr>"


def trials(fit: Fit) -> str:
    """A table of the trials: residuals, outliers and values of their own; and the scatter of values between them."""
    if len(fit.trials) < 2:
        return ""
    table = _trial_values(fit)
    columns = list(dict.fromkeys(name for values in table.values() for name in values))
    heads = ("trial", "frames", "chi²", *columns)
    rows = []
    for trial in fit.trials:
        outlier = fit.outliers.get(trial.name)
        note = f'<span class="small">outlier: {outlier:.1f} times the median residual</span>' if outlier else ""
        cells = [number_cell("frames", str(trial.frames)), number_cell("chi²", f"{fit.misfit.trials[trial.name]:.3g}")]
        cells += [number_cell(name, table.get(trial.name, {}).get(name, "")) for name in columns]
        rows.append(f'<tr><td class="name">{escape(trial.name)}{note}</td>{"".join(cells)}</tr>')
    content = f'<div class="wide"><table>{table_head(heads, heads[1:])}<tbody>{"".join(rows)}</tbody></table></div>'
    return section("Trials", f"{_scatter(fit)}{content}{_outlier_note(fit)}")


def _trial_values(fit: Fit) -> dict[str, dict[str, str]]:
    """Values with half widths of the unknowns that each trial has of its own, by trial and by name."""
    places = {unknown.path: unknown.trial for unknown in fit.parameters.unknowns if unknown.trial is not None}
    found: dict[str, dict[str, str]] = {}
    for name, unit, value, low, high, judged in fit.rows():
        path = next((path for path in places if name == path or name.startswith(path + "[")), None)
        if path is None:
            continue
        number = places[path]
        assert number is not None
        base = path.rsplit("@", 1)[0] + name[len(path) :] + (f" [{unit}]" if unit not in ("", "1") else "")
        shown, least, most = round_to_interval(value, low, high)
        chip = "" if judged.level == "identifiable" else f'<span class="small">{escape(judged.level)}</span>'
        tone = TONES.get(judged.level, "caution")
        found.setdefault(fit.trials[number].name, {})[base] = (
            f'<div class="{tone}">{shown}<span class="small">{least} – {most}</span>{chip}</div>'
        )
    return found


def _scatter(fit: Fit) -> str:
    """Mean and standard deviation of the values that vary between trials."""
    items = []
    for path, item in fit.scatter.items():
        mean, low, high = round_to_interval(item.mean, item.mean_low, item.mean_high)
        unit = "" if item.unit in ("", "1") else f" {item.unit}"
        items.append(
            f"<li>{escape(path)} varies between trials: mean {mean}{unit}, 95 % interval {low} – {high}; standard "
            f"deviation between trials {item.sd:.2g}{unit}, without the uncertainty of each trial.</li>"
        )
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _outlier_note(fit: Fit) -> str:
    if not fit.outliers:
        return ""
    return (
        '<p class="note">Outliers have residuals far above those of the median trial. Look at their recordings: a body '
        "that was touched, a wrong start, a lost marker. A robust loss limits their weight; leave them out if they are "
        "faulty.</p>"
    )
