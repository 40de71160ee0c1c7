"""Formatted numbers, and sentences that summarize a fit or a plan."""

from __future__ import annotations

import math
import re
from typing import Any

import torch

from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.plan import Plan
from gradsim.fit.result import Fit
from gradsim.fit.uncertainty import Identifiability
from gradsim.report.misfit_text import correction_text, misfit_text

ValueRow = tuple[str, str, float, float, float, Identifiability]  # as of `Fit.rows`

STRONG_CORRELATION = 0.9
TONES = {
    "identifiable": "good",
    "mean over trials": "good",
    "from the prior": "caution",
    "weak": "caution",
    "at its bound": "bad",
    "not identifiable": "bad",
}
MISFIT = ("bad", "The scene does not explain the observation.")
FIT_STATUS = {
    "does not explain the video": MISFIT,
    "does not explain the observations": MISFIT,
    "converged": ("good", "The scene explains the observation, and restarts converged to the same values."),
    "converged with corrections": ("caution", "The scene explains the observation only after a correction."),
    "several answers": ("caution", "More than one set of values explains the observation."),
    "not converged": ("caution", "The search stopped before it converged."),
    "interrupted": ("caution", "The search was interrupted. These are the best values so far, not a final estimate."),
}

MAX_FINDINGS = 20  # sentences about what is determined
REACHED = 0.01  # fraction of the initial loss below which a goal counts as reached
PLAN_STATUS = {
    "converged": "The search converged.",
    "stalled": "The loss stopped decreasing.",
    "out of iterations": "All iterations were used.",
    "diverged": "The simulation diverged during the search.",
    "interrupted": "The search was interrupted: this is the best iterate so far.",
}


def round_to_interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Formats a value and the ends of its interval to two significant digits of the interval's half width."""
    half = (high - low) / 2
    if not (math.isfinite(half) and half > 0):
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    digits = 1 - math.floor(math.log10(half))
    largest = max(abs(value), abs(low), abs(high))
    if largest >= 1e6 or digits > 9:
        precision = min(12, max(2, digits + math.floor(math.log10(largest)))) if largest > 0 else 2
        return tuple(f"{x:.{precision}e}" for x in (value, low, high))  # type: ignore[return-value]
    return tuple(f"{x:.{max(0, digits)}f}" for x in (value, low, high))  # type: ignore[return-value]


def relative_half_width(value: float, low: float, high: float) -> str:
    """Formats half the width of an interval relative to its value; empty if that is not defined."""
    if not (value and math.isfinite(high - low)):
        return ""
    ratio = abs((high - low) / (2 * value))
    if ratio >= 0.1:
        return f"± {100 * ratio:.0f} %"
    return f"± {100 * ratio:.2g} %" if ratio >= 1e-6 else f"± {ratio:.1e}"


def fit_summary(fit: Fit) -> tuple[str, str, str]:
    """Returns the tone, the headline and the explanation of a fit."""
    tone, sentence = FIT_STATUS.get(fit.status, ("caution", fit.status))
    advice = _sentence(re.sub(r"see `\w+`", "they are listed below", fit.advice))
    if fit.status != "interrupted" and not fit.misfit.ok:
        return tone, sentence, misfit_text(fit)
    if fit.status == "converged with corrections":
        return tone, sentence, correction_text(fit)
    if fit.status in ("interrupted", "not converged"):
        return tone, sentence, advice
    count = len(fit.rows())
    determined = sum(row[-1].level == "identifiable" for row in fit.rows())
    undetermined = all(row[-1].level == "not identifiable" for row in fit.rows())
    if fit.status == "several answers" and not undetermined:
        head, sentence = sentence, ""
    else:
        head = _determined_text(fit, determined, count)
    tone = tone if determined == count else "caution" if determined else "bad"
    return tone, head, f"{sentence} {advice}".strip()


def _determined_text(fit: Fit, determined: int, count: int) -> str:
    """States how many of the values the observation determines."""
    single = len(fit.trials) == 1 and isinstance(fit.trials[0].observations[0], Pixels)
    subject, s, do = ("This video", "s", "does") if single else ("These observations", "", "do")
    if not determined:
        return f"{subject} {do} not determine the requested value{'s' if count > 1 else ''}."
    if determined < count:
        return f"{subject} determine{s} {determined} of {count} values."
    return f"{subject} determine{s} the value." if count == 1 else f"{subject} determine{s} all {count} values."


def plan_summary(plan: Plan, watched: str) -> tuple[str, str, str]:
    """Returns the tone, the headline and the numbers of a plan."""
    best, last = plan.best, plan.last
    stage = next((i.stage for i in plan.history if i.number == best.number), plan.history[-1].stage)
    first = next(i for i in plan.history if i.stage == stage)
    near = plan.status != "interrupted" and best.loss <= REACHED * first.loss
    tone = "good" if plan.status == "converged" or near else "caution"
    within = f" in the last of {stage + 1} stages" if stage else ""
    status = PLAN_STATUS.get(plan.status, plan.status)
    head = f"Iterate {best.number} of {last.number} is closest to the goal. {status}"
    text = f"Loss {first.loss:.4g} → {best.loss:.4g}{within}{_reduction(first.loss, best.loss)}"
    text += "." if last.number == best.number else f"; the last iterate has {last.loss:.4g}."
    begin = plan.history[0].metric
    if begin is not None and best.metric is not None:
        text += f" {_sentence(watched)[:-1]}: {begin:.4g} → {best.metric:.4g}"
        if last.number != best.number and last.metric is not None:
            text += f", in the last iterate {last.metric:.4g}"
        text += "."
    return tone, head, f"{text} {_sentence(plan.advice) if tone != 'good' else ''}".strip()


def _reduction(first: float, best: float) -> str:
    return f", reduced {first / best:,.0f} times" if best > 0 and 2 <= first / best < 1e7 else ""


def shared_rows(fit: Fit) -> list[ValueRow]:
    """Returns the rows of the values that all trials share; of all values if none is shared and none varies."""
    own = {unknown.path for unknown in fit.parameters.unknowns if unknown.trial is not None}
    shared = [row for row in fit.rows() if row[0] not in own and row[0].rpartition("[")[0] not in own]
    return shared if shared or fit.scatter else fit.rows()


def scatter_rows(fit: Fit) -> list[ValueRow]:
    """Returns the rows of the means of values that vary between trials."""
    rows = []
    for path, item in fit.scatter.items():
        unit = "" if item.unit in ("", "1") else f" {item.unit}"
        verdict = Identifiability("mean over trials", f"standard deviation between trials {item.sd:.2g}{unit}")
        rows.append((path, item.unit, item.mean, item.mean_low, item.mean_high, verdict))
    return rows


def fit_findings(fit: Fit) -> list[str]:
    """Returns sentences about what the observation determines and what it does not."""
    findings = [_sentence(text) for text in fit.undetermined_directions]
    for name, _, _, _, _, verdict in fit.rows():
        text = _sentence(verdict.reason)
        if verdict.level != "identifiable" and text not in findings:
            findings.append(f"{name} is {verdict.level}: {text}" if text else f"{name} is {verdict.level}.")
    names = fit.parameters.names
    undetermined = {name for name, verdict in fit.identifiability.items() if verdict.level == "not identifiable"}
    for i, j in torch.triu_indices(len(names), len(names), 1).T.tolist():
        r = float(fit.correlation[i, j])
        if not {names[i], names[j]} & fit.identifiability.keys():  # two errors of the scene
            continue
        if abs(r) >= STRONG_CORRELATION and not {names[i], names[j]} & undetermined:
            change = "increase together" if r > 0 else "change in opposite directions"
            pair = f"{names[i]} and {names[j]}"
            findings.append(f"{pair} are strongly correlated ({r:.2f}): within their intervals they {change}.")
    if len(findings) > MAX_FINDINGS:
        findings[MAX_FINDINGS:] = [f"{len(findings) - MAX_FINDINGS} further findings are not shown."]
    if not findings:
        findings.append(
            f"Every value is determined, and no two values are strongly correlated (|r| < {STRONG_CORRELATION:g})."
        )
    return findings


def search_text(fit: Fit) -> str:
    """Returns a sentence about how many searches agree."""
    if fit.alternative_minima:
        return "Other searches or restarts ended at different values with an equally small residual."
    if fit.status == "interrupted":
        return "The search is incomplete."
    if fit.starts > 1:
        return f"{fit.agreeing_starts} of {fit.starts} searches from different starts converged to these values."
    return "One search from the guesses, confirmed by restarts along the least determined directions."


def short(value: Any) -> str:
    """Formats a number, or a list of numbers, to five significant digits."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return ", ".join(map(short, value)) if isinstance(value, (list, tuple)) else f"{value:.5g}"


def _sentence(text: str) -> str:
    """Capitalizes a text and ends it with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".") if text else ""
