"""Fits of discs that move during the exposure to alpha masks: centre, radius, smear and alpha in the interior.

Masks of many frames are fitted together, in arrays: the calls for a mask of some hundred pixels take longer than
its arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.smear import disc_images, stretched
from gradsim.footage.threads import map_in_threads

MIN_SIGMA = 0.02  # least standard deviation of alpha
ROBUST = 3.0  # deviations from which on a pixel loses weight (Cauchy)
CORRELATED = 6.0  # pixels whose errors are equal: compression, interpolation of colours, shading
DIFFERENCE = 0.05  # for the derivatives by radius and smear [px]
BATCH = 60_000  # pixels that are fitted together
ITERATIONS = 8  # at most
SMALL_STEP = 2e-3  # of the last iteration [px]


@dataclass(frozen=True, eq=False)
class DiscFit:
    """A disc fitted to an alpha mask; lengths are in pixels of the window.

    Args:
        parameters: Centre x and y, radius, smear x and y, and alpha in the interior [6].
        covariance: Of the parameters [6, 6].
        sigma: Standard deviation of alpha from the disc, near its outline.
        overlap: Sum of the lesser of alpha and disc over the sum of the greater: 1 for a disc, .83 for a square.
    """

    parameters: NDArray[np.float64] = field(repr=False)
    covariance: NDArray[np.float64] = field(repr=False)
    sigma: float
    overlap: float

    @property
    def center(self) -> NDArray[np.float64]:
        """Centre (x, y) [2]; the first pixel covers the square from 0 to 1."""
        return self.parameters[:2]

    @property
    def diameter(self) -> float:
        """Diameter across the motion."""
        return 2 * float(self.parameters[2])

    @property
    def smear(self) -> NDArray[np.float64]:
        """Motion during the exposure (x, y) [2]; its sign is arbitrary."""
        return self.parameters[3:5]

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviations of the parameters [6]."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0))


@dataclass(frozen=True, eq=False)
class DiscPrior:
    """What is known about the parameters of a disc before the fit: means [6] and standard deviations [6]."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DiscProblem:
    """A mask to which a disc is fitted.

    Args:
        alpha: Alpha [h, w].
        usable: Pixels that count [h, w].
        prior: Start and prior. Parameters with a standard deviation of zero are not fitted.
        levels: Range of alpha that counts, in mask and image alike: what is fainter may be a shadow.
    """

    alpha: NDArray[np.floating] = field(repr=False)
    usable: NDArray[np.bool_] = field(repr=False)
    prior: DiscPrior
    levels: tuple[float, float] = (0.0, 1.0)


def fit_disc_masks(problems: Sequence[DiscProblem], *, softness: float = 0.7) -> list[DiscFit]:
    """Fits a disc to each mask by robust Gauss-Newton, from the mean of its prior.

    Args:
        problems: The masks.
        softness: Standard deviation of the point spread [px].
    """
    order = sorted(range(len(problems)), key=lambda n: (_fixed(problems[n]), problems[n].alpha.size))
    batches: list[list[int]] = []
    for n in order:
        size = problems[n].alpha.size * (len(batches[-1]) + 1) if batches else 0
        if not batches or size > BATCH or _fixed(problems[n]) != _fixed(problems[batches[-1][0]]):
            batches.append([])
        batches[-1].append(n)
    fitted = map_in_threads(lambda own: _fit_batch([problems[n] for n in own], softness), batches)
    found = {n: fit for own, fits in zip(batches, fitted, strict=True) for n, fit in zip(own, fits, strict=True)}
    return [found[n] for n in range(len(problems))]


def _fixed(problem: DiscProblem) -> tuple[bool, ...]:
    """Which parameters are not fitted."""
    return tuple(bool(own) for own in problem.prior.deviation == 0)


def _fit_batch(problems: Sequence[DiscProblem], softness: float) -> list[DiscFit]:
    """Fits discs with the same fixed parameters."""
    masks = _Masks.padded(problems)
    free = np.flatnonzero(problems[0].prior.deviation > 0)
    mean = np.array([own.prior.mean for own in problems])
    precision = np.zeros((len(problems), 6, 6))
    precision[:, free, free] = 1 / np.array([own.prior.deviation[free] for own in problems]) ** 2
    p, sigma = mean.copy(), np.full(len(problems), MIN_SIGMA)
    hessian = np.tile(np.eye(6), (len(problems), 1, 1))
    active = np.arange(len(problems))
    for _ in range(ITERATIONS):
        part = masks.picked(active)
        image, error, sigma[active] = part.compared(p[active], softness)
        jacobian = part.jacobian(p[active], softness, image, free)
        weight = (
            part.usable / (1 + (error / (ROBUST * sigma[active, None, None])) ** 2) / sigma[active, None, None] ** 2
        )
        weighted = jacobian * weight.reshape(len(active), 1, -1)
        own = precision[active][:, free[:, None], free]
        curvature = weighted @ jacobian.transpose(0, 2, 1) + own
        slope = (weighted @ error.reshape(len(active), -1, 1))[..., 0]
        slope = slope + np.einsum("nij,nj->ni", own, (mean - p)[active][:, free])
        hessian[active[:, None, None], free[:, None], free] = curvature
        step = np.linalg.solve(curvature + 1e-9 * np.eye(len(free)), slope[..., None])[..., 0]
        step = _limited(step, free, p[active, 2])
        p[active[:, None], free] += step
        p[active, 2] = np.maximum(p[active, 2], 0.5)
        active = active[np.abs(step).max(1) >= SMALL_STEP]
        if not len(active):
            break
    covariance = np.zeros_like(hessian)
    inverse = np.linalg.inv(hessian[:, free[:, None], free] + 1e-9 * np.eye(len(free)))
    covariance[:, free[:, None], free] = CORRELATED * inverse
    overlap = masks.overlap(p, softness)
    return [DiscFit(p[n], covariance[n], float(sigma[n]), float(overlap[n])) for n in range(len(problems))]


@dataclass(frozen=True, eq=False)
class _Masks:
    """Masks of one size [B, h, w]: smaller ones are padded with pixels that do not count."""

    target: NDArray[np.float32]  # alpha with its levels stretched
    usable: NDArray[np.bool_]
    levels: NDArray[np.float32]  # [2, B, 1, 1]

    @staticmethod
    def padded(problems: Sequence[DiscProblem]) -> _Masks:
        height, width = np.max([own.alpha.shape for own in problems], 0)
        target = np.zeros((len(problems), height, width), np.float32)
        usable = np.zeros(target.shape, np.bool_)
        for n, own in enumerate(problems):
            rows, columns = (slice(length) for length in own.alpha.shape)
            target[n, rows, columns] = stretched(own.alpha, own.levels)
            usable[n, rows, columns] = own.usable
        levels = np.array([own.levels for own in problems], np.float32).T[..., None, None]
        return _Masks(target, usable, levels)

    def picked(self, numbers: NDArray[np.int64]) -> _Masks:
        if len(numbers) == len(self.target):
            return self
        return _Masks(self.target[numbers], self.usable[numbers], self.levels[:, numbers])

    @property
    def size(self) -> tuple[int, int]:
        return self.target.shape[1], self.target.shape[2]

    def stretched(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        low, high = self.levels
        return np.asarray(np.clip((image - low) / (high - low), 0, 1), np.float32)

    def compared(
        self, p: NDArray[np.float64], softness: float
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float64]]:
        """Returns the images of discs, the errors of alpha [B, h, w], and their standard deviations [B]."""
        image = disc_images(self.size, p, softness)
        shown = self.stretched(image)
        error = self.target - shown
        edge = self.usable & (shown > 0.02) & (shown < 0.98)
        sigma = [_edge_sigma(own[at]) for own, at in zip(error, edge, strict=True)]
        return image, error, np.array(sigma)

    def jacobian(
        self, p: NDArray[np.float64], softness: float, image: NDArray[np.float32], free: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Returns the derivatives of the stretched images by the free parameters [B, n, h w]."""
        low, high = self.levels
        gain = ((image > low - 0.02) & (image < high + 0.02)) / (high - low)
        columns = np.empty((len(image), len(free), *self.size), np.float32)
        for n, k in enumerate(free):
            if k < 2:
                np.negative(np.gradient(image, axis=2 - int(k)), out=columns[:, n])
            elif k < 5:
                moved = p.copy()
                moved[:, k] += DIFFERENCE
                columns[:, n] = (disc_images(self.size, moved, softness) - image) / np.float32(DIFFERENCE)
            else:
                columns[:, n] = image / p[:, 5, None, None].astype(np.float32)
        columns *= gain[:, None]
        return columns.reshape(*columns.shape[:2], -1)

    def overlap(self, p: NDArray[np.float64], softness: float) -> NDArray[np.float64]:
        """Returns the sums of the lesser of mask and disc over those of the greater [B]."""
        shown = self.stretched(disc_images(self.size, p, softness))
        both = (np.minimum(self.target, shown) * self.usable).sum((1, 2), dtype=np.float64)
        either = (np.maximum(self.target, shown) * self.usable).sum((1, 2), dtype=np.float64)
        return both / np.maximum(either, 1e-9)


def _edge_sigma(error: NDArray[np.float32]) -> float:
    """Returns the robust standard deviation of the errors [N] where the outline is."""
    return 10 * MIN_SIGMA if len(error) < 8 else max(MIN_SIGMA, 1.4826 * float(np.median(np.abs(error))))


def _limited(step: NDArray[np.float64], free: NDArray[np.int64], radius: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns steps [B, n] of at most half a radius."""
    largest = np.abs(step[:, free < 5]).max(1, initial=0.0)
    return step * np.minimum(1.0, 0.5 * np.maximum(radius, 2.0) / np.maximum(largest, 1e-12))[:, None]
