"""Videos of the true scenes, recorded by other means than those of a fit.

The motion is integrated by the classical Runge-Kutta method with many small steps, images are rendered at twice the
resolution and downsampled, and noise is added.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import soft_ground
from gradsim.experiments.model_error.scenes import FPS, Family
from gradsim.fit.simulation import simulate_over
from gradsim.render.exact import Exact
from gradsim.render.render import render
from gradsim.render.renderer import Renderer
from gradsim.scene.camera import Camera
from gradsim.scene.integrators import RungeKutta4
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory
from gradsim.video.downsample import downsample
from gradsim.video.load import load_video
from gradsim.video.save import save_video

SIZE = 64  # of the videos [px]
OVERSAMPLING = 2  # pixels of a rendered image per pixel of the video, along each axis
NOISE = 0.01  # standard deviation of a pixel
SUBFRAMES = 8  # rendered images per frame where the shutter matters

Frames = torch.Tensor  # [T, H, W, 3]


@dataclass(frozen=True)
class Recording:
    """How a scene is recorded."""

    fps: float = FPS  # true frame rate [1/s]; the fit assumes `FPS`
    delay: float = 0.0  # time from the start of the scene to the first frame [frames]
    shutter: float = 0.0  # exposure [frames]
    rolling: float = 0.0  # delay of the last row of an image [frames]
    shake: float = 0.0  # standard deviation of the camera's position in each frame [m]
    renderer: Renderer = Exact()
    noise: float = NOISE
    codec: str = ""  # "", "8 bit" or "h264"
    edit: Callable[[Frames, np.random.Generator], Frames] | None = None  # of the frames without noise

    def record(self, family: Family, scene: Scene, seeds: Sequence[int]) -> Any:
        """Returns the video [T, H, W, 3] of a scene; a `Video` if it is compressed."""
        rng = np.random.default_rng([*seeds, 3])
        frames = self._render(family, scene, rng)
        if self.edit is not None:
            frames = self.edit(frames, rng)
        frames = frames + self.noise * torch.tensor(rng.normal(size=tuple(frames.shape)))
        if self.codec == "8 bit":
            return (frames.clamp(0.0, 1.0) * 255.0).round() / 255.0
        return _compressed(frames) if self.codec == "h264" else frames

    def _render(self, family: Family, scene: Scene, rng: np.random.Generator) -> Frames:
        factor = SUBFRAMES if self.shutter or self.rolling or self.delay else 1
        time = Time(family.frames * factor, self.fps * factor, max(1, family.substeps // factor), RungeKutta4())
        with soft_ground():
            trajectory = simulate_over(scene, time)
        first = round(self.delay * factor)
        if self.shutter:
            images = self._images(scene, trajectory, family.frames * factor)
            count = max(1, round(self.shutter * factor))
            return torch.stack([images[first + k * factor :][:count].mean(0) for k in range(family.frames)])
        if self.rolling:
            return _rolled(self._images(scene, trajectory, family.frames * factor), factor, self.rolling)
        sampled = trajectory[first::factor] if factor > 1 else trajectory
        if self.shake:
            views = [replace(scene, camera=_shaken(scene.camera, self.shake, rng)) for _ in range(family.frames)]
            return torch.cat([self._images(view, sampled[k : k + 1], 1) for k, view in enumerate(views)])
        return self._images(scene, sampled, family.frames)

    def _images(self, scene: Scene, trajectory: Trajectory, count: int) -> Frames:
        size = (SIZE * OVERSAMPLING, SIZE * OVERSAMPLING)
        with torch.no_grad():
            return downsample(render(scene, trajectory[:count], size, self.renderer), (SIZE, SIZE))


def _rolled(images: Frames, factor: int, rolling: float) -> Frames:
    """Returns frames whose rows are taken from later and later images."""
    count, height = len(images) // factor, images.shape[1]
    rows = torch.arange(height)
    delay = (rolling * factor * rows / height).round().long()
    return torch.stack([images[(k * factor + delay).clamp(max=len(images) - 1), rows] for k in range(count)])


def _shaken(camera: Any, size: float, rng: np.random.Generator) -> Camera:
    """Returns the camera moved by a random vector, with the same direction of view."""
    shift = size * rng.normal(size=3)
    return replace(camera, eye=np.asarray(camera.eye) + shift, target=np.asarray(camera.target) + shift)


def _compressed(frames: Frames) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "video.mp4"
        save_video(file, frames.clamp(0.0, 1.0), FPS, quality=18)
        return load_video(file)
