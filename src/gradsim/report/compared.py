"""A video beside its fit: observed, fitted and what is left, as one film a page can hold."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from gradsim.fit.observations import Pixels, Trial
from gradsim.render.render import render
from gradsim.video.encode import png_bytes, to_bytes
from gradsim.video.save import save_video

PANEL = 384  # [px], least height a panel is shown at
GAP = 8  # [px], between panels
GAINS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
QUALITY = 14  # of H.264: good enough to see small differences


@dataclass(frozen=True)
class Comparison:
    """A film of panels, as data URIs."""

    labels: tuple[str, ...]
    caption: str
    video: str
    poster: str
    height: int  # [px]
    width: int


def compared(trial: Trial, values: Mapping[str, torch.Tensor]) -> Comparison | None:
    """What was seen beside what the fitted scene shows; None where there is nothing to see."""
    observation = trial.observation
    if trial.scene.camera is None or not isinstance(observation, Pixels):
        return None
    seen = observation.video.clamp(0, 1)
    size = (seen.shape[1], seen.shape[2])
    with torch.no_grad():
        scene, trajectory = trial.moved(values, len(seen))
        fitted = render(scene, trajectory, size, observation.renderer)
    fitted = fitted.clamp(0, 1).to(seen.dtype)
    left = observation.mixed(fitted) - observation.mixed(seen)
    left = left.expand_as(seen)
    gain = _gain(left)
    panels = [seen, fitted, (0.5 + gain * left).clamp(0, 1)]
    film = _beside([_enlarged(panel) for panel in panels])
    scale = film.shape[1] // seen.shape[1]
    caption = (
        f"{len(seen)} frames of {seen.shape[1]} x {seen.shape[2]} pixels at {trial.clock.fps:g} a second, as they were "
        f"compared{f', each pixel shown {scale} times as large' if scale > 1 else ''}. The difference, fitted minus "
        f"observed{' in brightness' if observation.channels is not None else ''}, is {gain} times as strong as it is; "
        "grey is none."
    )
    height, width = film.shape[1:3]
    labels = ("observed", "fitted", f"difference × {gain}")
    return Comparison(labels, caption, _mp4(film, trial.clock.fps), _png(film[len(film) // 3]), height, width)


def _gain(left: torch.Tensor) -> int:
    """The strongest by which nearly all of a difference stays within what can be shown."""
    size = float(left.abs().flatten().kthvalue(max(1, round(0.999 * left.numel()))).values)
    return max((gain for gain in GAINS if gain * size <= 0.5), default=1)


def _enlarged(video: torch.Tensor) -> torch.Tensor:
    """Whole pixels repeated until there are enough to look at."""
    times = max(1, round(PANEL / video.shape[1]))
    return video.repeat_interleave(times, 1).repeat_interleave(times, 2)


def _beside(panels: list[torch.Tensor]) -> torch.Tensor:
    """One film [T, H, W, 3] with even sides, as H.264 wants them."""
    count, height, _, _ = panels[0].shape
    gap = panels[0].new_full((count, height, GAP, 3), 0.5)
    parts: list[torch.Tensor] = []
    for panel in panels:
        parts += [gap, panel] if parts else [panel]
    film = torch.cat(parts, 2)
    return torch.nn.functional.pad(film, (0, 0, 0, film.shape[2] % 2, 0, height % 2), value=0.5)


def _mp4(film: torch.Tensor, fps: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "film.mp4"
        save_video(file, film, fps, quality=QUALITY)
        return _uri("video/mp4", file.read_bytes())


def _png(picture: Any) -> str:
    return _uri("image/png", png_bytes(to_bytes(picture)))


def _uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
