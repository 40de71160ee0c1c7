"""Loading of a scene file and a video of it, for the commands that compare the two."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from gradsim.cli.console import stderr
from gradsim.cli.options import Dtype, parse_crop, parse_frames, parse_size
from gradsim.scene.array_files import read_array
from gradsim.scene.errors import InvalidInput, OutOfMemory, OutOfRange, SceneFileError, WrongShape
from gradsim.scene.files.load import SceneFile, load_scene_file
from gradsim.scene.memory import check_memory
from gradsim.scene.time import Time
from gradsim.video.downsample import downsample
from gradsim.video.load import load_video
from gradsim.video.video import Video, check_aspect_ratio

DEFAULT_SIDE = 128  # [px], shorter side of the compared frames unless a size is given
SIDE_RANGE = (64, 160)  # [px], range of the shorter side in which a size divisible by DIVISOR is searched
PIXEL_BYTES = 40.0  # of an image while it is read, with 4 channels of 4 bytes, and its copies
DIVISOR = 8  # of both sides, so that the frames can be halved for the coarse levels

SceneArgument = Annotated[
    str, typer.Argument(help="A scene file with unknowns, or the name of a built-in scene, such as bouncing_cube.")
]
OptionalSceneArgument = Annotated[
    str | None,
    typer.Argument(help="A scene file with unknowns, or the name of a built-in scene, such as bouncing_cube."),
]
VideoArgument = Annotated[Path, typer.Argument(help="The video: .mp4 .mov .avi .gif .npz .npy, or a folder of PNG.")]
OptionalVideoArgument = Annotated[
    Path | None, typer.Argument(help="The video: .mp4 .mov .avi .gif .npz .npy, or a folder of PNG.")
]
FramesOption = Annotated[
    str | None,
    typer.Option(help="Frames of the video to use, start:stop; the scene starts at the first one. All by default."),
]
CropOption = Annotated[
    str | None, typer.Option(help="Region of the frames to use: top,left,height,width in pixels. All by default.")
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        "--size",
        help="Height x width in pixels that the frames are downsampled to, such as 128x128; "
        f"by default about {DEFAULT_SIDE} on the shorter side.",
    ),
]
FpsOption = Annotated[
    float | None,
    typer.Option(help="Frames per second, if the video file does not state them or states them wrongly.", min=1e-3),
]


@dataclass(frozen=True)
class Inputs:
    """A scene file and a video of the scene."""

    file: SceneFile
    video: Video
    fps: float  # [1/s]

    @property
    def substeps(self) -> int | None:
        """Physics steps per frame of the video, from those of the scene file; None if it has none."""
        return substeps_at(self.file.time, self.fps)


def load_inputs(
    scene: str,
    video: Path,
    *,
    frames: str | None,
    crop: str | None,
    size: str | None,
    fps: float | None,
    dtype: Dtype = Dtype.FLOAT64,
) -> Inputs:
    """Loads a scene and a video of it, downsampled to a size at which comparison is fast."""
    file = load_scene_file(scene)
    checked_unknowns(file)
    checked_camera(file)
    loaded = load_clip(video, frames=frames, crop=crop, size=size, fps=fps, dtype=dtype)
    return Inputs(file, loaded, fps or loaded.fps or file.time.fps)


def checked_unknowns(file: SceneFile) -> None:
    """Raises SceneFileError unless a scene has unknowns."""
    if not file.scene.unknowns:
        remedy = "mark the quantities to estimate: mass: {unknown: 2.0, low: 1.0, high: 10.0}"
        raise SceneFileError(str(file.path), None, "unknowns", "none", remedy)


def checked_camera(file: SceneFile) -> None:
    """Raises SceneFileError unless a scene has a camera."""
    if file.scene.camera is None:
        remedy = "a scene needs a camera to be compared with a video: camera: {eye: [0, 1, 4], target: [0, 0, 0]}"
        raise SceneFileError(str(file.path), None, "camera", "missing", remedy)


def load_clip(
    video: Path,
    *,
    frames: str | None,
    crop: str | None,
    size: str | None,
    fps: float | None,
    dtype: Dtype = Dtype.FLOAT64,
) -> Video:
    """Loads a video of at least two frames, downsampled to a size at which comparison is fast."""
    start, stop = (0, None) if frames is None else parse_frames(frames)
    window = None if crop is None else parse_crop(crop)
    pixels = None if size is None else parse_size(size)
    if pixels is None:
        first = load_video(video, frames=slice(start, start + 1), crop=window)
        pixels = default_size(first.size)
        if pixels != first.size:
            old, new = (" x ".join(map(str, side)) for side in (first.size, pixels))
            stderr.print(f"downsampling frames from {old} to {new} pixels", highlight=False)
    loaded = load_video(video, frames=slice(start, stop), crop=window, size=pixels, fps=fps, dtype=dtype.torch)
    if len(loaded) < 2:
        raise InvalidInput("video", f"{len(loaded)} frame", "motion requires at least two frames")
    return loaded


def load_mask(file: Path, crop: str | None, size: tuple[int, int]) -> torch.Tensor:
    """Loads weights of the pixels [H, W] or [T, H, W] from an image or an array, cropped and downsampled as a video."""
    if not file.is_file() or file.suffix.lower() not in (".png", ".npy"):
        raise InvalidInput("--mask", str(file), "must be an existing .png image or .npy array [H, W] or [T, H, W]")
    array = _pixels("--mask", file)
    array = array if file.suffix.lower() == ".npy" else array.mean(-1)
    if array.ndim not in (2, 3):
        raise WrongShape("--mask", f"shape {array.shape}", "must be [H, W] or [T, H, W], weights of the pixels")
    weights = torch.as_tensor(array.astype(np.float64))
    if crop is not None:
        top, left, height, width = parse_crop(crop)
        weights = weights[..., top : top + height, left : left + width]
    return downsample(weights[..., None], size)[..., 0]


def load_background(name: str, video: Video, crop: str | None, option: str = "--background") -> torch.Tensor:
    """Returns the background of a video, [H, W, 3].

    It is an image, cropped and downsampled as the video; or "auto", the median of the video's frames.
    """
    if name == "auto":
        return video.frames.median(0).values
    file = Path(name)
    if not file.is_file() or file.suffix.lower() not in (".png", ".jpg", ".jpeg", ".npy"):
        raise InvalidInput(option, name, "must be auto, or an existing .png, .jpg or .npy image of the empty scene")
    array = _pixels(option, file)
    if array.ndim != 3 or array.shape[-1] != 3 or not array.size:
        raise WrongShape(option, f"shape {array.shape}", "must be [H, W, 3], a colour image")
    array = array / (np.iinfo(array.dtype).max if array.dtype.kind == "u" else 1.0)
    low, high = array.min(), array.max()
    if not (low >= 0 and high <= 1):
        raise OutOfRange(option, f"values from {low:g} to {high:g}", "must be unsigned integers, or lie in [0, 1]")
    image = torch.as_tensor(array).to(video.frames.dtype)
    if crop is not None:
        top, left, height, width = parse_crop(crop)
        image = image[top : top + height, left : left + width]
    size = (image.shape[0], image.shape[1])
    if size[0] < video.size[0] or size[1] < video.size[1]:
        found = f"{size[0]} x {size[1]} pixels"
        raise WrongShape(option, found, f"must be as large as the frames of the video, {video.encoding.size}")
    check_aspect_ratio(size, video.size)
    return downsample(image, video.size)


def _pixels(option: str, file: Path) -> np.ndarray:
    """Returns the numbers of an image or of an array file."""
    valid = "is not a readable image or array"
    if file.suffix.lower() == ".npy":
        return read_array(file, option, valid)
    try:
        return _image(option, file)
    except (MemoryError, FileNotFoundError, OutOfMemory):
        raise
    except Exception as error:  # Pillow raises many kinds for malformed files
        raise InvalidInput(option, str(file), f"{valid} ({error})") from error


def _image(option: str, file: Path) -> np.ndarray:
    """Returns the colours of an image, [H, W, 3]."""
    from matplotlib.image import imread
    from PIL import Image

    with Image.open(file) as header:
        width, height = header.size
    needed = PIXEL_BYTES * float(height) * width
    check_memory(option, f"{file}, {height} x {width} pixels", needed, "give a smaller image")
    image = np.asarray(imread(file))
    if image.ndim == 2:
        return np.stack([image] * 3, -1)
    return image[..., :3] if image.shape[-1] >= 3 else np.repeat(image[..., :1], 3, -1)


def default_size(size: tuple[int, int]) -> tuple[int, int]:
    """Returns the size to downsample frames to [px].

    It has the same aspect ratio, about 128 pixels on the shorter side, and sides divisible by 8 if possible.
    """
    height, width = size
    shorter, longer = min(size), max(size)
    if shorter <= DEFAULT_SIDE:
        return size
    candidates = []
    for side in range(SIDE_RANGE[0], min(SIDE_RANGE[1], shorter) + 1, DIVISOR):
        other = round(side * longer / shorter)
        if other % DIVISOR == 0 and abs(side * longer / shorter - other) < 0.5:
            candidates.append((abs(side - DEFAULT_SIDE), side, other))
    _, side, other = min(candidates, default=(0, DEFAULT_SIDE, round(DEFAULT_SIDE * longer / shorter)))
    return (side, other) if height <= width else (other, side)


def substeps_at(time: Time, fps: float) -> int | None:
    """Returns the physics steps per frame at another frame rate, for at most the same time step; None if not given."""
    return None if time.substeps is None else max(1, math.ceil(time.substeps * time.fps / fps))
