"""Decoding of video and image files with PyAV."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.codec import Codec
from av.container import InputContainer
from av.filter import Graph
from av.stream import Disposition
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace, Interpolation
from av.video.stream import VideoStream
from numpy.typing import NDArray

from gradsim.scene.errors import VideoFileError
from gradsim.video.video import Encoding

# With the defaults of swscale, uniform colours are off by up to 4/255; with these flags by 1/255. Its 16-bit outputs
# are less accurate.
ACCURATE_SWSCALE = int(
    Interpolation.BICUBIC
    | Interpolation.ACCURATE_RND
    | Interpolation.FULL_CHR_H_INT
    | Interpolation.FULL_CHR_H_INP
    | Interpolation.BITEXACT
)

# Means of areas. Reducing within the conversion is four times faster than converting a frame and then reducing it.
AREA_SWSCALE = ACCURATE_SWSCALE & ~int(Interpolation.BICUBIC) | int(Interpolation.AREA)

# Colour matrices other than BT.601, by the code in files, which is also swscale's: BT.709, FCC, SMPTE 240M, BT.2020.
SUPPORTED_MATRICES = (1, 4, 7, 9)

# Pixel formats of which a window is cut out before it is converted.
PLANAR_FORMATS = (
    *("yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p"),
    *("yuv420p10le", "yuv422p10le", "yuv444p10le"),
)
# Formats of files by the names of ffmpeg's demuxers. None of them refers to other files.
CONTAINERS = "mov,mp4,matroska,webm,avi,gif,apng,mpeg,mpegts,flv,asf,ogg,mjpeg,h264,hevc,image2,png_pipe,jpeg_pipe"

CHROMA_REACH = 8  # the interpolation of chroma uses samples up to this far away [px]; even

# Pixel formats with 16 bits per channel.
SIXTEEN_BIT_FORMATS = ("rgb48", "rgba64", "gray16")

# x264 and x265 write their options into the header or the first frame.
CRF = re.compile(rb"rc=crf [^\x00]{0,200}?crf=(\d+\.\d+)")


@dataclass(frozen=True)
class ProbeResult:
    """Properties of a file, found without decoding it."""

    count: int  # readable frames
    missing: int  # frames that the file announces but does not contain
    fps: float
    steady: bool  # whether the frames are evenly spaced in time
    encoding: Encoding


def probe(file: Path | BytesIO) -> ProbeResult:
    """Reads the packets of a file without decoding them.

    Raises:
        VideoFileError: It is not a video, or its pixels are not square.
    """
    times: list[float] = []
    sizes: list[int] = []  # [bit]
    quality = None
    with open_video(file) as (container, stream):
        aspect = stream.sample_aspect_ratio
        if aspect and aspect != 1:
            remedy = "ffmpeg -i input -vf scale=iw*sar:ih,setsar=1 output"
            raise VideoFileError(_name(file), f"pixel aspect ratio {aspect}", f"needs square pixels: {remedy}")
        for packet in container.demux(stream):
            if packet.size == 0:
                continue
            if packet.is_corrupt:
                break
            if not sizes:
                match = CRF.search((stream.codec_context.extradata or b"") + bytes(packet))
                quality = float(match[1]) if match else None
            if not packet.is_discard:
                times.append(float((packet.pts or 0) * (packet.time_base or 0)))
            sizes.append(8 * packet.size)
        rate = stream.guessed_rate or stream.average_rate
        fps = float(rate) if rate else 0.0
        missing = _missing_frames(container, stream, len(sizes), fps)
        codec, pixels = stream.codec_context.codec.canonical_name, stream.codec_context.pix_fmt
        tick = float(stream.time_base or 0)
    if isinstance(file, Path) and codec == "gif" and not file.read_bytes().endswith(b";"):
        missing = max(missing, 1)  # a GIF does not state its length, but ends with a semicolon
    fps, steady = _frame_rate(sorted(times), fps, tick)
    count = _count_contiguous(file, fps) if missing else len(times)
    bits = sum(sizes) / max(len(sizes), 1)
    depth = 16 if str(pixels).startswith(SIXTEEN_BIT_FORMATS) else 8
    encoding = Encoding(codec, _is_lossy(codec, pixels), depth, pixels, frame_bits=bits, quality=quality)
    return ProbeResult(count, missing + len(times) - count, fps, steady, encoding)


@dataclass(frozen=True)
class DecodedFrame:
    """One frame of a file, with rotation metadata applied."""

    time: float | None  # presentation time that the file states [s]
    stamp: int | None  # the same in ticks of the file
    size: tuple[int, int]  # height and width in the file [px]
    image: NDArray[np.unsignedinteger]  # [H, W, 3], 8 bits per channel, or 16 for still images that store 16


def decode_frames(file: Path | BytesIO, frames: range) -> Iterator[NDArray[np.unsignedinteger]]:
    """Yields the selected frames [H, W, 3] in order, with rotation metadata applied.

    They have 8 bits per channel, or 16 for still images that store 16.
    """
    return (frame.image for frame in decode_timed_frames(file, frames))


def decode_timed_frames(
    file: Path | BytesIO, frames: Sequence[int], *, short_side: int | None = None
) -> Iterator[DecodedFrame]:
    """Yields the selected frames in order, with their times.

    Args:
        file: A video file.
        frames: Increasing numbers of the frames.
        short_side: Largest height or width of the images, whichever is shorter [px]. Larger frames are reduced by a
            whole factor, with 8 bits per channel: each pixel is the mean of an area. None keeps the size.
    """
    with open_video(file) as (container, stream):
        stream.thread_type = "AUTO"
        for number, frame in enumerate(_readable_frames(container, stream)):
            if number in frames:
                yield _decoded_frame(frame, short_side)
            if number >= frames[-1]:
                return


@dataclass(frozen=True)
class LazyFrame:
    """One frame of a file, of which only the windows that are asked for are converted to RGB."""

    frame: VideoFrame

    def window(self, rows: slice, columns: slice) -> NDArray[np.uint8]:
        """Returns a part of the upright frame [h, w, 3], with 8 bits per channel."""
        height, width = self.frame.height, self.frame.width
        turns = round(self.frame.rotation / 90) % 4
        stored = {
            0: (rows, columns),
            1: (columns, _mirrored(rows, width)),
            2: (_mirrored(rows, height), _mirrored(columns, width)),
            3: (_mirrored(columns, height), rows),
        }[turns]
        return np.rot90(_window_rgb(self.frame, *stored), turns)


def decode_lazily(
    file: Path, numbers: list[int], stamps: Mapping[int, int] | None = None
) -> Iterator[tuple[int, LazyFrame]]:
    """Yields the frames with some numbers, without converting their pixels.

    Args:
        file: A video file.
        numbers: Increasing numbers of frames in the file.
        stamps: Presentation times of these frames in ticks. With them, decoding starts at the key frame before the
            first one instead of at the start of the file.
    """
    found: set[int] = set()
    if stamps is not None and numbers:
        for number, frame in _frames_from(file, numbers, stamps):
            found.add(number)
            yield number, frame
    rest = [number for number in numbers if number not in found]
    if not rest:
        return
    with open_video(file) as (container, stream):
        stream.thread_type = "AUTO"
        for number, image in enumerate(_readable_frames(container, stream)):
            if number in rest:
                yield number, LazyFrame(image)
            if number >= rest[-1]:
                return


def _frames_from(file: Path, numbers: list[int], stamps: Mapping[int, int]) -> Iterator[tuple[int, LazyFrame]]:
    """Yields those frames that follow a key frame at or before the first one."""
    wanted = {stamps[number]: number for number in numbers}
    last = stamps[numbers[-1]]
    with open_video(file) as (container, stream):
        stream.thread_type = "AUTO"
        container.seek(stamps[numbers[0]], stream=stream)
        for frame in _readable_frames(container, stream):
            if frame.pts in wanted:
                yield wanted.pop(frame.pts), LazyFrame(frame)
            if frame.pts is not None and frame.pts >= last:
                return


def _mirrored(part: slice, length: int) -> slice:
    return slice(length - part.stop, length - part.start)


def _window_rgb(frame: VideoFrame, rows: slice, columns: slice) -> Any:
    """Converts a part of a stored frame to RGB [h, w, 3] with 8 bits per channel."""
    if frame.format.name not in PLANAR_FORMATS:
        image = _rgb(frame)[rows, columns]
        return image if image.dtype == np.uint8 else (image >> 8).astype(np.uint8)
    top, left = (max(0, part.start - CHROMA_REACH) // 2 * 2 for part in (rows, columns))
    bottom = min(frame.height, (rows.stop + CHROMA_REACH + 1) // 2 * 2)
    right = min(frame.width, (columns.stop + CHROMA_REACH + 1) // 2 * 2)
    image = _rgb(_cut_out(frame, top, left, bottom - top, right - left))
    return image[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left]


def _cut_out(frame: VideoFrame, top: int, left: int, height: int, width: int) -> VideoFrame:
    """Returns a part of a frame that starts at an even row and column; its chroma samples keep their places."""
    graph = Graph()
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=Fraction(1, 1))
    crop = graph.add("crop", f"{width}:{height}:{left}:{top}:keep_aspect=0:exact=1")
    sink = graph.add("buffersink")
    source.link_to(crop)
    crop.link_to(sink)
    graph.configure()
    source.push(frame)
    return sink.pull()  # type: ignore[return-value]


def _missing_frames(container: InputContainer, stream: VideoStream, packets: int, fps: float) -> int:
    """Returns the number of frames that a file announces beyond its packets."""
    if stream.frames or not container.duration or len(container.streams) != 1:
        return max(stream.frames - packets, 0)
    seconds = container.duration / av.time_base
    return max(round(seconds * fps) - 1 - packets, 0)  # the duration may leave out the last frame


def _readable_frames(container: InputContainer, stream: VideoStream) -> Iterator[VideoFrame]:
    """Yields decoded frames up to the point where the file is truncated."""
    for packet in container.demux(stream):
        if packet.is_corrupt:
            yield from stream.decode(None)
            return
        yield from stream.decode(packet)


def _count_contiguous(file: Path | BytesIO, fps: float) -> int:
    """Counts the frames before the first gap in a truncated file, which does not store frames in temporal order."""
    times: list[float] = []
    with open_video(file) as (container, stream), suppress(av.FFmpegError):
        for frame in _readable_frames(container, stream):
            if times and frame.time - times[-1] > 1.5 / fps:
                break
            times.append(frame.time)
    return len(times)


@contextmanager
def open_video(file: Path | BytesIO) -> Iterator[tuple[InputContainer, VideoStream]]:
    """Opens the first video stream of a file, not its cover. Errors of ffmpeg become `VideoFileError`."""
    if isinstance(file, BytesIO):
        file.seek(0)
    try:
        # A name with a colon would be taken for a protocol. Playlists and ffconcat files name others and are refused.
        source = file if isinstance(file, BytesIO) else f"file:{file}"
        with av.open(source, options={"format_whitelist": CONTAINERS}) as container:
            streams = [one for one in container.streams.video if not one.disposition & Disposition.attached_pic]
            if not streams:
                found = "only the picture of a cover" if container.streams.video else "no video stream"
                raise VideoFileError(_name(file), found, "needs a complete video file, not only an audio track")
            stream = streams[0]
            if stream.codec_context is None:
                raise VideoFileError(_name(file), "a stream without a known codec", "needs a complete video file")
            yield container, stream
    except (av.FFmpegError, UnicodeDecodeError) as error:  # the latter from damaged metadata
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise VideoFileError(
            _name(file), "unreadable", f"needs a complete video or image file; copy or convert it again ({reason})"
        ) from error


def _name(file: Path | BytesIO) -> str:
    return str(file) if isinstance(file, Path) else "video in memory"


def _frame_rate(times: list[float], fps: float, tick: float) -> tuple[float, bool]:
    """Returns the rate of sorted frame times [s] and whether it is constant; `tick` is their resolution [s]."""
    if len(times) < 2 or tick * fps >= 1 or times[-1] <= times[0]:
        return fps, True
    mean = (len(times) - 1) / (times[-1] - times[0])
    if tick >= 0.01:  # a GIF stores hundredths of a second, which do not distinguish 30 fps from 29.97 fps
        fps = round(fps)
    for rate, tolerance in ((fps, 1.01 * tick), (mean, 0.25 / mean)):
        if rate and max(abs(time - times[0] - k / rate) for k, time in enumerate(times)) <= tolerance:
            return rate, True
    return mean, False


def _is_lossy(codec: str, pixels: str | None) -> bool:
    """Whether storing loses more than the rounding of each channel."""
    if codec == "gif" or Codec(codec, "r").lossy:
        return True
    components = VideoFormat(pixels).components if pixels else ()
    return any(part.width < components[0].width for part in components)


def _decoded_frame(frame: VideoFrame, short_side: int | None) -> DecodedFrame:
    size = (frame.height, frame.width)
    factor = 1 if short_side is None else math.ceil(min(size) / short_side)
    image = _rgb(frame, factor)
    turns = round(frame.rotation / 90)
    image = np.rot90(image, turns) if turns else image
    return DecodedFrame(frame.time, frame.pts, size[::-1] if turns % 2 else size, image)


def _rgb(frame: VideoFrame, factor: int = 1) -> Any:
    """Converts a frame to RGB [H, W, 3] by the colour matrix and range that the file states, reduced by a factor."""
    name = frame.format.name
    if name.startswith(SIXTEEN_BIT_FORMATS) and factor == 1:
        image = np.atleast_3d(frame.to_ndarray())[..., :3]
        return np.broadcast_to(image, (*image.shape[:2], 3))
    is_full = name.startswith("yuvj") or frame.format.is_rgb or frame.color_range == ColorRange.JPEG
    # Files without a stated matrix are most likely written by ffmpeg, whose default is BT.601.
    matrix = frame.colorspace if frame.colorspace in SUPPORTED_MATRICES else int(Colorspace.ITU601)
    converted = frame.reformat(
        width=round(frame.width / factor),
        height=round(frame.height / factor),
        format="rgb24",
        src_colorspace=matrix,
        src_color_range=ColorRange.JPEG if is_full else ColorRange.MPEG,
        dst_color_range=ColorRange.JPEG,
        interpolation=ACCURATE_SWSCALE if factor == 1 else AREA_SWSCALE,
    )
    return converted.to_ndarray()
