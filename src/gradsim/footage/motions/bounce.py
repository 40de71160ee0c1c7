"""A body that bounces on a floor."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradsim.footage.motions.draft import CONTACT_TIME, IMPACT_STEPS, Draft, ball, draft_scene, floor
from gradsim.footage.motions.path import (
    MIN_FRAMES,
    ImagePath,
    MotionFit,
    Predict,
    explained_share,
    fit_motion,
    gauss_newton,
    point,
)
from gradsim.footage.motions.view import View

NAME = "bounce"
NUMBERS = ("start_y", "speed_y", "acceleration_y", "restitution", "floor_y")  # of the heights
FREE_NUMBERS = len(NUMBERS) + 2
SIDEWAYS_ERROR = 10.0  # standard deviation of the horizontal motion, in observed irregularities: it is hardly used
FLOOR_ERROR = 0.04  # of the height near the floor, where shadow and reflection touch the ball, in diameters
MIN_IMPACTS = 3  # of a motion whose first fall is left out
LAST_SPEED = 0.3  # of an impact that is used, relative to the first
MAX_BOUNCES = 12
MAX_RESTITUTION = 3.0  # in a fit: above 1 if the video is played backwards


def fit_bounce(path: ImagePath) -> MotionFit | None:
    """Fits parabolas with a common acceleration that a floor reflects with a common restitution."""
    fit = fit_motion(NAME, path, _fit, FREE_NUMBERS)
    if fit is None:
        return None
    fit = _whole_arcs(path, fit)
    part = path.part(fit.frames)
    height = (fit.numbers["floor_y"] - part.points[:, 1]) / path.diameter
    near = FLOOR_ERROR * path.diameter * np.clip(3 - 2 * height, 0, 1)
    sideways = np.full(len(part), path.diameter + SIDEWAYS_ERROR * _irregularity(part))
    return replace(fit, spread=np.stack([sideways, near], 1))


def _whole_arcs(path: ImagePath, fit: MotionFit) -> MotionFit:
    """Leaves out small bounces, which are irregular, and a first fall that follows a release and has arcs after it."""
    e = fit.numbers["restitution"]
    usable = max(2, math.ceil(math.log(LAST_SPEED) / math.log(e))) if e < 1 else MAX_BOUNCES
    times = path.times - path.times[fit.first]
    impacts = impact_times(np.array([fit.numbers[name] for name in NUMBERS]), float(times[fit.last]))
    released = fit.first > 0 and len(impacts) >= MIN_IMPACTS
    after = times > impacts[0] if released else times >= 0
    before = times < impacts[usable] if len(impacts) > usable else times <= times[fit.last]
    inside = np.flatnonzero(after & before)
    if len(inside) < MIN_FRAMES or (inside[0], inside[-1]) == (fit.first, fit.last):
        return fit
    part = path.part(slice(int(inside[0]), int(inside[-1]) + 1))
    made = _fit(part)
    if made is None:
        return fit
    predict, numbers = made
    predicted = predict(part.times - part.times[0])
    explained = explained_share(part, predicted)
    first, last = int(inside[0]), int(inside[-1])
    return replace(fit, first=first, last=last, predicted=predicted, numbers=numbers, explained=explained)


def _irregularity(path: ImagePath) -> float:
    """Returns the deviation of the horizontal motion from uniform motion [px]: spin and an uneven floor change it."""
    basis = np.stack([np.ones(len(path)), path.times - path.times[0]], 1)
    x = path.points[:, 0]
    return float(np.std(x - basis @ np.linalg.lstsq(basis, x, rcond=None)[0]))


def heights(numbers: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the image heights y of a bouncing point, down [N] [px].

    Args:
        numbers: Start [px], speed [px/s], acceleration [px/s^2], restitution, height of the centre at impact [px].
        times: Increasing times from the start [N] [s]; the first may be negative.
    """
    y, v, a, e, floor_y = numbers
    result, begin, bounces = np.empty(len(times)), 0.0, 0
    for k, t in enumerate(times):
        while bounces < MAX_BOUNCES and t > begin:
            impact = _impact_time(y, v, a, floor_y)
            if impact is None or begin + impact > t:
                break
            y, v = floor_y, -e * (v + a * impact)
            begin, bounces = begin + impact, bounces + 1
            if -v < 1e-3 * abs(a):  # the time to the next impact would vanish
                break
        result[k] = y + v * (t - begin) + 0.5 * a * (t - begin) ** 2
    return result


def _impact_time(y: float, v: float, a: float, floor_y: float) -> float | None:
    """Returns the time until a point that falls reaches the floor; None if it never does."""
    if a <= 0:
        return None
    root = v * v + 2 * a * (floor_y - y)
    if root < 0:
        return None
    time = float((-v + np.sqrt(root)) / a)
    return time if time > 1e-9 else None


def _fit(path: ImagePath) -> tuple[Predict, dict[str, float]] | None:
    t, (x, y) = path.times - path.times[0], path.points.T
    start = _first_guess(t, y)
    if start is None:
        return None
    weights = 1.0 / path.tolerance
    numbers = gauss_newton(lambda own: (heights(own, t) - y) * weights, start)
    impacts = impact_times(numbers, float(t[-1]))
    if not len(impacts) or not 0.02 < numbers[3] < MAX_RESTITUTION or numbers[2] <= 0:
        return None
    sideways, knots = _sideways(t, x, impacts, weights)

    def predict(times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([_ramps(times, knots) @ sideways, heights(numbers, times)], 1)

    values = dict(zip(NUMBERS, numbers.tolist(), strict=True))
    values |= {"start_x": float(sideways[0]), "speed_x": float(sideways[1]), "bounces": float(len(impacts))}
    return predict, values


def impact_times(numbers: NDArray[np.float64], end: float) -> NDArray[np.float64]:
    """Returns the times of the impacts before `end` [s]."""
    y, v, a, e, floor_y = numbers
    found: list[float] = []
    begin = 0.0
    while len(found) < MAX_BOUNCES:
        impact = _impact_time(y, v, a, floor_y)
        if impact is None or begin + impact > end:
            break
        y, v, begin = floor_y, -e * (v + a * impact), begin + impact
        found.append(begin)
    return np.array(found)


def _sideways(
    t: NDArray[np.float64], x: NDArray[np.float64], impacts: NDArray[np.float64], weights: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fits a horizontal speed between any two impacts: friction and spin change it."""
    knots = np.array([own for own in impacts if (t > own).sum() >= 4])
    basis = _ramps(t, knots) * weights[:, None]
    speeds = np.linalg.lstsq(basis, x * weights, rcond=None)[0]
    return np.asarray(speeds, np.float64), knots


def _ramps(t: NDArray[np.float64], knots: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([np.ones_like(t), t, *(np.maximum(t - knot, 0.0) for knot in knots)], 1)


def _first_guess(t: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Returns start, speed, acceleration, restitution and impact height from the arcs between low points."""
    turns = _low_points(y)
    if not turns:
        return None
    edges = [0, *(k for k in turns if 0 < k < len(y) - 1), len(y) - 1]
    arcs = [(i, j) for i, j in itertools.pairwise(edges) if j - i >= 4]
    if not arcs:
        return None
    fits = {(i, j): np.polyfit(t[i + 1 : j] - t[i], y[i + 1 : j], 2) for i, j in arcs if j - i >= 5}
    curvatures = [2 * fit[0] for fit in fits.values() if fit[0] > 0]
    if not curvatures:
        return None
    weights = [j - i for (i, j), fit in fits.items() if fit[0] > 0]
    a = float(np.average(curvatures, weights=np.square(weights)))
    floor_y = float(max(y[k] for k in turns))
    ratio = _restitution(t, y, edges, a, floor_y)
    first = edges[1]
    count = max(3, first)
    fit = np.polyfit(t[:count], y[:count] - 0.5 * a * t[:count] ** 2, 1)
    return np.array([fit[1], fit[0], a, ratio, floor_y])


def _low_points(y: NDArray[np.float64]) -> list[int]:
    """Returns the frames of the lowest points in the picture between which the path rises by a part of its extent."""
    extent = float(np.ptp(y))
    found: list[int] = []
    for k in range(1, len(y) - 1):
        if y[k] >= y[k - 1] and y[k] > y[k + 1]:
            rise = min(y[k] - y[: k + 1].min(), y[k] - y[k:].min())
            if rise > 0.04 * extent:
                found.append(k)
    return found


def _restitution(t: NDArray[np.float64], y: NDArray[np.float64], edges: list[int], a: float, floor_y: float) -> float:
    """Returns the median ratio of the speeds after and before an impact, from the heights of the arcs."""
    rises = [floor_y - float(y[i : j + 1].min()) for i, j in itertools.pairwise(edges)]
    ratios = [np.sqrt(after / before) for before, after in itertools.pairwise(rises) if before > 0 < after]
    return float(np.clip(np.median(ratios), 0.2, 2.5)) if ratios else 0.7


def _impact_speeds(fit: MotionFit) -> tuple[float, float]:
    """Returns the speed of the first impact, and the mean of all [px/s]."""
    start, speed, fall, e, height = (fit.numbers[name] for name in NUMBERS)
    first = math.sqrt(max(speed**2 + 2 * fall * (height - start), 0.0))
    return first, first * float(np.mean(e ** np.arange(max(1, round(fit.numbers["bounces"])))))


def draft_bounce(fit: MotionFit, view: View) -> Draft:
    """Returns a scene in which a ball bounces on the ground; its restitution is estimated."""
    fall, start, speed = fit.numbers["acceleration_y"], point(fit, "start"), point(fit, "speed")
    view = view.scaled_by_gravity(fall)
    body = ball(view, start, speed, sideways=False)
    ground = floor(view, fit.numbers["floor_y"], fit.numbers["restitution"], _impact_speeds(fit))
    gravity, dt = view.gravity_quantity(fall), CONTACT_TIME / IMPACT_STEPS
    return draft_scene(view, body, ("ground.restitution",), gravity=gravity, ground=ground, dt=dt)
