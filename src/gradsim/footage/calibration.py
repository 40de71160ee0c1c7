"""Calibration of a lens from a video or a folder of pictures of a board."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.boards import Board, BoardCorners, Chessboard, find_chessboard_size
from gradsim.footage.lens import Lens
from gradsim.footage.lens_fit import LensFit, fit_lens
from gradsim.footage.pictures import open_pictures
from gradsim.scene.errors import CalibrationError, OutOfRange
from gradsim.video.load import Frames

MAX_EXAMINED = 160  # pictures in which the board is looked for
MAX_VIEWS = 40  # pictures that calibrate the lens
MIN_VIEWS = 6
BAD_VIEW = 2.5  # largest error of a view, relative to the median
ROUNDS = 4  # of leaving out bad views
MAX_RELATIVE_SD = 0.03  # of the focal length: beyond it the views do not determine the lens
MAX_ERROR = 0.003  # reprojection error, relative to the diagonal: beyond it the board was misread
SEARCHED = 4  # pictures in which a board of another size is looked for


@dataclass(frozen=True, eq=False)
class BoardView:
    """A picture in which the board was found.

    Args:
        number: Number of the picture.
        name: Its name, "frame 12" or the name of the image.
        corners: Corners of the board.
    """

    number: int
    name: str
    corners: BoardCorners = field(repr=False)


@dataclass(frozen=True, eq=False)
class BoardViews:
    """The pictures in which a board was found.

    Args:
        board: The board.
        size: Height and width of the pictures [px].
        views: The pictures with a board.
        examined: How many pictures were examined.
    """

    board: Board
    size: tuple[int, int]
    views: tuple[BoardView, ...] = field(repr=False)
    examined: int


@dataclass(frozen=True, eq=False)
class Calibration:
    """A calibrated lens.

    Args:
        lens: The lens, with its uncertainties.
        fit: The fit: poses of the board and residuals.
        found: All pictures in which the board was found.
        views: The pictures that the lens was fitted to.
        rejected: Pictures that were left out since their corners do not fit: blurred, or misread.
    """

    lens: Lens
    fit: LensFit
    found: BoardViews
    views: tuple[BoardView, ...] = field(repr=False)
    rejected: tuple[BoardView, ...] = field(repr=False)

    @property
    def error(self) -> float:
        """Reprojection error: root mean square distance of detected and predicted corners [px]."""
        return self.fit.error

    @property
    def covered(self) -> float:
        """Part of the picture within the outline of all corners."""
        height, width = self.lens.size
        pixels = np.concatenate([view.corners.pixels for view in self.views]).astype(np.float32)
        return float(cv2.contourArea(cv2.convexHull(pixels))) / (height * width)

    def plot(self, axes: Any) -> None:
        """Draws the corners of all views in the picture, with their residuals enlarged, on matplotlib axes."""
        height, width = self.lens.size
        pixels = np.concatenate([view.corners.pixels for view in self.views])
        shifts = np.concatenate(self.fit.residuals)
        axes.quiver(*pixels.T, *shifts.T, angles="xy", scale_units="xy", scale=max(self.error, 1e-9) / (0.02 * width))
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.set_aspect("equal")
        axes.set_title(f"residuals of {len(self.views)} views, {self.error:.3f} px root mean square")


def calibrate_lens(
    path: str | os.PathLike[str],
    board: Board,
    *,
    frames: Frames = None,
    max_views: int = MAX_VIEWS,
    progress: Callable[[int], None] | None = None,
) -> Calibration:
    """Calibrates a lens from a video or a folder of pictures in which a board is held at many angles.

    Args:
        path: A video file, or a folder of .png or .jpg images.
        board: The board.
        frames: Pictures to examine: a slice or a pair (start, stop). Of more than 160, evenly spread ones are examined.
        max_views: Largest number of views that are used; the most different ones are chosen.
        progress: Called with the number of examined pictures.

    Raises:
        CalibrationError: The board is not found, or its views are too few, too similar or contradictory.
    """
    found = find_views(path, board, frames=frames, progress=progress)
    return calibrate_views(found, max_views=max_views)


def find_views(
    path: str | os.PathLike[str],
    board: Board,
    *,
    frames: Frames = None,
    progress: Callable[[int], None] | None = None,
) -> BoardViews:
    """Finds a board in the pictures of a video or a folder.

    Raises:
        CalibrationError: The board is found in fewer than six pictures.
    """
    source = open_pictures(path, frames=frames).spread(MAX_EXAMINED)
    views: list[BoardView] = []
    empty: list[NDArray[np.uint8]] = []
    size = (0, 0)
    for count, picture in enumerate(source.read(), 1):
        gray = np.asarray(cv2.cvtColor(picture.image, cv2.COLOR_RGB2GRAY), np.uint8)
        size = (gray.shape[0], gray.shape[1])
        corners = board.detect(gray)
        if corners is not None:
            views.append(BoardView(picture.number, picture.name, corners))
        if (corners is None or not corners.identified) and len(empty) < SEARCHED:
            empty.append(gray)
        if progress is not None:
            progress(count)
    sure = [view for view in views if view.corners.identified]
    if len(sure) < MIN_VIEWS:
        raise _too_few(os.fspath(path), board, sure, len(source), empty)
    return BoardViews(board, size, tuple(views), len(source))


def calibrate_views(found: BoardViews, *, max_views: int = MAX_VIEWS) -> Calibration:
    """Calibrates a lens from the views of a board, without those that do not fit.

    Raises:
        CalibrationError: The views are too few, too similar or contradictory.
    """
    if max_views < MIN_VIEWS:
        raise OutOfRange("max_views", max_views, f"must be at least {MIN_VIEWS}")
    views = select_views(found, max_views)
    rejected: list[BoardView] = []
    fit = fit_lens(found.board, [view.corners for view in views], found.size)
    for _ in range(ROUNDS):
        good = fit.view_errors <= BAD_VIEW * np.median(fit.view_errors)
        if good.all() or good.sum() < MIN_VIEWS:
            break
        rejected += [view for view, is_good in zip(views, good, strict=True) if not is_good]
        views = [view for view, is_good in zip(views, good, strict=True) if is_good]
        fit = fit_lens(found.board, [view.corners for view in views], found.size)
    _check_fit(fit, found, len(views))
    return Calibration(fit.lens, fit, found, tuple(views), tuple(rejected))


def select_views(found: BoardViews, count: int) -> list[BoardView]:
    """Returns the `count` views that differ most, by the places of the board's four outer corners in the picture.

    Each next view is the one that is farthest from all chosen ones, beginning with the largest board.
    """
    outlines = np.array([_outline(found.board, view.corners) for view in found.views])
    areas = np.array([cv2.contourArea(own.astype(np.float32)) for own in outlines])
    chosen = [int(np.argmax(areas))]
    distances = np.full(len(outlines), np.inf)
    while len(chosen) < min(count, len(outlines)):
        steps = np.linalg.norm(outlines - outlines[chosen[-1]], axis=-1).mean(-1)
        distances = np.minimum(distances, steps)
        distances[chosen] = -1.0
        chosen.append(int(np.argmax(distances)))
    return [found.views[k] for k in sorted(chosen)]


def _outline(board: Board, corners: BoardCorners) -> NDArray[np.float64]:
    """Returns where the outer corners of a board lie in a picture [4, 2] [px], also where they are not visible."""
    points = board.points
    low, high = points[:, :2].min(0), points[:, :2].max(0)
    outer = np.array([low, [high[0], low[1]], high, [low[0], high[1]]])
    homography, _ = cv2.findHomography(points[corners.ids, :2], corners.pixels)
    return np.asarray(cv2.perspectiveTransform(outer[:, None], homography), np.float64).reshape(4, 2)


def _check_fit(fit: LensFit, found: BoardViews, count: int) -> None:
    """Raises unless the views determine the lens and agree with it."""
    spread = fit.lens.focal.relative_sd
    if not spread < MAX_RELATIVE_SD:
        remedy = "the views are too similar: tilt the board by 30 to 45 degrees to all sides, near and far"
        raise CalibrationError("focal length", f"{fit.lens.fy:.0f} px ± {100 * spread:.0f} %", remedy)
    if fit.error > MAX_ERROR * np.hypot(*found.size):
        remedy = f"no lens explains the {count} views: is the board flat, and is {found.board} the right one?"
        raise CalibrationError("reprojection error", f"{fit.error:.2f} px", remedy)


def _too_few(
    path: str, board: Board, views: Sequence[BoardView], examined: int, empty: Sequence[NDArray[np.uint8]]
) -> CalibrationError:
    """Returns the error for a board that is found in fewer than six pictures."""
    value = f"a {board} in only {len(views)} of {examined} examined pictures" if views else ""
    value = value or f"no {board} in {examined} examined pictures"
    other = _other_size(board, empty, is_larger=bool(views))
    if other is not None:
        return CalibrationError(path, value, f"a chessboard with {other[0]} x {other[1]} inner corners is there")
    if views:
        remedy = f"needs {MIN_VIEWS} or more: hold the whole board into the picture, at many angles, without blur"
        return CalibrationError(path, value, remedy)
    remedy = "count the inner corners, where four squares meet" if isinstance(board, Chessboard) else _charuco_remedy()
    return CalibrationError(path, value, f"{remedy}; the board needs a white margin, light without glare, and focus")


def _charuco_remedy() -> str:
    return "count the squares of a row and of a column, and check the dictionary of the markers"


def _other_size(board: Board, pictures: Sequence[NDArray[np.uint8]], *, is_larger: bool) -> tuple[int, int] | None:
    """Returns the inner corners (columns, rows) of another chessboard in the pictures, the most frequent one.

    A smaller one may also be the visible part of the board; `is_larger` leaves it out.
    """
    if not isinstance(board, Chessboard):
        return None
    own = max(board.columns, board.rows), min(board.columns, board.rows)
    sizes = [size for gray in pictures if (size := find_chessboard_size(gray)) is not None and size != own]
    if is_larger:
        sizes = [size for size in sizes if size[0] >= own[0] and size[1] >= own[1]]
    return max(sizes, key=lambda size: (sizes.count(size), size)) if sizes else None
