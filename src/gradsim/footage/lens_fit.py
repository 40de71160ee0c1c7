"""The lens that explains the corners of a board in several pictures: Zhang's method, refined by least squares.

Standard deviations follow from the residuals. Errors of corners in one picture are alike (blur, a bent board), so
standard deviations are those of independent corners or those of independent pictures, whichever are larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.boards import Board, BoardCorners
from gradsim.footage.lens import PARAMETERS, Lens
from gradsim.scene.errors import CalibrationError

CRITERIA = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 200, 1e-12)
K3 = PARAMETERS.index("k3")
SIGNIFICANT = 3.0  # standard deviations by which k3 differs from zero to be used
POSE = 6  # numbers of a pose


@dataclass(frozen=True, eq=False)
class LensFit:
    """A lens and the poses of the board.

    Args:
        lens: The lens, with its covariance.
        rotations: Rotation vectors of the board in each picture [V, 3].
        translations: Positions of the board's first corner in camera axes [V, 3] [m].
        residuals: Detected minus predicted corners of each picture, [N, 2] each [px].
    """

    lens: Lens
    rotations: NDArray[np.float64] = field(repr=False)
    translations: NDArray[np.float64] = field(repr=False)
    residuals: tuple[NDArray[np.float64], ...] = field(repr=False)

    @property
    def view_errors(self) -> NDArray[np.float64]:
        """Root mean square distance of detected and predicted corners in each picture [V] [px]."""
        return np.array([np.sqrt((own**2).sum(-1).mean()) for own in self.residuals])

    @property
    def error(self) -> float:
        """Root mean square distance of all detected and predicted corners [px]: the reprojection error."""
        return float(np.sqrt((np.concatenate(self.residuals) ** 2).sum(-1).mean()))


def fit_lens(board: Board, views: Sequence[BoardCorners], size: tuple[int, int]) -> LensFit:
    """Fits a lens to corners of a board in several pictures of `size` (H, W).

    The coefficient k3 is zero unless it differs from zero by more than three standard deviations: where it is not
    needed, it makes the edge of the undistorted picture uncertain.

    Raises:
        CalibrationError: No lens explains the corners.
    """
    full = _fit(board, views, size, has_k3=True)
    if abs(full.lens.k3) > SIGNIFICANT * full.lens.sd["k3"]:
        return full
    return _fit(board, views, size, has_k3=False)


def _fit(board: Board, views: Sequence[BoardCorners], size: tuple[int, int], *, has_k3: bool) -> LensFit:
    points = [board.points[view.ids].astype(np.float32) for view in views]
    pixels = [view.pixels.astype(np.float32).reshape(-1, 1, 2) for view in views]
    flags = 0 if has_k3 else cv2.CALIB_FIX_K3
    try:
        _, matrix, distortion, rotations, translations = cv2.calibrateCamera(
            points, pixels, size[::-1], None, None, flags=flags, criteria=CRITERIA
        )
    except cv2.error:
        raise _no_lens(len(views), board) from None
    values = [matrix[0, 0], matrix[1, 1], matrix[0, 2], matrix[1, 2], *np.ravel(distortion)[:5]]
    if not (np.isfinite(values).all() and min(values[:2]) > 0):
        raise _no_lens(len(views), board)
    named = dict(zip(PARAMETERS, map(float, values), strict=True))
    plain = Lens(size=size, covariance=np.zeros((len(PARAMETERS),) * 2), **named)
    turns, shifts = (np.asarray(own, np.float64).reshape(-1, 3) for own in (rotations, translations))
    residuals, jacobians = _linearized(plain, board, views, turns, shifts)
    free = [k for k in range(len(PARAMETERS)) if has_k3 or k != K3]
    lens = replace(plain, covariance=_covariance(residuals, jacobians, free))
    return LensFit(lens, turns, shifts, tuple(own.reshape(-1, 2) for own in residuals))


def _no_lens(count: int, board: Board) -> CalibrationError:
    remedy = f"no lens explains them: is the board flat, and is {board} the right one?"
    return CalibrationError("board", f"corners in {count} views", remedy)


def _linearized(
    lens: Lens,
    board: Board,
    views: Sequence[BoardCorners],
    rotations: NDArray[np.float64],
    translations: NDArray[np.float64],
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Returns residuals [2 N] and Jacobians of the predictions [2 N, 6 + 9] (pose, lens) of each picture."""
    residuals, jacobians = [], []
    for view, rotation, translation in zip(views, rotations, translations, strict=True):
        found, jacobian = cv2.projectPoints(board.points[view.ids], rotation, translation, lens.matrix, lens.distortion)
        residuals.append(np.ravel(view.pixels - np.asarray(found).reshape(-1, 2)))
        jacobians.append(np.asarray(jacobian, np.float64)[:, : POSE + len(PARAMETERS)])
    return residuals, jacobians


def _covariance(
    residuals: list[NDArray[np.float64]], jacobians: list[NDArray[np.float64]], free: list[int]
) -> NDArray[np.float64]:
    """Returns the covariance of the lens [9, 9], with the poses eliminated; zero for parameters that are not free."""
    reduced = [_without_pose(own[:, POSE:][:, free], own[:, :POSE]) for own in jacobians]
    inverse = np.linalg.pinv(sum(own.T @ own for own in reduced), hermitian=True)
    views, count = len(residuals), sum(map(len, residuals))
    variance = sum(float(own @ own) for own in residuals) / max(count - POSE * views - len(free), 1)
    plain = variance * inverse
    scores = [own.T @ residual for own, residual in zip(reduced, residuals, strict=True)]
    spread = inverse @ sum(np.outer(score, score) for score in scores) @ inverse
    clustered = spread * count / max(count - POSE * views, 1) * views / max(views - len(free) / 2, 1)
    ratio = np.sqrt(np.maximum(1.0, np.diag(clustered) / np.diag(plain)))
    covariance = np.zeros((len(PARAMETERS),) * 2)
    covariance[np.ix_(free, free)] = plain * np.outer(ratio, ratio)
    return covariance


def _without_pose(lens: NDArray[np.float64], pose: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the part of the Jacobian of the lens [2 N, P] that no change of the pose [2 N, 6] reproduces."""
    basis, _ = np.linalg.qr(pose)
    return np.asarray(lens - basis @ (basis.T @ lens))
