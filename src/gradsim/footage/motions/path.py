"""A measured path in the image, and the fit of a kind of motion to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

OUTLIER = 4.0  # residual beyond which a frame is not explained, in standard deviations
MAX_GAP = 3  # frames that are not explained within a motion, such as those around an impact
MIN_FRAMES = 6  # of a motion
MODEL_ERROR = (0.02, 0.006)  # of a fit without perspective, drag and lens, in diameters and in extents of the path
LEAST_ERROR = 0.005  # of the best fit, in diameters
SHARES = (0.6, 0.35)  # of a path, of the windows that are tried beside the whole
SLOW = 0.1  # motion of an object that rests, relative to the fastest
PIXEL_ERROR = 0.5  # smallest standard deviation of a centre [px]


@dataclass(frozen=True, eq=False)
class ImagePath:
    """The centre of an object over time, or the centres of several.

    Args:
        times: Times of the frames [N] [s].
        points: Centres [N, 2], x right and y down [px]; those of K linked objects side by side [N, 2 K].
        diameter: Of the object [px].
        sigma: Standard deviations of the centres [N] [px].
        extent: Of the whole path, the longer side of its bounding box [px].
    """

    times: NDArray[np.float64]
    points: NDArray[np.float64]
    diameter: float
    sigma: NDArray[np.float64]
    extent: float = 0.0

    def __len__(self) -> int:
        return len(self.times)

    @property
    def objects(self) -> int:
        """Number of objects whose centres it has."""
        return self.points.shape[1] // 2

    def part(self, frames: NDArray[np.int64] | slice) -> ImagePath:
        """Returns the path of some frames."""
        return replace(self, times=self.times[frames], points=self.points[frames], sigma=self.sigma[frames])

    @property
    def tolerance(self) -> NDArray[np.float64]:
        """Standard deviations of the residuals of a simple model of the motion [N] [px]."""
        model = np.hypot(MODEL_ERROR[0] * self.diameter, MODEL_ERROR[1] * self.extent)
        return np.hypot(np.maximum(self.sigma, PIXEL_ERROR), model)


@dataclass(frozen=True, eq=False)
class MotionFit:
    """A kind of motion, fitted to a part of a path.

    Args:
        kind: Name of the motion, such as "bounce".
        first, last: Range of the frames of the path in which the motion takes place, both included.
        predicted: Centres in these frames [M, 2], or [M, 2 K] of K linked objects [px].
        numbers: Values of the model by name, in pixels and seconds.
        free_numbers: Number of values that were fitted.
        explained: Explained part of the deviation from uniform motion, 1 for all of it.
        cost: Smaller for a better explanation of the whole path; see `motion_cost`.
        spread: Standard deviations of what the motion does not describe, [1], or along x and y, [2] or [M, 2] [px],
            such as the sideways motion of a ball that bounces irregularly.
    """

    kind: str
    first: int
    last: int
    predicted: NDArray[np.float64] = field(repr=False)
    numbers: dict[str, float]
    free_numbers: int
    explained: float
    cost: float
    spread: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1), repr=False)

    @property
    def frames(self) -> slice:
        """The frames of the motion."""
        return slice(self.first, self.last + 1)


Predict = Callable[[NDArray[np.float64]], NDArray[np.float64]]  # times [N] -> centres [N, 2]
Fitter = Callable[[ImagePath], tuple[Predict, dict[str, float]] | None]


def fit_motion(
    kind: str, path: ImagePath, fitter: Fitter, free_numbers: int, shares: Sequence[float] = SHARES
) -> MotionFit | None:
    """Fits a model to the longest part of a path that it explains.

    The start and the end of a recording often show a hand. The fit therefore begins with several windows of the path,
    keeps the frames that the model explains, fits again, and grows from there.

    Args:
        kind: Name of the motion.
        path: The whole path.
        fitter: Fits the model to a part of a path; None if that is not possible.
        free_numbers: Number of values that the model has.
        shares: Lengths of the windows, relative to that of the path.
    """
    best: MotionFit | None = None
    for window in _windows(len(path), shares):
        found = _grown(kind, path, fitter, free_numbers, window)
        if found is not None and (best is None or found.cost < best.cost):
            best = found
        if best is not None and _explains_all(path, best):
            break
    return best


def _explains_all(path: ImagePath, fit: MotionFit) -> bool:
    """Whether a fit explains the whole path within its tolerance, so that parts of it need not be tried."""
    if (fit.first, fit.last) != (0, len(path) - 1):
        return False
    residual = (((fit.predicted - path.points) / path.tolerance[:, None]) ** 2).mean(1)
    return bool(residual.mean() < 0.5 and residual.max() < OUTLIER)


def moving_range(path: ImagePath) -> tuple[int, int]:
    """Returns the first frame in which the object moves, and the one after the last: it may rest before and after."""
    if len(path) < MIN_FRAMES:
        return 0, len(path)
    steps = np.linalg.norm(path.points[2:] - path.points[:-2], axis=1)
    moving = np.flatnonzero(steps > SLOW * steps.max())
    return int(moving[0]), int(moving[-1]) + 3


def _windows(count: int, shares: Sequence[float]) -> list[slice]:
    """Returns the whole path, and parts of it at several places."""
    windows = [slice(0, count)]
    for share in shares:
        length = max(MIN_FRAMES, int(share * count))
        starts = sorted({int(start) for start in np.linspace(0, count - length, 5)})
        windows += [slice(start, start + length) for start in starts if length < count]
    return windows


def _grown(kind: str, path: ImagePath, fitter: Fitter, free_numbers: int, window: slice) -> MotionFit | None:
    first, last = window.start, window.stop - 1
    for _ in range(12):
        made = fitter(path.part(slice(first, last + 1)))
        if made is None:
            return None
        predict, numbers = made
        residual = np.linalg.norm(predict(path.times - path.times[first]) - path.points, axis=1)
        limits = _explained_range(residual < OUTLIER * _usual_error(path, residual[first : last + 1]), first, last)
        if limits is None:
            return None
        if limits == (first, last):
            break
        first, last = limits
    if last - first + 1 < max(MIN_FRAMES, free_numbers // 2 + 2):
        return None
    made = fitter(path.part(slice(first, last + 1)))
    if made is None:
        return None
    predict, numbers = made
    part = path.part(slice(first, last + 1))
    predicted = predict(part.times - part.times[0])
    explained = explained_share(part, predicted)
    cost = motion_cost(path, first, last, predicted, free_numbers)
    return MotionFit(kind, first, last, predicted, numbers, free_numbers, explained, cost)


def _usual_error(path: ImagePath, residual: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the error of a centre that the model explains [N] [px]: that of most frames, within limits.

    A release that a hand accompanies differs by little from a free fall, but by more than most frames do.
    """
    least = np.hypot(np.maximum(path.sigma, PIXEL_ERROR), LEAST_ERROR * path.diameter)
    return np.minimum(np.maximum(least, 1.5 * float(np.median(residual))), path.tolerance)


def _explained_range(good: NDArray[np.bool_], first: int, last: int) -> tuple[int, int] | None:
    """Returns the longest range of explained frames, with short gaps, that overlaps the present one.

    It grows by at most a quarter, because a model extrapolates badly.
    """
    best: tuple[int, int] | None = None
    start = end = -1
    for k in np.flatnonzero(good):
        if start < 0 or k - end > MAX_GAP + 1:
            start = int(k)
        end = int(k)
        if end >= first and start <= last and (best is None or end - start > best[1] - best[0]):
            best = start, end
    if best is None:
        return None
    margin = max(2, (last - first + 1) // 4)
    return max(best[0], first - margin), min(best[1], last + margin)


def explained_share(path: ImagePath, predicted: NDArray[np.float64]) -> float:
    """Returns the explained part of the deviation from uniform motion, beyond the tolerance of the residuals."""
    weights = 1.0 / path.tolerance
    basis = np.stack([np.ones(len(path)), path.times - path.times.mean()], 1) * weights[:, None]
    scaled = path.points * weights[:, None]
    line = basis @ np.linalg.lstsq(basis, scaled, rcond=None)[0]
    total = float(((scaled - line) ** 2).sum())
    left = float(((predicted * weights[:, None] - scaled) ** 2).sum())
    return 1.0 - left / max(total, 1e-12)


def motion_cost(path: ImagePath, first: int, last: int, predicted: NDArray[np.float64], free_numbers: int) -> float:
    """Returns the truncated squared residuals of a whole path, plus a penalty for every fitted value.

    Frames outside the motion cost as much as outliers, so that a model that explains more of the path wins.
    """
    part = path.part(slice(first, last + 1))
    residual = ((predicted - part.points) / part.tolerance[:, None]) ** 2
    inside = np.minimum(residual.sum(1), OUTLIER**2).sum()
    outside = (len(path) - len(part)) * OUTLIER**2
    return float(inside + outside + free_numbers * np.log(2 * len(path)))


def point(fit: MotionFit, name: str) -> tuple[float, float]:
    """Returns the numbers `name_x` and `name_y` of a fit."""
    return fit.numbers[f"{name}_x"], fit.numbers[f"{name}_y"]


def gauss_newton(
    residual: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    start: NDArray[np.float64],
    iterations: int = 25,
    *,
    batched: bool = False,
) -> NDArray[np.float64]:
    """Minimizes the sum of squares of a residual over a few numbers, by Levenberg-Marquardt with differences.

    Args:
        residual: Function of the numbers [n] to residuals [m].
        start: Where to begin [n].
        iterations: At most.
        batched: Whether `residual` also takes several sets of numbers [k, n] to [k, m].
    """
    x, damping = np.asarray(start, float).copy(), 1e-3
    r = residual(x)
    for _ in range(iterations):
        steps = 1e-6 * np.maximum(np.abs(x), 1e-3)
        moved = x + np.diag(steps)
        J = ((residual(moved) if batched else np.stack([residual(own) for own in moved])) - r) / steps[:, None]
        normal, gradient = J @ J.T, J @ r
        improved = False
        for _ in range(8):
            scaled = normal + damping * np.diag(np.diag(normal) + 1e-12)
            trial = x - np.linalg.lstsq(scaled, gradient, rcond=None)[0]
            own = residual(trial)
            if np.isfinite(own).all() and own @ own < r @ r:
                improved, damping = bool(r @ r - own @ own > 1e-9 * (1 + r @ r)), damping / 5
                x, r = trial, own
                break
            damping *= 6
        if not improved:
            break
    return x
