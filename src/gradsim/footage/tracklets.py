"""Tracklets: blobs of successive frames that move as one object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.objects import Blob

GAP = 4  # largest step between two blobs of a tracklet [frames]
MIN_LENGTH = 4  # blobs
MAX_GROWTH = 1.6  # of the size of a blob, from the median of the last ones
MIN_TRAVEL = 0.3  # in diameters
MIN_CONTRAST = 0.05  # of full scale
MAX_TRACKLETS = 12  # the best ones are joined and returned
JOIN_AREAS = (0.55, 1.8)  # ratio of the areas of two tracklets of the same object
SAME_AREAS = (0.75, 1.33)  # the same of an object that frames are missing of
FULL_CONTRAST = 0.25  # of full scale: more does not speak for an object
FULL_SIZE = 30.0  # diameter [px of the reduced copy]: more does not speak for an object
STEADY_LENGTH = 7  # blobs over which an acceleration is measured
STEADY_DEVIATION = 0.25  # relative, of a steady acceleration


@dataclass(frozen=True, eq=False)
class Tracklet:
    """Blobs of successive frames that move as one object, and what speaks for it.

    Args:
        blobs: Blobs in the order of their frames; frames may be missing.
        score: Grows with travel, contrast, size, compactness and steady acceleration, and shrinks with changes of
            area, with jerk, and where the edge of the picture cuts the blobs.
        travel: Length of the path, in diameters.
        area_spread: Standard deviation of the logarithm of the area.
        jerk: Median deviation from constant acceleration, in diameters.
        contrast: Median difference from the plate, as a part of full scale.
        diameter: Of a disc with the median area [px of the reduced copy].
        steadiness: Part of the path over which the acceleration is the same, as in free flight between bounces.
        compactness: Median area over that of a disc as long as the box of the blob.
    """

    blobs: tuple[Blob, ...] = field(repr=False)
    score: float
    travel: float
    area_spread: float
    jerk: float
    contrast: float
    diameter: float
    steadiness: float
    compactness: float

    def __len__(self) -> int:
        return len(self.blobs)

    @property
    def frames(self) -> NDArray[np.int64]:
        """Indices of the frames in the recording [N]."""
        return np.array([blob.frame for blob in self.blobs])

    @property
    def centers(self) -> NDArray[np.float64]:
        """Centres (x, y) [N, 2] [px of the reduced copy]."""
        return np.array([blob.center for blob in self.blobs])

    def plot(self, axes: Any, **style: Any) -> None:
        """Draws the path on matplotlib axes that show the reduced copy."""
        x, y = self.centers.T
        axes.plot(x - 0.5, y - 0.5, **({"marker": ".", "linewidth": 0.8} | style))


def link_blobs(blobs: Sequence[Sequence[Blob]], times: NDArray[np.float64], *, at_edge: bool = False) -> list[Tracklet]:
    """Links the blobs of each frame to tracklets, best first.

    Args:
        blobs: Blobs of each frame.
        times: Times of the frames [T] [s].
        at_edge: Whether a tracklet may start with a blob that the edge of the picture cuts.
    """
    free = [list(own) for own in blobs]
    paths = []
    for frame in range(len(free)):
        for first in [blob for blob in free[frame] if at_edge or not blob.at_edge]:
            path = _follow(first, free, times)
            if len(path) >= MIN_LENGTH:
                paths.append(path)
                for blob in path:
                    free[blob.frame].remove(blob)
    return join_tracklets([scored_tracklet(path, times) for path in paths], times)


def scored_tracklet(blobs: Sequence[Blob], times: NDArray[np.float64] | None = None) -> Tracklet:
    """Returns the tracklet of at least four blobs, with its score; `times` [T] [s] are those of all frames."""
    centers = np.array([blob.center for blob in blobs])
    areas = np.array([blob.area for blob in blobs])
    diameter = float(np.sqrt(4 * np.median(areas) / np.pi))
    travel = float(np.linalg.norm(np.diff(centers, axis=0), axis=1).sum()) / diameter
    third = np.linalg.norm(np.diff(centers, 3, axis=0), axis=1)  # of noise it is sqrt(20) times the noise
    jerk = float(np.median(third) / np.sqrt(20)) / diameter
    spread = float(np.std(np.log(areas)))
    contrast = float(np.median([blob.contrast for blob in blobs]))
    compactness = float(np.median([blob.compactness for blob in blobs]))
    frames = np.array([blob.frame for blob in blobs])
    steadiness = steady_part(centers, frames.astype(float) if times is None else times[frames], diameter)
    score = min(travel, 0.5 * len(blobs)) * np.exp(-spread / 0.25 - jerk / 0.15)
    score *= min(contrast, FULL_CONTRAST) * np.sqrt(min(diameter, FULL_SIZE) / 10)
    score *= (0.5 + 0.5 * compactness) * (0.4 + 0.6 * steadiness) * (1 - 0.7 * np.mean([own.at_edge for own in blobs]))
    return Tracklet(tuple(blobs), float(score), travel, spread, jerk, contrast, diameter, steadiness, compactness)


def steady_part(centers: NDArray[np.float64], times: NDArray[np.float64], diameter: float) -> float:
    """Returns the part of a path over which its acceleration is near the median acceleration.

    A free body has the same acceleration at all times but those of its bounces; that of a hand changes. The noise of a
    centre is taken as .02 diameters and .2 px.

    Args:
        centers: Centres (x, y) [N, 2] [px].
        times: Their times [N].
        diameter: Of the object [px].
    """
    if len(centers) < STEADY_LENGTH:
        return 0.0
    noise = 0.02 * diameter + 0.2
    fits = [_acceleration(centers[k : k + STEADY_LENGTH], times[k : k + STEADY_LENGTH]) for k in _window_starts(times)]
    accelerations, errors = np.array([own for own, _ in fits]), noise * np.array([error for _, error in fits])
    usual = np.median(accelerations, 0)
    deviation = np.linalg.norm(accelerations - usual, axis=1)
    return float((deviation < STEADY_DEVIATION * np.linalg.norm(usual) + 2.5 * errors).mean())


def _window_starts(times: NDArray[np.float64]) -> range:
    """Returns where windows of blobs start: at most 200 of them."""
    count = len(times) - STEADY_LENGTH + 1
    return range(0, count, -(-count // 200))


def _acceleration(centers: NDArray[np.float64], times: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """Returns the acceleration of a path [2], and its standard deviation for centres with a noise of one."""
    inverse = np.linalg.pinv(np.vander(times - times.mean(), 3))[0]
    return 2 * inverse @ centers, 2 * float(np.linalg.norm(inverse))


def _follow(first: Blob, free: Sequence[Sequence[Blob]], times: NDArray[np.float64]) -> list[Blob]:
    """Returns the path that starts with a blob, extended by the best blob of each following frame."""
    path = [first]
    for frame in range(first.frame + 1, len(free)):
        if frame - path[-1].frame > GAP:
            break
        best = _best_match(path[-4:], free[frame], frame, times)
        if best is not None:
            path.append(best)
    return path


def _best_match(path: list[Blob], blobs: Sequence[Blob], frame: int, times: NDArray[np.float64]) -> Blob | None:
    if not blobs:
        return None
    size = float(np.sqrt(np.median([blob.area for blob in path])))
    prediction, gate = _predict(path, frame, times, size)
    distances = np.linalg.norm(np.array([blob.center for blob in blobs]) - prediction, axis=1)
    growth = np.abs(np.log(np.array([blob.area for blob in blobs]) / size**2))
    costs = np.where((distances < gate) & (growth < 2 * np.log(MAX_GROWTH)), distances + size * growth, np.inf)
    best = int(np.argmin(costs))
    return blobs[best] if np.isfinite(costs[best]) else None


def _predict(
    path: list[Blob], frame: int, times: NDArray[np.float64], size: float
) -> tuple[NDArray[np.float64], float]:
    """Returns where constant acceleration leads to, and the radius of the search."""
    centers = np.array([blob.center for blob in path])
    t = times[[blob.frame for blob in path]]
    gap = frame - path[-1].frame
    if len(path) == 1:
        return centers[0], 3 * size * gap
    ahead = times[frame] - t[-1]
    velocities = np.diff(centers, axis=0) / np.diff(t)[:, None]
    prediction = centers[-1] + velocities[-1] * ahead
    if len(path) >= 3:
        acceleration = 2 * (velocities[-1] - velocities[-2]) / (t[-1] - t[-3])
        prediction = prediction + np.clip(acceleration * ahead * (ahead + t[-1] - t[-2]) / 2, -size, size)
    return prediction, (1 + 0.5 * (gap - 1)) * size + 0.35 * float(np.abs(velocities[-1] * ahead).sum())


def join_tracklets(tracklets: Sequence[Tracklet], times: NDArray[np.float64] | None = None) -> list[Tracklet]:
    """Joins tracklets that continue each other, best first: a bounce breaks the prediction, not the object."""
    moving = [own for own in tracklets if own.travel > MIN_TRAVEL and own.contrast > MIN_CONTRAST]
    best = sorted(moving, key=lambda own: -own.score)[:MAX_TRACKLETS]
    while (pair := _first_pair(best)) is not None:
        first, second = pair
        joined = scored_tracklet(first.blobs + second.blobs, times)
        best = sorted([own for own in best if own not in pair] + [joined], key=lambda own: -own.score)
    return best


def _first_pair(tracklets: Sequence[Tracklet]) -> tuple[Tracklet, Tracklet] | None:
    pairs = ((first, second) for first in tracklets for second in tracklets if first is not second)
    return next((pair for pair in pairs if _continues(*pair)), None)


def _continues(first: Tracklet, second: Tracklet) -> bool:
    """Whether the second tracklet starts soon after the first, within reach of its speed and with its area."""
    gap = second.blobs[0].frame - first.blobs[-1].frame
    if not 0 < gap <= GAP:
        return False
    speed = max(_speed(first.blobs[-2:]), _speed(second.blobs[:2]))
    return _step(first, second) < 1.3 * speed * gap + 0.5 * first.diameter and _is_alike(first, second, JOIN_AREAS)


def is_moved(first: Tracklet, second: Tracklet) -> bool:
    """Whether the first tracklet ends and one of the same size begins in the next frame, out of reach of its speed.

    Neither is at the edge of the picture, where objects come and go.
    """
    if second.blobs[0].frame - first.blobs[-1].frame != 1 or first.blobs[-1].at_edge or second.blobs[0].at_edge:
        return False
    speed = max(_speed(first.blobs[-2:]), _speed(second.blobs[:2]))
    return _step(first, second) > 2 * speed + first.diameter and _is_alike(first, second, SAME_AREAS)


def _step(first: Tracklet, second: Tracklet) -> float:
    """Distance from the last blob of a tracklet to the first one of another [px of the reduced copy]."""
    return float(np.hypot(*np.subtract(second.blobs[0].center, first.blobs[-1].center)))


def _is_alike(first: Tracklet, second: Tracklet, ratios: tuple[float, float]) -> bool:
    """Whether the areas at the end of a tracklet and at the begin of another have a ratio within limits."""
    end, start = ([blob.area for blob in blobs] for blobs in (first.blobs[-3:], second.blobs[:3]))
    return bool(ratios[0] < np.median(start) / np.median(end) < ratios[1])


def _speed(blobs: Sequence[Blob]) -> float:
    """Speed between two blobs [px of the reduced copy per frame]."""
    step = np.subtract(blobs[1].center, blobs[0].center)
    return float(np.hypot(*step)) / (blobs[1].frame - blobs[0].frame)
