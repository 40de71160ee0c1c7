"""`load_video`: the verb, and the kinds of files it reads."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import NotFinite, OutOfRange, VideoFileError, WrongShape, WrongType
from gradsim.video.area import reduced
from gradsim.video.decode import contents, decoded
from gradsim.video.transfer import to_light
from gradsim.video.video import Encoding, Video, check_shape_kept, checked_fps

MOVIES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".gif")
ARRAYS = (".npy", ".npz")
PICTURES = (".png", ".jpg", ".jpeg")

Frames: TypeAlias = "slice | tuple[int, int] | None"
Pictures: TypeAlias = Callable[[range], Iterable[np.ndarray]]


@dataclass(frozen=True)
class Reel:
    """A file that was looked into but not yet read."""

    count: int  # of frames
    fps: float | None
    encoding: Encoding
    pictures: Pictures  # the frames of a range, [H, W, 3] each, 8-bit, 16-bit or floating-point


def load_video(
    path: str | os.PathLike[str],
    *,
    frames: Frames = None,
    crop: tuple[int, int, int, int] | None = None,
    size: tuple[int, int] | None = None,
    fps: float | None = None,
    dtype: torch.dtype = torch.float64,
    linear: bool = False,
) -> Video:
    """Video from a file, or from a folder of pictures.

    Files hold sRGB values, made for displays. They are taken as they are, as `gs.render` makes no difference between
    them and amounts of light either: what `gs.save_video` wrote is what comes back. `linear=True` takes the sRGB curve
    off, for renderings meant as amounts of light. Pictures are averaged, by `size`, after that.

    Args:
        path: A video (.mp4 .m4v .mov .avi .mkv .webm .gif), a folder of .png or .jpg pictures in the order of the
            numbers in their names, or an array (.npy, or .npz with `frames` and maybe `fps`) [T, H, W, 3 or 1] of
            bytes, 16-bit integers or numbers in [0, 1].
        frames: Which frames: a slice or a pair (start, stop), counted as in Python. All if None.
        crop: The part of the pictures to take: (top, left, height, width) [px].
        size: Height and width to reduce the pictures to [px], each pixel the mean of the area it covers.
        fps: Frames a second, where the file does not tell (folders, arrays), or tells wrong (slow motion).
        dtype: Of the result.
        linear: Whether to take off the sRGB curve.

    Raises:
        VideoFileError: The file is missing, of unknown kind, empty, cut off, not a video, or shorter than asked for.
        OutOfRange: The crop or size does not fit the pictures.
    """
    file = Path(path)
    checked_fps(fps)
    reel = _opened(file)
    chosen = _chosen(file, frames, reel)
    if fps is None and not getattr(reel, "steady", True):
        pass
    parts = []
    for picture in reel.pictures(chosen):
        whole = picture.shape[:2]
        values = _values(picture[_window(crop, whole)], dtype)
        values = to_light(values) if linear else values
        if size is not None:
            check_shape_kept(values.shape[:2], checked_pixels("size", size))  # type: ignore[arg-type]
            taken, values = values.shape[:2], reduced(values, size)
        else:
            taken = values.shape[:2]
        parts.append(values)
    if len(parts) < len(chosen):
        raise _cut_off(file, (chosen[len(parts)] if parts else 0), reel.count)
    rate = fps if fps is not None else reel.fps
    encoding = replace(reel.encoding, size=tuple(taken), linear=linear)
    return Video(torch.stack(parts), None if rate is None else rate / chosen.step, file, encoding)
