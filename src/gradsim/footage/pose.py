"""The pose of an object of known points relative to the camera, from one picture, with its covariance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.footage.lens import PARAMETERS, Lens
from gradsim.scene.camera import Camera
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, WrongShape

NOISE = 0.2  # usual deviation of a marked point [px]
MIN_POINTS = 4
FLAT = 1e-6  # extent along the normal of a plane, relative to the largest extent
ITERATIONS = 30
DISTINCT = 3.0  # standard deviations by which the best of two poses has to explain the points better


@dataclass(frozen=True, eq=False)
class Pose:
    """Pose of an object relative to the camera: x_camera = rotation x_object + translation.

    Camera axes are OpenCV's: x to the right, y down, z forward.

    Args:
        rotation: Rotation matrix [3, 3].
        translation: Position of the object's origin in camera axes [3] [m].
        covariance: Covariance of a small rotation about the camera axes [rad] and of the translation [m], [6, 6].
        error: Root mean square distance of given and predicted points [px].
        chi2: Sum of the squared distances over the variances of the points.
        alternative: The other pose that a flat object may have, if there is one.
        is_ambiguous: Whether the alternative explains the points about as well.
    """

    rotation: NDArray[np.float64]
    translation: NDArray[np.float64]
    covariance: NDArray[np.float64] = field(repr=False)
    error: float
    chi2: float
    alternative: Pose | None = field(default=None, repr=False)
    is_ambiguous: bool = False

    @property
    def rotation_sd(self) -> NDArray[np.float64]:
        """Standard deviations of the rotation about the camera axes [3] [rad]."""
        return np.sqrt(np.diag(self.covariance)[:3])

    @property
    def translation_sd(self) -> NDArray[np.float64]:
        """Standard deviations of the translation [3] [m]."""
        return np.sqrt(np.diag(self.covariance)[3:])

    @property
    def camera_to_object(self) -> NDArray[np.float64]:
        """Transform from camera axes to object axes [4, 4], as for `gs.Camera(pose=)` in a world of object axes."""
        pose = np.eye(4)
        pose[:3, :3] = self.rotation.T
        pose[:3, 3] = self.eye
        return pose

    @property
    def eye(self) -> NDArray[np.float64]:
        """Position of the camera in object axes [3] [m]."""
        return -self.rotation.T @ self.translation

    @property
    def eye_sd(self) -> NDArray[np.float64]:
        """Standard deviations of the position of the camera in object axes [3] [m]."""
        # A rotation by w turns x_camera, so that eye = -R' exp(-w) t: its derivative in w is -R' [t]x.
        slope = np.concatenate([-self.rotation.T @ _cross(self.translation), -self.rotation.T], 1)
        return np.asarray(np.sqrt(np.diag(slope @ self.covariance @ slope.T)))

    def camera(self, lens: Lens) -> Camera:
        """Returns the camera in a world of object axes, for undistorted pictures."""
        return Camera(pose=self.camera_to_object, fov=lens.fov.value)


def solve_pose(lens: Lens, points: ArrayLike, pixels: ArrayLike, *, noise: ArrayLike = NOISE) -> Pose:
    """Finds the pose of known points: corners of a board, a tag or a box, or marks on a wall.

    The covariance contains the noise of the pixels and the uncertainty of the lens. The noise is that of the residuals
    if they are larger than `noise` says.

    Args:
        lens: The lens.
        points: Points of the object in its own axes [N, 3] [m]; at least four, not all on one line.
        pixels: Where they are in the (distorted) picture [N, 2] [px].
        noise: Standard deviation of the pixels along each axis [px], or the covariance of x0, y0, x1, ... [2 N, 2 N]
            [px^2].

    Raises:
        InvalidInput: Too few points, points on one line, or no pose in front of the camera.
    """
    object_points, image_points = _checked(points, pixels)
    problem = _Problem(lens, object_points, image_points, _whitening(noise, len(object_points)))
    candidates = [_refined(problem, *start) for start in _starts(lens, object_points, image_points)]
    visible = [own for own in candidates if (object_points @ own[0].T + own[1])[:, 2].min() > 0]
    if not visible:
        raise InvalidInput("pixels", "no pose in front of the camera", "must list the points in the order of `points`")
    solved = sorted((_with_covariance(problem, *own) for own in visible), key=lambda own: own.chi2)
    return _with_alternative(solved, problem.freedom)


def rotation_angle(start: NDArray[np.float64], end: NDArray[np.float64]) -> float:
    """Returns the angle between two rotation matrices [3, 3] [rad]."""
    return float(np.linalg.norm(cv2.Rodrigues(end @ start.T)[0]))


@dataclass(frozen=True, eq=False)
class _Problem:
    """Points [N, 3], where they are in the picture [N, 2], and the inverse root of their covariance [2 N, 2 N]."""

    lens: Lens
    points: NDArray[np.float64]
    pixels: NDArray[np.float64]
    whitening: NDArray[np.float64]

    @property
    def freedom(self) -> int:
        """Coordinates beyond the six numbers of a pose."""
        return max(2 * len(self.points) - 6, 1)


def _whitening(noise: ArrayLike, count: int) -> NDArray[np.float64]:
    """Returns the matrix [2 N, 2 N] that makes errors of `count` points independent, with variances of one."""
    given = np.asarray(noise, np.float64)
    if given.ndim == 0:
        if not given > 0:
            raise OutOfRange("noise", noise, "must be > 0 [px]")
        return np.eye(2 * count) / float(given)
    if given.shape != (2 * count, 2 * count):
        raise WrongShape("noise", f"shape {given.shape}", f"must be a number or a covariance {(2 * count, 2 * count)}")
    try:
        return np.linalg.inv(np.linalg.cholesky(given))
    except np.linalg.LinAlgError:
        raise OutOfRange("noise", "a singular or indefinite matrix", "must be a covariance [px^2]") from None


def _with_alternative(poses: list[Pose], freedom: int) -> Pose:
    """Returns the best pose, with the next one that differs from it as its alternative."""
    best = poses[0]
    others = [own for own in poses[1:] if rotation_angle(best.rotation, own.rotation) > 1e-4]
    if not others:
        return best
    gain = (others[0].chi2 - best.chi2) / max(1.0, best.chi2 / freedom)
    return replace(best, alternative=others[0], is_ambiguous=bool(gain < DISTINCT**2))


def _starts(
    lens: Lens, points: NDArray[np.float64], pixels: NDArray[np.float64]
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Returns approximate poses: rotation matrices and translations."""
    extents = np.linalg.svd(points - points.mean(0), compute_uv=False)
    if extents[1] < FLAT * extents[0]:
        raise InvalidInput("points", "on one line", "must not all lie on one line")
    method = cv2.SOLVEPNP_IPPE if extents[2] < FLAT * extents[0] else cv2.SOLVEPNP_SQPNP
    count, rotations, shifts, _ = cv2.solvePnPGeneric(points, pixels, lens.matrix, lens.distortion, flags=method)
    if not count:
        raise InvalidInput("points", "without a pose", "must be listed in the order of `pixels`, in metres")
    return [
        (np.asarray(cv2.Rodrigues(own)[0], np.float64), np.asarray(shift, np.float64).ravel())
        for own, shift in zip(rotations, shifts, strict=True)
    ]


def _refined(
    problem: _Problem, rotation: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Minimizes the squared distances in the picture, weighted by their noise: Levenberg-Marquardt method."""
    damping = 1e-4
    residual, jacobian, _ = _linearized(problem, rotation, shift)
    for _ in range(ITERATIONS):
        normal = jacobian.T @ jacobian
        step = np.linalg.solve(normal + damping * np.diag(np.diag(normal)), jacobian.T @ residual)
        turned, moved = cv2.Rodrigues(step[:3])[0] @ rotation, shift + step[3:]
        trial, slope, _ = _linearized(problem, turned, moved)
        if trial @ trial <= residual @ residual:
            rotation, shift, residual, jacobian, damping = turned, moved, trial, slope, damping / 10
        else:
            damping *= 10
    return rotation, shift


def _linearized(
    problem: _Problem, rotation: NDArray[np.float64], shift: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns residuals [2 N] and the Jacobians of predictions in the pose [2 N, 6] and the lens [2 N, 9], whitened."""
    lens, turned = problem.lens, problem.points @ rotation.T
    found, slopes = cv2.projectPoints(turned + shift, np.zeros(3), np.zeros(3), lens.matrix, lens.distortion)
    jacobian = np.asarray(slopes, np.float64)
    by_position = jacobian[:, 3:6].reshape(-1, 2, 3)
    by_rotation = -by_position @ np.array([_cross(point) for point in turned])
    pose = np.concatenate([by_rotation, by_position], -1).reshape(-1, 6)
    residual = np.ravel(problem.pixels - np.asarray(found).reshape(-1, 2))
    white = problem.whitening
    return white @ residual, white @ pose, white @ jacobian[:, 6 : 6 + len(PARAMETERS)]


def _with_covariance(problem: _Problem, rotation: NDArray[np.float64], shift: NDArray[np.float64]) -> Pose:
    residual, jacobian, by_lens = _linearized(problem, rotation, shift)
    inverse = np.linalg.pinv(jacobian.T @ jacobian, hermitian=True)
    distances = np.linalg.solve(problem.whitening, residual)
    error = float(np.sqrt(distances @ distances / len(problem.points)))
    chi2 = float(residual @ residual)
    response = -inverse @ jacobian.T @ by_lens  # of the pose to the lens [6, 9]
    variance = max(1.0, chi2 / problem.freedom)
    covariance = variance * inverse + response @ problem.lens.covariance @ response.T
    return Pose(rotation, shift, covariance, error, chi2)


def _cross(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the matrix [3, 3] of the cross product with a vector from the left."""
    x, y, z = vector
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def _checked(points: ArrayLike, pixels: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    object_points, image_points = np.asarray(points, np.float64), np.asarray(pixels, np.float64)
    if object_points.ndim != 2 or object_points.shape[-1] != 3:
        raise WrongShape("points", f"shape {object_points.shape}", "must have shape [N, 3]")
    if image_points.shape != (len(object_points), 2):
        raise WrongShape("pixels", f"shape {image_points.shape}", f"must have shape ({len(object_points)}, 2)")
    if len(object_points) < MIN_POINTS:
        raise OutOfRange("points", f"{len(object_points)} points", f"must be at least {MIN_POINTS}")
    if not (np.isfinite(object_points).all() and np.isfinite(image_points).all()):
        raise NotFinite("points/pixels", "NaN or infinity", "must be finite")
    return object_points, image_points
