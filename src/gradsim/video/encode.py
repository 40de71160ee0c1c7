"""Compression in memory: what the encoding of a video does to other frames."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO

import numpy as np
import torch
from av.codec import Codec

from gradsim.scene.errors import WrongShape, WrongType
from gradsim.video.decode import decode_frames, probe
from gradsim.video.downsample import downsample
from gradsim.video.encoders import ENCODERS, Encoder, to_bytes, write_video
from gradsim.video.srgb import linear_to_srgb, srgb_to_linear
from gradsim.video.video import Encoding, Video


def encode(frames: torch.Tensor, like: Video) -> Video:
    """Encodes frames in the way another video was encoded, and decodes them again.

    The result shows what the compression of `like` does to the frames. The codec is the same. The quality is the one
    stated in the file, or else the one that gives frames of the same size in bits; pass the result as `like` in the
    next call to skip the search for it. For lossless videos the frames are only rounded.

    Args:
        frames: Images [T, H, W, 3] in [0, 1], of the frame size in the file, `like.encoding.size`.
        like: A loaded video.

    Returns:
        The frames as `gs.load_video` would return them, downsampled to the size of `like`, without gradient.

    Raises:
        WrongShape: The frames have another size.
        WrongType: There is no encoder for that codec.
    """
    stored = like.encoding
    size = stored.size or like.size
    if frames.ndim != 4 or tuple(frames.shape[1:]) != (*size, 3):
        valid = f"must be [T, {size[0]}, {size[1]}, 3], the size in the file: render with size={size}"
        raise WrongShape("frames", f"shape {tuple(frames.shape)}", valid)
    values = frames.detach().clamp(0, 1)
    values = linear_to_srgb(values) if stored.linear else values
    if stored.lossy:
        values, stored = _recompress(values, like)
    elif stored.depth:
        levels = 2**stored.depth - 1
        values = (values * levels).round() / levels
    values = srgb_to_linear(values) if stored.linear else values
    return Video(downsample(values, like.size), like.fps, like.source, stored)


def _recompress(values: torch.Tensor, like: Video) -> tuple[torch.Tensor, Encoding]:
    """Returns values after a round trip through the codec of `like`, and its encoding with the quality filled in."""
    stored = like.encoding
    encoder = ENCODERS.get(stored.codec)
    if encoder is None:
        raise WrongType("like.codec", stored.codec, f"must be one that can be encoded: {', '.join(ENCODERS)}")
    height, width = values.shape[1:3]
    images = to_bytes(values)
    if encoder.pixel_format != "pal8":  # chroma is stored for blocks of 2 x 2 pixels
        images = np.pad(images, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")

    def write(quality: float | None) -> BytesIO:
        file = BytesIO()
        container = "gif" if encoder.name == "gif" else "matroska"
        pixels = _pixel_format(encoder, stored.pixel_format)
        write_video(file, images, like.fps or 30.0, encoder, quality, pixel_format=pixels, container=container)
        return file

    quality = stored.quality
    if encoder.quality_option is not None and quality is None:
        quality = _matching_quality(encoder, write, stored.frame_bits or 0.0)
    frames = np.stack(list(decode_frames(write(quality), range(len(images)))))[:, :height, :width]
    return torch.from_numpy(frames).to(values) / 255, replace(stored, quality=quality)


def _pixel_format(encoder: Encoder, stored: str | None) -> str:
    """Returns the stored pixel format if the encoder supports it, else the encoder's default."""
    formats = [item.name for item in Codec(encoder.name, "w").video_formats or ()]
    return stored if stored in formats and not stored.startswith("yuvj") else encoder.pixel_format


def _matching_quality(encoder: Encoder, write: Callable[[float], BytesIO], frame_bits: float) -> float:
    """Finds the quality whose mean frame size is closest to `frame_bits`, by bisection: worse quality is smaller."""
    sizes: dict[int, float] = {}

    def log_ratio(quality: int) -> float:
        if quality not in sizes:
            sizes[quality] = probe(write(quality)).encoding.frame_bits or 0.0
        return math.log(max(sizes[quality], 1.0)) - math.log(max(frame_bits, 1.0))

    low, high = encoder.best, encoder.worst
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if log_ratio(middle) > 0 else (low, middle)
    return min((low, high, *sizes), key=lambda quality: abs(log_ratio(quality)))
