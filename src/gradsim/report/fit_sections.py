"""The parts of the report of an estimate, each a piece of HTML."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from gradsim.fit.result import Fit
from gradsim.report.compared import Comparison, compared
from gradsim.report.html import head_row, number, panels, plots, section, verdict_box, video
from gradsim.report.traces import Reach, reaches, traces
from gradsim.report.words import TONES, findings, rounded, share, short, starts, summary


def verdict(fit: Fit) -> str:
    """Status and advice in plain words."""
    return verdict_box(*summary(fit))


def values(fit: Fit, truth: Mapping[str, float]) -> str:
    """The table of what was found."""
    heads = ["parameter", *(["true value"] if truth else []), "value", "95 % interval", "half width", "unit", "verdict"]
    head = head_row(heads, ("true value", "value", "95 % interval", "half width"))
    guesses = {c.path: c for c in fit.parameters.coordinates}
    rows = []
    for name, unit, value, low, high, word in fit.rows():
        shown, least, most = rounded(value, low, high)
        guess = guesses.get(name)
        began = "" if guess is None else f'<span class="small">{escape(_began(guess))}</span>'
        cells = [f'<td class="name">{escape(name)}{began}</td>']
        if truth:
            true = truth.get(name)
            inside = "" if true is None else "inside" if low <= true <= high else "outside"
            mark = f'<span class="small">{inside} the interval</span>' if inside else ""
            cells.append(number("true value", "" if true is None else f"<div>{true:.6g}{mark}</div>"))
        cells.append(number("value", f'<span class="value">{shown}</span>'))
        cells.append(number("95 % interval", f"{least} – {most}"))
        cells.append(number("half width", share(value, low, high)))
        cells.append(f'<td data-label="unit">{escape(unit if unit not in ("", "1") else "–")}</td>')
        reason = f'<span class="small reason">{escape(word.reason)}</span>' if word.reason else ""
        chip = f'<span class="chip {TONES.get(word.word, "doubt")}">{escape(word.word)}</span>'
        cells.append(f'<td data-label="verdict"><div>{chip}{reason}</div></td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    how = f"Intervals from {fit.method}. Standard deviation of a pixel's difference: {fit.noise:.2g} of full scale."
    return section(
        "What was found",
        f'<table class="cards">{head}<tbody>{"".join(rows)}</tbody></table>'
        f'<p class="note">{escape(how)} {escape(starts(fit))}</p>{_rivals(fit)}',
    )


def _began(c: object) -> str:
    guess, low, high = (getattr(c, name) for name in ("guess", "low", "high"))
    text = f"guessed {short(guess)}"
    bounds = [x.item() if x.numel() == 1 else None for x in (low, high)]
    if None not in bounds and all(abs(float(x or 0.0)) != float("inf") for x in bounds):
        text += f", sought from {short(bounds[0])} to {short(bounds[1])}"
    return text


def _rivals(fit: Fit) -> str:
    if not fit.rivals:
        return ""
    paths = list(fit.rivals[0])
    head = "".join(f'<th class="number">{escape(path)}</th>' for path in paths)
    rows = "".join(
        "<tr>" + "".join(number(path, short(rival[path])) for path in paths) + "</tr>" for rival in fit.rivals
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<h3>Others that explain it as well</h3><div class="wide">{table}</div>'


def videos(fit: Fit) -> str:
    """Observed, fitted and their difference, side by side, for each trial."""
    found = [comparison for trial in fit.trials if (comparison := compared(trial, fit.values)) is not None]
    if not found:
        return ""
    return section("Observed, fitted, difference", "".join(_video(comparison) for comparison in found))


def _video(comparison: Comparison) -> str:
    film = video(comparison.video, comparison.poster, comparison.height, comparison.width)
    return panels(comparison.labels, film, comparison.caption)


def identifiability(fit: Fit) -> str:
    """What the video tells and what not, and how errors go together."""
    items = "".join(f"<li>{escape(text)}</li>" for text in findings(fit))
    words = f"<div><ul>{items}</ul></div>"
    if len(fit.parameters.names) < 2:
        return section("What can be told from it", words)
    return section(
        "What can be told from it",
        f'<div class="columns">{words}<div class="wide"><h3>Correlation of the errors</h3>{_heat(fit)}</div></div>',
    )


def _heat(fit: Fit) -> str:
    names = fit.parameters.names
    head = "".join(f"<th><span>{escape(name)}</span></th>" for name in names)
    rows = []
    for name, row in zip(names, fit.correlation.tolist(), strict=True):
        cells = "".join(f'<td style="background: {_shade(r)}">{round(r, 2) + 0.0:.2f}</td>' for r in row)
        rows.append(f"<tr><th>{escape(name)}</th>{cells}</tr>")
    return f'<table class="heat"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _shade(r: float) -> str:
    """Blue where errors rise together, red where one falls."""
    color = "46, 134, 171" if r > 0 else "209, 73, 91"
    return f"rgba({color}, {0.75 * min(1.0, abs(r)):.2f})"


def way(fit: Fit) -> str:
    """How the answer was come to: traces and stages."""
    if not fit.history:
        return ""
    rows = "".join(_row(reach) for reach in reaches(fit))
    heads = ("stage", "frames", "pictures", "steps", "mean square", "after")
    head = head_row(heads, heads[1:])
    return section(
        "How it was found",
        "<p>From coarse to fine pictures, and from the first frames to all of them. Finer pictures show "
        "more of the noise. Grey bands tell the stages apart; the blue one is the interval of the answer.</p>"
        f"{plots(traces(fit))}"
        f'<details><summary>All stages</summary><div class="wide"><table>{head}'
        f"<tbody>{rows}</tbody></table></div></details>",
    )


def _row(reach: Reach) -> str:
    square, after = f"{reach.mean_square:.3g}", f"{reach.seconds:.1f} s"
    cells = (str(reach.frames or ""), reach.size, str(reach.steps), square, after)
    return f"<tr><td>{escape(reach.stage)}</td>{''.join(number('', cell) for cell in cells)}</tr>"


def colophon(fit: Fit) -> str:
    """The last line."""
    return f"Found in {fit.seconds:.1f} s."
