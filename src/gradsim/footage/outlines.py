"""Centres, diameters and smears of an object from its alpha masks, with standard deviations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.disc_fits import DiscFit, DiscPrior, DiscProblem, fit_disc_masks
from gradsim.footage.masks import Masks, Steps, measured_steps

ROUND = 0.86  # least overlap with a disc; that of a square is .83
FREE = 1e3  # standard deviation of parameters without prior [px]
USUAL_SHUTTER = 0.4  # exposure time over the interval, before it is measured
LEVEL = 0.05  # standard deviation of alpha inside the object
MIN_STEP = 0.4  # motion in a frame below which the smear is not fitted [px of the masks]
FAST = 3.0  # motion in a frame from which on the smear tells the exposure time [px of the masks]
MIN_FAST = 4  # frames
MIN_SMEAR = 2.0  # [px of the masks]: shorter ones cannot be told from the point spread
SOFTNESS = (0.5, 0.8, 1.2, 1.8)  # candidates of the point spread [px of the masks]
SOFTNESS_FRAMES = 8
MAX_DEVIATION = 0.25  # of the logarithm of a diameter from those of its neighbours
NEIGHBORS = 7  # frames on either side
MIN_OVERLAP = 0.3  # of an outline with its mask, below the usual one
DIFFERENCE = np.array([1.0, -5.0, 10.0, -10.0, 5.0, -1.0])  # fifth difference: smooth motion vanishes in it
QUANTILE, NORMAL_QUANTILE = 0.3, 0.3853  # of absolute values; most windows may contain a bounce
NOISE_RANGE = (0.7, 20.0)  # ratio of the noise over time to that which the fit predicts
MASK_SIGMA = 0.05  # standard deviation of alpha in the masks of objects that are not round


@dataclass(frozen=True, eq=False)
class Outlines:
    """Measured values in the frames that could be measured [px of the full picture].

    Args:
        frames: Indices of the frames [N].
        centers: Centres [N, 2].
        center_std: Their standard deviations [N, 2].
        diameters: Diameters [N].
        diameter_std: Their standard deviations [N].
        smears: Motion during the exposure [N, 2].
        is_round: Whether the outline is a disc.
        shutter: Exposure time over the interval of the frames, None if unknown.
        shutter_std: Its standard deviation.
    """

    frames: NDArray[np.int64] = field(repr=False)
    centers: NDArray[np.float64] = field(repr=False)
    center_std: NDArray[np.float64] = field(repr=False)
    diameters: NDArray[np.float64] = field(repr=False)
    diameter_std: NDArray[np.float64] = field(repr=False)
    smears: NDArray[np.float64] = field(repr=False)
    is_round: bool
    shutter: float | None = None
    shutter_std: float | None = None


def measured_outlines(masks: Masks, frames: Sequence[int], *, attached: bool = False) -> Outlines:
    """Measures the object in some frames: as a smeared disc if it is round, else by the moments of alpha.

    Args:
        masks: The masks.
        frames: Frames to measure.
        attached: Whether rods may be attached to it. They move a centroid, but hardly a disc with robust weights, which
            is then fitted to any outline.
    """
    moments = masks.moments(frames)
    times = masks.times[list(frames)]
    steps = measured_steps(times, moments[:, :2])
    softness = best_softness(masks, frames, steps)
    fits = fit_discs(masks, frames, steps, softness=softness)
    slow = np.argsort(np.linalg.norm(steps.mean, axis=1))[: max(4, len(frames) // 2)]
    if not attached and np.median([fits[k].overlap for k in slow]) < ROUND:
        return _moment_outlines(masks, frames, moments)
    steps = measured_steps(times, np.array([masks.origin(k) + own.center for k, own in zip(frames, fits, strict=True)]))
    shutter, shutter_std = measured_shutter(fits, steps)
    fits = fit_discs(masks, frames, steps, softness=softness, shutter=shutter)
    return _disc_outlines(masks, frames, fits, shutter, shutter_std)


def fit_discs(
    masks: Masks,
    frames: Sequence[int],
    steps: Steps,
    *,
    softness: float = 0.8,
    shutter: float | None = None,
) -> list[DiscFit]:
    """Fits a disc to the mask of each frame.

    Args:
        masks: The masks.
        frames: Frames to fit.
        steps: Motion of the object at these frames [px of the masks].
        softness: Standard deviation of the point spread [px of the masks].
        shutter: Exposure time over the interval, if it is known.
    """
    moments = masks.moments(frames)
    problems, owners = [], []
    for n, k in enumerate(frames):
        own, levels = moments[n] - (*masks.origin(k), 0), masks.levels(k)
        for step in steps.candidates(n):
            prior = _prior(own, step, shutter, bool(steps.steady[n]))
            problems.append(DiscProblem(masks.alphas[k], masks.usable[k], prior, levels))
            owners.append(n)
    trials: list[list[DiscFit]] = [[] for _ in frames]
    for n, fit in zip(owners, fit_disc_masks(problems, softness=softness), strict=True):
        trials[n].append(fit)
    return [min(own, key=lambda fit: fit.sigma * (2 - fit.overlap)) for own in trials]


def _prior(moments: NDArray[np.float64], step: NDArray[np.float64], shutter: float | None, steady: bool) -> DiscPrior:
    """Returns the start of a fit at the moments (x, y, area) of a mask, with the smear that a motion predicts."""
    length = float(np.linalg.norm(step))
    smear = step * (USUAL_SHUTTER if shutter is None else shutter)
    if length < MIN_STEP:
        deviation = 0.0
    elif shutter is None or not steady:
        deviation = 0.4 * length + 0.3
    else:
        deviation = 0.1 * shutter * length + 0.2
    mean = np.array([moments[0], moments[1], np.sqrt(moments[2] / np.pi), *smear, 1.0])
    return DiscPrior(mean, np.array([FREE, FREE, FREE, deviation, deviation, LEVEL]))


def best_softness(masks: Masks, frames: Sequence[int], steps: Steps) -> float:
    """Returns the point spread that explains the outlines in the slowest frames best [px of the masks]."""
    slow = np.sort(np.argsort(np.linalg.norm(steps.mean, axis=1))[:SOFTNESS_FRAMES])
    part = Steps(steps.before[slow], steps.after[slow])
    chosen = [frames[n] for n in slow]
    misfits = [np.median([own.sigma for own in fit_discs(masks, chosen, part, softness=width)]) for width in SOFTNESS]
    return SOFTNESS[int(np.argmin(misfits))]


def measured_shutter(fits: Sequence[DiscFit], steps: Steps) -> tuple[float | None, float | None]:
    """Returns the exposure time over the interval and its standard deviation, from the smears of fast frames."""
    lengths = np.linalg.norm(steps.mean, axis=1)
    fast = np.flatnonzero((lengths > FAST) & steps.steady)
    if len(fast) < MIN_FAST:
        return None, None
    ratios = np.array([abs(float(fits[int(n)].smear @ steps.mean[n])) / lengths[n] ** 2 for n in fast])
    if np.median(ratios * lengths[fast]) < MIN_SMEAR:
        return None, None
    weights = lengths[fast] ** 2
    shutter = float(_weighted_median(ratios, weights))
    spread = 1.4826 * float(_weighted_median(np.abs(ratios - shutter), weights))
    return min(shutter, 1.0), max(1.25 * spread / np.sqrt(len(fast)), 0.005)


def _weighted_median(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(total, total[-1] / 2)])


def _disc_outlines(
    masks: Masks, frames: Sequence[int], fits: Sequence[DiscFit], shutter: float | None, shutter_std: float | None
) -> Outlines:
    overlaps = np.array([own.overlap for own in fits])
    diameters = np.array([own.diameter for own in fits])
    deviations = np.array([own.deviations for own in fits])
    good = (overlaps > np.median(overlaps) - MIN_OVERLAP) & _usual(diameters)
    kept = np.flatnonzero(good)
    numbers = np.array(frames, np.int64)[kept]
    centers = np.array(
        [masks.origin(int(k)) + fits[int(n)].center for k, n in zip(numbers, kept, strict=True)]
    ).reshape(-1, 2)
    times = masks.times[numbers]
    std = deviations[kept]
    return Outlines(
        frames=numbers,
        centers=masks.factor * centers,
        center_std=masks.factor * std[:, :2] * track_noise(times, centers, std[:, :2]),
        diameters=masks.factor * diameters[kept],
        diameter_std=masks.factor * 2 * std[:, 2] * track_noise(times, diameters[kept, None], 2 * std[:, 2:3])[0],
        smears=masks.factor * np.array([fits[int(n)].smear for n in kept]).reshape(-1, 2),
        is_round=True,
        shutter=shutter,
        shutter_std=shutter_std,
    )


def _moment_outlines(masks: Masks, frames: Sequence[int], moments: NDArray[np.float64]) -> Outlines:
    diameters = np.sqrt(4 * moments[:, 2] / np.pi)
    kept = np.flatnonzero(_usual(diameters))
    numbers, times = np.array(frames, np.int64)[kept], masks.times[list(frames)][kept]
    # Errors of alpha along the outline, of which a diameter has about three per pixel: they move centre and area.
    edge = MASK_SIGMA * np.sqrt(3 * diameters[kept]) / diameters[kept]
    std = np.stack([edge, edge], -1)
    noise = track_noise(times, moments[kept, :2], std)
    return Outlines(
        frames=numbers,
        centers=masks.factor * moments[kept, :2],
        center_std=masks.factor * std * noise,
        diameters=masks.factor * diameters[kept],
        diameter_std=masks.factor * 2 * edge * track_noise(times, diameters[kept, None], 2 * std[:, :1])[0],
        smears=np.zeros((len(kept), 2)),
        is_round=False,
    )


def _usual(diameters: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns which diameters are similar to those of the frames around them."""
    logs = np.log(diameters)
    local = [np.median(logs[max(0, k - NEIGHBORS) : k + NEIGHBORS + 1]) for k in range(len(logs))]
    return np.abs(logs - local) < MAX_DEVIATION


def track_noise(
    times: NDArray[np.float64], values: NDArray[np.float64], std: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the noise of values over time relative to their standard deviations, for each column [C].

    Smooth motion vanishes in fifth differences of evenly spaced values. Frames around bounces do not count, as a low
    quantile is used.

    Args:
        times: Times [N] [s].
        values: Values [N, C].
        std: Their standard deviations [N, C].
    """
    length = len(DIFFERENCE)
    intervals = np.diff(times)
    starts = [
        k for k in range(len(times) - length + 1) if np.ptp(own := intervals[k : k + length - 1]) < 0.1 * own.min()
    ]
    if len(starts) < 4:
        return np.ones(values.shape[1])
    windows = np.array(starts)[:, None] + np.arange(length)
    differences = np.abs(np.einsum("j,njc->nc", DIFFERENCE, values[windows]))
    expected = np.sqrt(np.einsum("j,njc->nc", DIFFERENCE**2, std[windows] ** 2))
    ratios = np.quantile(differences / np.maximum(expected, 1e-12), QUANTILE, axis=0) / NORMAL_QUANTILE
    return np.clip(ratios, *NOISE_RANGE)
