"""A plain supersampled raster: polygons, shaded bodies and soft shadows over a picture in linear light."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Image = NDArray[np.float32]  # [H, W, 3], linear light
Bounds = tuple[int, int, int, int]  # left, top, right, bottom [px]

SAMPLES = 4  # per pixel and direction
FRACTION_BITS = 6  # of the coordinates of OpenCV's polygons


class Layer(Protocol):
    """A shape in a picture."""

    @property
    def outline(self) -> Array:
        """Points that enclose the shape [N, 2] [px]."""
        ...

    @property
    def margin(self) -> int:
        """Pixels around the outline that the shape changes."""
        ...

    def draw(self, window: Image, left: int, top: int) -> None:
        """Draws the shape into a window of the picture, whose first pixel is at (left, top)."""
        ...


@dataclass(frozen=True, eq=False)
class Polygon:
    """A polygon of one colour, convex or not."""

    outline: Array
    color: Array  # linear RGB [3]
    opacity: float = 1.0
    margin: int = 2

    def draw(self, window: Image, left: int, top: int) -> None:
        coverage = polygon_coverage(self.outline, window.shape[:2], left, top)
        covered = coverage > 0
        alpha = np.float32(self.opacity) * coverage[covered][:, None]
        window[covered] += alpha * (self.color.astype(np.float32) - window[covered])


@dataclass(frozen=True, eq=False)
class Polyline:
    """A line of one width through points, which may cross itself."""

    outline: Array  # the points in order
    color: Array  # linear RGB [3]
    width: float  # [px]

    @property
    def margin(self) -> int:
        return int(self.width) + 2

    def draw(self, window: Image, left: int, top: int) -> None:
        samples = np.zeros((window.shape[0] * SAMPLES, window.shape[1] * SAMPLES), np.uint8)
        points = ((self.outline - (left, top)) * SAMPLES - 0.5) * 2**FRACTION_BITS
        width = max(1, round(self.width * SAMPLES))
        cv2.polylines(samples, [np.round(points).astype(np.int32)], False, 1, width, shift=FRACTION_BITS)
        coverage = _pixel_means(samples, window.shape[1], window.shape[0])
        covered = coverage > 0
        window[covered] += coverage[covered][:, None] * (self.color.astype(np.float32) - window[covered])


@dataclass(frozen=True, eq=False)
class Shadow:
    """A polygon that darkens what lies under it."""

    outline: Array
    darkness: float
    blur: float  # standard deviation of its edge [px]

    @property
    def margin(self) -> int:
        return int(3 * self.blur) + 2

    def draw(self, window: Image, left: int, top: int) -> None:
        coverage = polygon_coverage(self.outline, window.shape[:2], left, top)
        if coverage.any():
            coverage = cv2.GaussianBlur(coverage, (0, 0), max(self.blur, 0.3)).astype(np.float32)
            window *= 1 - np.float32(self.darkness) * coverage[..., None]


@dataclass(frozen=True, eq=False)
class Shaded:
    """A body with a colour at each point.

    Args:
        outline: Points that enclose it [N, 2] [px].
        inside: Whether points are inside [h, w], as a function of x [w] and y [h, 1] [px].
        color: Their linear RGB [h, w, 3], as a function of the same. It varies less and is evaluated once per pixel.
    """

    outline: Array
    inside: Callable[[Image, Image], NDArray[np.bool_]]
    color: Callable[[Image, Image], Image]
    margin: int = 2

    def draw(self, window: Image, left: int, top: int) -> None:
        height, width = window.shape[:2]
        samples = self.inside(_positions(left, width, SAMPLES), _positions(top, height, SAMPLES)[:, None])
        alpha = _pixel_means(samples.view(np.uint8), width, height)[..., None]
        window += alpha * (self.color(_positions(left, width), _positions(top, height)[:, None]) - window)


def _positions(first: int, count: int, samples: int = 1) -> Image:
    """Returns the coordinates of the samples of `count` pixels [px]."""
    return (first + (np.arange(count * samples) + 0.5) / samples).astype(np.float32)


def _pixel_means(samples: NDArray[np.uint8], width: int, height: int) -> Image:
    """Returns the means of samples of 0 or 1 over the pixels [h, w]."""
    means = cv2.resize(255 * samples, (width, height), interpolation=cv2.INTER_AREA)
    return means.astype(np.float32) / np.float32(255)


def polygon_coverage(outline: Array, size: tuple[int, ...], left: int, top: int) -> Image:
    """Returns the part of every pixel of a window that a polygon covers [h, w], in [0, 1]."""
    samples = np.zeros((size[0] * SAMPLES, size[1] * SAMPLES), np.uint8)
    corners = (outline - (left, top)) * SAMPLES - 0.5
    fixed = np.round(np.clip(corners, -3e4, 3e4) * 2**FRACTION_BITS).astype(np.int32)
    cv2.fillPoly(samples, [fixed], 1, shift=FRACTION_BITS)
    return _pixel_means(samples, size[1], size[0])


def layer_bounds(layers: Sequence[Layer], size: tuple[int, ...]) -> Bounds:
    """Returns the smallest window of a picture of `size` (H, W) that contains the layers."""
    margins = np.array([own.margin for own in layers])[:, None]
    low = np.floor(np.min(np.array([own.outline.min(0) for own in layers]) - margins, 0))
    high = np.ceil(np.max(np.array([own.outline.max(0) for own in layers]) + margins, 0))
    (left, top), (right, bottom) = (np.clip(own, 0, (size[1], size[0])).astype(int) for own in (low, high))
    return int(left), int(top), int(right), int(bottom)


def expose(base: Image, exposures: Sequence[Sequence[Layer]], bounds: Bounds) -> Image:
    """Returns a window of a picture in linear light, averaged over the layers at successive times of an exposure.

    Args:
        base: The same window without the layers.
        exposures: Layers at each time, rear ones first.
        bounds: Place of the window in the picture.
    """
    total = np.zeros_like(base)
    left, top = bounds[:2]
    for layers in exposures:
        window = base.copy()
        for layer in layers:
            draw_layer(window, layer, left, top)
        total += window
    return total / np.float32(len(exposures))


def draw_layer(window: Image, layer: Layer, left: int = 0, top: int = 0) -> None:
    """Draws a layer into its own part of a window, which may be much larger and starts at pixel (left, top)."""
    low = np.maximum(np.floor(layer.outline.min(0) - layer.margin).astype(int) - (left, top), 0)
    high = np.ceil(layer.outline.max(0) + layer.margin).astype(int) - (left, top)
    part = window[low[1] : max(high[1], 0), low[0] : max(high[0], 0)]
    if part.size:
        layer.draw(part, left + int(low[0]), top + int(low[1]))
