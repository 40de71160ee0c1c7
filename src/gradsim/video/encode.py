"""Pictures into files, through PyAV, and the same in memory: what compression does to a video."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from av.codec import Codec
from av.filter import Graph
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from gradsim.scene.errors import WrongShape, WrongType
from gradsim.video.area import reduced
from gradsim.video.decode import PRECISE, contents, decoded
from gradsim.video.transfer import from_light, to_light
from gradsim.video.video import Video

# The numbers of their matrix, primaries and transfer curve in files.
BT601, BT709 = 6, 1


@dataclass(frozen=True)
class Encoder:
    """How one codec is driven."""

    name: str  # ffmpeg's name of the encoder
    pixel_format: str = "yuv420p"
    knob: str | None = None  # the option that sets the quality, lower is better
    best: int = 0
    good: int = 0  # hard to tell from the original
    worst: int = 0
    matrix: int = BT709  # of colours; some files cannot name it, and are read by BT.601
    options: tuple[tuple[str, str], ...] = ()


ENCODERS = {
    "h264": Encoder("libx264", knob="crf", good=18, worst=51),
    "hevc": Encoder("libx265", knob="crf", good=20, worst=51, options=(("x265-params", "log-level=none:pools=1"),)),
    "vp9": Encoder("libvpx-vp9", knob="crf", good=24, worst=63, options=(("b", "0"),)),
    "vp8": Encoder("libvpx", knob="crf", best=4, good=8, worst=63, matrix=BT601, options=(("b", "100M"),)),
    "av1": Encoder("libsvtav1", knob="crf", best=1, good=24, worst=63, options=(("svtav1-params", "lp=1"),)),
    "mpeg4": Encoder("mpeg4", knob="qscale", best=2, good=2, worst=31, matrix=BT601),
    "mjpeg": Encoder("mjpeg", "yuvj420p", knob="qscale", best=2, good=2, worst=31, matrix=BT601),
    "ffv1": Encoder("ffv1", "bgr0"),
    "gif": Encoder("gif", "pal8"),
}


def encode(frames: torch.Tensor, like: Video) -> Video:
    """Store frames as another video was stored, and read them again: what its compression does to them.

    The same codec is used, at the quality the file names, else at one that gives frames of the same size in bits; the
    search for it is saved by passing the result as `like` the next time. Lossless videos are rounded only.

    Args:
        frames: Pictures [T, H, W, 3] in [0, 1], of the size they have in the file, `like.encoding.size`.
        like: A loaded video.

    Returns:
        The frames as they would have been loaded, reduced to the size of `like`, without gradient.

    Raises:
        WrongShape: The frames have another size.
        WrongType: There is no encoder for that codec.
    """
    stored = like.encoding
    size = stored.size or like.size
    if frames.ndim != 4 or tuple(frames.shape[1:]) != (*size, 3):
        wanted = f"must be [T, {size[0]}, {size[1]}, 3], the size in the file: render with size={size}"
        raise WrongShape("frames", f"shape {tuple(frames.shape)}", wanted)
    values = frames.detach().clamp(0, 1)
    values = from_light(values) if stored.linear else values
    if stored.lossy:
        values, stored = _compressed(values, like)
    elif stored.depth:
        levels = 2**stored.depth - 1
        values = (values * levels).round() / levels
    values = to_light(values) if stored.linear else values
    return Video(reduced(values, like.size), like.fps, like.source, stored)


def write_video(
    target: Path | BytesIO,
    pictures: NDArray[np.uint8],
    fps: float,
    encoder: Encoder,
    quality: float | None,
    *,
    pixel_format: str | None = None,
    container: str | None = None,
) -> None:
    """Encode 8-bit pictures [T, H, W, 3] into a file, by one thread, so that the result hangs on nothing else."""
    count, height, width, _ = pictures.shape
    rate = Fraction(fps).limit_denominator(100_000)
    os.environ.setdefault("SVT_LOG", "1")  # errors only: the AV1 encoder would print a page of settings
    with av.open(
        target if isinstance(target, BytesIO) else str(target),
        "w",
        format=container,
        options={"movflags": "+faststart"} if isinstance(target, Path) and target.suffix in (".mp4", ".mov") else {},
    ) as output:
        options = dict(encoder.options) | ({encoder.knob: f"{quality:g}"} if encoder.knob == "crf" else {})
        if encoder.name == "libx264" and torch.backends.cpu.get_cpu_capability() == "AVX512":
            options["x264-params"] = "asm=AVX2"  # its AVX-512 code reads memory it never wrote: no two files alike
        stream: Any = output.add_stream(encoder.name, rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format or encoder.pixel_format
        context = stream.codec_context
        context.thread_count = 1
        if encoder.knob == "qscale":
            context.qmin = context.qmax = round(quality or encoder.good)
        if stream.pix_fmt.startswith("yuv"):
            context.colorspace = context.color_primaries = context.color_trc = encoder.matrix
            context.color_range = ColorRange.JPEG if stream.pix_fmt.startswith("yuvj") else ColorRange.MPEG
        palette = _with_palettes(pictures, rate) if stream.pix_fmt == "pal8" else None
        for number in range(count):
            frame = next(palette) if palette else _converted(pictures[number], stream)
            frame.pts, frame.time_base = number, 1 / rate
            output.mux(stream.encode(frame))
        output.mux(stream.encode())


def png_bytes(picture: NDArray[np.uint8]) -> bytes:
    """The content of a PNG file of a picture [H, W, 3]."""
    context: Any = av.CodecContext.create("png", "w")
    context.height, context.width, context.pix_fmt, context.time_base = *picture.shape[:2], "rgb24", Fraction(1, 30)
    frame = VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])


def to_bytes(frames: torch.Tensor) -> NDArray[np.uint8]:
    """Values in [0, 1], rounded to 8 bits."""
    return (frames.detach() * 255).round().to(torch.uint8).cpu().numpy()


def _converted(picture: NDArray[np.uint8], stream: VideoStream) -> VideoFrame:
    frame = VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return frame.reformat(
        format=stream.pix_fmt,
        dst_colorspace=Colorspace.ITU709 if stream.codec_context.colorspace == BT709 else Colorspace.ITU601,
        src_color_range=ColorRange.JPEG,
        dst_color_range=stream.codec_context.color_range,
        interpolation=PRECISE,
    )


def _with_palettes(pictures: NDArray[np.uint8], rate: Fraction) -> Iterator[VideoFrame]:
    """Frames of at most 256 colours, each with a palette of its own, so that few colours are kept exactly."""
    count, height, width, _ = pictures.shape
    graph = Graph()
    source = graph.add_buffer(width=width, height=height, format=VideoFormat("rgb24"), time_base=1 / rate)
    split = graph.add("split")
    find = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
    use = graph.add("paletteuse", "new=1:dither=none")
    sink = graph.add("buffersink")
    source.link_to(split)
    split.link_to(use, 0, 0)
    split.link_to(find, 1, 0)
    find.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    for number in range(count):
        frame = VideoFrame.from_ndarray(np.ascontiguousarray(pictures[number]), format="rgb24")
        frame.pts, frame.time_base = number, 1 / rate
        source.push(frame)
        yield sink.pull()  # type: ignore[misc]


def _compressed(values: torch.Tensor, like: Video) -> tuple[torch.Tensor, Any]:
    """Values after the codec of a video, and its encoding with the quality filled in."""
    stored = like.encoding
    encoder = ENCODERS.get(stored.codec)
    if encoder is None:
        raise WrongType("like.codec", stored.codec, f"needs one that can be written: {', '.join(ENCODERS)}")
    height, width = values.shape[1:3]
    pictures = to_bytes(values)
    if encoder.pixel_format != "pal8":  # chroma is stored for squares of four pixels
        pictures = np.pad(pictures, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")

    def written(quality: float | None) -> BytesIO:
        file = BytesIO()
        container = "gif" if encoder.name == "gif" else "matroska"
        pixels = _pixel_format(encoder, stored.pixel_format)
        write_video(file, pictures, like.fps or 30.0, encoder, quality, pixel_format=pixels, container=container)
        return file

    quality = stored.quality
    if encoder.knob is not None and quality is None:
        quality = _matching_quality(encoder, written, stored.frame_bits or 0.0)
    file = written(quality)
    frames = np.stack(list(decoded(file, range(len(pictures)))))[:, :height, :width]
    result = torch.from_numpy(frames).to(values) / 255
    return result, replace(stored, quality=quality)


def _pixel_format(encoder: Encoder, wanted: str | None) -> str:
    """The pixel format of a video where its encoder has it."""
    formats = [item.name for item in Codec(encoder.name, "w").video_formats or ()]
    return wanted if wanted in formats and not wanted.startswith("yuvj") else encoder.pixel_format


def _matching_quality(encoder: Encoder, written: Callable[[float], BytesIO], frame_bits: float) -> float:
    """The quality at which frames come closest to a size [bit], by bisection: worse ones are smaller."""
    sizes: dict[int, float] = {}

    def gap(quality: int) -> float:
        if quality not in sizes:
            sizes[quality] = contents(written(quality)).encoding.frame_bits or 0.0
        return math.log(max(sizes[quality], 1.0)) - math.log(max(frame_bits, 1.0))

    low, high = encoder.best, encoder.worst
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if gap(middle) > 0 else (low, middle)
    return min((low, high, *sizes), key=lambda quality: abs(gap(quality)))
