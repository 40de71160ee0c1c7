"""Uncertainty of an estimate: standard deviations, correlations and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.discrepancy import Discrepancy, discrepancy_covariance
from gradsim.fit.linearization import Block, Linearization
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.student import NORMAL_95, student_95

IDENTIFIABLE, WEAK = 0.05, 0.5  # largest standard deviation relative to the size of the value
FROM_PRIOR = 0.9  # standard deviation relative to that of the prior, above which the data add nothing
AT_BOUND = 1e-3  # distance from a bound, relative to the distance between the bounds or to the value
MIN_NOISE = 1e-9  # smallest standard deviation of a pixel
MAX_DEVIATION = 10.0  # in coordinate units; bounds undetermined directions, whose rounding would affect the others
MIN_COMPONENT = 0.25  # components of a direction below this fraction of the largest are not reported
FIRST_PART = 0.6  # fraction of the frames from which the rest is predicted
HOLDOUT_DEVIATIONS = 2.5  # disagreement of the two parts that noise explains
MIN_TRIALS = 5  # trials from which their scatter is estimated

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

    level: str  # "identifiable", "weak", "from the prior", "at its bound", "not identifiable"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Uncertainty of the coordinates of an estimate; see `Parameters`."""

    standard_deviation: torch.Tensor  # [P]
    correlation: torch.Tensor  # [P, P]
    noise: float  # standard deviation of a difference of the first observation
    identifiability: tuple[Identifiability, ...]  # of each coordinate
    undetermined_directions: tuple[str, ...]  # combinations of unknowns that are not determined, described in words
    sources: tuple[str, ...] = ("residuals",)  # what the intervals contain
    plain_deviation: torch.Tensor | None = None  # from independent noise alone, [P]
    holdout: float = math.nan  # largest disagreement of first and last frames, in standard deviations
    discrepancy: Discrepancy | None = None


def estimate_uncertainty(
    problem: EstimationProblem, lin: Linearization, group_covariance: torch.Tensor | None = None
) -> Uncertainty:
    """Returns the uncertainty at a linearized estimate.

    `group_covariance` is that of the estimates from groups of trials, [P, P]; None if these were not made.
    """
    prior = _prior_information(problem.parameters)
    variance = _noise_scale(problem, lin)
    information = lin.information()
    inverse = _inverse(information / variance + prior)
    covariance = inverse.clone()
    sources = ["noise"]
    added, discrepancy = discrepancy_covariance(lin, _inverse(information + prior))
    if discrepancy is not None:
        covariance, sources = covariance + added, [*sources, "model error in time"]
    scatter = _trial_scatter(lin, inverse / variance, prior)
    if scatter is not None:
        covariance = _largest(covariance, scatter)
        sources.append("scatter between trials")
    if group_covariance is not None:
        covariance = _largest(covariance, group_covariance)
        sources.append("scatter between groups of trials")
    holdout = _holdout(lin, prior, variance, covariance - inverse)
    worst = float(holdout.max()) if len(holdout) else math.nan
    inflation = (holdout / HOLDOUT_DEVIATIONS).clamp_min(1.0)
    if float(inflation.max()) > 1.0:
        covariance = covariance * (inflation[:, None] * inflation)
        sources.append("disagreement of first and last frames")
    deviation = torch.diagonal(covariance).clamp_min(0.0).sqrt()
    correlation = covariance / (deviation[:, None] * deviation).clamp_min(1e-300)
    if bool(torch.isfinite(problem.parameters.prior_normal()[1]).any()):
        sources.append("priors")
    judged = information + torch.diag(1.0 / problem.parameters.prior_normal()[1] ** 2)
    levels, directions = judge_identifiability(problem.parameters, lin.z, judged, deviation)
    first = lin.blocks[0]
    noise = float((first.difference.square().mean()).sqrt())
    plain = torch.diagonal(inverse).sqrt()
    return Uncertainty(deviation, correlation, noise, levels, directions, tuple(sources), plain, worst, discrepancy)


def _noise_scale(problem: EstimationProblem, lin: Linearization) -> float:
    """Variance of the residuals relative to the assumed noise.

    Residuals larger than the noise widen the intervals. Exact synthetic videos have residuals far below the floor of
    the noise, and intervals to match.
    """
    chi2 = lin.chi2
    sources = {problem.noise[block.key].source for block in lin.blocks}
    first = problem.noise[lin.blocks[0].key]
    if sources == {"measured"} and float(first.sigma.mean()) < first.floor:
        smallest = MIN_NOISE / float(first.floored.mean())
        return float(max(chi2, smallest**2))
    return max(chi2, 1.0)


def _prior_information(parameters: Parameters) -> torch.Tensor:
    """Information of the declared priors, and of the plausible range where there is none, [P, P]."""
    _, sd = parameters.prior_normal()
    width = parameters.prior()[1]
    return torch.diag(1.0 / torch.where(torch.isfinite(sd), sd, width) ** 2)


def _inverse(matrix: torch.Tensor) -> torch.Tensor:
    """Inverse of a symmetric matrix, regularized if it is singular."""
    matrix = torch.nan_to_num(matrix, nan=0.0, posinf=1e300, neginf=-1e300)
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    values = values.clamp_min(1e-15 * float(values.abs().max().clamp_min(1e-300)))
    return (vectors / values) @ vectors.T


def _largest(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Scales a covariance so that no variance is smaller than in another one."""
    ratio = (torch.diagonal(b) / torch.diagonal(a).clamp_min(1e-300)).clamp_min(1.0).sqrt()
    return a * (ratio[:, None] * ratio)


def _trial_scatter(lin: Linearization, inverse: torch.Tensor, prior: torch.Tensor) -> torch.Tensor | None:
    """Covariance from the scatter of the gradient between trials, [P, P]; None for few trials."""
    by_trial: dict[int, list[Block]] = {}
    for block in lin.blocks:
        by_trial.setdefault(block.key[0], []).append(block)
    count = len(by_trial)
    if count < MIN_TRIALS:
        return None
    gradients = torch.stack([lin.gradient(blocks=blocks) for blocks in by_trial.values()])
    gradients = gradients - gradients.mean(0)
    spread = gradients.T @ gradients * (count / (count - 1))
    return inverse @ spread @ inverse * (student_95(count - 1) / NORMAL_95) ** 2


def _holdout(lin: Linearization, prior: torch.Tensor, variance: float, extra: torch.Tensor) -> torch.Tensor:
    """Disagreement of the estimates from the first and from the last frames, in standard deviations, [P].

    To first order, as the residuals of the rest predicted by the first part.
    """

    def early(block: Block) -> slice:
        return slice(0, max(1, int(FIRST_PART * len(block.gram))))

    def late(block: Block) -> slice:
        return slice(max(1, int(FIRST_PART * len(block.gram))), None)

    found = []
    for part in (early, late):
        inverse = _inverse(lin.information(part) / variance + prior)
        found.append((-inverse @ (lin.gradient(part) / variance), inverse))
    (first, C1), (second, C2) = found
    spread = torch.diagonal(C1 + C2) + 4.0 * torch.diagonal(extra).clamp_min(0.0)
    own = torch.diagonal(_inverse(prior))
    shrink = torch.sqrt((1 - torch.diagonal(C1) / own) * (1 - torch.diagonal(C2) / own)).nan_to_num(0.0)
    return (first - second).abs() / spread.clamp_min(1e-300).sqrt() * shrink  # 0 where a part determines nothing


def value_scales(parameters: Parameters, z: torch.Tensor) -> torch.Tensor:
    """Size [P], in coordinate units, relative to which the standard deviation of a coordinate is judged.

    A value is judged relative to itself, or to a quarter of its range if it is closer to zero, or to the length of its
    vector, or to the standard deviation of its prior, whichever is largest.
    """
    scales = []
    for unknown, part in parameters.items():
        scales.append(_value_scale(unknown, z[part]))
    return torch.cat(scales)


def _value_scale(unknown: ScaledUnknown, z: torch.Tensor) -> torch.Tensor:
    one = torch.ones_like(z)
    if unknown.scale in ("log", "rotation"):
        return one
    value = unknown.to_value(z).reshape(-1)
    size = torch.maximum(value.abs(), torch.linalg.vector_norm(value) / math.sqrt(len(value)) * one)
    span = (unknown.high - unknown.low).reshape(-1)
    size = torch.maximum(size, torch.where(torch.isfinite(span), 0.1 * span, 0.0))
    if unknown.scale == "logit":
        fraction = torch.sigmoid(z)
        slope = (span * fraction * (1 - fraction)).clamp_min(1e-12 * span)
        return size / slope
    size = torch.where(size > 0, size, unknown.unit_step.reshape(-1))
    return size / unknown.unit_step.reshape(-1)


def judge_identifiability(
    parameters: Parameters, z: torch.Tensor, information: torch.Tensor, deviation: torch.Tensor
) -> tuple[tuple[Identifiability, ...], tuple[str, ...]]:
    """Returns the verdict on each coordinate and a description of each undetermined direction.

    Args:
        parameters: The unknowns.
        z: Estimate [P].
        information: Fisher information of the coordinates at the noise of the observations, [P, P].
        deviation: Standard deviations of the estimate, [P].
    """
    names = parameters.names
    scales = value_scales(parameters, z)
    scaled = information * (scales[:, None] * scales)
    eigenvalues, vectors = torch.linalg.eigh(torch.nan_to_num(scaled))
    deviations = eigenvalues.clamp_min(1.0 / MAX_DEVIATION**2).rsqrt()
    marginal = torch.maximum((vectors**2 @ deviations**2).sqrt(), deviation / scales)
    directions: list[str] = []
    reasons = [""] * len(names)
    for k in torch.nonzero(deviations > IDENTIFIABLE)[:, 0].tolist():
        text = _describe_direction(vectors[:, k], names)
        if float(deviations[k]) > WEAK:
            directions.append(text)
        for i in range(len(names)):
            if abs(float(vectors[i, k])) >= MIN_COMPONENT * float(vectors[:, k].abs().max()) and not reasons[i]:
                reasons[i] = text
    prior = parameters.prior_normal()[1]
    bounds = at_bound(parameters, z)
    found = []
    for i, value in enumerate(marginal.tolist()):
        level = "identifiable" if value < IDENTIFIABLE else "weak" if value < WEAK else "not identifiable"
        reason = "" if level == "identifiable" else reasons[i] or "its interval is wide compared with its value"
        if math.isfinite(float(prior[i])) and float(deviation[i]) > FROM_PRIOR * float(prior[i]):
            level, reason = "from the prior", "the observations add nothing to its prior"
        if bounds[i]:
            level, reason = "at its bound", f"the best value lies at {bounds[i]}: widen the bounds, or check the scene"
        found.append(Identifiability(level, reason))
    return tuple(found), tuple(directions)


def at_bound(parameters: Parameters, z: torch.Tensor) -> list[str]:
    """Returns for each coordinate the bound at which it lies, in words; empty if at none."""
    found: list[str] = []
    for unknown, part in parameters.items():
        if unknown.scale == "rotation":
            found += [""] * unknown.size
            continue
        value = unknown.to_value(z[part]).reshape(-1)
        low, high = unknown.low.reshape(-1), unknown.high.reshape(-1)
        span = torch.where(torch.isfinite(high - low), high - low, value.abs())
        for v, a, b, s in zip(value.tolist(), low.tolist(), high.tolist(), span.tolist(), strict=True):
            if math.isfinite(a) and v - a <= AT_BOUND * (abs(a) if unknown.scale == "log" and a > 0 else s):
                found.append(f"its lower bound {a:g}")
            elif math.isfinite(b) and b - v <= AT_BOUND * (abs(b) if unknown.scale == "log" else s):
                found.append(f"its upper bound {b:g}")
            else:
                found.append("")
    return found


def _describe_direction(v: torch.Tensor, names: Sequence[str]) -> str:
    """Describes a direction v [P] along which the unknowns can change without a visible effect."""
    largest = float(v.abs().max())
    components = [(name, float(x) / largest) for name, x in zip(names, v, strict=True)]
    components = [(name, x) for name, x in components if abs(x) >= MIN_COMPONENT]
    if len(components) == 1:
        name = components[0][0]
        hint = HINTS.get(name.split("[")[0].split("@")[0].rsplit(".", 1)[-1], "")
        return f"the video hardly depends on {name}" + (f" ({hint})" if hint else "")
    if len(components) == 2:
        (a, x), (b, y) = components
        power = "" if abs(abs(y / x) - 1) < 0.15 else f"^{abs(x / y):.2g}"
        form = f"{a} / {b}{power}" if x * y > 0 else f"{a} * {b}{power}"
        return f"only {form} is determined, not {a} and {b} themselves"
    listed = ", ".join(name for name, _ in components)
    return f"only combinations of {listed} are determined: they can change together without a visible effect"
