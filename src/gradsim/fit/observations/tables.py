"""Measured values from files: tables (.csv) with a column for each number, or arrays by path (.npz).

A column is named by a path and a component, `cube.position.x` or `cube.position[0]`. A column `time` has the times of
the rows [s]; empty cells are missing measurements.
"""

from __future__ import annotations

import csv
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradsim.fit.observations.states import States
from gradsim.scene.arguments import checked_path
from gradsim.scene.array_files import read_arrays
from gradsim.scene.errors import InvalidInput
from gradsim.scene.memory import TEXT_MEMORY, check_file
from gradsim.scene.spelling import abbreviate

COMPONENT = re.compile(r"(?P<path>.+?)(?:\[(?P<index>\d+)\]|\.(?P<axis>[xyzw]))?")
AXES = "xyzw"
DIGITS = 9  # of the largest index
TIME, RATE = "time", "fps"  # names that are not paths
REGULAR = 1e-4  # largest deviation from equal time steps, relative to the mean step


@dataclass(frozen=True, eq=False)
class MeasuredTable:
    """Measured values by path, each [T, ...]."""

    values: dict[str, np.ndarray]
    fps: float | None = None  # [1/s]
    times: np.ndarray | None = None  # of the rows from the first [s], [T]; None if they are equally spaced or not given


def load_states(path: str | os.PathLike[str], **options: Any) -> States:
    """Loads measured states from a table (.csv) or arrays by path (.npz), such as `gs.save_trajectory` writes.

    Example:
        `gs.estimate(scene, gs.load_states("cube.csv"), fps=120)`

    Args:
        path: File with columns such as `cube.position.x`, `cube.rotation.w` in SI units; empty cells are missing. A
            column `time` [s] is left to the caller: pass its rate as `fps`.
        options: As for `gs.States`.
    """
    return States(load_table(checked_path("path", path)).values, **options)


def load_table(file: Path) -> MeasuredTable:
    """Loads measured values from a .csv or .npz file."""
    if not file.is_file():
        raise InvalidInput("measurements", str(file), "must be an existing .csv or .npz file")
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if file.suffix.lower() not in readers:
        raise InvalidInput("measurements", str(file), "must be a .csv or .npz file")
    arrays = readers[file.suffix.lower()](file)
    times, rate = arrays.pop(TIME, None), arrays.pop(RATE, None)
    if not arrays:
        raise InvalidInput("measurements", str(file), "has no columns such as cube.position.x")
    if times is not None:
        return MeasuredTable(arrays, *_regular(file, times.reshape(-1).astype(float)))
    if rate is not None and not (rate.size and 0 < rate.reshape(-1)[0] < np.inf):
        raise InvalidInput(RATE, str(file), "must be a number of rows per second, > 0")
    return MeasuredTable(arrays, None if rate is None else float(rate.reshape(-1)[0]))


def _regular(file: Path, times: np.ndarray) -> tuple[float | None, np.ndarray | None]:
    """Returns the rate of equally spaced times, or the times from the first."""
    steps = np.diff(times)
    if not len(steps) or not np.isfinite(times).all() or not (steps > 0).all():
        raise InvalidInput("time", str(file), "must be at least two increasing times [s]")
    mean = float(steps.mean())
    if np.abs(steps - mean).max() <= REGULAR * mean:
        return 1.0 / mean, None
    return None, times - times[0]


def _read_npz(file: Path) -> dict[str, np.ndarray]:
    arrays = read_arrays(file, "measurements", "must have arrays of numbers by path")
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def _read_csv(file: Path) -> dict[str, np.ndarray]:
    check_file("measurements", file, TEXT_MEMORY)
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if any(cell.strip() for cell in row)]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput("measurements", str(file), f"must be comma-separated values ({error})") from None
    if len(rows) < 2:
        raise InvalidInput("measurements", str(file), "must have a line of column names and at least one row")
    names = [name.strip() for name in rows[0]]
    arrays: dict[str, dict[int, np.ndarray]] = {}
    for k, name in enumerate(names):
        path, index = _component(name)
        if index in arrays.setdefault(path, {}):  # a.x and a[0] are the same
            raise InvalidInput("measurements", str(file), f"must not have two columns {abbreviate(name)}")
        arrays[path][index] = _numbers(file, name, rows[1:], k)
    return {path: _joined(file, path, parts) for path, parts in arrays.items()}


def _component(name: str) -> tuple[str, int]:
    """Returns the path of a column and the index of its component; -1 for a scalar."""
    match = COMPONENT.fullmatch(name)
    if match is None or (match["index"] is None and match["axis"] is None):
        return name, -1
    if len(match["index"] or "") > DIGITS:
        raise InvalidInput("measurements", abbreviate(name), "must name a component such as cube.position[0]")
    return match["path"], AXES.index(match["axis"]) if match["axis"] else int(match["index"])


def _numbers(file: Path, name: str, rows: list[list[str]], k: int) -> np.ndarray:
    try:
        return np.array([float(row[k]) if k < len(row) and row[k].strip() else np.nan for row in rows])
    except ValueError as error:
        raise InvalidInput(name, str(file), f"must be numbers, empty where missing ({error})") from None


def _joined(file: Path, path: str, parts: dict[int, np.ndarray]) -> np.ndarray:
    """Joins the components of a quantity, [T, n]; a column without component is [T]."""
    if set(parts) == {-1}:
        return parts[-1] if path in (TIME, RATE) else parts[-1][:, None]
    if sorted(parts) != list(range(len(parts))):
        raise InvalidInput(path, str(file), f"needs all components from 0 on, but has {sorted(parts)}")
    return np.stack([parts[k] for k in range(len(parts))], -1)
