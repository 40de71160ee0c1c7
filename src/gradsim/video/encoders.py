"""Encoders for video and image files, through PyAV."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
import torch
from av.filter import Graph
from av.filter.context import FilterContext
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange, Colorspace
from av.video.stream import VideoStream
from numpy.typing import NDArray

from gradsim.video.decode import ACCURATE_SWSCALE

# Codes of the colour matrix, primaries and transfer function in files.
BT601, BT709 = 6, 1


@dataclass(frozen=True)
class Encoder:
    """Settings of one codec."""

    name: str  # ffmpeg's name of the encoder
    pixel_format: str = "yuv420p"
    quality_option: str | None = None  # option that sets the quality, lower is better
    best: int = 0
    default: int = 0  # visually nearly lossless
    worst: int = 0
    matrix: int = BT709  # colour matrix; BT.601 for files that cannot state theirs, as readers assume it
    chroma: str | None = None  # place of chroma samples that readers assume; None for the middle of four pixels
    options: tuple[tuple[str, str], ...] = ()


ENCODERS = {
    "h264": Encoder("libx264", quality_option="crf", default=18, worst=51, chroma="left"),
    "hevc": Encoder(
        "libx265",
        quality_option="crf",
        default=20,
        worst=51,
        chroma="left",
        options=(("x265-params", "log-level=none:pools=1"),),
    ),
    "vp9": Encoder("libvpx-vp9", quality_option="crf", default=24, worst=63, options=(("b", "0"),)),
    "vp8": Encoder("libvpx", quality_option="crf", best=4, default=8, worst=63, matrix=BT601, options=(("b", "100M"),)),
    "av1": Encoder(
        "libsvtav1", quality_option="crf", best=1, default=24, worst=63, options=(("svtav1-params", "lp=1"),)
    ),
    "mpeg4": Encoder("mpeg4", quality_option="qscale", best=2, default=2, worst=31, matrix=BT601, chroma="left"),
    "mjpeg": Encoder("mjpeg", "yuvj420p", quality_option="qscale", best=2, default=2, worst=31, matrix=BT601),
    "ffv1": Encoder("ffv1", "bgr0"),
    "gif": Encoder("gif", "pal8"),
}


class Images(Protocol):
    """8-bit images [T, H, W, 3]: an array, or an object that makes each image when it is asked for."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __getitem__(self, number: int, /) -> NDArray[np.uint8]: ...


def write_video(
    target: Path | BytesIO,
    images: Images,
    fps: float,
    encoder: Encoder,
    quality: float | None,
    *,
    pixel_format: str | None = None,
    container: str | None = None,
) -> None:
    """Encodes 8-bit images [T, H, W, 3] into a file. One thread is used, so that the output is deterministic."""
    _, height, width, _ = images.shape
    rate = Fraction(fps).limit_denominator(100_000)
    os.environ.setdefault("SVT_LOG", "1")  # errors only: by default the AV1 encoder prints a page of settings
    suffix = target.suffix if isinstance(target, Path) else ""
    settings = {"movflags": "+faststart"} if suffix in (".mp4", ".mov") else {}
    if suffix in (".mkv", ".webm"):
        settings["fflags"] = "+bitexact"  # otherwise the file has random identifiers
    with av.open(
        target if isinstance(target, BytesIO) else str(target), "w", format=container, options=settings
    ) as output:
        options = dict(encoder.options)
        if encoder.quality_option == "crf":
            options["crf"] = f"{quality:g}"
        if encoder.name == "libx264" and torch.backends.cpu.get_cpu_capability() == "AVX512":
            # Its AVX-512 code reads uninitialized memory, which makes the output differ from run to run.
            options["x264-params"] = "asm=AVX2"
        stream: Any = output.add_stream(encoder.name, rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, pixel_format or encoder.pixel_format
        context = stream.codec_context
        context.thread_count = 1
        if encoder.quality_option == "qscale":
            context.qmin = context.qmax = round(quality or encoder.default)
        if stream.pix_fmt.startswith("yuv"):
            context.colorspace = context.color_primaries = context.color_trc = encoder.matrix
            context.color_range = ColorRange.JPEG if stream.pix_fmt.startswith("yuvj") else ColorRange.MPEG
        if stream.pix_fmt == "pal8":
            frames = _paletted_frames(images)
        else:
            frames = (_converted_frame(frame, stream) for frame in _sited_frames(images, encoder.chroma))
        for number, frame in enumerate(frames):
            frame.pts, frame.time_base = number, 1 / rate
            output.mux(stream.encode(frame))
        output.mux(stream.encode())


def png_bytes(image: NDArray[np.uint8]) -> bytes:
    """Returns the content of a PNG file of an image [H, W, 3]."""
    context: Any = av.CodecContext.create("png", "w")
    context.height, context.width, context.pix_fmt, context.time_base = *image.shape[:2], "rgb24", Fraction(1, 30)
    frame = VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    return b"".join(bytes(packet) for packet in [*context.encode(frame), *context.encode(None)])


def to_bytes(frames: torch.Tensor) -> NDArray[np.uint8]:
    """Rounds values in [0, 1] to 8 bits."""
    return (frames.detach() * 255).round_().to(torch.uint8).cpu().numpy()


def _converted_frame(frame: VideoFrame, stream: VideoStream) -> VideoFrame:
    """Converts a frame to the pixel format of a stream."""
    return frame.reformat(
        format=stream.pix_fmt,
        dst_colorspace=Colorspace.ITU709 if stream.codec_context.colorspace == BT709 else Colorspace.ITU601,
        src_color_range=ColorRange.JPEG,
        dst_color_range=stream.codec_context.color_range,
        interpolation=ACCURATE_SWSCALE,
    )


def _sited_frames(images: Images, chroma: str | None) -> Iterator[VideoFrame]:
    """Yields frames whose conversion puts chroma samples at a place, such as "left": between two rows of pixels."""
    graph, source, sink = _graph(images)
    place = graph.add("setparams", f"chroma_location={chroma or 'unspecified'}")
    source.link_to(place)
    place.link_to(sink)
    graph.configure()
    yield from _filtered(images, source, sink)


def _paletted_frames(images: Images) -> Iterator[VideoFrame]:
    """Yields frames with a palette of 256 colours each, so that images with few colours are stored exactly."""
    graph, source, sink = _graph(images)
    split = graph.add("split")
    generate = graph.add("palettegen", "stats_mode=single:reserve_transparent=0")
    use = graph.add("paletteuse", "new=1:dither=none")
    source.link_to(split)
    split.link_to(use, 0, 0)
    split.link_to(generate, 1, 0)
    generate.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    yield from _filtered(images, source, sink)


def _graph(images: Images) -> tuple[Graph, FilterContext, FilterContext]:
    """Returns a graph of filters for images, with a source and a sink."""
    _, height, width, _ = images.shape
    graph = Graph()
    source = graph.add_buffer(width=width, height=height, format=VideoFormat("rgb24"), time_base=Fraction(1, 1))
    return graph, source, graph.add("buffersink")


def _filtered(images: Images, source: FilterContext, sink: FilterContext) -> Iterator[VideoFrame]:
    for number in range(images.shape[0]):
        frame = VideoFrame.from_ndarray(np.ascontiguousarray(images[number]), format="rgb24")
        frame.pts, frame.time_base = number, Fraction(1, 1)
        source.push(frame)
        yield sink.pull()  # type: ignore[misc]
