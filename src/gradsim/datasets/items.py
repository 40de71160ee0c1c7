"""Files of a data set: a folder for each video, and the manifest of all. docs/dataset.md describes them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim._version import __version__
from gradsim.datasets import deformable, rigid
from gradsim.datasets.recording import record
from gradsim.datasets.sample import Sample
from gradsim.scene.atomic import remove_unfinished, write_atomically
from gradsim.scene.camera import FOV
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.files.save import save_scene
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.rigid import Rigid
from gradsim.scene.spelling import abbreviate
from gradsim.scene.trajectory import Trajectory
from gradsim.video.save import save_video

FORMAT = 1  # version of the layout of files
SETTINGS, MANIFEST, FITS, ITEMS = "dataset.json", "manifest.csv", "fits.csv", "items"
SCENE, STATES, ITEM = "scene.yaml", "states.npz", "item.json"
VIDEOS = {"ffv1": "video.mkv", "h264": "video.mp4"}  # file name by codec
PER_FOLDER = 1000  # items in one folder
SAMPLES = {"rigid": rigid.sample, "deformable": deformable.sample}  # by kind of data set
SPLIT, TEST_EVERY = 1000, 5  # every fifth of the first 1,000 videos is a test video, so that 800 are for training
STATE_NAMES = ("position", "rotation", "velocity", "angular_velocity")
NODE_STATE_NAMES = ("vertices", "velocities")


@dataclass(frozen=True)
class Settings:
    """What determines the videos of a data set.

    Example:
        `gs.datasets.Settings("rigid", seed=1, side=128)`

    Args:
        kind: "rigid" or "deformable".
        seed: Random seed.
        side: Height and width of the frames [px].
        codec: "ffv1", exact to 8 bits, or "h264", smaller.
        frames: Number of frames; that of the kind if None.
    """

    kind: str
    seed: int = 0
    side: int = 128
    codec: str = "ffv1"
    frames: int | None = None

    def __post_init__(self) -> None:
        for name, known in (("kind", SAMPLES), ("codec", VIDEOS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in known:
                raise InvalidInput(name, abbreviate(value), f"must be one of {', '.join(known)}")
        checked_seed(self.seed)
        for name, least in (("side", 8), ("frames", 2)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise OutOfRange(name, abbreviate(value), f"must be at least {least}, a whole number")
        if self.codec == "h264" and self.side % 2:
            raise OutOfRange("side", self.side, "must be even for h264")

    @property
    def video(self) -> str:
        """Name of the video files."""
        return VIDEOS[self.codec]

    def sample(self, number: int) -> Sample:
        """Returns the scene of a video."""
        return SAMPLES[self.kind](self.seed, number)


def split_of(number: int) -> str:
    """Returns "train" or "test" for the first 1,000 videos, "extra" for the others."""
    if number >= SPLIT:
        return "extra"
    return "test" if number % TEST_EVERY == TEST_EVERY - 1 else "train"


def item_path(number: int) -> Path:
    """Returns the folder of a video, relative to that of the data set."""
    return Path(ITEMS) / f"{number // PER_FOLDER:04d}" / f"{number:07d}"


def write_item(folder: Path, settings: Settings, number: int) -> None:
    """Records a video of the data set in `folder` and writes its files in one step; does nothing if they exist."""
    place = folder / item_path(number)
    if place.is_dir():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    sample = settings.sample(number)
    time = sample.time if settings.frames is None else replace(sample.time, frames=settings.frames)
    with torch.no_grad():
        trajectory, (video,) = record(sample.true_scene, time, settings.side)

    def write(target: Path) -> None:
        target.mkdir()
        save_video(target / settings.video, video, time.fps, codec=settings.codec)
        np.savez(target / STATES, **states_of(sample, trajectory))  # type: ignore[arg-type]
        save_scene(sample.scene, target / SCENE, time=time)
        content = {"number": number, "object": sample.object, "split": split_of(number), "truth": sample.columns}
        (target / ITEM).write_text(json.dumps(content, indent=1) + "\n")

    write_atomically(place, write, InvalidInput, keep=True)


def states_of(sample: Sample, trajectory: Trajectory) -> dict[str, np.ndarray]:
    """Returns times [T] and the states of the bodies at the frames by path, such as body.position, each [T, ...]."""
    arrays = {"time": trajectory.time.numpy()}
    for body in sample.scene.bodies:
        names = STATE_NAMES if isinstance(body, Rigid) else NODE_STATE_NAMES
        arrays |= {f"{body.name}.{name}": getattr(trajectory[body.name], name).numpy() for name in names}
    return arrays


def open_folder(folder: Path, settings: Settings) -> None:
    """Writes the settings into a new folder; raises InvalidInput if the folder has a data set with other settings."""
    content = {"format": FORMAT, "gradsim": __version__, **asdict(settings), "camera": _cameras(settings)}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / SETTINGS
    if not file.exists():
        text = json.dumps(content, indent=1) + "\n"
        write_atomically(file, lambda target: target.write_text(text), InvalidInput)
        return
    stored = read_settings(folder)
    for name, value in content.items():
        if stored.get(name) != value:
            remedy = f"the data set in {folder} has {stored.get(name)!r}: use the same, or another folder"
            raise InvalidInput(name, value, remedy)


def read_settings(folder: Path) -> dict[str, Any]:
    """Returns the content of the file of settings."""
    try:
        content = json.loads((folder / SETTINGS).read_text())
    except (OSError, ValueError) as error:
        raise InvalidInput("folder", str(folder), "must be a data set made by `gradsim dataset`") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInput("folder", str(folder), f"has another format of data sets than {FORMAT}")
    return content


def _cameras(settings: Settings) -> dict[str, Any]:
    """Returns the camera of each object, or of "all": eye and target [m], vertical field of view [degrees]."""
    cameras: dict[str, Any] = {}
    for sample in _kinds(settings):
        camera = sample.scene.camera
        assert camera is not None
        key = "all" if settings.kind == "rigid" else sample.object
        cameras[key] = {"eye": np.asarray(camera.eye).tolist(), "target": np.asarray(camera.target).tolist()}
        cameras[key]["fov"] = float(np.asarray(FOV if camera.fov is None else camera.fov))
    return cameras


def _kinds(settings: Settings) -> list[Sample]:
    """Returns a sample of each kind of scene with a camera and unknowns of its own."""
    return [settings.sample(number) for number in range(1 if settings.kind == "rigid" else len(deformable.OBJECTS))]


def write_manifest(folder: Path, settings: Settings, videos: int) -> None:
    """Writes the manifest of all items and the list for `gradsim estimate --many`; removes unfinished items."""
    truths = dict.fromkeys(name for sample in _kinds(settings) for name in sample.columns)
    columns = ("name", "object", "split", "video", "states", "scene", *truths)
    _write_table(folder / MANIFEST, columns, _rows(folder, settings, videos))
    _write_table(folder / FITS, ("name", "scene", "video"), _rows(folder, settings, videos))
    for part in (folder / ITEMS).iterdir():
        remove_unfinished(part)


def _rows(folder: Path, settings: Settings, videos: int) -> Iterator[Mapping[str, Any]]:
    for number in range(videos):
        item = json.loads((folder / item_path(number) / ITEM).read_text())
        place = item_path(number).as_posix()
        files = {"video": f"{place}/{settings.video}", "states": f"{place}/{STATES}", "scene": f"{place}/{SCENE}"}
        yield {"name": f"{number:07d}", "object": item["object"], "split": item["split"], **files, **item["truth"]}


def _write_table(file: Path, columns: tuple[str, ...], rows: Iterable[Mapping[str, Any]]) -> None:
    def write(target: Path) -> None:
        with target.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, columns, restval="", extrasaction="ignore", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)

    write_atomically(file, write, InvalidInput)
