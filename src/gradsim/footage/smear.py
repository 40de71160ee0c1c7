"""A disc that moves during the exposure: its image, and the fit of its centre, radius and smear to an alpha mask.

The image of a moving disc is the mean of the disc over the exposure. Across the motion it is as wide as the disc; along
it the disc is longer by the smear, the way it moves during the exposure. The centre is the mean over the exposure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

OFFSETS = np.array([-0.375, -0.125, 0.125, 0.375], np.float32)  # lines across the motion within a pixel
MIN_SIGMA = 0.02  # least standard deviation of alpha
ROBUST = 3.0  # deviations from which on a pixel loses weight (Cauchy)
CORRELATED = 6.0  # pixels whose errors are equal: compression, interpolation of colours, shading
STEPS = (1e-2, 1e-2, 1e-2)  # differences for the derivatives by radius and smear [px]


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


def disc_image(size: tuple[int, int], parameters: NDArray[np.float64], softness: float) -> NDArray[np.float32]:
    """Returns the alpha [h, w] of a disc that moves during the exposure.

    Args:
        size: Height and width [px].
        parameters: Centre x and y, radius, smear x and y [px], and alpha in the interior [6].
        softness: Standard deviation of the point spread [px].
    """
    x, y, radius, *smear, level = (float(number) for number in parameters)
    length = float(np.hypot(smear[0], smear[1]))
    along_x, along_y = (smear[0] / length, smear[1] / length) if length > 1e-9 else (1.0, 0.0)
    dx = np.arange(size[1], dtype=np.float32) + np.float32(0.5 - x)
    dy = (np.arange(size[0], dtype=np.float32) + np.float32(0.5 - y))[:, None]
    along = dx * np.float32(along_x) + dy * np.float32(along_y)
    across = dy * np.float32(along_x) - dx * np.float32(along_y)
    reach = np.float32(np.sqrt(length**2 + 1) / 2)  # half of the smear and of a pixel
    chord = np.sqrt(np.maximum(np.float32(radius**2) - (across + OFFSETS[:, None, None]) ** 2, 0))
    covered = np.clip(along + reach, -chord, chord) - np.clip(along - reach, -chord, chord)
    image = covered.sum(0) * np.float32(level / (2 * reach * len(OFFSETS)))
    return np.asarray(cv2.GaussianBlur(image, (0, 0), softness) if softness > 0.2 else image, np.float32)


def fit_disc(
    alpha: NDArray[np.float64],
    usable: NDArray[np.bool_],
    prior: DiscPrior,
    *,
    softness: float = 0.7,
    levels: tuple[float, float] = (0.0, 1.0),
    iterations: int = 8,
) -> DiscFit:
    """Fits a disc to an alpha mask by robust Gauss-Newton, from the mean of the prior.

    Args:
        alpha: Alpha [h, w].
        usable: Pixels that count [h, w].
        prior: Start and prior. Parameters with a standard deviation of zero are not fitted.
        softness: Standard deviation of the point spread [px].
        levels: Range of alpha that counts, in mask and image alike: what is fainter may be a shadow.
        iterations: At most.
    """
    p = prior.mean.copy()
    free = np.flatnonzero(prior.deviation > 0)
    precision = np.diag(1 / prior.deviation[free] ** 2)
    sigma, hessian = MIN_SIGMA, np.eye(len(free))
    target, gain = stretched(alpha, levels), 1 / (levels[1] - levels[0])
    for _ in range(iterations):
        image = disc_image(alpha.shape, p, softness)
        shown = stretched(image, levels)
        error = target - shown
        sigma = _edge_sigma(error, shown, usable)
        weight = usable / (1 + (error / (ROBUST * sigma)) ** 2) / sigma**2
        inside = (image > levels[0] - 0.02) & (image < levels[1] + 0.02)
        jacobian = (gain * inside * _jacobian(alpha.shape, p, softness, image))[free].reshape(len(free), -1)
        weighted = jacobian * weight.ravel()
        hessian = weighted @ jacobian.T + precision
        slope = weighted @ error.ravel() + precision @ (prior.mean - p)[free]
        step = _limited(np.linalg.solve(hessian + 1e-9 * np.eye(len(free)), slope), free, p[2])
        p[free] += step
        p[2] = max(p[2], 0.5)
        if np.abs(step).max() < 2e-3:
            break
    covariance = np.zeros((6, 6))
    covariance[np.ix_(free, free)] = CORRELATED * np.linalg.inv(hessian + 1e-9 * np.eye(len(free)))
    shown = stretched(disc_image(alpha.shape, p, softness), levels)
    both, either = np.minimum(target, shown)[usable].sum(), np.maximum(target, shown)[usable].sum()
    return DiscFit(p, covariance, sigma, float(both / max(either, 1e-9)))


def stretched(alpha: NDArray[Any], levels: tuple[float, float]) -> NDArray[Any]:
    """Returns alpha with a range of levels stretched to 0 and 1."""
    return np.clip((alpha - levels[0]) / (levels[1] - levels[0]), 0, 1)


def _jacobian(
    size: tuple[int, ...], p: NDArray[np.float64], softness: float, image: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Returns the derivatives of the image by the parameters [6, h, w]."""
    by_y, by_x = np.gradient(image)
    columns = [-by_x, -by_y]
    for k, step in zip((2, 3, 4), STEPS, strict=True):
        moved = p.copy()
        moved[k] += 5 * step
        columns.append((disc_image((size[0], size[1]), moved, softness) - image) / np.float32(5 * step))
    return np.stack([*columns, image / np.float32(p[5])]).astype(np.float32)


def _edge_sigma(error: NDArray[np.float64], image: NDArray[np.float32], usable: NDArray[np.bool_]) -> float:
    """Returns the robust standard deviation of alpha where the disc and its outline are."""
    edge = usable & (image > 0.02) & (image < 0.98)
    if edge.sum() < 8:
        return 10 * MIN_SIGMA
    return max(MIN_SIGMA, 1.4826 * float(np.median(np.abs(error[edge]))))


def _limited(step: NDArray[np.float64], free: NDArray[np.int64], radius: float) -> NDArray[np.float64]:
    """Returns a step of at most half a radius."""
    largest = float(np.abs(step[free < 5]).max()) if (free < 5).any() else 0.0
    return step * min(1.0, 0.5 * max(radius, 2.0) / max(largest, 1e-12))
