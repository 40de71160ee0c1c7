"""`load_video`, and the kinds of files it reads."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from gradsim.scene.arguments import checked_path
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import OutOfRange, VideoFileError, WrongType
from gradsim.scene.memory import check_memory
from gradsim.video.array_files import open_array_file
from gradsim.video.decode import decode_frames, probe
from gradsim.video.downsample import downsample
from gradsim.video.srgb import srgb_to_linear
from gradsim.video.video import Encoding, Video, check_aspect_ratio, checked_fps

MOVIES = (".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".gif")
ARRAYS = (".npy", ".npz")
IMAGES = (".png", ".jpg", ".jpeg")

Frames: TypeAlias = "slice | tuple[int, int] | None"


@dataclass(frozen=True)
class FrameSource:
    """A file that is probed but not yet decoded."""

    count: int  # readable frames
    missing: int  # frames lost by truncation
    fps: float | None  # [1/s]
    encoding: Encoding
    read: Callable[[range], Iterable[np.ndarray]]  # images [H, W, 3]: 8-bit, 16-bit or floating-point


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
    """Loads a video from a file or a folder of images.

    Files store sRGB values. They are returned unchanged, because `gs.render` does not distinguish them from linear
    light either: loading returns what `gs.save_video` wrote. `linear=True` converts them to linear light, for
    renderings meant as such. Downsampling to `size` comes after that conversion.

    Example:
        `gs.load_video("bounce.mp4", size=(128, 128))`

    Args:
        path: A video (.mp4 .m4v .mov .avi .mkv .webm .gif), a folder of .png or .jpg images in the order of the
            numbers in their names, or an array (.npy, or .npz with `frames` and optionally `fps`) [T, H, W, 3 or 1] of
            8-bit or 16-bit unsigned integers or of floating-point numbers in [0, 1].
        frames: Frames to load: a slice or a pair (start, stop), as in Python. All if None.
        crop: Region of the images to load: (top, left, height, width) [px].
        size: Height and width to downsample to [px]; each pixel is the mean of the area it covers.
        fps: Frames per second, if the file does not state them (folders, arrays) or states them wrongly (slow motion).
        dtype: Data type of the frames.
        linear: Whether to convert sRGB values to linear light.

    Raises:
        VideoFileError: The file is missing, empty, truncated, of an unsupported format, not a video, or shorter than
            requested.
        OutOfRange: The crop or size does not fit the images.
    """
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise WrongType("dtype", repr(dtype), "must be torch.float64 or torch.float32")
    file = checked_path("path", path)
    source = _open_source(file, checked_fps(fps))
    selected = selected_frames(file, frames, source.count, source.missing)
    window: tuple[slice, slice] | None = None
    images: list[torch.Tensor] = []
    for image in source.read(selected):
        if window is None:
            whole, window = image.shape[:2], _crop_window(crop, image.shape[:2])
            _check_memory(file, window, size, len(selected), dtype)
        if image.shape[:2] != whole:
            found = f"{image.shape[0]} x {image.shape[1]} pixels in frame {selected[len(images)]}"
            raise VideoFileError(str(file), found, f"needs {whole[0]} x {whole[1]} pixels, like the first frame")
        values = _to_unit_range(image[window], dtype)
        values = srgb_to_linear(values) if linear else values
        images.append(values if size is None else _resized(values, size))
    if window is None or len(images) < len(selected):
        raise truncation_error(file, selected[len(images)], source.count - selected[len(images)])
    rows, columns = window
    encoding = replace(source.encoding, size=(rows.stop - rows.start, columns.stop - columns.start), linear=linear)
    return Video(torch.stack(images), None if source.fps is None else source.fps / selected.step, file, encoding)


def _check_memory(
    file: Path, window: tuple[slice, slice], size: tuple[int, int] | None, count: int, dtype: torch.dtype
) -> None:
    """Raises OutOfMemory if the frames do not fit into memory."""
    height, width = checked_pixels("size", size) if size else (part.stop - part.start for part in window)
    needed = 2.0 * count * height * width * 3 * dtype.itemsize  # the frames are stacked at the end
    value = f"{count} frames of {height} x {width} pixels"
    check_memory(str(file), value, needed, "load fewer frames (frames=), a part (crop=) or smaller images (size=)")


def _open_source(file: Path, fps: float | None) -> FrameSource:
    """Probes a file or folder. An explicit frame rate overrides that of the file."""
    if file.is_dir():
        return _folder_source(file, fps)
    suffix = file.suffix.lower()
    if suffix not in MOVIES + ARRAYS:
        kinds = f"needs one of {' '.join(MOVIES + ARRAYS)}, or a folder of {' '.join(IMAGES)}"
        raise VideoFileError(str(file), f"extension '{suffix}'", kinds)
    check_not_empty(file)
    return _array_source(file, fps) if suffix in ARRAYS else _movie_source(file, fps)


def check_not_empty(file: Path) -> None:
    """Raises unless a file exists and has content."""
    if not file.is_file():
        found = "a device or pipe" if file.exists() and not file.is_dir() else "no such file"
        raise VideoFileError(str(file), found, "needs an existing video file: check the path")
    if file.stat().st_size == 0:
        raise VideoFileError(str(file), "an empty file", "needs a video: copy or record it again")


def _movie_source(file: Path, fps: float | None) -> FrameSource:
    info = probe(file)
    if fps is None and not info.steady:
        remedy = "needs a constant rate: ffmpeg -i input -fps_mode cfr -r 30 output; or pass fps= to assume one"
        raise VideoFileError(str(file), f"frames unevenly spaced in time, {info.fps:.4g} fps on average", remedy)
    rate = fps if fps is not None else info.fps or None
    return FrameSource(info.count, info.missing, rate, info.encoding, lambda selected: decode_frames(file, selected))


def _folder_source(folder: Path, fps: float | None) -> FrameSource:
    files = sorted((file for file in folder.iterdir() if file.suffix.lower() in IMAGES), key=_natural_order)
    if not files:
        raise VideoFileError(str(folder), "no images in this folder", f"needs files of {' '.join(IMAGES)}")
    bits = 8 * sum(file.stat().st_size for file in files) / len(files)
    encoding = replace(probe(files[0]).encoding, frame_bits=bits)

    def read(selected: range) -> Iterator[np.ndarray]:
        size = None
        for file in files[selected.start : selected.stop : selected.step]:
            image = next(iter(decode_frames(file, range(1))))
            size = size or image.shape[:2]
            if image.shape[:2] != size:
                found = f"{image.shape[0]} x {image.shape[1]} pixels"
                raise VideoFileError(str(file), found, f"needs {size[0]} x {size[1]} pixels, like the first image")
            yield image

    return FrameSource(len(files), 0, fps, encoding, read)


def _natural_order(file: Path) -> list[tuple[int, str]]:
    """Sort key that puts frame2 before frame10."""
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", file.name)]


def _array_source(file: Path, fps: float | None) -> FrameSource:
    source = open_array_file(file)
    shape, dtype = source.shape, source.dtype
    if len(shape) != 4 or shape[-1] not in (1, 3) or 0 in shape:
        raise VideoFileError(str(file), f"shape {shape}", "needs [T, H, W, 3], or [T, H, W, 1] for greyscale")
    if dtype not in (np.uint8, np.uint16) and dtype.kind != "f":
        remedy = "needs 8-bit or 16-bit unsigned integers, or floating-point numbers in [0, 1]"
        raise VideoFileError(str(file), f"dtype {dtype}", remedy)

    def read(selected: range) -> Iterator[np.ndarray]:
        for image in source.read(selected):
            yield np.broadcast_to(_checked_range(file, image), (*shape[1:3], 3))

    depth = None if dtype.kind == "f" else 8 * dtype.itemsize
    return FrameSource(shape[0], 0, fps if fps is not None else checked_fps(source.fps), Encoding(depth=depth), read)


def _checked_range(file: Path, image: np.ndarray) -> np.ndarray:
    low, high = float(image.min()), float(image.max())
    if image.dtype.kind == "f" and not (low >= 0 and high <= 1):
        found = f"values from {low:g} to {high:g}"
        raise VideoFileError(str(file), found, "needs values in [0, 1]: divide by 255, or clamp before saving")
    return image


def selected_frames(file: Path, frames: Frames, count: int, missing: int) -> range:
    """Returns the numbers of the requested frames of a file with `count` readable and `missing` lost frames.

    Raises:
        VideoFileError: The file does not have these frames.
    """
    if isinstance(frames, slice):
        start, stop, step = frames.start, frames.stop, frames.step
    else:
        try:
            (start, stop), step = frames if frames is not None else (None, None), None
        except (TypeError, ValueError):
            raise WrongType("frames", repr(frames), "must be a slice or a pair (start, stop)") from None
    for bound in (start, stop, step):
        if bound is not None and not hasattr(bound, "__index__"):
            raise WrongType("frames", repr(frames), "must be whole numbers: a slice or a pair (start, stop)")
    if missing and (stop is None or stop < 0 or stop > count):
        raise truncation_error(file, count, missing)
    if count == 0:
        raise VideoFileError(str(file), "no frames", "needs a video of at least one frame")
    bounds = [bound + count if bound is not None and bound < 0 else bound for bound in (start, stop)]
    first, end = bounds[0] or 0, count if bounds[1] is None else bounds[1]
    if step is not None and step < 1:
        raise OutOfRange("frames", frames, "must have a step >= 1: a video cannot be reversed")
    if not 0 <= first < end <= count:
        remedy = f"the file has {count} frames: needs 0 <= start < stop <= {count}"
        raise VideoFileError(str(file), f"frames {start} to {stop}", remedy)
    return range(operator.index(first), operator.index(end), operator.index(step or 1))


def truncation_error(file: Path, count: int, missing: int) -> VideoFileError:
    """Returns the error for a file of which only the first `count` frames can be read."""
    remedy = "copy or record it again"
    if count:
        remedy += f", or load the readable part with frames=(0, {count})"
    return VideoFileError(str(file), f"truncated: {count} of {count + missing} frames can be read", remedy)


def _crop_window(crop: tuple[int, int, int, int] | None, whole: tuple[int, ...]) -> tuple[slice, slice]:
    if crop is None:
        return slice(0, whole[0]), slice(0, whole[1])
    try:
        top, left, height, width = (operator.index(number) for number in crop)
    except (TypeError, ValueError):
        raise WrongType("crop", repr(crop), "must be four whole numbers of pixels (top, left, height, width)") from None
    if min(top, left) < 0 or min(height, width) < 1 or top + height > whole[0] or left + width > whole[1]:
        remedy = f"(top, left, height, width) must lie inside the images of {whole[0]} x {whole[1]} pixels"
        raise OutOfRange("crop", crop, remedy)
    return slice(top, top + height), slice(left, left + width)


def _to_unit_range(image: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """Scales an image of any bit depth to [0, 1]."""
    if image.dtype.kind == "f":
        return torch.from_numpy(image.astype(np.float64)).to(dtype)
    return torch.from_numpy(image.astype(np.float64) / np.iinfo(image.dtype).max).to(dtype)


def _resized(values: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    height, width, _ = values.shape
    check_aspect_ratio((height, width), checked_pixels("size", size))
    return downsample(values, size)
