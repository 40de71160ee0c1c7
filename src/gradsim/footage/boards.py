"""Calibration boards: chessboards and ChArUco boards, their points, and their detection in a picture."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import cv2
import numpy as np
from numpy.typing import NDArray

from gradsim.footage.dictionaries import aruco_dictionary, marker_detector
from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.validation import check_positive_length

SHORT_SIDE = 720  # boards are found in pictures reduced to this shorter side [px]; corners are refined in full ones
MIN_CORNERS = 6  # of a partly visible ChArUco board
MIN_PART = 12  # corners of a partly visible chessboard
LARGE_PART = 0.7  # part of a chessboard's corners that is enough
LATTICES = ((5, 4), (6, 5))  # least columns and rows of a part of a chessboard that is looked for
UNEVEN = 0.15  # deviation of corners from a grid in perspective, in squares: of a lens up to .07, of skipped rows .3
REFINEMENT = (cv2.TERM_CRITERIA_COUNT | cv2.TERM_CRITERIA_EPS, 50, 1e-4)
WINDOW = 0.35  # half width of the refinement's window, as a part of the smallest distance of two corners
MARKER_WINDOW = 0.8  # half width of the window on ChArUco boards, as a part of the gap between corner and marker
SMALLEST, LARGEST = 2, 16  # half width of the window [px]
AT_EDGE = 5  # least half width of the window at an edge of the picture [px]


@dataclass(frozen=True, eq=False)
class BoardCorners:
    """Corners of a board in one picture.

    Args:
        ids: Indices of the corners among the board's points [N].
        pixels: Positions [N, 2] [px]; the first pixel covers the square from 0 to 1.
        identified: Whether it is known which corners of the board they are: by markers, or since all were seen.
    """

    ids: NDArray[np.int64] = field(repr=False)
    pixels: NDArray[np.float64] = field(repr=False)
    identified: bool = True


@dataclass(frozen=True)
class Chessboard:
    """A chessboard without markers.

    Args:
        columns, rows: Inner corners, where four squares meet: one less than squares.
        square: Side of a square [m].
    """

    columns: int
    rows: int
    square: float

    def __post_init__(self) -> None:
        _check_count("board", self.columns, self.rows, least=3)
        check_positive_length("board.square", self.square)

    def __str__(self) -> str:
        return f"chessboard with {self.columns} x {self.rows} inner corners"

    @property
    def points(self) -> NDArray[np.float64]:
        """Corners on the board [columns * rows, 3] [m]: x along a row, y from row to row, z = 0."""
        return _grid(self.columns, self.rows, self.square)

    def detect(self, gray: NDArray[np.uint8]) -> BoardCorners | None:
        """Finds the corners in a picture [H, W] to a fraction of a pixel, all of them or those of a visible part.

        Which part of the board is visible is not known without markers. It is taken for that at the first corner: a
        pose of the board cannot tell the difference, and the lens does not depend on it.
        """
        factor, small = _reduced(gray)
        found, corners = cv2.findChessboardCornersSB(
            small, (self.columns, self.rows), flags=cv2.CALIB_CB_NORMALIZE_IMAGE
        )
        if found:
            ids, rough = np.arange(self.columns * self.rows), np.asarray(corners, np.float64).reshape(-1, 2)
        elif (part := self._visible_part(small)) is not None:
            ids, rough = part
        else:
            return None
        whole = len(ids) == self.columns * self.rows
        refined = _refined(gray, (rough + 0.5) * factor, WINDOW)
        return _kept(self.points, BoardCorners(ids, refined, whole), MIN_PART)

    def _visible_part(self, gray: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None:
        """Returns ids and pixels of the corners of a part of the board; None if there is none.

        The search may stop at a smaller part than is visible, or skip rows: parts of several sizes are looked for.
        """
        best: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
        for least in (*LATTICES, (self.columns, self.rows - 1), (self.columns - 1, self.rows)):
            found = _lattice(gray, least)
            ids = None if found is None or not found.is_even else self._part_ids(*found.size)
            if found is not None and ids is not None and (best is None or len(ids) > len(best[0])):
                best = ids, found.corners
                if len(ids) > LARGE_PART * self.columns * self.rows:
                    break
        return best

    def _part_ids(self, columns: int, rows: int) -> NDArray[np.int64] | None:
        """Returns the ids of a part of the board, from left to right and down; None if the board is smaller."""
        if columns * rows < MIN_PART:
            return None
        row, column = np.mgrid[:rows, :columns]
        if columns > self.columns or rows > self.rows:  # turned by a quarter
            row, column, columns, rows = column, row, rows, columns
        return (row * self.columns + column).ravel() if columns <= self.columns and rows <= self.rows else None


@dataclass(frozen=True)
class CharucoBoard:
    """A chessboard with an ArUco marker in each white square. Part of it is enough.

    Args:
        columns, rows: Squares.
        square: Side of a square [m].
        marker: Side of a marker [m].
        dictionary: Name of the dictionary of the markers, such as "4X4_50" or "APRILTAG_36h11".
        legacy: Whether the board was made by OpenCV before 4.6, which began boards of an even number of rows with a
            white square.
    """

    columns: int
    rows: int
    square: float
    marker: float
    dictionary: str = "4X4_50"
    legacy: bool = False

    def __post_init__(self) -> None:
        _check_count("board", self.columns, self.rows, least=3)
        check_positive_length("board.square", self.square)
        check_positive_length("board.marker", self.marker)
        if not self.marker < self.square:
            raise OutOfRange("board.marker", f"{self.marker:g} m", f"must be smaller than a square, {self.square:g} m")
        aruco_dictionary(self.dictionary)

    def __str__(self) -> str:
        return f"ChArUco board of {self.columns} x {self.rows} squares with markers {self.dictionary}"

    @property
    def points(self) -> NDArray[np.float64]:
        """Inner corners on the board [(columns - 1) * (rows - 1), 3] [m]: x along a row, y from row to row, z = 0."""
        return _grid(self.columns - 1, self.rows - 1, self.square)

    def detect(self, gray: NDArray[np.uint8]) -> BoardCorners | None:
        """Finds the visible corners in a picture [H, W] to a fraction of a pixel; None for fewer than six."""
        detector = cv2.aruco.CharucoDetector(self.pattern)
        detector.setDetectorParameters(marker_detector(self.dictionary).getDetectorParameters())
        corners, ids, _, _ = detector.detectBoard(gray)
        if ids is None or len(ids) < MIN_CORNERS:
            return None
        rough = np.asarray(corners, np.float64).reshape(-1, 2) + 0.5
        numbers = np.asarray(ids, np.int64).reshape(-1)
        gap = (self.square - self.marker) / (2 * self.square)
        refined = _refined(gray, rough, min(WINDOW, MARKER_WINDOW * gap))
        return _kept(self.points, BoardCorners(numbers, refined), MIN_CORNERS)

    @property
    def pattern(self) -> cv2.aruco.CharucoBoard:
        """OpenCV's description of the board."""
        dictionary = aruco_dictionary(self.dictionary)
        board = cv2.aruco.CharucoBoard((self.columns, self.rows), self.square, self.marker, dictionary)
        board.setLegacyPattern(self.legacy)
        return board


Board: TypeAlias = "Chessboard | CharucoBoard"


def find_chessboard_size(gray: NDArray[np.uint8]) -> tuple[int, int] | None:
    """Returns how many inner corners (columns, rows) the chessboard in a picture [H, W] has; None without a board."""
    found = _lattice(_reduced(gray)[1], (3, 3))
    return None if found is None else (max(found.size), min(found.size))


@dataclass(frozen=True, eq=False)
class _Lattice:
    """Corners of some chessboard in a picture [N, 2], row after row, and how many columns and rows they have."""

    corners: NDArray[np.float64]
    size: tuple[int, int]

    @property
    def is_even(self) -> bool:
        """Whether the corners lie on a grid in perspective."""
        columns, rows = self.size
        grid = _grid(columns, rows, 1.0)[:, :2]
        homography: Any = cv2.findHomography(grid, self.corners)[0]
        if homography is None:
            return False
        ideal = cv2.perspectiveTransform(grid[:, None], homography).reshape(-1, 2)
        steps = np.linalg.norm(np.diff(self.corners.reshape(rows, columns, 2), axis=1), axis=-1)
        return bool(np.abs(ideal - self.corners).max() < UNEVEN * steps.min())


def _lattice(gray: NDArray[np.uint8], least: tuple[int, int]) -> _Lattice | None:
    """Finds the corners of a chessboard of at least some columns and rows, or of the visible part of it."""
    flags = cv2.CALIB_CB_NORMALIZE_IMAGE | cv2.CALIB_CB_LARGER
    found, corners, meta = cv2.findChessboardCornersSBWithMeta(gray, least, flags)
    if not found or meta is None:
        return None
    rows, columns = np.asarray(meta).shape[:2]
    return _Lattice(np.asarray(corners, np.float64).reshape(-1, 2), (columns, rows))


def _grid(columns: int, rows: int, spacing: float) -> NDArray[np.float64]:
    y, x = np.mgrid[:rows, :columns] * spacing
    return np.stack([x.ravel(), y.ravel(), np.zeros(rows * columns)], -1)


def _reduced(gray: NDArray[np.uint8]) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Returns the pixels (x, y) per pixel of a reduced picture [2], and the picture."""
    height, width = gray.shape
    scale = min(1.0, SHORT_SIDE / min(height, width))
    if scale == 1.0:
        return np.ones(2), gray
    small = cv2.resize(gray, (round(width * scale), round(height * scale)), interpolation=cv2.INTER_AREA)
    return np.array([width / small.shape[1], height / small.shape[0]]), np.asarray(small, np.uint8)


def _refined(gray: NDArray[np.uint8], rough: NDArray[np.float64], window: float) -> NDArray[np.float64]:
    """Refines saddle points [N, 2], in windows of a half width that is a part of the smallest distance of two.

    Windows are smaller at the edges of the picture. Points that have no window within it become NaN.
    """
    half = int(np.clip(window * _spacing(rough), SMALLEST, LARGEST))
    room = np.minimum(rough, np.array(gray.shape[::-1]) - rough).min(-1) - 2  # to the edge of the picture [px]
    halves = np.minimum(half, np.floor(room)).astype(int)
    refined = np.full(rough.shape, np.nan)
    for own in np.unique(halves[halves >= min(half, AT_EDGE)]):
        corners = (rough[halves == own] - 0.5).astype(np.float32).reshape(-1, 1, 2)
        found = cv2.cornerSubPix(gray, corners, (int(own), int(own)), (-1, -1), REFINEMENT)
        refined[halves == own] = np.asarray(found, np.float64).reshape(-1, 2) + 0.5
    return refined


def _kept(points: NDArray[np.float64], corners: BoardCorners, least: int) -> BoardCorners | None:
    """Returns the corners that could be refined; None if they are fewer than `least` or on one line."""
    good = np.isfinite(corners.pixels).all(-1)
    if good.sum() < least or _is_collinear(points[corners.ids[good]]):
        return None
    return replace(corners, ids=corners.ids[good], pixels=corners.pixels[good])


def _spacing(points: NDArray[np.float64]) -> float:
    """Returns the smallest distance of two points [N, 2]."""
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    return float(distances[np.triu_indices(len(points), 1)].min())


def _is_collinear(points: NDArray[np.float64]) -> bool:
    values = np.linalg.svd(points - points.mean(0), compute_uv=False)
    return bool(values[1] < 1e-9 * max(values[0], 1e-300))


def _check_count(name: str, columns: int, rows: int, *, least: int) -> None:
    if not (isinstance(columns, int) and isinstance(rows, int)):
        raise WrongType(name, f"{columns} x {rows}", "must be whole numbers of columns and rows")
    if min(columns, rows) < least:
        raise OutOfRange(name, f"{columns} x {rows}", f"must have at least {least} columns and rows")
