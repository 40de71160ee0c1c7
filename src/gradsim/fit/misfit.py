"""Whether a fitted scene explains the observations, and if not, the likely reason.

An answer is trusted only if all of the following hold. The residuals are as small as the noise, over all entries and
over the moving parts of the image. The scene explains the change in the video better than no physics at all. The
predicted and the observed motion take place in the same pixels. No small error of the scene, such as a rotated camera,
explains a significant part of the residual. Estimates from the first and from the last frames agree.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gradsim.fit.causes import Cause, likely_causes
from gradsim.fit.linearized import Block, Linearization
from gradsim.fit.noise import MAD_TO_SD
from gradsim.fit.nuisances.nuisance import Nuisance
from gradsim.fit.observations.pixels import Pixels, median_image
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.series_misfit import center_error, explained_series

MAX_CHI2 = 1.02  # mean squared residual over the noise variance, of all entries
MAX_MOVING_CHI2 = 1.1  # the same, of entries that move
MAX_CODEC_CHI2 = 1.5  # the same for compressed videos, whose noise is simulated
CHI2_DEVIATIONS = 5.0  # standard deviations of chi^2 that are allowed beyond these
MIN_EXPLAINED = 0.9  # fraction of the visible change that the scene must explain
MIN_EXPLAINED_TRACKS = 0.95  # the same for tracks, which contain nothing but the motion
MAX_CENTER_ERROR = 0.1  # residual of tracked centres in the image, relative to the apparent diameter of the body
NO_EXPLANATION = 0.5  # fraction below which the video shows something else
MIN_OVERLAP = 0.5  # of the predicted and the observed moving regions
MAX_SCORE = 25.0  # chi^2 that one nuisance may explain
ALIKE = 0.01  # largest difference between two videos whose moving pixels are the same, relative to MOVING
MOVING = 0.05  # change of a colour that counts as motion, or five standard deviations of the noise
SATURATED = 3.0  # predictions this close to black or white, in standard deviations, are left out: noise is clipped
MIN_MOVING_ENTRIES = 30
MAX_NOISE = 0.15  # largest noise of a video that shows a scene
MIN_OUTLIER_TRIALS = 5  # trials among which outliers are sought
OUTLIER_DEVIATIONS = 3.5  # of the logarithm of a trial's residual from the median trial
MIN_LOG_SPREAD = 0.35  # smallest standard deviation of these logarithms: a residual of 3.4 medians is usual


@dataclass(frozen=True, eq=False)
class Misfit:
    """Measures of how well the scene explains the observations."""

    chi2: float  # mean squared residual over the noise variance
    moving_chi2: float  # the same where something moves; NaN for observations that are not images
    explained: float  # fraction of the change that the scene explains; NaN if nothing changes
    overlap: float  # of predicted and observed moving regions, intersection over union; NaN without images
    holdout: float  # largest difference of estimates from first and last frames, in standard deviations
    causes: tuple[Cause, ...] = ()  # likely errors of the scene, the most likely first
    corrections: tuple[str, ...] = ()  # errors of the scene that were estimated along with the unknowns
    noise: float = 0.0  # largest standard deviation of a pixel of the videos, as measured in them
    chi2_limit: float = MAX_CHI2
    moving_limit: float = MAX_MOVING_CHI2
    score_limit: float = MAX_SCORE
    frames: tuple[float, ...] = field(default=(), repr=False)  # chi^2 of each frame of the first trial
    trials: dict[str, float] = field(default_factory=dict, repr=False)  # chi^2 by trial
    outliers: dict[str, float] = field(default_factory=dict)  # trials that fit far worse: residual over the median's
    explained_limit: float = MIN_EXPLAINED
    center_error: float = (
        math.nan
    )  # rms residual of tracked centres over the apparent diameter; NaN without such tracks
    conflicts: tuple[str, ...] = ()  # declared nuisances that contradict their priors, in words

    @property
    def nonsense(self) -> bool:
        """Whether the observations show something else than the scene."""
        noisy = self.noise > MAX_NOISE
        return noisy or self.explained < NO_EXPLANATION or self.overlap < MIN_OVERLAP / 2

    @property
    def large(self) -> bool:
        """Whether the residual exceeds the noise, over all entries or where something moves."""
        return self.chi2 > self.chi2_limit or self.moving_chi2 > self.moving_limit

    @property
    def reasons(self) -> list[str]:
        """Tests that failed, in words; empty if the scene explains the observations."""
        found = []
        if self.noise > MAX_NOISE:
            found.append(f"the video is mostly noise, of {100 * self.noise:.0f} % of full scale")
        if self.explained < self.explained_limit:
            found.append(f"the scene explains {100 * max(self.explained, 0.0):.0f} % of the visible motion")
        if self.center_error > MAX_CENTER_ERROR:
            found.append(f"tracked centres are off by {100 * self.center_error:.0f} % of the apparent diameter")
        if self.overlap < MIN_OVERLAP:
            found.append(f"predicted and observed motion overlap by {100 * self.overlap:.0f} %")
        if self.chi2 > self.chi2_limit:
            found.append(f"the residual is {math.sqrt(self.chi2):.3g} times the noise")
        if self.moving_chi2 > self.moving_limit:
            found.append(f"where something moves the residual is {math.sqrt(self.moving_chi2):.3g} times the noise")
        if self.causes and self.causes[0].score > self.score_limit:
            found.append("the residual has the pattern of an error in the scene")
        return [*found, *self.conflicts]

    @property
    def ok(self) -> bool:
        """Whether the scene explains the observations."""
        return not self.reasons

    def as_dict(self) -> dict[str, Any]:
        """Returns plain values, for JSON; NaN becomes None."""
        names = ("chi2", "moving_chi2", "explained", "center_error", "overlap", "holdout")
        numbers = {name: getattr(self, name) for name in names}
        return {
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "explains the observations": self.ok,
            "reasons": self.reasons,
            "likely causes": [dataclasses.asdict(cause) for cause in self.causes],
            "corrections": list(self.corrections),
            "outliers": self.outliers,
        }


@dataclass(frozen=True)
class _ImageMeasures:
    chi2: float
    count: float
    moving_chi2: float
    moving_count: float
    explained: float
    overlap: float
    codec: float  # chi2 of the simulated errors of a compressed video, of the same entries; 1 without compression
    moving_codec: float  # moving_chi2 of these errors


def measure_misfit(
    problem: EstimationProblem,
    lin: Linearization,
    nuisances: Sequence[Nuisance],
    *,
    scored: Linearization | None = None,
    holdout: float,
    corrections: tuple[str, ...] = (),
    score_limit: float = MAX_SCORE,
) -> Misfit:
    """Measures how well a scene explains the observations at a linearized estimate.

    `scored` is the linearization of all or of representative trials along the nuisances.
    """
    images, others = [], []
    for block in lin.blocks:
        observation = problem.observation(block.key)
        if isinstance(observation, Pixels):
            images.append(_image_measures(observation, block))
        else:
            others.append(block)
    total = sum(m.chi2 * m.count for m in images) + sum(float(b.gram[:, 0, 0].sum()) for b in others)
    count = sum(m.count for m in images) + sum(float(b.counts.sum()) for b in others)
    chi2 = total / max(1.0, count)
    moving_count = sum(m.moving_count for m in images)
    moving = sum(m.moving_chi2 * m.moving_count for m in images) / moving_count if moving_count else math.nan
    outliers = outlying_trials(problem, lin)
    others = [block for block in others if problem.trials[block.key[0]].name not in outliers]
    explained = [(m.explained, MIN_EXPLAINED) for m in images]
    explained += [(explained_series(problem, block), _explained_limit(problem, block)) for block in others]
    centers = [center_error(problem, block, lin.z) for block in others]
    overlaps = [m.overlap for m in images if math.isfinite(m.overlap)]
    share, least = _typical(explained, len(problem.trials))
    first = next(block for block in lin.blocks)
    compressed = any(block.codec_errors is not None for block in lin.blocks)
    codec = max((m.codec for m in images), default=1.0)
    moving_codec = max((m.moving_codec for m in images), default=1.0)
    limit = _limit((MAX_CODEC_CHI2 if compressed else MAX_CHI2) * codec, count)
    # A residual above a stated noise needs an explanation; one within it may be the error of a tracker.
    causes = [] if scored is None else likely_causes(scored, nuisances, chi2, correlated=chi2 <= limit)
    return Misfit(
        chi2,
        moving,
        share,
        min(overlaps) if overlaps else math.nan,
        holdout,
        tuple(cause for cause in causes if cause.score > score_limit)[:5],
        corrections,
        max((float(b.sigma.mean()) for b in lin.blocks if isinstance(problem.observation(b.key), Pixels)), default=0.0),
        limit,
        _limit((MAX_CODEC_CHI2 if compressed else MAX_MOVING_CHI2) * moving_codec, moving_count),
        score_limit,
        tuple((first.gram[:, 0, 0] / first.counts.clamp_min(1)).tolist()),
        _trial_chi2(problem, lin),
        outliers,
        least,
        -_typical([(-error, 0.0) for error in centers], len(problem.trials))[0],
    )


def _explained_limit(problem: EstimationProblem, block: Block) -> float:
    return MIN_EXPLAINED_TRACKS if isinstance(problem.observation(block.key), Tracks) else MIN_EXPLAINED


def _typical(values: list[tuple[float, float]], trials: int) -> tuple[float, float]:
    """Returns a value with its limit: the median distance above the limit of several trials, the smallest of few.

    NaN if all values are.
    """
    known = sorted((pair for pair in values if math.isfinite(pair[0])), key=lambda pair: pair[0] - pair[1])
    if not known:
        return math.nan, MIN_EXPLAINED
    return known[(len(known) - 1) // 2] if trials >= MIN_OUTLIER_TRIALS else known[0]


def _limit(base: float, count: float) -> float:
    """Largest acceptable chi^2 of `count` entries."""
    return max(base, 1.0 + CHI2_DEVIATIONS * math.sqrt(2.0 / max(count, 1.0)))


def _trial_chi2(problem: EstimationProblem, lin: Linearization) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for block in lin.blocks:
        sums = found.setdefault(problem.trials[block.key[0]].name, [0.0, 0.0])
        sums[0] += float(block.gram[:, 0, 0].sum())
        sums[1] += float(block.counts.sum())
    return {name: square / max(count, 1.0) for name, (square, count) in found.items()}


def outlying_trials(problem: EstimationProblem, lin: Linearization) -> dict[str, float]:
    """Returns the trials whose residuals are far above those of the others, and their ratio to the median trial.

    The residuals are those without robust weights. Their logarithms are compared by median and median deviation.
    """
    sums: dict[str, list[float]] = {}
    for block in lin.blocks:
        present = torch.ones_like(block.difference) if block.weights is None else (block.weights > 0).double()
        own = sums.setdefault(problem.trials[block.key[0]].name, [0.0, 0.0])
        own[0] += float(((block.difference / block.sigma).square() * present).sum())
        own[1] += float(present.expand(block.difference.shape).sum())
    if len(sums) < MIN_OUTLIER_TRIALS:
        return {}
    sizes = torch.tensor([math.log(max(square / max(count, 1.0), 1e-300)) / 2 for square, count in sums.values()])
    excess = sizes - sizes.median()
    limit = OUTLIER_DEVIATIONS * max(MAD_TO_SD * float(excess.abs().median()), MIN_LOG_SPREAD)
    return {name: math.exp(x) for name, x in zip(sums, excess.tolist(), strict=True) if x > limit}


def _image_measures(observation: Pixels, block: Block) -> _ImageMeasures:
    """Compares a video with its prediction pixel by pixel."""
    video = observation.targets[-1]
    difference = block.difference.view(video.shape)
    predicted = video + difference
    square = difference.square()
    valid = None  # entries with positive weights; None if these are all
    if block.weights is not None:
        weights = block.weights.expand(len(video), -1).reshape(video.shape)
        square, valid = square * weights, weights > 0
    sigma = float(block.sigma.mean())
    unsaturated = (predicted > SATURATED * sigma).logical_and_(predicted < 1 - SATURATED * sigma)
    unsaturated = unsaturated if valid is None else unsaturated.logical_and_(valid)
    if not bool(unsaturated.any()):
        unsaturated = torch.ones_like(unsaturated) if valid is None else valid
    still = median_image(video)
    alike = float(difference.abs().max()) < ALIKE * MOVING
    moving_predicted = _moving(predicted, still if alike else median_image(predicted), MOVING)  # without noise
    moving_observed = _moving(video, still, max(MOVING, 5 * sigma))
    moving = (moving_predicted | moving_observed)[..., None].expand(video.shape)
    moving = moving if valid is None else moving & valid
    count = float(unsaturated.sum())
    chi2 = _masked_sum(square, unsaturated) / sigma**2 / count if count else math.nan  # all weights are 0
    measured = moving & unsaturated
    measured_count = float(measured.sum())
    enough = measured_count >= MIN_MOVING_ENTRIES
    explained = math.nan
    if bool(moving.any()):
        noise = sigma**2 * float(moving.sum())
        left = _masked_sum(square, moving)
        change = (video - still).square_()
        change = change if block.weights is None else change * weights
        total = _masked_sum(change, moving)
        explained = 1.0 - max(0.0, left - noise) / max(total - noise, 0.02 * noise, 1e-12)
    union = float((moving_predicted | moving_observed).sum())
    overlap = float((moving_predicted & moving_observed).sum()) / union if union else math.nan
    return _ImageMeasures(
        chi2,
        count,
        _masked_sum(square, measured) / sigma**2 / measured_count if enough else math.nan,
        measured_count if enough else 0.0,
        explained,
        overlap,
        _codec_chi2(block, unsaturated, sigma),
        _codec_chi2(block, measured, sigma) if enough else 1.0,
    )


def _codec_chi2(block: Block, entries: torch.Tensor, sigma: float) -> float:
    """Mean square of the simulated errors of a compressed video over some entries, relative to the noise."""
    if block.codec_errors is None:
        return 1.0
    square = block.codec_errors[0].view(entries.shape).square()
    return max(1.0, _masked_sum(square, entries) / max(1.0, float(entries.sum())) / sigma**2)


def _moving(video: torch.Tensor, still: torch.Tensor, threshold: float) -> torch.Tensor:
    """Pixels [T, H, W] whose colour differs from a still image [H, W, 3]."""
    return ((video - still).abs_() > threshold).any(-1)


def _masked_sum(values: torch.Tensor, mask: torch.Tensor) -> float:
    return float(torch.where(mask, values, 0.0).sum())
