"""First guesses of a compound double pendulum from the paths of its joint and of its end.

A rigid bar that swings about a hinge moves as a point at its effective length, the length of the simple pendulum of the
same period. Two bars move as the point at the first effective length, that at the second, and the ratio of their masses
(Huygens' reduction, with the rest of the second bar at the joint). Lagrange's equations of both angles are then linear
in a few combinations of these numbers, which follow from angles, rates and accelerations by least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEGREE = 4  # of the local polynomials
START_DEGREE = 3  # of the polynomial through the first frames
WINDOWS = (7, 9, 13, 19, 27, 39)  # frames through which a polynomial is fitted
MAX_TURN = 2.2  # of a bar within a window, which a polynomial of this degree follows [rad]
OUTLIER = 5.0  # deviation of a length beyond which a point is not that of the bar, in standard deviations
TINY = 1e-4  # the same, relative to the length
RATIO_RANGE = (0.02, 50.0)  # of masses
ROBUST_PASSES = 3  # of a regression; rows beyond three median deviations are left out


@dataclass(frozen=True)
class Paths:
    """Measured positions of one recording, y up: of the joint and the end, and of the pivot if it was tracked."""

    joint: Array  # [T, 2]
    end: Array  # [T, 2]
    pivot: Array | None  # [T, 2]


@dataclass(frozen=True)
class RodGuess:
    """Numbers of a compound double pendulum in the unit of length of the tracks, with time in frames."""

    pivot: Array  # [2]
    lengths: tuple[float, float]  # from pivot to joint, from joint to the tracked end
    effective: tuple[float, float]  # of both bars
    ratio: float  # mass at the second effective length, relative to that at the first
    damping: tuple[float, float]  # of both joints, relative to the mass at the first effective length
    gravity: Array  # [2], y up


def without_outliers(recordings: list[Paths]) -> list[Paths]:
    """Returns the recordings without points that are not at the ends of the bars, such as those of a lost marker."""
    pivot = _pivot(recordings)
    joints = [_kept_lengths(own.joint, pivot, [other.joint - pivot for other in recordings]) for own in recordings]
    bars = [own.end - joint for own, joint in zip(recordings, joints, strict=True)]
    ends = [_kept_lengths(own.end, joint, bars) for own, joint in zip(recordings, joints, strict=True)]
    return [Paths(joint, end, own.pivot) for joint, end, own in zip(joints, ends, recordings, strict=True)]


def _kept_lengths(points: Array, origins: Array, bars: list[Array]) -> Array:
    """Returns points [T, 2], NaN where the distance from their origins is far from that of the bars [T, 2] of all."""
    lengths = _norm(np.concatenate(bars))
    median = float(np.nanmedian(lengths))
    limit = OUTLIER * (1.5 * float(np.nanmedian(np.abs(lengths - median))) + TINY * median)
    outside = np.abs(_norm(points - origins) - median) > limit
    return np.where(outside[:, None], np.nan, points)


def guess_rods(recordings: list[Paths]) -> RodGuess:
    """Returns first guesses from one or several recordings of one pendulum."""
    pivot = _pivot(recordings)
    first = float(np.nanmedian(np.concatenate([_norm(own.joint - pivot) for own in recordings])))
    second = float(np.nanmedian(np.concatenate([_norm(own.end - own.joint) for own in recordings])))
    angles = [_angles(own, pivot) for own in recordings]
    window = _window(angles)
    numbers = _regression(np.concatenate([_derivatives(own, window) for own in angles]), first)
    return RodGuess(pivot, (first, second), **numbers)


def guess_start(recording: Paths, pivot: Array) -> Array:
    """Returns both angles from straight down at the first frame, and their rates per frame, [4]."""
    angles = _angles(recording, pivot)
    count = _window([angles])
    found = []
    for angle in angles.T:
        seen = np.flatnonzero(np.isfinite(angle))[:count]
        found.append(np.polyfit(seen, angle[seen], START_DEGREE)[::-1])
    return np.array([found[0][0], found[1][0], found[0][1], found[1][1]])


def _angles(recording: Paths, pivot: Array) -> Array:
    """Returns both angles from straight down [T, 2]."""
    return np.stack([_angle(recording.joint - pivot), _angle(recording.end - recording.joint)], -1)


def _window(angles: list[Array]) -> int:
    """Returns the number of frames through which a polynomial follows the angles."""
    turns = np.concatenate([np.abs(np.diff(own, axis=0)) for own in angles])
    turn = float(np.nanquantile(turns, 0.9))
    return max([count for count in WINDOWS if count * turn <= MAX_TURN], default=WINDOWS[0])


def _norm(vectors: Array) -> Array:
    return np.asarray(np.hypot(vectors[..., 0], vectors[..., 1]))


def _angle(rod: Array) -> Array:
    """Returns angles from straight down, anticlockwise and without jumps [T]; NaN where the bar is not seen."""
    angle = np.arctan2(rod[:, 0], -rod[:, 1])
    seen = np.isfinite(angle)
    angle[seen] = np.unwrap(angle[seen])
    return angle


def _pivot(recordings: list[Paths]) -> Array:
    """Returns the pivot [2]: its median if it was tracked, otherwise the centre of a circle through the joint."""
    tracked = [own.pivot for own in recordings if own.pivot is not None]
    if tracked:
        return np.asarray(np.nanmedian(np.concatenate(tracked), 0))
    return circle_center(np.concatenate([own.joint for own in recordings]))


def circle_center(points: Array) -> Array:
    """Returns the centre of a circle through points [N, 2], of which those far from it are left out, [2]."""
    kept = points = points[np.isfinite(points).all(1)]
    for _ in range(ROBUST_PASSES):
        center = _fitted_circle(kept)
        away = _norm(points - center)
        error = np.abs(away - np.median(away))
        kept = points[error <= OUTLIER * 1.5 * np.median(error) + TINY * np.median(away)]
    return center


def _fitted_circle(points: Array) -> Array:
    """Returns the centre of the circle through points [N, 2] by least squares."""
    center = points.mean(0)
    local = points - center
    design = np.concatenate([2 * local, np.ones((len(local), 1))], 1)
    (a, b, _), *_ = np.linalg.lstsq(design, (local**2).sum(1), rcond=None)
    return np.asarray(_geometric_circle(points, center + np.array([a, b])))


def _geometric_circle(points: Array, center: Array) -> Array:
    """Refines the centre of a circle by Gauss-Newton on the distances [2]."""
    for _ in range(20):
        away = points - center
        distance = _norm(away)
        design = np.concatenate([-away / distance[:, None], -np.ones((len(points), 1))], 1)
        step, *_ = np.linalg.lstsq(design, -(distance - distance.mean()), rcond=None)
        center = center + step[:2]
    return center


def _derivatives(angles: Array, window: int) -> Array:
    """Returns both angles, their rates and accelerations per frame [N, 6] where `window` frames around are seen."""
    found = []
    steps = np.arange(window) - window // 2
    powers = np.linalg.pinv(np.stack([steps**k for k in range(DEGREE + 1)], 1).astype(float))
    for middle in range(window // 2, len(angles) - window // 2):
        part = angles[middle - window // 2 : middle + window // 2 + 1]
        value, rate, bend, *_ = powers @ part
        found.append([*value, *rate, *(2 * bend)])
    rows = np.array(found).reshape(-1, 6)
    return rows[np.isfinite(rows).all(1)]


def _regression(rows: Array, first: float) -> dict[str, Any]:
    """Returns the numbers of motion from angles, rates and accelerations of both bars [N, 6].

    With E the second effective length, l the first bar's length, gravity (x, y) and r the ratio of the masses:
    E b'' - x cos b - y sin b + (d / r E) (b' - a') = -l (a'' cos(a - b) - a'^2 sin(a - b))
    A a'' + G (-x cos a - y sin a) + c a' - d (b' - a') = -r E l (b'' cos(a - b) + b'^2 sin(a - b))
    """
    a, b, u, v, bend_a, bend_b = rows.T
    cos, sin = np.cos(a - b), np.sin(a - b)
    lower = np.stack([bend_b, -np.cos(b), -np.sin(b), v - u], 1)
    length, x, y, drag = _robust_solution(lower, -first * (bend_a * cos - u * u * sin))
    pull = -x * np.cos(a) - y * np.sin(a)
    upper = np.stack([bend_a, pull, u], 1)
    inertia, moment, brake = _robust_solution(upper, -first * (bend_b * cos + v * v * sin) + drag * (v - u))
    length = float(np.clip(length, 0.05 * first, 20 * first))
    effective, ratio = _upper_rod(inertia, moment, length, first)
    damping = (max(brake, 0.0) * ratio * length, max(drag, 0.0) * ratio * length)
    return {"effective": (effective, length), "ratio": ratio, "damping": damping, "gravity": np.array([x, y])}


def _upper_rod(inertia: float, moment: float, length: float, first: float) -> tuple[float, float]:
    """Returns effective length e of the first bar and ratio r of the masses: e^2 + r l^2 = r E A, e + r l = r E G."""
    share = length * moment - first  # e / r
    ratio = (length * inertia - first**2) / share**2 if share > 0 else 1.0
    ratio = float(np.clip(ratio, *RATIO_RANGE))
    return float(np.clip(ratio * share, 0.1 * first, 10 * first)), ratio


def _robust_solution(design: Array, target: Array) -> Array:
    """Solves a linear least-squares problem; rows far from the solution are left out."""
    kept = np.ones(len(target), bool)
    solution: Array = np.zeros(design.shape[1])
    for _ in range(ROBUST_PASSES):
        solution = np.asarray(np.linalg.lstsq(design[kept], target[kept], rcond=None)[0], np.float64)
        error = np.abs(design @ solution - target)
        kept = error <= 3 * 1.5 * np.median(error)
    return solution
