"""Films and pictures of panels side by side, as a page can hold them."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from gradsim.video.encoders import png_bytes, to_bytes
from gradsim.video.save import save_video

PANEL = 384  # [px], least height a panel is shown at
GAP = 8  # [px], between panels
GAINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
QUALITY = 14  # of H.264: good enough to see small differences


def gain_of(left: torch.Tensor) -> int:
    """The strongest by which nearly all of a difference stays within what can be shown."""
    size = float(left.abs().flatten().kthvalue(max(1, round(0.999 * left.numel()))).values)
    return max((gain for gain in GAINS if gain * size <= 0.5), default=1)


def strengthened(left: torch.Tensor, gain: int) -> torch.Tensor:
    """A difference to look at: grey is none."""
    return (0.5 + gain * left).clamp(0, 1)


def beside(panels: Sequence[torch.Tensor]) -> torch.Tensor:
    """One film [T, H, W, 3] of panels [T, h, w, 3], large enough to look at, with even sides as H.264 wants them."""
    large = [_enlarged(panel) for panel in panels]
    count, height, _, _ = large[0].shape
    gap = large[0].new_full((count, height, GAP, 3), 0.5)
    parts: list[torch.Tensor] = []
    for panel in large:
        parts += [gap, panel] if parts else [panel]
    film = torch.cat(parts, 2)
    return torch.nn.functional.pad(film, (0, 0, 0, film.shape[2] % 2, 0, height % 2), value=0.5)


def _enlarged(video: torch.Tensor) -> torch.Tensor:
    """Whole pixels repeated until there are enough to look at."""
    times = max(1, round(PANEL / video.shape[1]))
    return video.repeat_interleave(times, 1).repeat_interleave(times, 2)


def mp4_uri(film: torch.Tensor, fps: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.mp4"
        save_video(file, film, fps, quality=QUALITY)
        return file_uri(file)


def file_uri(file: Path) -> str:
    """An mp4 file, within the page."""
    return _uri("video/mp4", file.read_bytes())


def png_uri(picture: Any) -> str:
    """A picture [H, W, 3], within the page."""
    return _uri("image/png", png_bytes(to_bytes(picture)))


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
