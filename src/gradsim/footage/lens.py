"""Intrinsics of a camera with OpenCV's distortion model, and the undistorted picture.

The undistorted picture has square pixels, the focal length `fy` and the principal point in its centre. It is the
picture of a `gs.Camera` with `fov=lens.fov.value`. Pixels are those of `gs.Camera`: x to the right, y down, and the
first pixel covers the square from 0 to 1. OpenCV measures from the centre of the first pixel: its coordinates are
smaller by 0.5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.footage.measured import Measured
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import NotFinite, OutOfRange, WrongShape

PARAMETERS = ("fx", "fy", "cx", "cy", "k1", "k2", "p1", "p2", "k3")  # order of covariances, which is OpenCV's
CENTER_SD = 0.01  # of the diagonal: usual deviation of the principal point from the centre of the picture
ASPECT_TOLERANCE = 0.005  # of sizes to scale to, relative: sides are rounded to even numbers of pixels
CRITERIA = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 100, 1e-9)
MAX_INVERSION_ERROR = 0.01  # [px]


def _no_covariance() -> NDArray[np.float64]:
    return np.zeros((len(PARAMETERS), len(PARAMETERS)))


@dataclass(frozen=True, eq=False)
class Lens:
    """Intrinsics of a camera.

    A point (X, Y, Z) in camera axes (x right, y down, z forward), with x = X/Z, y = Y/Z and r^2 = x^2 + y^2, appears at

        u = fx (x (1 + k1 r^2 + k2 r^4 + k3 r^6) + 2 p1 x y + p2 (r^2 + 2 x^2)) + cx
        v = fy (y (1 + k1 r^2 + k2 r^4 + k3 r^6) + p1 (r^2 + 2 y^2) + 2 p2 x y) + cy

    Args:
        fx, fy: Focal lengths [px].
        cx, cy: Principal point [px].
        size: Height and width of the picture [px].
        k1, k2, k3: Radial distortion.
        p1, p2: Tangential distortion.
        covariance: Covariance of fx, fy, cx, cy, k1, k2, p1, p2, k3 [9, 9].
    """

    fx: float
    fy: float
    cx: float
    cy: float
    size: tuple[int, int]
    k1: float = 0.0
    k2: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    k3: float = 0.0
    covariance: NDArray[np.float64] = field(default_factory=_no_covariance, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", checked_pixels("lens.size", self.size))
        object.__setattr__(self, "covariance", np.asarray(self.covariance, np.float64))
        for name in PARAMETERS:
            _check_parameter(name, getattr(self, name))
        if self.covariance.shape != (len(PARAMETERS),) * 2:
            raise WrongShape("lens.covariance", f"shape {self.covariance.shape}", "must have shape (9, 9)")
        if not np.isfinite(self.covariance).all() or (np.diag(self.covariance) < 0).any():
            raise OutOfRange("lens.covariance", "not finite, or a negative variance", "must be a covariance")

    @property
    def matrix(self) -> NDArray[np.float64]:
        """Camera matrix [3, 3]."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]])

    @property
    def distortion(self) -> NDArray[np.float64]:
        """Distortion coefficients (k1, k2, p1, p2, k3) [5]."""
        return np.array([self.k1, self.k2, self.p1, self.p2, self.k3])

    @property
    def sd(self) -> dict[str, float]:
        """Standard deviation of each parameter."""
        return dict(zip(PARAMETERS, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    @property
    def focal(self) -> Measured:
        """Focal length of the undistorted picture [px], which is `fy`."""
        return Measured(self.fy, self.sd["fy"], "px", "lens")

    @property
    def fov(self) -> Measured:
        """Vertical field of view of the undistorted picture [degrees], as for `gs.Camera(fov=)`."""
        half = self.size[0] / 2
        slope = 2 * half / (self.fy**2 + half**2)  # of the angle over the focal length [rad/px]
        return Measured(
            math.degrees(2 * math.atan(half / self.fy)), math.degrees(slope * self.sd["fy"]), "degrees", "lens"
        )

    @property
    def undistorted_matrix(self) -> NDArray[np.float64]:
        """Camera matrix of the undistorted picture [3, 3]."""
        height, width = self.size
        return np.array([[self.fy, 0, width / 2], [0, self.fy, height / 2], [0, 0, 1]])

    def scaled(self, size: tuple[int, int]) -> Lens:
        """Returns the lens for pictures of another resolution (H, W) that show the same field of view.

        Raises:
            OutOfRange: The aspect ratio differs: the picture is cropped, and shows another field of view.
        """
        height, width = checked_pixels("size", size)
        sy, sx = height / self.size[0], width / self.size[1]
        if abs(sx / sy - 1) > ASPECT_TOLERANCE:
            remedy = f"must have the aspect ratio of {self.size[0]} x {self.size[1]} pixels (H x W) of the calibration"
            raise OutOfRange("size", f"{height} x {width} pixels", f"{remedy}: calibrate in the mode of the recording")
        factors = np.array([sx, sy, sx, sy, 1, 1, 1, 1, 1])
        values = dict(zip(PARAMETERS, (factors * self._values).tolist(), strict=True))
        return replace(self, size=(height, width), covariance=self.covariance * np.outer(factors, factors), **values)

    @property
    def _values(self) -> NDArray[np.float64]:
        return np.array([getattr(self, name) for name in PARAMETERS])


def _check_parameter(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise NotFinite(f"lens.{name}", value, "must be finite")
    if name in ("fx", "fy") and value <= 0:
        raise OutOfRange(f"lens.{name}", f"{value:g}", "must be > 0 [px]")


def pinhole_lens(size: tuple[int, int], focal: Measured, *, center_sd: float | None = None) -> Lens:
    """Returns a lens without distortion whose principal point is the centre of the picture.

    Args:
        size: Height and width of the picture [px].
        focal: Focal length [px].
        center_sd: Standard deviation of both coordinates of the principal point [px]; 1 % of the diagonal if None.
    """
    height, width = checked_pixels("size", size)
    center_variance = (CENTER_SD * math.hypot(height, width) if center_sd is None else center_sd) ** 2
    covariance = _no_covariance()
    covariance[:2, :2] = focal.sd**2  # one focal length for both axes
    covariance[2, 2] = covariance[3, 3] = center_variance
    return Lens(focal.value, focal.value, width / 2, height / 2, (height, width), covariance=covariance)


def undistort_points(lens: Lens, pixels: ArrayLike) -> NDArray[np.float64]:
    """Returns where points of the picture lie in the undistorted picture.

    Args:
        lens: The lens.
        pixels: Points [..., 2] [px].

    Raises:
        OutOfRange: The distortion has no inverse at a point: it lies too far outside the calibrated part.
    """
    points = _checked_points(pixels)
    flat = points.reshape(-1, 1, 2)
    if not len(flat):
        return points
    found = cv2.undistortPointsIter(
        flat, lens.matrix, lens.distortion, np.eye(3), lens.undistorted_matrix, criteria=CRITERIA
    )
    undistorted = np.asarray(found, np.float64).reshape(points.shape)
    error = np.abs(distort_points(lens, undistorted) - points).max(-1)
    if not (error < MAX_INVERSION_ERROR).all():
        worst = points.reshape(-1, 2)[int(np.argmax(np.nan_to_num(error.reshape(-1), nan=np.inf)))]
        remedy = "lies where the distortion of the lens has no inverse: calibrate with boards that reach the corners"
        raise OutOfRange("pixels", f"({worst[0]:.1f}, {worst[1]:.1f})", remedy)
    return undistorted


def distort_points(lens: Lens, pixels: ArrayLike) -> NDArray[np.float64]:
    """Returns where points of the undistorted picture lie in the picture; the inverse of `undistort_points`."""
    points = _checked_points(pixels)
    rays = rays_of(lens, points).reshape(-1, 1, 3)
    if not len(rays):
        return points
    found, _ = cv2.projectPoints(rays, np.zeros(3), np.zeros(3), lens.matrix, lens.distortion)
    return np.asarray(found, np.float64).reshape(points.shape)


def rays_of(lens: Lens, pixels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the directions (x, y, 1) [..., 3] in camera axes of points of the undistorted picture [..., 2]."""
    height, width = lens.size
    plane = (pixels - np.array([width / 2, height / 2])) / lens.fy
    return np.concatenate([plane, np.ones_like(plane[..., :1])], -1)


def undistort_image(lens: Lens, image: NDArray[Any]) -> NDArray[Any]:
    """Returns the undistorted picture, of the same size; pixels that the picture does not show are black.

    Args:
        lens: The lens.
        image: Picture [H, W] or [H, W, C].
    """
    if image.shape[:2] != lens.size:
        found = f"{image.shape[0]} x {image.shape[1]} pixels"
        remedy = f"must have the lens's {lens.size[0]} x {lens.size[1]} pixels: scale the lens with lens.scaled((H, W))"
        raise WrongShape("image", found, remedy)
    height, width = lens.size
    y, x = np.mgrid[:height, :width] + 0.5
    ideal = np.stack([x, y], -1)
    source = np.where(_is_invertible(lens, ideal)[..., None], distort_points(lens, ideal) - 0.5, -1e3)
    return cv2.remap(image, source.astype(np.float32), None, cv2.INTER_CUBIC, borderMode=cv2.BORDER_CONSTANT)  # type: ignore[call-overload]


def _is_invertible(lens: Lens, pixels: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Returns whether points of the undistorted picture are within the radius up to which radii keep their order."""
    slope = np.polynomial.Polynomial([1, 3 * lens.k1, 5 * lens.k2, 7 * lens.k3])  # of the radius, in r^2
    roots = slope.roots()
    turning = roots[(np.abs(roots.imag) < 1e-12) & (roots.real > 0)].real
    rays = rays_of(lens, pixels)
    return np.asarray((rays[..., :2] ** 2).sum(-1) < turning.min(initial=np.inf))


def _checked_points(pixels: ArrayLike) -> NDArray[np.float64]:
    points = np.asarray(pixels, np.float64)
    if points.shape[-1:] != (2,):
        raise WrongShape("pixels", f"shape {points.shape}", "must have shape [..., 2]: x and y")
    if not np.isfinite(points).all():
        raise NotFinite("pixels", "NaN or infinity", "must be finite")
    return points
