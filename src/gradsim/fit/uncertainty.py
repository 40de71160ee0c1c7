"""Uncertainty of an estimate: standard deviations, correlations and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from gradsim.fit.codec_noise import codec_correlation
from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.discrepancy import Discrepancy, discrepancy_covariance, drift_covariance
from gradsim.fit.linearized import Block, Linearization
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.student import NORMAL_95, student_95
from gradsim.fit.subspace import prior_information

IDENTIFIABLE, WEAK = 0.05, 0.5  # largest standard deviation relative to the size of the value
FROM_PRIOR = 0.9  # standard deviation relative to that of the prior, above which the data add nothing
AT_BOUND = 1e-3  # distance from a bound, relative to the distance between the bounds or to the value
MIN_NOISE = 1e-9  # smallest standard deviation of a pixel
MAX_DEVIATION = 10.0  # in coordinate units; bounds undetermined directions, whose rounding would affect the others
MIN_COMPONENT = 0.25  # components of a direction below this fraction of the largest are not reported
MAX_NAMES, MAX_DIRECTIONS = 6, 20  # listed in the description of a direction; directions that are described
FIRST_PART = 0.6  # fraction of the frames from which the rest is predicted
HOLDOUT_DEVIATIONS = 2.5  # disagreement of the two parts that noise explains
MIN_TRIALS = 5  # trials from which their scatter is estimated

HINTS = {
    "mu": "nothing slips in this video, or nothing touches",
    "kf": "all contacts slip fast, or nothing touches",
    "ke": "nothing touches, or damping hides it",
    "kd": "nothing touches, or only too briefly",
    "mass": "gravity accelerates all masses equally: push the body by a known force",
    "angular_velocity": "nothing shows the rotation: mark the surface",
    "density": "gravity accelerates all masses equally: push the body by a known force",
}


@dataclass(frozen=True)
class Identifiability:
    """How well the observation determines one coordinate."""

    level: str  # "identifiable", "weak", "from the prior", "at its bound", "not identifiable"
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Verdicts:
    """How well the observations determine each coordinate."""

    levels: tuple[Identifiability, ...]  # of each coordinate
    directions: tuple[str, ...]  # undetermined combinations, described in words
    floor: torch.Tensor  # smallest standard deviation of a coordinate that is not identifiable, 0 for others, [P]


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
    plain_covariance: torch.Tensor | None = None  # from independent noise and priors, [P, P]


def estimate_uncertainty(
    problem: EstimationProblem,
    lin: Linearization,
    group_covariance: torch.Tensor | None = None,
    systematic: torch.Tensor | None = None,
) -> Uncertainty:
    """Returns the uncertainty at a linearized estimate.

    Args:
        problem: Problem.
        lin: Its linearization at the estimate.
        group_covariance: Covariance of the estimates from groups of trials, [P, P]; None if these were not made.
        systematic: Covariance from errors of the model, which the residuals of a video without noise show, [P, P]; None
            for other observations. See `gradsim.fit.systematic_errors`.
    """
    full_prior = prior_information(problem.parameters)
    prior = lin.reduced(full_prior)
    variance = _noise_scale(problem, lin) * codec_correlation(lin)
    information = lin.information()
    inverse = _inverse(information / variance + prior)
    covariance = inverse.clone()
    sources = ["noise"]
    added, discrepancy = discrepancy_covariance(lin, _inverse(information + prior))
    drift = drift_covariance(lin, _inverse(information + prior))
    if discrepancy is not None:
        sources.append("model error in time")
    if drift is not None:
        added = drift if discrepancy is None else _largest(added, drift)
        sources.append("lasting errors of the tracks")
    covariance = covariance + added
    if systematic is not None:
        covariance, sources = covariance + systematic, [*sources, "model error of a video without noise"]
    scatter = _trial_scatter(lin, inverse / variance, prior)
    if scatter is not None:
        covariance = _largest(covariance, scatter)
        sources.append("scatter between trials")
    if group_covariance is not None:
        covariance = _largest(covariance, group_covariance)
        sources.append("scatter between groups of trials")
    covariance = lin.expanded_covariance(covariance, full_prior)
    plain_covariance = lin.expanded_covariance(inverse, full_prior)
    holdout = _holdout(lin, full_prior, variance, covariance - plain_covariance)
    worst = float(holdout.max()) if len(holdout) else math.nan
    inflation = (holdout / HOLDOUT_DEVIATIONS).clamp_min(1.0)
    if float(inflation.max()) > 1.0:
        covariance = covariance * (inflation[:, None] * inflation)
        sources.append("disagreement of first and last frames")
    if bool(torch.isfinite(problem.parameters.prior_normal()[1]).any()):
        sources.append("priors")
    judged = lin.expanded_information(information, full_prior) + torch.diag(
        1.0 / problem.parameters.prior_normal()[1] ** 2
    )
    deviation = torch.diagonal(covariance).clamp_min(0.0).sqrt()
    verdicts = _judge_problem(problem, lin.z, judged, deviation)
    covariance = _largest(covariance, torch.diag(verdicts.floor**2))
    deviation = torch.maximum(deviation, verdicts.floor)
    correlation = covariance / (deviation[:, None] * deviation).clamp_min(1e-300)
    first = lin.blocks[0]
    square = first.difference.square() if first.weights is None else first.difference.square() * first.weights
    noise = float((square.sum() / first.counts.sum().clamp_min(1.0)).sqrt())
    plain = torch.diagonal(plain_covariance).sqrt()
    return Uncertainty(
        deviation,
        correlation,
        noise,
        verdicts.levels,
        verdicts.directions,
        tuple(sources),
        plain,
        worst,
        discrepancy,
        plain_covariance,
    )


def expected_uncertainty(problem: EstimationProblem, lin: Linearization) -> Uncertainty:
    """Returns the uncertainty of a future estimate, for a scene without errors and observations with given noise."""
    information, prior = lin.information(), prior_information(problem.parameters)
    covariance = lin.expanded_covariance(_inverse(information + lin.reduced(prior)), prior)
    deviation = torch.diagonal(covariance).clamp_min(0.0).sqrt()
    correlation = covariance / (deviation[:, None] * deviation).clamp_min(1e-300)
    judged = lin.expanded_information(information, prior)
    judged = judged + torch.diag(1.0 / problem.parameters.prior_normal()[1] ** 2)
    verdicts = _judge_problem(problem, lin.z, judged, deviation)
    noise = float(lin.blocks[0].sigma.mean())
    return Uncertainty(deviation, correlation, noise, verdicts.levels, verdicts.directions, ("noise",), deviation)


def _noise_scale(problem: EstimationProblem, lin: Linearization) -> float:
    """Variance of the residuals relative to the assumed noise.

    Residuals larger than the noise widen the intervals. Exact synthetic videos have residuals far below the floor of
    the noise, and intervals to match.
    """
    if problem.is_below_floor:
        smallest = MIN_NOISE / float(problem.noise[lin.blocks[0].key].floored.mean())
        return float(max(lin.chi2, smallest**2))
    return max(lin.chi2, 1.0)


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
        inverse = _inverse(lin.information(part) / variance + lin.reduced(prior))
        shift = lin.expanded(-inverse @ (lin.gradient(part) / variance))
        found.append((shift, lin.expanded_covariance(inverse, prior)))
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


def _judge_problem(
    problem: EstimationProblem, z: torch.Tensor, information: torch.Tensor, deviation: torch.Tensor
) -> Verdicts:
    """Returns the verdict on each coordinate and a description of each undetermined direction of the unknowns.

    Nuisances are eliminated first: how far the video determines them is no question of the user. They get no verdict.
    """
    names, errors = problem.parameters.names, problem.nuisance_paths
    wanted = [k for k, name in enumerate(names) if name not in errors]
    if len(wanted) < len(names):
        rest = [k for k, name in enumerate(names) if name in errors]
        cross = information[wanted][:, rest]
        information = information[wanted][:, wanted] - cross @ _inverse(information[rest][:, rest]) @ cross.T
    own = judge_identifiability(problem.parameters, z, information, deviation, wanted)
    found = dict(zip(wanted, own.levels, strict=True))
    levels = tuple(found.get(k, Identifiability("not judged")) for k in range(len(names)))
    floor = torch.zeros_like(z).index_put((torch.tensor(wanted, dtype=torch.long),), own.floor)
    return Verdicts(levels, own.directions, floor)


def judge_identifiability(
    parameters: Parameters,
    z: torch.Tensor,
    information: torch.Tensor,
    deviation: torch.Tensor,
    wanted: Sequence[int] | None = None,
) -> Verdicts:
    """Returns the verdict on each of the M judged coordinates and a description of each undetermined direction.

    A coordinate that is not identifiable at the noise assumed for the judgement has at least the standard deviation it
    was judged by: in an exact synthetic video, rounding alone would give it a narrow interval.

    Args:
        parameters: The unknowns.
        z: Estimate [P].
        information: Fisher information of the judged coordinates at the noise of the observations, [M, M].
        deviation: Standard deviations of the estimate, [P].
        wanted: Positions of the M judged coordinates; all if None.
    """
    chosen = list(range(len(z))) if wanted is None else list(wanted)
    names = [parameters.names[k] for k in chosen]
    scales, deviation = value_scales(parameters, z)[chosen], deviation[chosen]
    scaled = information * (scales[:, None] * scales)
    eigenvalues, vectors = torch.linalg.eigh(torch.nan_to_num(scaled))
    deviations = eigenvalues.clamp_min(1.0 / MAX_DEVIATION**2).rsqrt()
    marginal = torch.maximum((vectors**2 @ deviations**2).sqrt(), deviation / scales)
    reasons, directions = _direction_texts(vectors, deviations, names)
    prior = parameters.prior_normal()[1][chosen]
    bounds = at_bound(parameters, z)
    found = []
    for i, value in enumerate(marginal.tolist()):
        level = "identifiable" if value < IDENTIFIABLE else "weak" if value < WEAK else "not identifiable"
        reason = "" if level == "identifiable" else reasons[i] or "its interval is wide compared with its value"
        if math.isfinite(float(prior[i])) and float(deviation[i]) > FROM_PRIOR * float(prior[i]):
            level, reason = "from the prior", "the observations add nothing to its prior"
        if bounds[chosen[i]] and level != "not identifiable":  # which drifts to a bound for no reason
            bound = bounds[chosen[i]]
            level, reason = "at its bound", f"the best value lies at {bound}: widen the bounds, or check the scene"
        found.append(Identifiability(level, reason))
    undetermined = torch.tensor([item.level == "not identifiable" for item in found], dtype=torch.bool)
    return Verdicts(tuple(found), tuple(directions), torch.where(undetermined, marginal * scales, 0.0))


def _direction_texts(
    vectors: torch.Tensor, deviations: torch.Tensor, names: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns a description for each coordinate of the weakest direction it is part of, and those of the undetermined
    directions, the weakest first.

    Args:
        vectors: Directions in columns, [P, P].
        deviations: Standard deviation along each, decreasing, [P].
        names: Name of each coordinate.
    """
    reasons, directions = [""] * len(names), list[str]()
    size = vectors.abs()
    large = size >= MIN_COMPONENT * size.amax(0)
    for k in torch.nonzero(deviations > IDENTIFIABLE)[:, 0].tolist():
        members = [i for i in torch.nonzero(large[:, k])[:, 0].tolist() if not reasons[i]]
        undetermined = float(deviations[k]) > WEAK and len(directions) < MAX_DIRECTIONS
        if members or undetermined:
            text = _describe_direction(vectors[:, k], names)
            directions += [text] if undetermined else []
            for i in members:
                reasons[i] = text
    hidden = int((deviations > WEAK).sum()) - len(directions)
    return reasons, [*directions, f"{hidden} further directions are not determined"] if hidden > 0 else directions


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
    components = [(name, x / largest) for name, x in zip(names, v.tolist(), strict=True)]
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
    hidden = len(components) - MAX_NAMES
    if hidden > 0:
        components = sorted(components, key=lambda item: -abs(item[1]))[:MAX_NAMES]
    listed = ", ".join(name for name, _ in components) + (f" and {hidden} others" if hidden > 0 else "")
    return f"only combinations of {listed} are determined: they can change together without a visible effect"
