"""Numbers and findings in words."""

from __future__ import annotations

import math
from typing import Any

import torch

from gradsim.fit.observations import Pixels
from gradsim.fit.plan import Plan
from gradsim.fit.result import Fit

CLOSE_TIE = 0.9  # correlation worth a word
TONES = {"identifiable": "good", "weak": "doubt", "not identifiable": "bad"}
STATUS = {
    "converged": ("good", "The scene explains what was seen, and restarts came back to the same answer."),
    "several answers": ("doubt", "More than one set of values explains what was seen."),
    "not converged": ("doubt", "The search ended before its steps were small."),
    "above the noise": ("bad", "The scene does not explain all that was seen."),
    "interrupted": ("doubt", "The search was interrupted: these are the best values so far, not an answer."),
}

REACHED = 0.01  # share of the first loss that is near enough not to be in doubt
PLANNED = {
    "converged": "The search came to rest.",
    "stalled": "The loss stopped falling.",
    "out of iterations": "All iterations were used.",
    "interrupted": "The search was interrupted: this is the best so far.",
}


def rounded(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and the ends of its interval, to two digits of the interval's half width."""
    half = (high - low) / 2
    if not (math.isfinite(half) and half > 0):
        return f"{value:.6g}", f"{low:.6g}", f"{high:.6g}"
    digits = 1 - math.floor(math.log10(half))
    largest = max(abs(value), abs(low), abs(high))
    if largest >= 1e6 or digits > 9:
        precision = min(12, max(2, digits + math.floor(math.log10(largest)))) if largest > 0 else 2
        return tuple(f"{x:.{precision}e}" for x in (value, low, high))  # type: ignore[return-value]
    return tuple(f"{x:.{max(0, digits)}f}" for x in (value, low, high))  # type: ignore[return-value]


def share(value: float, low: float, high: float) -> str:
    """Half the width of an interval, relative to its value."""
    if not (value and math.isfinite(high - low)):
        return ""
    part = abs((high - low) / (2 * value))
    if part >= 0.1:
        return f"± {100 * part:.0f} %"
    return f"± {100 * part:.2g} %" if part >= 1e-6 else f"± {part:.1e}"


def summary(fit: Fit) -> tuple[str, str, str]:
    """Tone, headline and what it means."""
    tone, sentence = STATUS.get(fit.status, ("doubt", fit.status))
    advice = _sentence(fit.advice.replace("see `rivals`", "they stand below"))
    rows = fit.rows()
    told = sum(row[-1].word == "identifiable" for row in rows)
    if fit.status in ("interrupted", "not converged", "above the noise"):
        return tone, sentence, advice
    single = len(fit.trials) == 1 and isinstance(fit.trials[0].observation, Pixels)
    this, s, do = ("This video", "s", "does") if single else ("These observations", "", "do")
    if told == len(rows):
        head = f"{this} determine{s} the value." if told == 1 else f"{this} determine{s} all {told} values."
    elif told:
        head = f"{this} determine{s} {told} of {len(rows)} values."
    else:
        head = f"{this} {do} not determine what was asked."
    if fit.status == "several answers":
        head = sentence
        sentence = ""
    tone = tone if told == len(rows) else "doubt" if told else "bad"
    return tone, head, f"{sentence} {advice}".strip()


def plan_summary(plan: Plan, watched: str) -> tuple[str, str, str]:
    """Tone, headline and the numbers behind it."""
    best, last = plan.best, plan.last
    stage = next((i.stage for i in plan.history if i.number == best.number), plan.history[-1].stage)
    first = next(i for i in plan.history if i.stage == stage)
    near = plan.status != "interrupted" and best.loss <= REACHED * first.loss
    tone = "good" if plan.status == "converged" or near else "doubt"
    within = f" within the last of {stage + 1} stages" if stage else ""
    head = f"Iterate {best.number} of {last.number} came nearest to the goal. {PLANNED.get(plan.status, plan.status)}"
    text = f"Loss {first.loss:.4g} → {best.loss:.4g}{within}{_fewer(first.loss, best.loss)}"
    text += "." if last.number == best.number else f"; the last iterate has {last.loss:.4g}."
    begin = plan.history[0].watched
    if begin is not None and best.watched is not None:
        text += f" {_sentence(watched)[:-1]}: {begin:.4g} → {best.watched:.4g}"
        if last.number != best.number and last.watched is not None:
            text += f", in the last iterate {last.watched:.4g}"
        text += "."
    return tone, head, f"{text} {_sentence(plan.advice) if tone != 'good' else ''}".strip()


def _fewer(first: float, best: float) -> str:
    return f", {first / best:,.0f} times smaller" if best > 0 and 2 <= first / best < 1e7 else ""


def findings(fit: Fit) -> list[str]:
    """What the observation tells and does not tell."""
    found = [_sentence(text) for text in fit.directions]
    for name, _, _, _, _, verdict in fit.rows():
        text = _sentence(verdict.reason)
        if verdict.word != "identifiable" and text not in found:
            found.append(f"{name} is {verdict.word}: {text}" if text else f"{name} is {verdict.word}.")
    names = fit.parameters.names
    lost = {name for name, verdict in fit.verdicts.items() if verdict.word == "not identifiable"}
    for i, j in torch.triu_indices(len(names), len(names), 1).T.tolist():
        r = float(fit.correlation[i, j])
        if abs(r) >= CLOSE_TIE and not {names[i], names[j]} & lost:
            way = "rise together" if r > 0 else "move against each other"
            pair = f"{names[i]} and {names[j]}"
            found.append(f"{pair} are tied: within their intervals they {way} (correlation {r:.2f}).")
    if not found:
        found.append("Each value is determined on its own; none stands in for another.")
    return found


def starts(fit: Fit) -> str:
    """How far other searches came to the same."""
    if fit.rivals:
        return "Other searches and restarts beside the answer ended elsewhere, as close to the video as this."
    if fit.status == "interrupted":
        return "The search did not come to its end."
    if fit.starts > 1:
        return f"{fit.agreeing} of {fit.starts} searches from different starts came to this answer."
    return "One search, from the guesses; restarts beside the answer along what is told least had to come back to it."


def short(value: Any) -> str:
    """A number or some numbers, for reading."""
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return ", ".join(map(short, value)) if isinstance(value, (list, tuple)) else f"{value:.5g}"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".") if text else ""
