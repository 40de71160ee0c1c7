"""A folder of `gradsim prepare` for `gradsim view`: its scene, pictures of the motion, tracks and masks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from gradsim.cli.manifest import load_manifest
from gradsim.fit.observations.masks import Masks
from gradsim.footage.footage_view import FootageView
from gradsim.footage.prepared_files import MANIFEST, MASKS, load_footage_view, load_masks, undamaged
from gradsim.scene.errors import InvalidInput
from gradsim.scene.files.load import SceneFile
from gradsim.video.video import Video

SIDE = 320  # longer side of the pictures [px]


def load_prepared_view(folder: Path) -> tuple[SceneFile, Video, list[Any]]:
    """Returns the scene file of a prepared recording, its pictures, and its tracks and masks, all with equal frames.

    The pictures are the background with the part around the motion in it; a long recording repeats every n-th of them.
    """
    manifest, shown = load_manifest(folder / MANIFEST), load_footage_view(folder)
    if shown is None:
        raise InvalidInput("scene", str(folder), "has no pictures: run gradsim prepare again")
    tracks: Any = manifest.trials[0].observations
    with undamaged(folder):
        height, width = tracks[0].size
        factor = min(1.0, SIDE / max(height, width))
        size = max(1, round(width * factor)), max(1, round(height * factor))
        video = Video(torch.from_numpy(_pictures(shown, size, factor)).float() / 255, manifest.file.time.fps)
        masks = _masks(folder / MASKS, shown, size, factor)
    return manifest.file, video, [tracks[0], *([] if masks is None else [Masks(masks)])]


def _pictures(shown: FootageView, size: tuple[int, int], factor: float) -> np.ndarray:
    """Returns pictures of all frames of the motion [M, h, w, 3], at a size (width, height)."""
    plate = cv2.resize(shown.plate, size, interpolation=cv2.INTER_AREA)
    pictures = np.repeat(plate[None], len(shown.times), 0)
    window = shown.window
    place = _scaled((window.left, window.top, window.width, window.height), factor, size)
    for row in range(len(shown.times)):
        part = shown.pictures[max(0, int(np.searchsorted(shown.rows, row, "right")) - 1)]
        _put(pictures[row], part, place)
    return pictures


def _masks(file: Path, shown: FootageView, size: tuple[int, int], factor: float) -> np.ndarray | None:
    """Returns the masks of all frames of the motion [M, h, w], from 0 to 1; None if some have none."""
    first, end = shown.summary["frames"]
    content = load_masks(file)
    numbers, windows = content["numbers"], content["windows"]
    chosen = [k for k, number in enumerate(numbers) if first <= number < end]
    if len(chosen) != len(shown.times):
        return None
    masks = np.zeros((len(chosen), size[1], size[0]), np.float32)
    for row, k in enumerate(chosen):
        _put(masks[row], content[f"alpha_{k}"] / np.float32(255), _scaled(windows[k], factor, size))
    return masks


def _scaled(window: Any, factor: float, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Returns left, top, right and bottom of a window (left, top, width, height) in a reduced picture."""
    left, top, width, height = (float(number) for number in window)
    ends = (left, top, left + width, top + height)
    low_x, low_y, high_x, high_y = (round(end * factor) for end in ends)
    low_x, low_y = min(max(low_x, 0), size[0] - 1), min(max(low_y, 0), size[1] - 1)
    return low_x, low_y, min(max(high_x, low_x + 1), size[0]), min(max(high_y, low_y + 1), size[1])


def _put(picture: np.ndarray, part: np.ndarray, place: tuple[int, int, int, int]) -> None:
    """Copies a part to its place in a picture."""
    left, top, right, bottom = place
    picture[top:bottom, left:right] = cv2.resize(part, (right - left, bottom - top), interpolation=cv2.INTER_AREA)
