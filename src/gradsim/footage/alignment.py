"""Corners of a printed pattern of known modules, by aligning a drawing of it with the picture (Gauss-Newton method).

The drawing has the pattern's modules in perspective, blurred by the lens and the motion, in linear light that varies
over the pattern, coded as sRGB, and a little softer or sharper after that, as by compression. Unknown are the four
corners, the covariance of the blur, the light of paper and print, and the softness. All edges of the pattern count,
inner ones too. Blur of light moves edges of sRGB values by up to .2 px into the dark, blur of values does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.video.srgb import linear_to_srgb, srgb_to_linear

LEAST_MODULE = 2.0  # of a pattern [px]: smaller ones blur into each other
MARGIN = 0.7  # around the pattern that is compared, in modules: the paper is light there
SAMPLES = 3  # samples of the drawing along the side of a pixel
BLUR = 0.5  # variance of the blur at the start [px^2]
BLUR_RANGE = (0.02, 16.0)  # of its principal variances [px^2]
SOFTNESS_RANGE = (-0.3, 0.4)  # variance by which the camera or the codec blur coded values; < 0 sharpens [px^2]
BLUR_STEP = 1.0  # largest change of a variance in an iteration [px^2]
SMOOTHING = 0.3  # of picture and drawing at first, in modules: corners of a detector are off by up to half a module
ITERATIONS = 15
COARSE, SETTLED = 0.1, 2e-3  # step of the corners after which the first and the last iteration end [px]
MAX_SHIFT = 0.85  # of a corner from the start, in modules: beyond it another edge was found
MIN_EXPLAINED = 0.9  # part of the variance of the picture that a drawing must explain
MIN_LIGHT = 1e-4
OUTLIER = 12.0  # residual at which the weight of a pixel halves, in standard deviations
CORRELATION = 4.0  # pixels that count as one, since compression makes their errors alike
SD_FLOOR = 0.01  # least standard deviation of a corner [px], from errors that all edges share


@dataclass(frozen=True, eq=False)
class Alignment:
    """A pattern aligned with a picture.

    Args:
        corners: Corners of the pattern [4, 2] [px].
        covariance: Covariance of their coordinates x0, y0, x1, ... [8, 8] [px^2].
        blur: Covariance of the blur [2, 2] [px^2].
    """

    corners: NDArray[np.float64]
    covariance: NDArray[np.float64] = field(repr=False)
    blur: NDArray[np.float64] = field(repr=False)


def align_pattern(gray: NDArray[np.uint8], corners: NDArray[np.float64], cells: NDArray[np.bool_]) -> Alignment | None:
    """Aligns a pattern of square modules with a picture.

    Args:
        gray: Picture [H, W].
        corners: Approximate corners [4, 2] [px] of the pattern: of its first row's start and end, and of its last row's
            end and start.
        cells: Which modules are light [n, n]; around them the paper is light.

    Returns:
        The alignment; None if the modules are too small, or the picture does not show the pattern there.
    """
    module = float(np.linalg.norm(np.roll(corners, -1, 0) - corners, axis=-1).min()) / len(cells)
    if not module >= LEAST_MODULE:
        return None
    start = corners
    for smoothing in (SMOOTHING * module, 0.0):
        window = _Window.around(gray, corners, MARGIN * module, smoothing)
        if window is None:
            return None
        first = _Drawing(window, cells, corners, (BLUR + smoothing**2) * np.eye(2))
        drawing, fit = _iterated(first, SETTLED if smoothing == 0.0 else COARSE)
        corners = drawing.corners
        if not np.abs(corners - start).max() < MAX_SHIFT * module:
            return None
    if fit.explained < MIN_EXPLAINED:
        return None
    covariance = fit.covariance[_CORNERS, _CORNERS] + SD_FLOOR**2 * np.eye(8)
    return Alignment(corners, covariance, drawing.blur)


def _iterated(drawing: _Drawing, settled: float) -> tuple[_Drawing, _Linearized]:
    """Minimizes the differences of a drawing and the picture, until the corners move by less than `settled` [px]."""
    levels = _initial(drawing)
    for _ in range(ITERATIONS):
        step = _linearized(drawing, levels).step()
        drawing, levels = drawing.moved(step), levels + step[_LEVELS]
        levels[_SOFTNESS] = np.clip(levels[_SOFTNESS], *SOFTNESS_RANGE)
        if np.abs(step[_CORNERS]).max() < settled:
            break
    return drawing, _linearized(drawing, levels)


_CORNERS, _BLUR, _LEVELS = slice(0, 8), slice(8, 11), slice(11, 18)  # places of the unknowns
_SOFTNESS = 6  # place among the levels


@dataclass(frozen=True, eq=False)
class _Window:
    """Part of a picture: values [h, w], first pixel (x, y), and which pixels are compared [h, w]."""

    values: NDArray[np.float64]
    origin: NDArray[np.float64]
    mask: NDArray[np.bool_]

    @staticmethod
    def around(
        gray: NDArray[np.uint8], corners: NDArray[np.float64], margin: float, smoothing: float
    ) -> _Window | None:
        """Returns the window around a quadrilateral with a margin [px], smoothed by a standard deviation [px].

        None if it lies outside of the picture.
        """
        height, width = gray.shape
        low = np.maximum(np.floor(corners.min(0) - margin - 1).astype(int), 0)
        high = np.minimum(np.ceil(corners.max(0) + margin + 1).astype(int), [width, height])
        if (high - low).min() < 4:
            return None
        values = gray[low[1] : high[1], low[0] : high[0]].astype(np.float64) / 255
        if smoothing:
            values = np.asarray(cv2.GaussianBlur(values, (0, 0), smoothing), np.float64)
        mask = np.zeros(values.shape, np.uint8)
        cv2.fillConvexPoly(mask, np.round((_grown(corners, margin) - low - 0.5) * 16).astype(np.int32), 1, shift=4)
        return _Window(values, low.astype(np.float64), mask.astype(np.bool_))

    @cached_property
    def centers(self) -> NDArray[np.float64]:
        """Centres of the pixels in the picture [h, w, 2]."""
        y, x = np.indices(self.values.shape) + 0.5
        return np.stack([x, y], -1) + self.origin

    @cached_property
    def planes(self) -> NDArray[np.float64]:
        """One, x and y, the latter from -1 to 1 over the window [h, w, 3]."""
        y, x = (np.linspace(-1, 1, length) for length in self.values.shape)
        return np.stack(np.broadcast_arrays(1.0, x, y[:, None]), -1)


def _grown(corners: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    """Returns a quadrilateral [4, 2] whose sides are moved outwards by a margin."""
    center = corners.mean(0)
    reach = np.linalg.norm(corners - center, axis=-1, keepdims=True)
    return np.asarray(center + (corners - center) * (1 + np.sqrt(2) * margin / reach))


@dataclass(frozen=True, eq=False)
class _Drawing:
    """The light part of each pixel of a window under a pattern in perspective, with blur."""

    window: _Window
    cells: NDArray[np.bool_]
    corners: NDArray[np.float64]  # [4, 2] [px]
    blur: NDArray[np.float64]  # covariance [2, 2] [px^2]

    def moved(self, step: NDArray[np.float64]) -> _Drawing:
        """Returns the drawing after a step of the unknowns."""
        xx, xy, yy = np.clip(step[_BLUR], -BLUR_STEP, BLUR_STEP)
        values, axes = np.linalg.eigh(self.blur + np.array([[xx, xy], [xy, yy]]))
        blur = (axes * np.clip(values, *BLUR_RANGE)) @ axes.T
        return _Drawing(self.window, self.cells, self.corners + step[_CORNERS].reshape(4, 2), blur)

    @cached_property
    def _square(self) -> NDArray[np.float32]:
        n = len(self.cells)
        return np.array([[0, 0], [n, 0], [n, n], [0, n]], np.float32)

    @cached_property
    def _fine(self) -> NDArray[np.float32]:
        """Light part of samples of the window [SAMPLES h, SAMPLES w], blurred."""
        sides = np.linalg.norm(np.roll(self.corners, -1, 0) - self.corners, axis=-1)
        detail = max(2, round(SAMPLES * float(sides.mean()) / len(self.cells)))  # texels of a module: one a sample
        texture = np.kron(np.pad(self.cells, 1, constant_values=True), np.ones((detail, detail))).astype(np.float32)
        texels = (self._square + 1) * detail - 0.5  # of the corners, from the centre of the first texel
        samples = (self.corners - self.window.origin) * SAMPLES - 0.5
        to_texels = cv2.getPerspectiveTransform(samples.astype(np.float32), texels.astype(np.float32))
        height, width = self.window.values.shape
        sharp = cv2.warpPerspective(
            texture,
            to_texels,
            (SAMPLES * width, SAMPLES * height),
            flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
            borderMode=cv2.BORDER_REPLICATE,
        )
        kernel = _gaussian(self.blur * SAMPLES**2)
        return np.asarray(cv2.filter2D(sharp, cv2.CV_32F, kernel, borderType=cv2.BORDER_REPLICATE), np.float32)

    @cached_property
    def light_part(self) -> NDArray[np.float64]:
        """Light part of each pixel [h, w]."""
        return self._reduced(self._fine)

    @cached_property
    def gradient(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Its derivatives along x and y [h, w] [1/px]."""
        x, y = self._fine_gradient
        return self._reduced(x), self._reduced(y)

    @cached_property
    def curvature(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Its second derivatives along xx, xy and yy [h, w] [1/px^2]."""
        x, y = self._fine_gradient
        (xx, xy), (_, yy) = _slopes(x), _slopes(y)
        return self._reduced(xx), self._reduced(xy), self._reduced(yy)

    @cached_property
    def _fine_gradient(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        return _slopes(self._fine)

    def _reduced(self, fine: NDArray[np.float32]) -> NDArray[np.float64]:
        height, width = self.window.values.shape
        return np.asarray(cv2.resize(fine, (width, height), interpolation=cv2.INTER_AREA), np.float64)

    def displacements(self) -> NDArray[np.float64]:
        """Returns how the point of the pattern in each pixel moves with each coordinate of the corners [8, h, w, 2]."""
        centers = self.window.centers.reshape(-1, 1, 2)
        corners = self.corners.astype(np.float32)
        places = cv2.perspectiveTransform(centers, cv2.getPerspectiveTransform(corners, self._square))
        step = 0.25  # [px]
        moved = []
        for k in range(8):
            ends = []
            for sign in (1, -1):
                shifted = self.corners.copy()
                shifted.reshape(-1)[k] += sign * step
                matrix = cv2.getPerspectiveTransform(self._square, shifted.astype(np.float32))
                ends.append(cv2.perspectiveTransform(places, matrix))
            moved.append((ends[0] - ends[1]).reshape(*self.window.values.shape, 2) / (2 * step))
        return np.array(moved)


def _gaussian(covariance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the kernel of a Gaussian with a covariance [2, 2] of samples."""
    radius = int(np.ceil(3.5 * np.sqrt(np.linalg.eigvalsh(covariance)[-1]))) + 1
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1]
    places = np.stack([x, y], -1).reshape(-1, 2)
    kernel = np.exp(-0.5 * np.einsum("ni,ij,nj->n", places, np.linalg.inv(covariance), places)).reshape(x.shape)
    return np.asarray(kernel / kernel.sum())


def _slopes(fine: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns central differences of samples along x and y [1/px]."""
    y, x = np.gradient(fine, 1 / SAMPLES)
    return np.asarray(x, np.float32), np.asarray(y, np.float32)


@dataclass(frozen=True, eq=False)
class _Linearized:
    """Residuals [N] of the compared pixels, their Jacobian [N, 18] and weights [N]."""

    residuals: NDArray[np.float64]
    jacobian: NDArray[np.float64]
    weights: NDArray[np.float64]
    explained: float

    @cached_property
    def _normal(self) -> NDArray[np.float64]:
        return np.asarray(self.jacobian.T @ (self.weights[:, None] * self.jacobian))

    def step(self) -> NDArray[np.float64]:
        """Returns the step of the Gauss-Newton method."""
        ridge = 1e-6 * np.diag(np.diag(self._normal))
        return np.asarray(np.linalg.lstsq(self._normal + ridge, self.jacobian.T @ (self.weights * self.residuals))[0])

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Covariance of the unknowns [18, 18]."""
        count = max(float(self.weights.sum()) / CORRELATION - self.jacobian.shape[1], 1.0)
        variance = float(self.weights @ self.residuals**2) / count
        return variance * np.linalg.pinv(self._normal, hermitian=True)


def _initial(drawing: _Drawing) -> NDArray[np.float64]:
    """Returns the light of print and paper at the start, levels and slopes along x and y, and the softness [7]."""
    light = _light(drawing.window.values)[drawing.window.mask]
    part = drawing.light_part[drawing.window.mask]
    dark = float(np.median(light[part < 0.1])) if (part < 0.1).any() else float(light.min())
    bright = float(np.median(light[part > 0.9])) if (part > 0.9).any() else float(light.max())
    return np.array([dark, 0, 0, bright, 0, 0, 0])


def _linearized(drawing: _Drawing, levels: NDArray[np.float64]) -> _Linearized:
    """Compares a drawing with the picture; `levels` are those of print and paper, and the softness [7]."""
    window, mask, softness = drawing.window, drawing.window.mask, levels[_SOFTNESS]
    dark, bright = window.planes @ levels[:3], window.planes @ levels[3:6]
    part = drawing.light_part
    light = np.maximum(dark + (bright - dark) * part, MIN_LIGHT)
    contrast = (bright - dark)[..., None]
    x, y = drawing.gradient
    xx, xy, yy = drawing.curvature
    moves = np.moveaxis(drawing.displacements(), 0, -1)  # [h, w, 2, 8]
    by_corners = -contrast * (x[..., None] * moves[:, :, 0] + y[..., None] * moves[:, :, 1])
    # A Gaussian blur solves the heat equation: its derivative in a variance is half of the second derivative.
    by_blur = contrast * np.stack([xx / 2, xy, yy / 2], -1)
    by_levels = np.concatenate([(1 - part)[..., None] * window.planes, part[..., None] * window.planes], -1)
    by_light = np.concatenate([by_corners, by_blur, by_levels], -1) * _code_slope(light)[..., None]
    codes = _coded(light)
    curvature = _laplacian(codes) / 2
    softened = by_light + softness / 2 * np.stack([_laplacian(own) for own in np.moveaxis(by_light, -1, 0)], -1)
    jacobian = np.concatenate([softened, curvature[..., None]], -1)
    residuals = (window.values - codes - softness * curvature)[mask]
    scale = max(1.4826 * float(np.median(np.abs(residuals))), 0.5 / 255)
    weights = 1 / (1 + (residuals / (OUTLIER * scale)) ** 2)
    values = window.values[mask]
    spread = float(weights @ (values - np.average(values, weights=weights)) ** 2)
    explained = 1 - float(weights @ residuals**2) / max(spread, 1e-9)
    return _Linearized(residuals, jacobian[mask], weights, explained)


def _laplacian(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the sum of second differences along x and y [1/px^2]."""
    return np.asarray(cv2.Laplacian(values, cv2.CV_64F, ksize=1, borderType=cv2.BORDER_REPLICATE))


def _light(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(srgb_to_linear(torch.from_numpy(values)).numpy())


def _coded(light: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(linear_to_srgb(torch.from_numpy(light)).numpy())


def _code_slope(light: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the derivative of sRGB values by light."""
    return np.where(light <= 0.0031308, 12.92, 1.055 / 2.4 * light ** (1 / 2.4 - 1))
