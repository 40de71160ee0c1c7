"""Validation of the arrays of meshes and of the arguments of mesh builders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.scene.errors import DegenerateElement, InvalidInput, NotFinite, OutOfRange, WrongShape, WrongType
from gradsim.scene.limits import LARGEST
from gradsim.scene.memory import check_memory
from gradsim.scene.spelling import abbreviate

CELL_BYTES = 1000  # of memory for each cell while a mesh is built, about

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a contiguous array that cannot be modified."""
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def checked_floats(name: str, values: ArrayLike, *, columns: int) -> Floats:
    """Returns a read-only float64 copy of rows of finite numbers, [n, columns]."""
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise WrongType(name, type(values).__name__, f"needs an array of numbers, [n, {columns}]: {error}") from error
    _reject_shape(name, array, columns)
    reject_rows(NotFinite, name, array, ~np.isfinite(array).all(axis=1), "needs finite numbers")
    large = (np.abs(array) > LARGEST).any(axis=1)
    reject_rows(OutOfRange, name, array, large, f"needs numbers of at most {LARGEST:g} in magnitude")
    return read_only(array)


def checked_elements(name: str, values: ArrayLike, *, columns: int, vertex_count: int) -> Ints:
    """Returns a read-only int32 copy of rows of vertex indices, [n, columns]."""
    array = _as_array(values)
    if array.dtype.kind not in "iu":
        raise WrongType(name, f"dtype {array.dtype}", "needs integers: vertex indices counted from 0")
    _reject_shape(name, array, columns)
    outside = ((array < 0) | (array >= vertex_count)).any(axis=1)
    reject_rows(OutOfRange, name, array, outside, f"needs vertex indices from 0 to {vertex_count - 1}")
    return read_only(np.array(array, dtype=np.int32, order="C"))


def _reject_shape(name: str, array: NDArray[Any], columns: int) -> None:
    if array.ndim != 2 or array.shape[1] != columns or len(array) == 0:
        raise WrongShape(name, f"shape {list(array.shape)}", f"needs shape [n, {columns}] with n of at least 1")


def reject_degenerate(name: str, elements: Ints, measures: Floats, smallest: float) -> None:
    """Raises DegenerateElement if an area or volume is numerically zero, for example because nodes are repeated."""
    remedy = f"needs different nodes and a size above {smallest:.3g}: remove it or move its nodes apart"
    reject_rows(DegenerateElement, name, elements, np.abs(measures) <= smallest, remedy, measures)


def reject_rows(
    error: type[InvalidInput], name: str, rows: Ints | Floats, bad: Any, valid: str, measures: Floats | None = None
) -> None:
    """Raises an error with the first bad row, its area or volume if given, and the number of bad rows."""
    if np.any(bad):
        index = int(np.argmax(bad))
        size = "" if measures is None else f" of size {measures[index]:.3g}"
        raise error(f"{name}[{index}]", f"{rows[index].tolist()}{size}", f"{valid} ({bad.sum()} of {len(rows)} fail)")


def checked_size(name: str, values: ArrayLike, count: int) -> Floats:
    """Returns positive lengths [m], [count]; one number is broadcast."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise WrongType(name, abbreviate(values), "needs numbers [m]") from None
    lengths = _checked_count(name, array, count)
    if not np.isfinite(lengths).all():
        raise NotFinite(name, values, "needs finite lengths")
    if np.any(lengths <= 0):
        raise OutOfRange(name, values, "needs lengths above 0 m")
    return lengths


def checked_cells(name: str, values: ArrayLike, count: int) -> tuple[int, ...]:
    """Returns `count` positive integers; one number is broadcast."""
    array = _as_array(values)
    if array.dtype.kind not in "iu":
        raise WrongType(name, abbreviate(values), "needs whole numbers")
    if np.any(array < 1):
        raise OutOfRange(name, values, "needs at least 1")
    cells = tuple(int(n) for n in _checked_count(name, array, count))
    check_memory(name, values, CELL_BYTES * math.prod(map(float, cells)), "give fewer cells")
    return cells


def _as_array(values: ArrayLike) -> NDArray[Any]:
    """Returns values as an array, of objects if they have no common shape."""
    try:
        return np.asarray(values)
    except (TypeError, ValueError, RuntimeError):
        return np.asarray(None)


def _checked_count(name: str, array: NDArray[Any], count: int) -> NDArray[Any]:
    if array.shape not in ((), (count,)):
        raise WrongShape(name, f"shape {list(array.shape)}", f"needs one number or {count}")
    return np.broadcast_to(array, (count,))
