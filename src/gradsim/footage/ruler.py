"""The view of a camera on a vertical plane, from one known length in the picture.

A ruler of known length gives the scale in the plane that contains it, and with the focal length the camera's distance
from it. Lines that are vertical in reality (the edge of a door, a plumb line) give the roll of the camera; two that are
far apart also give its pitch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.footage.lens import Lens, distort_points, rays_of, undistort_points
from gradsim.footage.measured import Measured
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape

PIXEL_SD = 1.0  # of a clicked point [px]
LEVEL = Measured(0.0, math.radians(2.0), "rad", "assumed: camera held level")  # roll without verticals
PITCH = Measured(0.0, math.radians(5.0), "rad", "assumed: camera looks horizontally")
ITERATIONS = 10
STEP = 1e-5  # of numerical derivatives, in standard deviations of what is varied or relative


@dataclass(frozen=True, eq=False)
class RulerView:
    """A camera that looks at the vertical plane of a ruler.

    The world has its origin where the perpendicular from the camera meets the plane: x to the right, y up, z towards
    the camera; the plane is z = 0, and the camera is at (0, 0, distance).

    Args:
        lens: The lens.
        distance: Distance of the camera from the plane [m]. It is proportional to the focal length.
        pixels_per_metre: Scale of the undistorted picture along the ruler. It does not depend on the focal length.
        roll: Rotation of the camera about its axis [rad]; positive if the picture's content turns counterclockwise.
        pitch: Angle of the optical axis above the horizontal [rad].
        distance_parts: Relative standard deviation of the distance that each source contributes.
        scale_parts: Relative standard deviation of the scale that each source contributes.
    """

    lens: Lens
    distance: Measured
    pixels_per_metre: Measured
    roll: Measured
    pitch: Measured
    distance_parts: Mapping[str, float] = field(repr=False)
    scale_parts: Mapping[str, float] = field(repr=False)

    @property
    def axes(self) -> NDArray[np.float64]:
        """World axes x, y, z in camera axes, as rows [3, 3]."""
        return world_axes(self.roll.value, self.pitch.value)

    @property
    def eye(self) -> NDArray[np.float64]:
        """Position of the camera in the world [3] [m]."""
        return np.array([0.0, 0.0, self.distance.value])

    @property
    def target(self) -> NDArray[np.float64]:
        """Point of the plane on the optical axis [3] [m]."""
        forward = self.axes[:, 2]
        return self.eye - forward * self.distance.value / forward[2]

    @property
    def up(self) -> NDArray[np.float64]:
        """Direction that points up in the picture, in the world [3]."""
        return -self.axes[:, 1]

    @property
    def fov(self) -> Measured:
        """Vertical field of view [degrees]."""
        return self.lens.fov

    def camera(self) -> Camera:
        """Returns the camera for undistorted pictures."""
        return Camera(tuple(self.eye), tuple(self.target), up=tuple(self.up), fov=self.fov.value)

    def plane_points(self, pixels: ArrayLike) -> NDArray[np.float64]:
        """Returns where points of the (distorted) picture [..., 2] [px] lie in the plane [..., 2] [m]."""
        rays = rays_of(self.lens, undistort_points(self.lens, pixels))
        return self.distance.value * _plane(rays, self.axes)

    def pixels(self, points: ArrayLike) -> NDArray[np.float64]:
        """Returns where points of the plane [..., 2] [m] appear in the (distorted) picture [..., 2] [px]."""
        plane = np.asarray(points, np.float64)
        depth = np.full_like(plane[..., :1], -self.distance.value)
        seen = np.concatenate([plane, depth], -1) @ self.axes
        height, width = self.lens.size
        undistorted = self.lens.fy * seen[..., :2] / seen[..., 2:] + np.array([width / 2, height / 2])
        return distort_points(self.lens, undistorted)


def view_from_ruler(
    lens: Lens,
    ends: ArrayLike,
    length: float,
    *,
    length_sd: float = 0.0,
    pixel_sd: float = PIXEL_SD,
    depth_sd: float = 0.0,
    verticals: ArrayLike | None = None,
    roll: Measured = LEVEL,
    pitch: Measured = PITCH,
) -> RulerView:
    """Returns the view of a camera on the vertical plane that contains a ruler and faces the camera.

    Args:
        lens: The lens, such as `pinhole_lens(size, focal_length(path))` without a calibration.
        ends: Ends of the ruler in the (distorted) picture [2, 2] [px].
        length: Its length [m].
        length_sd: Standard deviation of the length [m].
        pixel_sd: Standard deviation of clicked points along each axis [px].
        depth_sd: Standard deviation of the distance between the ruler and the plane of the motion [m].
        verticals: Ends of lines that are vertical in reality [N, 2, 2] [px].
        roll, pitch: What is known about the camera's attitude without the verticals [rad].

    Raises:
        InvalidInput: Both ends are at the same place, or the numbers are out of range.
    """
    points = _segments("ends", ends, (2, 2))
    _check_lengths(length, length_sd, pixel_sd, depth_sd)
    if np.linalg.norm(points[1] - points[0]) < 2 * pixel_sd:
        raise InvalidInput("ends", "less than two standard deviations apart", "must be the two ends of the ruler")
    lines = None if verticals is None else _segments("verticals", verticals, (-1, 2, 2))
    angles, spread = attitude(lens, lines, pixel_sd, roll, pitch)
    problem = _Ruler(undistort_points(lens, points), length, lens.fy, angles, lens.size)
    return _view(lens, problem, length_sd, pixel_sd, depth_sd, spread, (roll, pitch) if lines is None else None)


def attitude(
    lens: Lens, verticals: NDArray[np.float64] | None, pixel_sd: float, roll: Measured, pitch: Measured
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns roll and pitch [2] [rad] that explain vertical lines [N, 2, 2] [px], and their covariance [2, 2]."""
    prior, deviations = np.array([roll.value, pitch.value]), np.array([roll.sd, pitch.sd])
    if not (deviations > 0).all():
        raise OutOfRange("roll/pitch", "a standard deviation of 0", "must be > 0")
    if verticals is None:
        return prior, np.diag(deviations**2)
    ends = undistort_points(lens, verticals)
    rays = rays_of(lens, ends)
    normals = np.cross(rays[:, 0], rays[:, 1])  # of the planes through the camera and each line
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    sds = math.sqrt(2) * pixel_sd / np.linalg.norm(ends[:, 1] - ends[:, 0], axis=-1)  # of the angle [rad]

    def residuals(angles: NDArray[np.float64]) -> NDArray[np.float64]:
        up = world_axes(*angles)[1]
        return np.concatenate([normals @ up / sds, (angles - prior) / deviations])

    angles = prior
    for _ in range(ITERATIONS):
        jacobian = _jacobian(residuals, angles, np.full(2, STEP))
        angles = angles - np.linalg.solve(jacobian.T @ jacobian, jacobian.T @ residuals(angles))
    return angles, np.linalg.inv(jacobian.T @ jacobian)


def world_axes(roll: float, pitch: float) -> NDArray[np.float64]:
    """Returns the world axes (x right, y up, z towards the camera) in camera axes, as rows [3, 3]."""
    up = np.array([-math.sin(roll) * math.cos(pitch), -math.cos(roll) * math.cos(pitch), math.sin(pitch)])
    forward = np.array([0.0, 0.0, 1.0])
    towards = up * up[2] - forward  # the horizontal part of the direction against the optical axis
    towards /= np.linalg.norm(towards)
    return np.stack([np.cross(up, towards), up, towards])


@dataclass(frozen=True, eq=False)
class _Ruler:
    """What distance and scale are computed from."""

    ends: NDArray[np.float64]  # in the undistorted picture [2, 2] [px]
    length: float  # [m]
    focal: float  # [px]
    angles: NDArray[np.float64]  # roll and pitch [rad]
    size: tuple[int, int]

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Ends, length, focal length, roll and pitch [8]."""
        return np.array([*self.ends.ravel(), self.length, self.focal, *self.angles])

    def log_distance(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the logarithm of the distance of the plane [1]."""
        height, width = self.size
        plane = (numbers[:4].reshape(2, 2) - np.array([width / 2, height / 2])) / numbers[5]
        points = _plane(np.concatenate([plane, np.ones((2, 1))], -1), world_axes(*numbers[6:]))
        return np.array([math.log(numbers[4] / float(np.linalg.norm(points[1] - points[0])))])


def _view(
    lens: Lens,
    ruler: _Ruler,
    length_sd: float,
    pixel_sd: float,
    depth_sd: float,
    spread: NDArray[np.float64],
    assumed: tuple[Measured, Measured] | None,
) -> RulerView:
    numbers = ruler.numbers
    distance = math.exp(float(ruler.log_distance(numbers)[0]))
    scales = np.array([*[pixel_sd] * 4, ruler.length, ruler.focal, 1.0, 1.0])
    slope = _jacobian(ruler.log_distance, numbers, STEP * scales)[0]
    pixels = float(np.linalg.norm(ruler.ends[1] - ruler.ends[0]))
    common = {"ruler length": length_sd / ruler.length, "depth": depth_sd / distance}
    distance_parts = {
        **common,
        "pixels": pixel_sd * float(np.linalg.norm(slope[:4])),
        "focal length": abs(float(slope[5])) * lens.focal.sd,
        "tilt": math.sqrt(slope[6:] @ spread @ slope[6:]),
    }
    scale_parts = {**common, "pixels": math.sqrt(2) * pixel_sd / pixels}
    source = "verticals in the picture"
    roll, pitch = (
        Measured(float(ruler.angles[k]), math.sqrt(spread[k, k]), "rad", assumed[k].source if assumed else source)
        for k in range(2)
    )
    return RulerView(
        lens,
        _measured(distance, distance_parts, "m"),
        _measured(pixels / ruler.length, scale_parts, "px/m"),
        roll,
        pitch,
        distance_parts,
        scale_parts,
    )


def _measured(value: float, parts: Mapping[str, float], unit: str) -> Measured:
    return Measured(value, value * math.hypot(*parts.values()), unit, "ruler")


def _plane(rays: NDArray[np.float64], axes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns where rays [..., 3] in camera axes meet the plane at distance 1 [..., 2]: x to the right, y up."""
    world = rays @ axes.T
    if not (world[..., 2] < 0).all():
        raise OutOfRange("pixels", "a point at or above the horizon of the plane", "must show the plane")
    return np.asarray(world[..., :2] / -world[..., 2:])


def _jacobian(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    at: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Returns central differences [M, N] of a function."""
    columns = [(function(at + step) - function(at - step)) / (2 * step.sum()) for step in np.diag(steps)]
    return np.stack(columns, -1)


def _segments(name: str, given: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.float64]:
    points = np.asarray(given, np.float64)
    expected = tuple(n if n >= 0 else points.shape[k] if k < points.ndim else 1 for k, n in enumerate(shape))
    if points.shape != expected or not points.size:
        wanted = "[2, 2]: two ends (x, y)" if len(shape) == 2 else "[N, 2, 2]: two ends (x, y) of each line"
        raise WrongShape(name, f"shape {points.shape}", f"must have shape {wanted}")
    if not np.isfinite(points).all():
        raise NotFinite(name, "NaN or infinity", "must be finite [px]")
    return points


def _check_lengths(length: float, length_sd: float, pixel_sd: float, depth_sd: float) -> None:
    for name, value in (("length", length), ("pixel_sd", pixel_sd)):
        if not 0 < value < math.inf:
            raise OutOfRange(name, value, "must be > 0 and finite")
    for name, value in (("length_sd", length_sd), ("depth_sd", depth_sd)):
        if not 0 <= value < math.inf:
            raise OutOfRange(name, value, "must be >= 0 and finite [m]")
