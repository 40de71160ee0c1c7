"""Tables of tracked points of pendula: from arrays or files of many layouts to positions in a known order."""

from __future__ import annotations

import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim.fit.rod_guess import circle_center
from gradsim.scene.errors import InvalidInput, WrongShape, WrongType

SUFFIXES = (".csv", ".txt", ".tsv", ".dat", ".npz", ".npy")
MIN_FRAMES = 20  # with all points
CLEARLY = 3.0  # factor between the scatters of two orders of the points above which the better one is taken
LEVEL = 1e-3  # scatter that no tracker is below, relative to the spread of the points
STEADY = 1e-3  # largest deviation of the steps of a column that counts frames or time, relative to the mean step
LAYOUTS = (
    "[T, 2, 2], of the joint and the end, or [T, 3, 2], of the pivot, the joint and the end; or [T, 4] or [T, 6], "
    "with x and y of each point in turn"
)

Array = NDArray[np.float64]


def read_recordings(tracks: Any) -> list[Array]:
    """Returns the recordings as positions of the joint and the end, after the pivot if it was tracked, [T, 2 or 3, 2].

    Points may come in any order: the pivot stays where it is, the joint moves on a circle about it, and the end at a
    constant distance from the joint. The columns of a file are x and y of each point in turn; one of time or of frame
    numbers is left out.
    """
    found = []
    for number, own in enumerate(_as_list(tracks)):
        name = f"tracks[{number}]"
        found.append(_ordered(_checked(_from_file(own) if isinstance(own, (str, os.PathLike)) else own, name)))
    if not found:
        raise WrongShape("tracks", "an empty list", "must have at least one recording")
    return found


def _as_list(tracks: Any) -> list[Any]:
    """Returns the recordings of a list of them, or of one that is given alone."""
    several = isinstance(tracks, (list, tuple)) and not (tracks and _is_frame(tracks[0]))
    return list(tracks) if several else [tracks]


def _is_frame(value: Any) -> bool:
    """Whether a value has the points of one frame: a recording may be a list of these."""
    return not isinstance(value, (str, os.PathLike)) and np.shape(value) in ((2, 2), (3, 2), (4,), (6,))


def _from_file(path: str | os.PathLike[str]) -> Array:
    """Returns the numbers of a file, [T, columns] or [T, points, 2]."""
    file = Path(path)
    if not file.is_file() or file.suffix.lower() not in SUFFIXES:
        raise InvalidInput("tracks", str(file), f"must be an existing file, {', '.join(SUFFIXES)}")
    try:
        if file.suffix.lower() in (".npz", ".npy"):
            stored = np.load(file, allow_pickle=False)
            arrays = [stored] if isinstance(stored, np.ndarray) else [stored[name] for name in stored.files]
            return _joined([np.asarray(array, dtype=np.float64) for array in arrays])
        return _read_text(file)
    except (ValueError, TypeError, OSError, UnicodeDecodeError) as error:
        raise InvalidInput("tracks", str(file), f"must be a table of numbers ({error})") from None


def _joined(arrays: list[Array]) -> Array:
    """Joins arrays of coordinates, such as x and y of each point, [T, columns]; shorter ones are no coordinates."""
    length = max((len(array) for array in arrays if array.ndim), default=0)
    columns = [array for array in arrays if array.ndim and len(array) == length]
    if len(columns) == 1:
        return columns[0]
    return _without_times(np.concatenate([array.reshape(length, -1) for array in columns], 1))


def _read_text(file: Path) -> Array:
    lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip(" ,;\t")]
    separator = next((mark for mark in (";", "\t", ",") if lines and mark in lines[-1]), None)
    rows = [[_number(cell) for cell in line.split(separator)] for line in lines if not line.startswith("#")]
    width = len(rows[-1]) if rows else 0
    first = next((k for k, row in enumerate(rows) if len(row) == width and np.isfinite(row).any()), len(rows))
    if any(len(row) != width for row in rows[first:]):
        raise ValueError(f"rows of {width} and of other numbers of columns")
    table = np.array(rows[first:], dtype=np.float64).reshape(-1, width)
    return _without_times(table[:, np.isfinite(table).any(0)])


def _number(cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        return np.nan


def _without_times(table: Array) -> Array:
    """Returns a table without columns that count frames or time."""
    return table[:, [not _is_time(column) for column in table.T]]


def _is_time(column: Array) -> bool:
    steps = np.diff(column)
    return bool(len(steps) > 2 and np.isfinite(steps).all() and steps.mean() > 0) and bool(
        np.abs(steps - steps.mean()).max() <= STEADY * steps.mean()
    )


def _checked(tracks: Any, name: str) -> Array:
    """Returns the points of a recording, [T, 2 or 3, 2]."""
    try:
        array = np.asarray(tracks, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise WrongType(name, type(tracks).__name__, f"must be an array {LAYOUTS}") from None
    if array.ndim == 2 and array.shape[1] in (5, 7):
        array = _without_times(array)
    if array.ndim == 2 and array.shape[1] in (4, 6):
        array = array.reshape(len(array), -1, 2)
    if array.ndim != 3 or array.shape[1] not in (2, 3) or array.shape[2] != 2:
        raise WrongShape(name, array.shape, f"must be {LAYOUTS}")
    array = np.where(np.isfinite(array).all(-1, keepdims=True), array, np.nan)
    seen = np.isfinite(array[:, -2:]).all((1, 2))
    if seen.sum() < MIN_FRAMES:
        raise InvalidInput(name, f"{seen.sum()} frames with both points", f"needs {MIN_FRAMES} or more")
    return array


def _ordered(points: Array) -> Array:
    """Returns the points as pivot, joint and end, or as joint and end, by the distances that stay constant."""
    seen = points[np.isfinite(points).all((1, 2))]
    if len(seen) < MIN_FRAMES:
        return points
    level = LEVEL * float(np.linalg.norm(seen - seen.mean(0), axis=-1).max())
    scatter = {order: _scatter(seen[:, order]) + level for order in itertools.permutations(range(points.shape[1]))}
    given, best = tuple(range(points.shape[1])), min(scatter, key=lambda order: scatter[order])
    return points[:, best] if CLEARLY * scatter[best] < scatter[given] else points


def _scatter(points: Array) -> float:
    """Returns by how much a pivot moves and the lengths of both bars vary, if these are the points in this order."""
    pivot = points[:, 0] if points.shape[1] == 3 else circle_center(points[:, 0])
    chain = [pivot, points[:, -2], points[:, -1]]
    still = float(np.std(pivot, axis=0).sum()) if points.shape[1] == 3 else 0.0
    return still + sum(float(np.std(np.linalg.norm(b - a, axis=-1))) for a, b in itertools.pairwise(chain))
