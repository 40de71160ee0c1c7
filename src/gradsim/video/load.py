"""`load_video`: the verb, and the kinds of files it reads."""

from __future__ import annotations

import operator
import os
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import OutOfRange, VideoFileError, WrongType
from gradsim.video.area import reduced
from gradsim.video.decode import contents, decoded
from gradsim.video.transfer import to_light
from gradsim.video.video import Encoding, Video, check_shape_kept, checked_fps

MOVIES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".gif")
ARRAYS = (".npy", ".npz")
PICTURES = (".png", ".jpg", ".jpeg")

Frames: TypeAlias = "slice | tuple[int, int] | None"


@dataclass(frozen=True)
class Reel:
    """A file that was looked into but not yet read."""

    count: int  # of frames that can be read
    missing: int  # of frames that are cut off
    fps: float | None  # [1/s]
    encoding: Encoding
    pictures: Callable[[range], Iterable[np.ndarray]]  # [H, W, 3] each: 8-bit, 16-bit or floating-point


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
    reel = _reel(file, checked_fps(fps))
    chosen = _chosen(file, frames, reel)
    window: tuple[slice, slice] | None = None
    parts: list[torch.Tensor] = []
    for picture in reel.pictures(chosen):
        window = window or _window(crop, picture.shape[:2])
        values = _values(picture[window], dtype)
        values = to_light(values) if linear else values
        parts.append(values if size is None else _fitted(values, size))
    if window is None or len(parts) < len(chosen):
        raise _cut_off(file, chosen[len(parts)], reel.count - chosen[len(parts)])
    rows, columns = window
    encoding = replace(reel.encoding, size=(rows.stop - rows.start, columns.stop - columns.start), linear=linear)
    return Video(torch.stack(parts), None if reel.fps is None else reel.fps / chosen.step, file, encoding)


def _reel(file: Path, fps: float | None) -> Reel:
    """Look into a file or folder; a rate that is given goes before the file's own."""
    if file.is_dir():
        return _folder(file, fps)
    suffix = file.suffix.lower()
    if suffix not in MOVIES + ARRAYS:
        kinds = f"needs one of {' '.join(MOVIES + ARRAYS)}, or a folder of {' '.join(PICTURES)}"
        raise VideoFileError(str(file), f"extension '{suffix}'", kinds)
    if not file.is_file():
        raise VideoFileError(str(file), "no such file", "needs an existing video file: look at the spelling")
    if file.stat().st_size == 0:
        raise VideoFileError(str(file), "an empty file", "needs a video: copy or record it again")
    return _array(file, fps) if suffix in ARRAYS else _movie(file, fps)


def _movie(file: Path, fps: float | None) -> Reel:
    inside = contents(file)
    if fps is None and not inside.steady:
        remedy = "needs a constant rate: ffmpeg -i input -fps_mode cfr -r 30 output; or say fps= to take it as constant"
        raise VideoFileError(str(file), f"frames unevenly spaced in time, {inside.fps:.4g} fps on average", remedy)
    rate = fps if fps is not None else inside.fps or None
    return Reel(inside.count, inside.missing, rate, inside.encoding, lambda chosen: decoded(file, chosen))


def _folder(folder: Path, fps: float | None) -> Reel:
    files = sorted((file for file in folder.iterdir() if file.suffix.lower() in PICTURES), key=_natural)
    if not files:
        raise VideoFileError(str(folder), "no pictures in this folder", f"needs files of {' '.join(PICTURES)}")
    encoding = contents(files[0]).encoding
    bits = 8 * sum(file.stat().st_size for file in files) / len(files)
    encoding = replace(encoding, frame_bits=bits)

    def pictures(chosen: range) -> Iterator[np.ndarray]:
        size = None
        for file in files[chosen.start : chosen.stop : chosen.step]:
            picture = next(iter(decoded(file, range(1))))
            size = size or picture.shape[:2]
            if picture.shape[:2] != size:
                found = f"{picture.shape[0]} x {picture.shape[1]} pixels"
                raise VideoFileError(str(file), found, f"needs {size[0]} x {size[1]} pixels, as the first picture has")
            yield picture

    return Reel(len(files), 0, fps, encoding, pictures)


def _natural(file: Path) -> list[tuple[int, str]]:
    """Sorts frame2 before frame10."""
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", file.name)]


def _array(file: Path, fps: float | None) -> Reel:
    try:
        with file.open("rb") as stream:
            content: Any = np.load(stream, allow_pickle=False)
            if not isinstance(content, np.ndarray):
                name = "frames" if "frames" in content or len(content.files) != 1 else content.files[0]
                fps = checked_fps(float(content["fps"])) if fps is None and "fps" in content else fps
                content = content[name]
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        remedy = f"needs an array of numbers, in .npz by the name of frames ({error})"
        raise VideoFileError(str(file), "unreadable", remedy) from error
    if content.ndim != 4 or content.shape[-1] not in (1, 3) or 0 in content.shape:
        raise VideoFileError(str(file), f"shape {content.shape}", "needs [T, H, W, 3], or [T, H, W, 1] for grey")
    if content.dtype not in (np.uint8, np.uint16) and content.dtype.kind != "f":
        remedy = "needs bytes, 16-bit unsigned integers, or floating-point numbers in [0, 1]"
        raise VideoFileError(str(file), f"numbers of {content.dtype}", remedy)
    shape = (*content.shape[:3], 3)
    depth = None if content.dtype.kind == "f" else 8 * content.dtype.itemsize
    pictures = np.broadcast_to(content, shape)
    return Reel(
        len(pictures), 0, fps, Encoding(depth=depth), lambda chosen: (_checked(file, pictures[k]) for k in chosen)
    )


def _checked(file: Path, picture: np.ndarray) -> np.ndarray:
    least, most = float(picture.min()), float(picture.max())
    if picture.dtype.kind == "f" and not (least >= 0 and most <= 1):
        found = f"values from {least:g} to {most:g}"
        raise VideoFileError(str(file), found, "needs values in [0, 1]: divide by 255, or clamp before saving")
    return picture


def _chosen(file: Path, frames: Frames, reel: Reel) -> range:
    """The numbers of the frames asked for."""
    if isinstance(frames, slice):
        start, stop, step = frames.start, frames.stop, frames.step
    else:
        try:
            (start, stop), step = frames if frames is not None else (None, None), None
        except (TypeError, ValueError):
            raise WrongType("frames", repr(frames), "must be a slice or a pair (start, stop)") from None
    count = reel.count
    if reel.missing and (stop is None or stop < 0 or stop > count):
        raise _cut_off(file, count, reel.missing)
    if count == 0:
        raise VideoFileError(str(file), "no frames in it", "needs a video of at least one frame")
    bounds = [bound + count if bound is not None and bound < 0 else bound for bound in (start, stop)]
    first, end = bounds[0] or 0, count if bounds[1] is None else bounds[1]
    if step is not None and step < 1:
        raise OutOfRange("frames", frames, "must have a step >= 1: time runs forward")
    if not 0 <= first < end <= count:
        remedy = f"the file has {count} frames: needs 0 <= start < stop <= {count}"
        raise VideoFileError(str(file), f"frames {start} to {stop}", remedy)
    return range(operator.index(first), operator.index(end), operator.index(step or 1))


def _cut_off(file: Path, count: int, missing: int) -> VideoFileError:
    remedy = "copy or record it again"
    if count:
        remedy += f", or take what is there with frames=(0, {count})"
    return VideoFileError(str(file), f"cut off: {count} of {count + missing} frames can be read", remedy)


def _window(crop: tuple[int, int, int, int] | None, whole: tuple[int, ...]) -> tuple[slice, slice]:
    if crop is None:
        return slice(0, whole[0]), slice(0, whole[1])
    try:
        top, left, height, width = (operator.index(number) for number in crop)
    except (TypeError, ValueError):
        raise WrongType("crop", repr(crop), "must be four whole numbers of pixels (top, left, height, width)") from None
    if min(top, left) < 0 or min(height, width) < 1 or top + height > whole[0] or left + width > whole[1]:
        remedy = f"(top, left, height, width) must lie inside the pictures of {whole[0]} x {whole[1]} pixels"
        raise OutOfRange("crop", crop, remedy)
    return slice(top, top + height), slice(left, left + width)


def _values(picture: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """Values in [0, 1] of a picture of any depth."""
    if picture.dtype.kind == "f":
        return torch.from_numpy(picture.astype(np.float64)).to(dtype)
    return torch.from_numpy(picture.astype(np.float64) / np.iinfo(picture.dtype).max).to(dtype)


def _fitted(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    height, width, _ = values.shape
    check_shape_kept((height, width), checked_pixels("size", size))
    return reduced(values, size)
