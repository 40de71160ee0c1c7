"""`save_video`, and the kinds of files it writes."""

from __future__ import annotations

import os
from pathlib import Path

import av
import numpy as np
import torch
from numpy.typing import NDArray

from gradsim.scene.arguments import check_flag, checked_number, checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, NotFinite, OutOfRange, VideoFileError, WrongShape, WrongType
from gradsim.scene.spelling import abbreviate
from gradsim.video.encoders import ENCODERS, png_bytes, to_bytes, write_video
from gradsim.video.srgb import linear_to_srgb
from gradsim.video.video import Video, checked_fps

# The codec that players expect in each kind of file.
CODECS = {
    ".mp4": "h264",
    ".m4v": "h264",
    ".mov": "h264",
    ".mkv": "h264",
    ".avi": "mpeg4",
    ".webm": "vp9",
    ".gif": "gif",
}
ARRAYS = (".npy", ".npz")
MOVIE_FPS = (1e-3, 1e6)  # that files of movies can state [1/s]
GIF_FPS = 50  # players slow down faster animations


def save_video(
    path: str | os.PathLike[str],
    video: torch.Tensor | Video,
    fps: float | None = None,
    *,
    quality: float | None = None,
    codec: str | None = None,
    linear: bool = False,
) -> None:
    """Writes a video to a file or a folder of images, atomically.

    Values are clamped to [0, 1] and stored unchanged, as sRGB values. `linear=True` takes them for linear light and
    converts them to sRGB first. .npy and .npz store the numbers exactly, PNG images and the codec "ffv1" (.mkv) round
    them to 8 bits; all other formats are lossy.

    Example:
        `gs.save_video("bounce.mp4", gs.render(scene, trajectory, (128, 128)), 30.0)`

    Args:
        path: .mp4 .m4v .mov .mkv (H.264), .webm (VP9), .avi (MPEG-4), .gif, .npy, .npz, or a folder, for PNG images
            00000.png, 00001.png, and so on. An existing folder is replaced if it contains only PNG images.
        video: [T, H, W, 3], or [T, H, W, 1] for greyscale.
        fps: Frames per second; not stored by .npy and folders. The default is the rate of a `Video`.
        quality: The encoder's constant rate factor, or for .avi its quantizer: lower is better. None selects a visually
            nearly lossless one: 18 for H.264. Ignored for lossless files and .gif.
        codec: Another codec by ffmpeg's name: "h264", "hevc", "vp9", "av1", "mpeg4", "mjpeg", "ffv1".
        linear: Whether the values are linear light.

    Raises:
        VideoFileError: The extension or codec is not supported, the folder does not exist, or the format cannot store
            the video.
        WrongShape: The video is a batch, or has a fourth channel.
    """
    file = checked_path("path", path)
    suffix = file.suffix.lower()
    check_flag("linear", linear)
    if quality is not None:
        checked_number("quality", quality)
    if codec is not None and not isinstance(codec, str):
        raise WrongType("codec", abbreviate(codec), "must be a name, such as 'h264'")
    frames = _checked_frames(video.frames if isinstance(video, Video) else video)
    frames = linear_to_srgb(frames) if linear else frames
    fps = checked_fps(fps if fps is not None or not isinstance(video, Video) else video.fps)
    if suffix in ARRAYS:
        write_atomically(file, lambda target: _write_array(target, frames, fps), VideoFileError)
    elif suffix in CODECS:
        _write_movie(file, frames, fps, quality, codec or CODECS[suffix])
    elif suffix == "":
        _check_replaceable(file)
        write_atomically(file, lambda target: _write_folder(target, to_bytes(frames)), VideoFileError)
    else:
        kinds = f"needs one of {' '.join([*CODECS, *ARRAYS])}, or no extension for a folder of images"
        raise VideoFileError(str(file), f"extension '{suffix}'", kinds)


def _checked_frames(video: torch.Tensor) -> torch.Tensor:
    """Returns the frames of one world, clamped to [0, 1], with three channels."""
    if not isinstance(video, torch.Tensor) or not video.is_floating_point():
        kind = getattr(video, "dtype", type(video).__name__)
        raise WrongType(
            "video", kind, "must be a gs.Video or a floating-point tensor [T, H, W, 3] with values in [0, 1]"
        )
    found = f"shape {tuple(video.shape)}"
    if video.ndim > 4:
        raise WrongShape("video", found, "is a batch of worlds: save them one by one, such as video[0]")
    if video.ndim != 4 or 0 in video.shape:
        raise WrongShape("video", found, "must be [T, H, W, 3]; for a single image pass image[None]")
    if video.shape[-1] == 4:
        raise WrongShape("video", found, "must not have coverage (alpha) as a fourth channel: save video[..., :3]")
    if video.shape[-1] not in (1, 3):
        raise WrongShape("video", found, "must have three channels, or one for greyscale: [T, H, W, 3]")
    frames = video.detach().cpu()
    if not bool(torch.isfinite(frames).all()):
        bad = int((~torch.isfinite(frames)).sum())
        raise NotFinite("video", found, f"{bad} of its values are NaN or infinite; all must be finite")
    return frames.clamp(0, 1).expand(-1, -1, -1, 3)


def _write_array(target: Path, frames: torch.Tensor, fps: float | None) -> None:
    if target.suffix.lower() == ".npy":
        np.save(target, frames.numpy())
    else:
        rate = {} if fps is None else {"fps": np.float64(fps)}
        np.savez(target, frames=frames.numpy(), **rate)


def _check_replaceable(folder: Path) -> None:
    """Raises unless a folder is new or contains only PNG images."""
    others = [item.name for item in folder.iterdir() if item.suffix != ".png"] if folder.is_dir() else []
    if others or (folder.exists() and not folder.is_dir()):
        found = f"contains {others[0]}" if others else "is a file"
        raise VideoFileError(str(folder), found, "needs a new folder, or one that contains only PNG images")


def _write_folder(target: Path, images: NDArray[np.uint8]) -> None:
    target.mkdir()
    for number, image in enumerate(images):
        (target / f"{number:05d}.png").write_bytes(png_bytes(image))


def _write_movie(file: Path, frames: torch.Tensor, fps: float | None, quality: float | None, codec: str) -> None:
    encoder = ENCODERS.get(codec)
    if encoder is None:
        raise VideoFileError(str(file), f"codec '{codec}'", f"needs one of {' '.join(ENCODERS)}")
    if fps is None:
        raise InvalidInput("fps", None, f"is required for {file.name}: save_video(path, video, fps)")
    if not MOVIE_FPS[0] <= fps <= MOVIE_FPS[1]:
        raise OutOfRange("fps", fps, f"must lie between {MOVIE_FPS[0]:g} and {MOVIE_FPS[1]:g} for {file.suffix}")
    height, width = frames.shape[1:3]
    if encoder.pixel_format.endswith("420p") and (height % 2 or width % 2):
        even = " x ".join(str(max(2, side - side % 2)) for side in (height, width))
        remedy = f"{codec} needs even height and width, such as {even}; .gif, .npy and PNG folders accept any size"
        raise VideoFileError(str(file), f"frames of {height} x {width} pixels", remedy)
    if codec == "gif" and fps > GIF_FPS:
        raise OutOfRange(
            "fps", fps, f"a .gif plays at most {GIF_FPS} frames per second: save fewer frames, such as video[::2]"
        )
    quality = encoder.default if quality is None else quality
    if encoder.quality_option and not encoder.best <= quality <= encoder.worst:
        raise OutOfRange("quality", quality, f"must lie between {encoder.best} and {encoder.worst} for {codec}")
    images = to_bytes(frames)
    try:
        write_atomically(file, lambda target: write_video(target, images, fps, encoder, quality), VideoFileError)
    except (av.FFmpegError, ValueError) as error:
        if isinstance(error, VideoFileError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise VideoFileError(str(file), f"{codec} in {file.suffix}", f"could not be written ({reason})") from error
