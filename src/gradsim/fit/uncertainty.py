"""What an answer is worth: intervals, correlations, and whether the observation can tell at all, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.problem import REFERENCE_NOISE, Problem
from gradsim.fit.residuals import evaluated, jacobian

IDENTIFIABLE, WEAK = 0.05, 0.5  # standard deviations in natural units, for pixels with the reference noise
LEAST_NOISE = 1e-9
FARTHEST = 10.0  # natural units that anything is away: what is not told at all must not spoil the rest by rounding
PART = 0.25  # of the largest component of a direction, below which another is not spoken of

HINTS = {
    "mu": "nothing slips in this video, or nothing touches",
    "kf": "whatever touches slips fast, or nothing touches",
    "ke": "nothing touches, or damping hides it",
    "kd": "nothing touches, or touches too briefly",
    "mass": "gravity moves all masses alike: push the body by a known force",
    "density": "gravity moves all masses alike: push the body by a known force",
}


@dataclass(frozen=True)
class Verdict:
    """Whether an unknown can be told from what was observed."""

    word: str  # "identifiable", "weak", "not identifiable"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """About the coordinates z: see `Parameters`."""

    deviation: torch.Tensor  # standard deviations, [P]
    correlation: torch.Tensor  # [P, P]
    noise: float  # standard deviation of a pixel's difference
    verdicts: tuple[Verdict, ...]
    directions: tuple[str, ...]  # what is not determined, in words


def uncertainty(problem: Problem, z: torch.Tensor) -> Uncertainty:
    """From the Jacobian and the residuals at an answer z [P]; not assuming that all pixels have the same noise."""
    frames, batch = problem.frames, problem.batch(0)
    J = jacobian(problem.residual(), z[None], batch)[0]
    r = evaluated(problem.residual(), z[None], batch)[0]
    pixels = len(r) / (frames * len(problem.trials))
    J, r = J * math.sqrt(pixels), r * math.sqrt(pixels)  # of single pixels
    count = len(z)
    noise = max(math.sqrt(float((r * r).sum()) / max(1, len(r) - count)), LEAST_NOISE)
    A = J @ J.T
    weak = torch.diag(1.0 / problem.parameters.prior()[1] ** 2)  # what is not told stays within its range
    inverse = torch.linalg.inv(A + noise**2 * weak)
    squares = torch.maximum(r * r, r.new_tensor(LEAST_NOISE**2))
    meat = (J * squares) @ J.T  # each pixel with a noise of its own
    covariance = inverse @ (meat + noise**4 * weak) @ inverse
    deviation = torch.diagonal(covariance).sqrt()
    correlation = covariance / (deviation[:, None] * deviation)
    verdicts, directions = judged(A / REFERENCE_NOISE**2, problem.parameters.names)
    return Uncertainty(deviation, correlation, noise, verdicts, directions)


def judged(information: torch.Tensor, names: Sequence[str]) -> tuple[tuple[Verdict, ...], tuple[str, ...]]:
    """A verdict for each coordinate and words for each direction that is not determined.

    Args:
        information: Inverse of the covariance for the reference noise, [P, P].
        names: Of the coordinates.
    """
    values, vectors = torch.linalg.eigh(information)
    deviations = values.clamp_min(1.0 / FARTHEST**2).rsqrt()
    spread = (vectors**2 @ deviations**2).sqrt()
    words = []
    reasons = [""] * len(names)
    for k in torch.nonzero(deviations > IDENTIFIABLE)[:, 0].tolist():
        text = _direction(vectors[:, k], names)
        if float(deviations[k]) > WEAK:
            words.append(text)
        for i in range(len(names)):
            if abs(float(vectors[i, k])) >= PART * float(vectors[:, k].abs().max()) and not reasons[i]:
                reasons[i] = text
    verdicts = []
    for i, value in enumerate(spread.tolist()):
        word = "identifiable" if value < IDENTIFIABLE else "weak" if value < WEAK else "not identifiable"
        verdicts.append(Verdict(word, "" if word == "identifiable" else reasons[i]))
    return tuple(verdicts), tuple(words)


def _direction(v: torch.Tensor, names: Sequence[str]) -> str:
    """What may change together unseen."""
    largest = float(v.abs().max())
    parts = [(name, float(x) / largest) for name, x in zip(names, v, strict=True) if abs(float(x)) >= PART * largest]
    if len(parts) == 1:
        name = parts[0][0]
        hint = HINTS.get(name.split("[")[0].rsplit(".", 1)[-1], "")
        return f"the video hardly depends on {name}" + (f" ({hint})" if hint else "")
    if len(parts) == 2:
        (a, x), (b, y) = parts
        power = "" if abs(abs(y / x) - 1) < 0.15 else f"^{abs(x / y):.2g}"
        form = f"{a} / {b}{power}" if x * y > 0 else f"{a} * {b}{power}"
        return f"only {form} is determined, not {a} and {b} themselves"
    listed = ", ".join(name for name, _ in parts)
    return f"only combinations of {listed} are determined: they can change together unseen"
