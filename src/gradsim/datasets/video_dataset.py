"""`VideoDataset`: the videos of a data set for PyTorch."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from gradsim.datasets.items import MANIFEST, read_settings
from gradsim.scene.arguments import checked_path
from gradsim.scene.array_files import read_arrays
from gradsim.scene.errors import InvalidInput
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.video.load import load_video

SPLITS = ("train", "test", "extra", "all")
FILES = ("name", "object", "split", "video", "states", "scene")  # columns of the manifest that are no true values


class VideoDataset(Dataset[dict[str, Any]]):
    """The videos of a data set that `gradsim dataset` made, as a map-style `torch.utils.data.Dataset`.

    An item has `video` (float32 [T, H, W, 3] in [0, 1]), `parameters` (the true values, float64 [P], in the order of
    `parameter_names`; NaN for those of other objects), `object` (index into `objects`) and `name`. With `states=True`
    it also has `states`, the 3D states at the frames by path, float64 [T, ...].

    Example:
        `gs.datasets.VideoDataset("data")[0]`

    Args:
        folder: Folder of the data set.
        split: "train" or "test", 800 and 200 of the first 1,000 videos; "extra", the others; "all".
        objects: Only videos of these objects; all if None.
        size: Height and width that the frames are downsampled to; as they are if None.
        frames: Frames to load, such as `slice(0, None, 2)`.
        states: Whether items have 3D states.

    Attributes:
        parameter_names: Paths of the true values, such as body.density or cloth.velocity[0].
        objects: Names of the objects in the data set, in alphabetical order.
        parameters: True values of all videos, float64 [N, P].
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        split: str = "all",
        *,
        objects: Sequence[str] | None = None,
        size: tuple[int, int] | None = None,
        frames: slice = slice(None),
        states: bool = False,
    ):
        self.folder = checked_path("folder", folder)
        self.settings = read_settings(self.folder)
        self.size, self.frames, self.states = size, frames, states
        if split not in SPLITS:
            raise InvalidInput("split", split, f"must be one of {', '.join(SPLITS)}")
        rows, columns = self._read_manifest()
        self.objects = sorted({row["object"] for row in rows})
        for name in objects or ():
            if name not in self.objects:
                raise InvalidInput("objects", name, f"must be among {', '.join(self.objects)}")
        self._rows = [
            row for row in rows if split in ("all", row["split"]) and (objects is None or row["object"] in objects)
        ]
        self.parameter_names = [name for name in columns if name not in FILES]
        self.parameters = self._truths()

    def _read_manifest(self) -> tuple[list[dict[str, str]], list[str]]:
        file = self.folder / MANIFEST
        if not file.is_file():
            remedy = "is not complete: run the same `gradsim dataset` command again to make the missing videos"
            raise InvalidInput("folder", str(self.folder), remedy)
        try:
            with file.open(newline="", encoding="utf-8") as stream:
                reader = csv.DictReader(stream, restval="", restkey="")
                rows, columns = list(reader), list(reader.fieldnames or ())
        except (csv.Error, UnicodeDecodeError) as error:
            raise InvalidInput("manifest", str(file), f"must be a table of comma-separated values ({error})") from None
        missing = [name for name in FILES if name not in columns]
        if missing or any("" in row for row in rows):
            problem = f"has no column {missing[0]}" if missing else "has rows with more cells than the first line"
            raise InvalidInput("manifest", str(file), f"{problem}: make the data set again with `gradsim dataset`")
        return rows, columns

    def _truths(self) -> torch.Tensor:
        """Returns the true values of all videos [N, P]."""
        values = np.full((len(self._rows), len(self.parameter_names)), np.nan)
        for number, row in enumerate(self._rows):
            for k, name in enumerate(self.parameter_names):
                try:
                    values[number, k] = float(row[name] or "nan")
                except ValueError:
                    raise InvalidInput(name, repr(row[name]), f"must be a number in {self.folder / MANIFEST}") from None
        return torch.from_numpy(values)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self._rows[index]
        video = load_video(self._file(index, "video"), frames=self.frames, size=self.size, dtype=torch.float32)
        item = {
            "video": video.frames,
            "parameters": self.parameters[index],
            "object": self.objects.index(row["object"]),
            "name": row["name"],
        }
        if self.states:
            item["states"] = self.states_of(index)
        return item

    def states_of(self, index: int) -> dict[str, torch.Tensor]:
        """Returns the 3D states of a video at the selected frames by path, float64 [T, ...]; `time` is in seconds."""
        file = self._file(index, "states")
        arrays = read_arrays(file, "states", "must have states by path")
        for name, array in arrays.items():
            if not array.ndim:
                raise InvalidInput("states", str(file), f"must have an array [T, ...] under {name!r}")
        return {name: torch.from_numpy(array[self.frames].copy()) for name, array in arrays.items()}

    def scene_file(self, index: int) -> SceneFile:
        """Returns the scene of a video, with unknowns at their guesses, and its time settings."""
        return load_scene_file(self._file(index, "scene"))

    def _file(self, index: int, kind: str) -> Path:
        """Returns the path of a file of a video; raises InvalidInput if it is outside the folder of the data set."""
        name = self._rows[index][kind]
        path = self.folder / name
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise InvalidInput(kind, name, f"must be a file in {self.folder}")
        return path

    def truth(self, index: int) -> dict[str, float]:
        """Returns the true values of a video by name."""
        named = zip(self.parameter_names, self.parameters[index].tolist(), strict=True)
        return {name: value for name, value in named if value == value}
