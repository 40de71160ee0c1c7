"""Uncertainty of an estimate: standard deviations, correlations and identifiability."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.problem import REFERENCE_NOISE, EstimationProblem
from gradsim.fit.residuals import evaluate, jacobian

NORMAL_95 = 1.959964  # half width of a 95 % interval of a normal distribution, in standard deviations
IDENTIFIABLE, WEAK = 0.05, 0.5  # largest standard deviation, in coordinate units, for pixels with the reference noise
MIN_NOISE = 1e-9  # smallest standard deviation of a pixel
MAX_DEVIATION = 10.0  # in coordinate units; bounds undetermined directions, whose rounding would affect the others
MIN_COMPONENT = 0.25  # components of a direction below this fraction of the largest are not reported

HINTS = {
    "mu": "nothing slips in this video, or nothing touches",
    "kf": "all contacts slip fast, or nothing touches",
    "ke": "nothing touches, or damping hides it",
    "kd": "nothing touches, or only too briefly",
    "mass": "gravity accelerates all masses equally: push the body by a known force",
    "density": "gravity accelerates all masses equally: push the body by a known force",
}


@dataclass(frozen=True)
class Identifiability:
    """How well the observation determines one coordinate."""

    level: str  # "identifiable", "weak", "not identifiable"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Uncertainty of the coordinates of an estimate; see `Parameters`."""

    standard_deviation: torch.Tensor  # [P]
    correlation: torch.Tensor  # [P, P]
    noise: float  # standard deviation of a pixel's difference
    identifiability: tuple[Identifiability, ...]  # of each coordinate
    undetermined_directions: tuple[str, ...]  # combinations of unknowns that are not determined, described in words


def estimate_uncertainty(problem: EstimationProblem, z: torch.Tensor) -> Uncertainty:
    """Returns the uncertainty at the estimate z [P], by the sandwich estimator: pixels may differ in noise."""
    frames, batch = problem.frames, problem.batch_size(0)
    J = jacobian(problem.residual(), z[None], batch)[0]
    r = evaluate(problem.residual(), z[None], batch)[0]
    pixels = len(r) / (frames * len(problem.trials))
    J, r = J * math.sqrt(pixels), r * math.sqrt(pixels)  # of single pixels
    noise = max(math.sqrt(float((r * r).sum()) / max(1, len(r) - len(z))), MIN_NOISE)
    information = J @ J.T
    prior = torch.diag(1.0 / problem.parameters.prior()[1] ** 2)  # limits what the observation does not determine
    inverse = torch.linalg.inv(information + noise**2 * prior)
    squares = torch.maximum(r * r, r.new_tensor(MIN_NOISE**2))
    covariance = inverse @ ((J * squares) @ J.T + noise**4 * prior) @ inverse
    deviation = torch.diagonal(covariance).sqrt()
    correlation = covariance / (deviation[:, None] * deviation)
    levels, directions = judge_identifiability(information / REFERENCE_NOISE**2, problem.parameters.names)
    return Uncertainty(deviation, correlation, noise, levels, directions)


def judge_identifiability(
    information: torch.Tensor, names: Sequence[str]
) -> tuple[tuple[Identifiability, ...], tuple[str, ...]]:
    """Returns the identifiability of each coordinate and a description of each undetermined direction.

    Args:
        information: Fisher information of the coordinates for the reference noise, [P, P].
        names: Names of the coordinates.
    """
    eigenvalues, vectors = torch.linalg.eigh(information)
    deviations = eigenvalues.clamp_min(1.0 / MAX_DEVIATION**2).rsqrt()
    marginal = (vectors**2 @ deviations**2).sqrt()
    directions = []
    reasons = [""] * len(names)
    for k in torch.nonzero(deviations > IDENTIFIABLE)[:, 0].tolist():
        text = _describe_direction(vectors[:, k], names)
        if float(deviations[k]) > WEAK:
            directions.append(text)
        for i in range(len(names)):
            if abs(float(vectors[i, k])) >= MIN_COMPONENT * float(vectors[:, k].abs().max()) and not reasons[i]:
                reasons[i] = text
    identifiability = []
    for i, value in enumerate(marginal.tolist()):
        level = "identifiable" if value < IDENTIFIABLE else "weak" if value < WEAK else "not identifiable"
        identifiability.append(Identifiability(level, "" if level == "identifiable" else reasons[i]))
    return tuple(identifiability), tuple(directions)


def _describe_direction(v: torch.Tensor, names: Sequence[str]) -> str:
    """Describes a direction v [P] along which the unknowns can change without a visible effect."""
    largest = float(v.abs().max())
    components = [(name, float(x) / largest) for name, x in zip(names, v, strict=True)]
    components = [(name, x) for name, x in components if abs(x) >= MIN_COMPONENT]
    if len(components) == 1:
        name = components[0][0]
        hint = HINTS.get(name.split("[")[0].rsplit(".", 1)[-1], "")
        return f"the video hardly depends on {name}" + (f" ({hint})" if hint else "")
    if len(components) == 2:
        (a, x), (b, y) = components
        power = "" if abs(abs(y / x) - 1) < 0.15 else f"^{abs(x / y):.2g}"
        form = f"{a} / {b}{power}" if x * y > 0 else f"{a} * {b}{power}"
        return f"only {form} is determined, not {a} and {b} themselves"
    listed = ", ".join(name for name, _ in components)
    return f"only combinations of {listed} are determined: they can change together without a visible effect"
