"""The `Video` type: frames, their rate, and how they were stored."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import OutOfRange, WrongShape, WrongType
from gradsim.scene.html import to_html
from gradsim.video.downsample import downsample

FASTEST = 1e30  # [1/s]


@dataclass(frozen=True)
class Encoding:
    """How a video was stored. `gradsim.video.encode` uses it to store other frames in the same way."""

    codec: str = "raw"  # ffmpeg's name: "h264", "png", ...; "raw" for arrays
    lossy: bool = False  # loses more than the rounding to `depth`: residuals of a fit are then not white noise
    depth: int | None = None  # bits per channel; None for floating-point numbers
    pixel_format: str | None = None  # ffmpeg's name, such as "yuv420p"
    size: tuple[int, int] | None = None  # frame size (H, W) [px], after cropping and before downsampling
    frame_bits: float | None = None  # mean size of a frame [bit]
    quality: float | None = None  # the encoder's crf or quantizer, lower is better; None if the file does not state it
    linear: bool = False  # whether the values were converted from sRGB to linear light after reading


@dataclass(frozen=True, eq=False)
class Video:
    """Frames in [0, 1] at a constant rate. `video[3:7]` selects frames, `video[::2]` halves the rate.

    Example:
        `gs.Video(gs.render(scene, trajectory, (32, 32)).clamp(0, 1), fps=30.0)`

    Args:
        frames: Images [T, H, W, 3].
        fps: Frames per second; None if the file does not state it.
        source: The file or folder that was loaded.
        encoding: How it was stored there.
    """

    frames: torch.Tensor = field(repr=False)
    fps: float | None = None  # [1/s]
    source: Path | None = None
    encoding: Encoding = Encoding()

    def __post_init__(self) -> None:
        if not isinstance(self.frames, torch.Tensor) or not self.frames.is_floating_point():
            kind = getattr(self.frames, "dtype", type(self.frames).__name__)
            raise WrongType("video.frames", kind, "must be a floating-point tensor [T, H, W, 3]")
        if self.frames.ndim != 4 or self.frames.shape[-1] != 3 or 0 in self.frames.shape:
            raise WrongShape("video.frames", f"shape {tuple(self.frames.shape)}", "must be [T, H, W, 3], without batch")
        checked_fps(self.fps)

    def __len__(self) -> int:
        return len(self.frames)

    def __repr__(self) -> str:
        height, width = self.size
        rate = "unknown rate" if self.fps is None else f"{self.fps:g} fps"
        origin = "" if self.source is None else f", {self.codec} from {self.source}"
        return f"Video({len(self)} frames of {height} x {width} at {rate}{origin})"

    def _repr_html_(self) -> str:
        return to_html(self)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the frames [px]."""
        return self.frames.shape[1], self.frames.shape[2]

    @property
    def codec(self) -> str:
        """The codec by ffmpeg's name: "h264", "png", ...; "raw" for arrays."""
        return self.encoding.codec

    @property
    def lossy(self) -> bool:
        """Whether storing the video lost more than the rounding of values."""
        return self.encoding.lossy

    def __getitem__(self, key: int | slice) -> Video:
        if not isinstance(key, slice):
            frame = operator.index(key)
            if not -len(self) <= frame < len(self):
                raise IndexError(f"frame {frame}: the video has {len(self)} frames")
            key = slice(frame % len(self), frame % len(self) + 1)
        if key.step is not None and key.step < 1:
            raise OutOfRange("frame step", key.step, "must be >= 1: a video cannot be reversed")
        fps = None if self.fps is None else self.fps / (key.step or 1)
        return replace(self, frames=self.frames[key], fps=fps)

    def downsample(self, size: tuple[int, int]) -> Video:
        """Returns the video at a smaller size (H, W) [px] of the same aspect ratio, averaged over areas."""
        check_aspect_ratio(self.size, checked_pixels("size", size))
        return replace(self, frames=downsample(self.frames, size))


def checked_fps(fps: float | None) -> float | None:
    """Returns a frame rate, or raises unless it is None or positive and finite."""
    number = isinstance(fps, (int, float)) and not isinstance(fps, bool)
    if fps is not None and not (number and 0 < fps <= FASTEST):
        raise OutOfRange("fps", fps, "must be a number of frames per second, > 0")
    return fps


def check_aspect_ratio(old: tuple[int, int], new: tuple[int, int]) -> None:
    """Raises if resizing from one (H, W) to another changes the aspect ratio by more than rounding to whole pixels."""
    height, width = new[1] * old[0] / old[1], new[0] * old[1] / old[0]
    if abs(height - new[0]) < 1 or abs(width - new[1]) < 1:
        return
    scale = min(old[0] // new[0], old[1] // new[1])
    part = (scale * new[0], scale * new[1])
    corner = ((old[0] - part[0]) // 2, (old[1] - part[1]) // 2)
    remedy = f"would change the aspect ratio of {old[0]} x {old[1]} pixels: use ({new[0]}, {round(width)})"
    if scale > 0:
        remedy += f", or crop to that aspect ratio when loading, such as crop={(*corner, *part)}"
    raise OutOfRange("size", new, remedy)
