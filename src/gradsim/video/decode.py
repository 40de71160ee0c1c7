"""Pictures out of files, through PyAV."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.codec import Codec
from av.container import InputContainer
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from av.video.stream import VideoStream
from numpy.typing import NDArray

from gradsim.scene.errors import VideoFileError
from gradsim.video.video import Encoding

# The defaults of swscale are off by up to 4/255 in flat colours, these by 1/255. Its 16-bit outputs are worse.
PRECISE = int(
    Interpolation.BICUBIC
    | Interpolation.ACCURATE_RND
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.BITEXACT
)

# Matrices besides BT.601 by the numbers in files, which are also swscale's: BT.709, FCC, SMPTE 240M, BT.2020.
NAMED = (1, 4, 7, 9)

# Pixel formats of pictures with 16 bits a channel.
DEEP = ("rgb48", "rgba64", "gray16")

# x264 and x265 write their options into the header or the first frame.
CRF = re.compile(rb"rc=crf [^\x00]{0,200}?crf=(\d+\.\d+)")


@dataclass(frozen=True)
class Contents:
    """What a file tells without being decoded."""

    count: int  # of frames that can be read
    missing: int  # of frames that the file announces beyond these
    fps: float
    steady: bool  # whether the frames are evenly spaced in time
    encoding: Encoding


def contents(file: Path | BytesIO) -> Contents:
    """Look through the packets of a file.

    Raises:
        VideoFileError: It is no video, or its pixels are not square.
    """
    times: list[float] = []
    sizes: list[int] = []  # [bit]
    quality = None
    with _opened(file) as (container, stream):
        aspect = stream.sample_aspect_ratio
        if aspect and aspect != 1:
            remedy = "ffmpeg -i input -vf scale=iw*sar:ih,setsar=1 output"
            raise VideoFileError(_name(file), f"pixels {aspect} as wide as high", f"needs square pixels: {remedy}")
        for packet in container.demux(stream):
            if packet.size == 0:
                continue
            if packet.is_corrupt:
                break
            if not sizes:
                found = CRF.search((stream.codec_context.extradata or b"") + bytes(packet))
                quality = float(found[1]) if found else None
            if not packet.is_discard:
                times.append(float((packet.pts or 0) * (packet.time_base or 0)))
            sizes.append(8 * packet.size)
        rate = stream.guessed_rate or stream.average_rate
        fps = float(rate) if rate else 0.0
        missing = max(stream.frames - len(sizes), 0)
        if not stream.frames and container.duration and len(container.streams) == 1:
            seconds = container.duration / av.time_base
            missing = max(round(seconds * fps) - 1 - len(sizes), 0)  # the last frame's duration is not always counted
        codec, pixels = stream.codec_context.codec.canonical_name, stream.codec_context.pix_fmt
        tick = float(stream.time_base or 0)
    if isinstance(file, Path) and codec == "gif" and not file.read_bytes().endswith(b";"):
        missing = max(missing, 1)  # a GIF does not say how long it is, but ends in a semicolon
    fps, steady = _rhythm(sorted(times), fps, tick)
    count = _unbroken(file, fps) if missing else len(times)
    bits = sum(sizes) / max(len(sizes), 1)
    depth = 16 if str(pixels).startswith(DEEP) else 8
    encoding = Encoding(codec, _is_lossy(codec, pixels), depth, pixels, frame_bits=bits, quality=quality)
    return Contents(count, missing + len(times) - count, fps, steady, encoding)


def decoded(file: Path | BytesIO, frames: range) -> Iterator[NDArray[np.unsignedinteger]]:
    """The chosen frames one after another, upright, [H, W, 3]: 8 bits a channel, 16 where a still picture has them."""
    with _opened(file) as (container, stream):
        stream.thread_type = "AUTO"
        for number, frame in enumerate(_intact(container, stream)):
            if number in frames:
                yield _upright(frame)
            if number >= frames[-1]:
                return


def _intact(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Frames up to the place where a file is cut off."""
    for packet in container.demux(stream):
        if packet.is_corrupt:
            yield from stream.decode(None)
            return
        yield from stream.decode(packet)


def _unbroken(file: Path | BytesIO, fps: float) -> int:
    """How many frames of a cut-off file follow each other without a gap: they are not stored in the order of time."""
    times: list[float] = []
    with _opened(file) as (container, stream), suppress(av.FFmpegError):
        for frame in _intact(container, stream):
            if times and frame.time - times[-1] > 1.5 / fps:
                break
            times.append(frame.time)
    return len(times)


@contextmanager
def _opened(file: Path | BytesIO) -> Iterator[tuple[InputContainer, VideoStream]]:
    """A file's first stream of pictures; what ffmpeg raises gets a name."""
    if isinstance(file, BytesIO):
        file.seek(0)
    try:
        with av.open(file if isinstance(file, BytesIO) else str(file)) as container:
            if not container.streams.video:
                raise VideoFileError(
                    _name(file), "no pictures in it", "needs a whole video file; sound alone will not do"
                )
            yield container, container.streams.video[0]
    except av.FFmpegError as error:
        reason = error.strerror or type(error).__name__
        raise VideoFileError(
            _name(file), "unreadable", f"needs a whole video or picture file; copy or convert it again ({reason})"
        ) from error


def _name(file: Path | BytesIO) -> str:
    return str(file) if isinstance(file, Path) else "video in memory"


def _rhythm(times: list[float], fps: float, tick: float) -> tuple[float, bool]:
    """The rate that sorted times keep, and whether they do; `tick` is how finely they are stored [s]."""
    if len(times) < 2 or tick * fps >= 1 or times[-1] <= times[0]:
        return fps, True
    mean = (len(times) - 1) / (times[-1] - times[0])
    if tick >= 0.01:  # a GIF counts hundredths of a second, by which 30 cannot be told from 29.97
        fps = round(fps)
    for rate, tolerance in ((fps, 1.01 * tick), (mean, 0.25 / mean)):
        if rate and max(abs(time - times[0] - k / rate) for k, time in enumerate(times)) <= tolerance:
            return rate, True
    return mean, False


def _is_lossy(codec: str, pixels: str | None) -> bool:
    """Whether more is lost than the rounding of each channel."""
    if codec == "gif" or Codec(codec, "r").lossy:
        return True
    components = VideoFormat(pixels).components if pixels else ()
    return any(part.width < components[0].width for part in components)


def _upright(frame: VideoFrame) -> NDArray[np.unsignedinteger]:
    picture = _rgb(frame)
    turns = round(frame.rotation / 90)
    return np.rot90(picture, turns) if turns else picture


def _rgb(frame: VideoFrame) -> Any:
    """Red, green and blue [H, W, 3], by the matrix and range that the file names."""
    name = frame.format.name
    if name.startswith(DEEP):
        picture = np.atleast_3d(frame.to_ndarray())[..., :3]
        return np.broadcast_to(picture, (*picture.shape[:2], 3))
    is_full = name.startswith("yuvj") or frame.format.is_rgb or frame.color_range == ColorRange.JPEG
    # Where a file does not name its matrix, ffmpeg, which will have written it, used that of BT.601.
    matrix = frame.colorspace if frame.colorspace in NAMED else int(Colorspace.ITU601)
    converted = frame.reformat(
        format="rgb24",
        src_colorspace=matrix,
        src_color_range=ColorRange.JPEG if is_full else ColorRange.MPEG,
        dst_color_range=ColorRange.JPEG,
        interpolation=PRECISE,
    )
    return converted.to_ndarray()
