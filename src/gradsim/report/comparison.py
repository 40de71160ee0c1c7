"""A video beside the rendering of its fit and their difference, as one video that a page can embed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.trials import Trial
from gradsim.render.render import render
from gradsim.report.media import amplified, difference_gain, mp4_uri, png_uri, side_by_side


@dataclass(frozen=True)
class Comparison:
    """A video of panels side by side, as data URIs."""

    labels: tuple[str, ...]
    caption: str
    video: str
    poster: str
    height: int  # [px]
    width: int


def comparison_video(trial: Trial, values: Mapping[str, torch.Tensor]) -> Comparison | None:
    """Renders the fitted scene beside the observed video. Returns None if the observation is not a video."""
    observation = trial.observation
    if trial.scene.camera is None or not isinstance(observation, Pixels):
        return None
    observed = observation.video.clamp(0, 1)
    size = (observed.shape[1], observed.shape[2])
    with torch.no_grad():
        scene, trajectory = trial.simulate(values, len(observed))
        fitted = render(scene, trajectory, size, observation.renderer)
    fitted = fitted.clamp(0, 1).to(observed.dtype)
    difference = (observation.mix_channels(fitted) - observation.mix_channels(observed)).expand_as(observed)
    gain = difference_gain(difference)
    video = side_by_side([observed, fitted, amplified(difference, gain)])
    height, width = video.shape[1:3]
    scale = height // size[0]
    enlarged = f", enlarged {scale} times" if scale > 1 else ""
    brightness = " in brightness" if observation.channels is not None else ""
    strength = f", amplified {gain} times" if gain > 1 else ""
    caption = (
        f"{len(observed)} frames of {size[0]} x {size[1]} pixels at {trial.time.fps:g} fps, as compared by the fit"
        f"{enlarged}. The difference is fitted minus observed{brightness}{strength}; grey is zero."
    )
    labels = ("observed", "fitted", f"difference × {gain}")
    return Comparison(labels, caption, mp4_uri(video, trial.time.fps), png_uri(video[len(video) // 3]), height, width)
