"""Manifests of trials, for `gradsim estimate --trials` and `--many`.

A manifest is a YAML file with a list `trials`, beside values that hold for all of them; or a CSV file with a row for
each trial. The keys of a trial are the fields of `TrialEntry`. In a CSV file, every other column is a path whose value
is set in the scene of the trial. File names are relative to the manifest.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from gradsim.cli.inputs import checked_camera, checked_unknowns, load_background, load_clip, substeps_at
from gradsim.cli.options import frame_time, parse_size, unknown_offset
from gradsim.fit.footage_trial import named_point, weights_from_deviations
from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.states import States
from gradsim.fit.observations.tables import MeasuredTable, load_table
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.trials import Trial
from gradsim.scene.errors import InvalidInput, OutOfRange, UnknownName, WrongType
from gradsim.scene.files.document import read_yaml
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.scene.memory import TEXT_MEMORY, check_file
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.video.video import Video

DEVIATION = ".sd"  # end of the name of a column with the standard deviation of a tracked point
FILES = ("video", "states", "tracks")  # keys of observations


@dataclass(frozen=True)
class TrialEntry:
    """One trial of a manifest. At least one of `video`, `states` and `tracks` is given."""

    scene: str | None = None  # scene file
    video: str | None = None  # file or folder
    states: str | None = None  # table of states, such as cube.position.x
    tracks: str | None = None  # table of points, such as cube.center.x or cube.vertex3.x
    name: str | None = None
    fps: float | None = None  # [1/s]
    frames: str | None = None  # of the video, start:stop
    crop: str | None = None  # of the video, top,left,height,width
    size: str | None = None  # of the video or of the images of the tracks, height x width
    noise: Any = None  # standard deviation of a measured value, or by attribute: {position: 0.001, rotation: 0.01}
    drift: float | None = None  # standard deviation of errors of tracks that last for several frames [px] or [m]
    robust: Any = None  # threshold of the Huber loss of a measured value, or by attribute
    offset: float | None = None  # the first frame is within this time of the start of the scene [s]
    exposure: float | None = None  # [s]
    shutter: str | float | None = None  # exposure as a fraction of a frame, or as a time such as 4ms, or unknown
    readout: str | float | None = None  # time from the first to the last row of a frame, as `shutter`
    background: str | None = None  # image of the empty scene, or auto: the median of the video's frames
    set: Mapping[str, Any] = field(default_factory=dict)  # values by path: of quantities, or guesses of unknowns


TEXTS = ("scene", *FILES, "name", "frames", "crop", "size", "background")  # keys
EXCESS = "\n"  # key of the cells of a row beyond the columns, which no column has
KEYS = tuple(item.name for item in fields(TrialEntry))


@dataclass(frozen=True, eq=False)
class Manifest:
    """The trials of a manifest."""

    path: Path
    trials: tuple[Trial, ...]
    file: SceneFile  # of the first trial
    substeps: int | None  # physics steps per frame, from the scene files

    def length(self, number: int) -> int:
        """Number of frames of a trial."""
        observations: Any = self.trials[number].observations
        first = observations[0]
        return first.frames if isinstance(first, Observation) else len(first)


def load_manifest(path: Path) -> Manifest:
    """Loads the trials of a manifest and all files that it names."""
    return load_entries(path, read_entries(path))


def load_entries(path: Path, entries: Sequence[TrialEntry]) -> Manifest:
    """Loads some trials of a manifest and all files that they name."""
    scenes: dict[str, SceneFile] = {}
    trials, steps = [], []
    for number, entry in enumerate(entries):
        label = f"trials[{number}]"
        if entry.scene is None:
            raise InvalidInput(f"{label}.scene", "missing", "give a scene file for each trial, or one for all")
        place = path.parent / entry.scene
        name = str(place if place.exists() else entry.scene)
        if name not in scenes:
            scenes[name] = load_scene_file(name)
            checked_unknowns(scenes[name])
        file = scenes[name]
        trial, rate = _trial(label, entry, file, path.parent)
        trials.append(trial)
        steps.append(substeps_at(file.time, rate) if rate is not None else None)
    known = [count for count in steps if count is not None]
    substeps = max(known) if len(known) == len(steps) else None
    return Manifest(path, tuple(trials), next(iter(scenes.values())), substeps)


def read_entries(path: Path, option: str = "--trials") -> list[TrialEntry]:
    """Returns the trials of a manifest without loading the files that it names."""
    if not path.is_file() or path.suffix.lower() not in (".yaml", ".yml", ".csv"):
        raise InvalidInput(option, str(path), "must be an existing .yaml or .csv file")
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _yaml_rows(path)
    if not rows:
        raise InvalidInput(option, str(path), "has no trials")
    return [_entry(f"trials[{k}]", row) for k, row in enumerate(rows)]


def _yaml_rows(path: Path) -> list[dict[str, Any]]:
    try:
        document = read_yaml(path)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidInput("--trials", str(path), f"must be valid YAML ({error})") from None
    content = None if document is None else document.data
    if not isinstance(content, dict) or not isinstance(content.get("trials"), list):
        raise InvalidInput("--trials", str(path), "must have a list 'trials:' of mappings such as {video: toss.mp4}")
    common = {key: value for key, value in content.items() if key != "trials"}
    rows = []
    for number, row in enumerate(content["trials"]):
        if not isinstance(row, dict):
            raise InvalidInput(f"trials[{number}]", repr(row), "must be a mapping such as {video: toss.mp4}")
        for given in (common, row):
            if not isinstance(given.get("set") or {}, dict):
                raise WrongType(f"trials[{number}].set", repr(given["set"]), "must be a mapping of values by path")
        values = {**(common.get("set") or {}), **(row.get("set") or {})}
        rows.append({**common, **row, "set": values})
    return rows


def _csv_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows; columns that are no key of a trial are paths."""
    check_file("--trials", path, TEXT_MEMORY)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            table = list(csv.DictReader(stream, restval="", restkey=EXCESS))
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput("--trials", str(path), f"must be a table of comma-separated values ({error})") from None
    rows = []
    for number, cells in enumerate(table):
        if EXCESS in cells:
            raise InvalidInput(f"trials[{number}]", str(cells[EXCESS]), "the row has more cells than the first line")
    table = [{key.strip(): text.strip() for key, text in cells.items()} for cells in table]
    for number, cells in enumerate(table):
        row: dict[str, Any] = {key: value for key, value in cells.items() if key in KEYS and value}
        for key in ("fps", "offset", "exposure", "noise", "robust", "drift"):
            if key in row:
                row[key] = _cell(f"trials[{number}].{key}", row[key])
        row["set"] = {key: _cell(key, value) for key, value in cells.items() if key not in KEYS and value}
        rows.append(row)
    return rows


def _cell(name: str, text: str) -> float | list[float]:
    """Parses a number, or numbers with spaces between them."""
    try:
        numbers = [float(part) for part in text.split()]
    except ValueError:
        raise InvalidInput(name, text, "must be a number, or numbers with spaces between them") from None
    return numbers[0] if len(numbers) == 1 else numbers


def _entry(label: str, row: Mapping[str, Any]) -> TrialEntry:
    for key in row:
        if key not in KEYS:
            raise UnknownName(
                f"{label}.{key}", row[key], f"{did_you_mean(str(key), KEYS)}the keys are {', '.join(KEYS)}"
            )
    if not any(row.get(key) for key in FILES):
        raise InvalidInput(label, "no observation", f"give at least one of {', '.join(FILES)}")
    if not row.get("states") and not row.get("tracks"):
        for key in ("noise", "robust"):
            if row.get(key) is not None:
                raise InvalidInput(f"{label}.{key}", row[key], f"applies to states and tracks: use --{key} for videos")
    _check_texts(label, row)
    entry = TrialEntry(**row)
    if row.get("drift") is not None and not row.get("tracks"):
        raise InvalidInput(f"{label}.drift", row["drift"], "applies to tracks")
    for key in ("fps", "exposure", "offset", "drift"):
        value = getattr(entry, key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0):
            raise OutOfRange(f"{label}.{key}", value, "must be a number >= 0")
    return replace(entry, size=None if entry.size is None else str(entry.size))


def _check_texts(label: str, row: Mapping[str, Any]) -> None:
    """Raises WrongType unless the keys that hold names of files and texts do; a size may be one number."""
    for key in TEXTS:
        value = row.get(key)
        if value is not None and not isinstance(value, str) and not (key == "size" and type(value) is int):
            raise WrongType(f"{label}.{key}", repr(value), "must be a text: put it in quotes")


def _trial(label: str, entry: TrialEntry, file: SceneFile, folder: Path) -> tuple[Trial, float | None]:
    """Returns the trial of an entry and its frame rate [1/s], None for irregular times."""
    observations: list[Video | Observation] = []
    rate, times = entry.fps, None
    if entry.video is not None:
        checked_camera(file)
        selected: dict[str, Any] = {"frames": entry.frames, "crop": entry.crop, "size": entry.size, "fps": entry.fps}
        clip = load_clip(folder / entry.video, **selected)
        rate = rate or clip.fps
        observations.append(clip)
    for key, make in (("states", _states), ("tracks", _tracks)):
        if (name := getattr(entry, key)) is not None:
            table = load_table(folder / name)
            rate, times = rate or table.fps, table.times if rate is None else times
            observations.append(make(label, entry, table))
    rate = (rate or file.time.fps) if times is None else None
    scene = _with_start(label, file.scene, entry.set)
    if entry.background is not None:
        scene = _with_background(label, scene, entry, observations[0], folder)
    options = _timing(label, entry, rate)
    return Trial(scene, observations, fps=rate, times=times, name=entry.name, **options), rate


def _timing(label: str, entry: TrialEntry, rate: float | None) -> dict[str, Any]:
    """Returns offset, exposure and readout of a trial [s]."""
    if entry.shutter is not None and entry.exposure is not None:
        raise InvalidInput(f"{label}.shutter", entry.shutter, "give the shutter or the exposure, not both")
    fps = rate or 1.0
    shutter = frame_time(f"{label}.shutter", entry.shutter, fps)
    readout = frame_time(f"{label}.readout", entry.readout, fps)
    if rate is None and (shutter or readout):
        raise InvalidInput(
            f"{label}.shutter/readout", "given", "needs a frame rate: use exposure [s] with uneven times"
        )
    return {"offset": unknown_offset(entry.offset) or 0.0, "exposure": entry.exposure or shutter, "readout": readout}


def _with_background(label: str, scene: Scene, entry: TrialEntry, clip: Any, folder: Path) -> Scene:
    if not isinstance(clip, Video):
        raise InvalidInput(f"{label}.background", entry.background, "needs a video in the same trial")
    name = "auto" if entry.background == "auto" else str(folder / str(entry.background))
    return replace(scene, background=load_background(name, clip, entry.crop, f"{label}.background"))


def _states(label: str, entry: TrialEntry, table: MeasuredTable) -> States:
    return States(table.values, noise=entry.noise, robust=entry.robust)


def _tracks(label: str, entry: TrialEntry, table: MeasuredTable) -> Tracks:
    paths = [path for path in table.values if not path.endswith(DEVIATION)]
    points = [named_point(path) for path in paths]
    values = np.stack([table.values[path] for path in paths], 1)
    options: dict[str, Any] = {"noise": entry.noise, "robust": entry.robust, "drift": entry.drift or 0.0}
    options["weights"] = _weights(label, paths, table)
    if values.shape[-1] == 3:
        return Tracks(points, positions=values, **options)
    if entry.size is None:
        raise InvalidInput(f"{label}.size", "missing", "image positions need the size of the image, such as 1080x1920")
    return Tracks(points, values, parse_size(entry.size), **options)


def _weights(label: str, paths: Sequence[str], table: MeasuredTable) -> np.ndarray | None:
    """Returns weights [T, K] or [T, K, n] from standard deviations of points, such as cube.center.sd, or of their
    coordinates, such as cube.center.sd.x; None without any."""
    found = [table.values.get(path + DEVIATION) for path in paths]
    if all(column is None for column in found):
        return None
    if any(column is None for column in found):
        raise InvalidInput(f"{label}.tracks", DEVIATION, "give the standard deviation of each point, or of none")
    deviations = np.stack([column for column in found if column is not None], 1)
    deviations = deviations[..., 0] if deviations.shape[-1] == 1 else deviations
    if not (deviations[np.isfinite(deviations)] > 0).all():
        raise OutOfRange(f"{label}.tracks", DEVIATION, "standard deviations must be > 0")
    return weights_from_deviations(deviations)


def _with_start(label: str, scene: Scene, values: Mapping[str, Any]) -> Scene:
    """Returns the scene with other values at some paths; those of unknowns are their guesses."""
    unknowns = scene.unknowns
    changed: dict[str, Any] = {}
    for path, value in values.items():
        given = _numbers(f"{label}.set.{path}", value)
        unknown = unknowns.get(path)
        if unknown is None:
            changed[path] = given
            continue
        if given.shape != unknown.shape:
            raise InvalidInput(f"{label}.set.{path}", value, f"must have shape {unknown.shape}")
        low = -np.inf if unknown.low is None else unknown.low
        high = np.inf if unknown.high is None else unknown.high
        if not ((given >= low) & (given <= high)).all():
            raise OutOfRange(f"{label}.set.{path}", value, "the guess must lie between low and high")
        changed[path] = replace(unknown, guess=given)
    return scene.with_values(changed) if changed else scene


def _numbers(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise WrongType(name, abbreviate(value), "must be a number, or a list of numbers") from None
