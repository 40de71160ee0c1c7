"""Corners of dark squares on a light ground, from straight lines through their edges.

The position of an edge is where a step of the same area would be, along many lines across it. In linear light blur does
not move it. Edges of sRGB values seem to lie up to .2 px further in the dark, so the values are made linear first.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

LEAST_MODULE = 3.0  # of a square [px]: with smaller ones, profiles reach the next edge
LEAST_REACH = 2.5  # half length of a profile [px]
MODULE_PART = 0.6  # half length of the first profiles, in modules
MODULE_LIMIT = 0.85  # largest half length of profiles, in modules
BLUR_PART = 0.15  # standard deviation of corners over that of the blur, where profiles do not reach beyond the blur
STEP = 0.25  # between the samples of a profile [px]
MARGIN = 0.12  # of an edge that is left out at both ends, as a part of its length: other edges blur into it
ROUNDS = 3
LEAST_PROFILES = 8
LEAST_CONTRAST = 0.02  # between both sides of an edge, in linear light
CORRELATION = 3.0  # neighbouring profiles that count as one, since compression makes their errors alike
SD_FLOOR = 0.015  # least standard deviation of a corner [px], from errors that profiles share
SD_UNREFINED = 0.2  # of the corners of a detector [px]

CODES = np.arange(256) / 255
LINEAR = np.where(CODES <= 0.04045, CODES / 12.92, ((CODES + 0.055) / 1.055) ** 2.4).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Line:
    """A straight line in the picture.

    Args:
        point: A point of it [2] [px], the mean of the points it was fitted to.
        direction: Unit vector along it [2].
        offset_sd: Standard deviation of the position across the line, at the point [px].
        slope_sd: Standard deviation of the direction [rad].
        blur: Standard deviation of the blur across the edge [px].
    """

    point: NDArray[np.float64]
    direction: NDArray[np.float64]
    offset_sd: float
    slope_sd: float
    blur: float

    def variance_at(self, place: NDArray[np.float64]) -> float:
        """Returns the variance of the position across the line at a place [px^2]."""
        along = float((place - self.point) @ self.direction)
        return self.offset_sd**2 + (along * self.slope_sd) ** 2


def refine_quad(
    gray: NDArray[np.uint8], corners: NDArray[np.float64], modules: int
) -> tuple[NDArray[np.float64], float]:
    """Refines the corners of a dark square with a light margin.

    Args:
        gray: Picture [H, W].
        corners: Approximate corners [4, 2] [px], clockwise in the picture.
        modules: Modules along a side: within the outer module the square is dark, and within as much outside it light.

    Returns:
        Corners [4, 2], and their standard deviation along each axis [px].
    """
    start, reach, sd = corners, 0.0, SD_UNREFINED
    for _ in range(ROUNDS):
        module = float(np.linalg.norm(np.roll(corners, -1, 0) - corners, axis=-1).min()) / modules
        if module < LEAST_MODULE:
            return start, SD_UNREFINED
        reach = max(LEAST_REACH, min(reach or MODULE_PART * module, MODULE_LIMIT * module))
        lines = [_edge_line(gray, corners[k], corners[(k + 1) % 4], reach) for k in range(4)]
        if any(line is None for line in lines):
            return start, SD_UNREFINED
        found = [line for line in lines if line is not None]
        corners, sd = _intersections(found)
        if not np.abs(corners - start).max() < MODULE_LIMIT * module:  # on another edge, or nowhere
            return start, SD_UNREFINED
        blur = max(line.blur for line in found)
        if 3 * blur > MODULE_LIMIT * module:
            sd = max(sd, BLUR_PART * blur)
        reach = 3 * blur + 1
    return corners, max(sd, SD_FLOOR)


def _edge_line(
    gray: NDArray[np.uint8], start: NDArray[np.float64], end: NDArray[np.float64], reach: float
) -> Line | None:
    """Fits a line to the edge from `start` to `end`; the light side is to the left of it. None without contrast."""
    length = float(np.linalg.norm(end - start))
    along = (end - start) / length
    outward = np.array([along[1], -along[0]])
    places = np.arange(MARGIN * length, (1 - MARGIN) * length)
    offsets = np.arange(-reach, reach + STEP / 2, STEP)
    grid = start + places[:, None, None] * along + offsets[None, :, None] * outward
    profiles = _sample(gray, grid)
    tail = max(1, len(offsets) // 5)
    dark, light = _level(places, profiles[:, :tail]), _level(places, profiles[:, -tail:])
    if len(places) < LEAST_PROFILES or not (light - dark).min() > LEAST_CONTRAST:
        return None
    heights = (profiles - dark[:, None]) / (light - dark)[:, None]
    shifts = offsets[-1] + STEP / 2 - STEP * heights.sum(1)
    return _fit_line(start + places[:, None] * along, outward, shifts, _blur(offsets, heights))


def _level(places: NDArray[np.float64], values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Returns the brightness [N] of one side of an edge, which changes linearly along it; values [N, M]."""
    means = values.mean(1)
    slope, level = np.polyfit(places, means, 1)
    residuals = np.abs(means - slope * places - level)
    good = residuals <= 3 * 1.4826 * np.median(residuals) + 1e-6
    slope, level = np.polyfit(places[good], means[good], 1)
    return np.asarray(slope * places + level)


def _blur(offsets: NDArray[np.float64], heights: NDArray[np.float64]) -> float:
    """Returns the standard deviation of the blur of an edge [px], from its profiles [N, M] at some offsets [M]."""
    weights = np.maximum(np.diff(heights.mean(0)), 0.0)
    middle = (offsets[1:] + offsets[:-1]) / 2
    total = max(float(weights.sum()), 1e-9)
    mean = float(weights @ middle) / total
    return float(np.sqrt(weights @ (middle - mean) ** 2 / total))


def _fit_line(
    base: NDArray[np.float64], outward: NDArray[np.float64], shifts: NDArray[np.float64], blur: float
) -> Line:
    """Fits a line to points `base + shift outward` [N, 2] by least squares with weights of Huber."""
    along = np.array([-outward[1], outward[0]])
    middle = base.mean(0)
    place = (base - middle) @ along
    design = np.stack([np.ones_like(place), place], -1)
    weights = np.ones_like(place)
    for _ in range(5):
        normal = design.T @ (weights[:, None] * design)
        solution = np.linalg.solve(normal, design.T @ (weights * shifts))
        residuals = shifts - design @ solution
        scale = max(1.4826 * float(np.median(np.abs(residuals))), 1e-6)
        weights = np.minimum(1.0, 1.5 * scale / np.maximum(np.abs(residuals), 1e-12))
    variance = np.linalg.inv(normal) * scale**2 * CORRELATION
    direction = along + solution[1] * outward
    point = middle + solution[0] * outward
    offset_sd, slope_sd = (float(np.sqrt(variance[k, k])) for k in range(2))
    return Line(point, direction / np.linalg.norm(direction), offset_sd, slope_sd, blur)


def _intersections(lines: list[Line]) -> tuple[NDArray[np.float64], float]:
    """Returns the corners [4, 2] where each line meets the one before it, and their standard deviation."""
    corners, variances = [], []
    for before, line in zip([lines[-1], *lines[:-1]], lines, strict=True):
        system = np.stack([before.direction, -line.direction], -1)
        along, _ = np.linalg.lstsq(system, line.point - before.point, rcond=None)[0]
        corner = before.point + along * before.direction
        corners.append(corner)
        variances.append(before.variance_at(corner) + line.variance_at(corner))
    return np.array(corners), float(np.sqrt(np.mean(variances) / 2))


def _sample(gray: NDArray[np.uint8], grid: NDArray[np.float64]) -> NDArray[np.float32]:
    """Returns linear light at points of the picture [..., 2] [px], interpolated; the border continues its edge."""
    low = np.maximum(np.floor(grid.reshape(-1, 2).min(0)).astype(int) - 2, 0)
    high = np.ceil(grid.reshape(-1, 2).max(0)).astype(int) + 3
    window = LINEAR[gray[low[1] : high[1], low[0] : high[0]]]
    if not window.size:
        return np.zeros(grid.shape[:-1], np.float32)
    places = (grid - low - 0.5).astype(np.float32)
    return np.asarray(cv2.remap(window, places, None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE))  # type: ignore[call-overload]
