"""Videos and images of panels side by side, as data URIs that a page can embed."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch

from gradsim.video.encoders import png_bytes, to_bytes
from gradsim.video.save import save_video

PANEL_HEIGHT = 384  # [px], that small panels are enlarged to, approximately
GAP = 8  # [px], between panels
GAINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
QUALITY = 14  # crf of H.264 at which small differences stay visible


def difference_gain(difference: torch.Tensor) -> int:
    """Returns the largest gain at which 99.9 % of the values stay within the displayable range."""
    size = float(difference.abs().flatten().kthvalue(max(1, round(0.999 * difference.numel()))).values)
    return max((gain for gain in GAINS if gain * size <= 0.5), default=1)


def amplified(difference: torch.Tensor, gain: int) -> torch.Tensor:
    """Returns an image of an amplified difference, grey where it is zero."""
    return (0.5 + gain * difference).clamp(0, 1)


def side_by_side(panels: Sequence[torch.Tensor]) -> torch.Tensor:
    """Joins panels [T, h, w, 3] into one video [T, H, W, 3], enlarged, with even sides as H.264 requires."""
    enlarged = [_enlarged(panel) for panel in panels]
    count, height, _, _ = enlarged[0].shape
    gap = enlarged[0].new_full((count, height, GAP, 3), 0.5)
    parts: list[torch.Tensor] = []
    for panel in enlarged:
        parts += [gap, panel] if parts else [panel]
    video = torch.cat(parts, 2)
    return torch.nn.functional.pad(video, (0, 0, 0, video.shape[2] % 2, 0, height % 2), value=0.5)


def _enlarged(video: torch.Tensor) -> torch.Tensor:
    """Repeats whole pixels up to about the panel height."""
    factor = max(1, round(PANEL_HEIGHT / video.shape[1]))
    return video.repeat_interleave(factor, 1).repeat_interleave(factor, 2)


def mp4_uri(video: torch.Tensor, fps: float) -> str:
    """Encodes a video [T, H, W, 3] as a data URI."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "video.mp4"
        save_video(file, video, fps, quality=QUALITY)
        return file_uri(file)


def file_uri(file: Path) -> str:
    """Returns an mp4 file as a data URI."""
    return _uri("video/mp4", file.read_bytes())


def png_uri(image: torch.Tensor) -> str:
    """Encodes an image [H, W, 3] as a data URI."""
    return _uri("image/png", png_bytes(to_bytes(image)))


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
