"""A video beside the rendering of its fit and their difference, as one video that a page can embed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.trial_model import TrialModel
from gradsim.render.render import render
from gradsim.report.media import amplified, difference_gain, mp4_uri, png_uri, side_by_side

STRIP_FRAMES = 6  # frames whose differences are shown side by side


@dataclass(frozen=True)
class Comparison:
    """A video of panels side by side, as data URIs."""

    labels: tuple[str, ...]
    caption: str
    video: str
    poster: str
    height: int  # [px]
    width: int
    strip: str  # difference at a few frames side by side, an image as a data URI
    strip_labels: tuple[str, ...]
    strip_size: tuple[int, int]  # height and width [px]


def comparison_video(trial: TrialModel, values: Mapping[str, torch.Tensor]) -> Comparison | None:
    """Renders the fitted scene beside the first video of a trial. Returns None if no observation is a video.

    Args:
        trial: Trial of a fit.
        values: Values of its unknowns and of the estimated errors of its scene, by their paths in the trial.
    """
    observation = next((item for item in trial.observations if isinstance(item, Pixels)), None)
    if observation is None:
        return None
    observed = observation.video.clamp(0, 1).nan_to_num(0.5)
    size = (observed.shape[1], observed.shape[2])
    with torch.no_grad():
        scene, trajectory = trial.simulate(values, len(observed))
        fitted = render(observation.view(scene), trajectory, size, observation.renderer)
        adjust = trial.adjustment(values)
        fitted = fitted if adjust is None else adjust(fitted)
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
    frames = torch.linspace(0, len(observed) - 1, min(STRIP_FRAMES, len(observed))).round().long()
    strip = side_by_side([amplified(difference[k : k + 1], gain) for k in frames])[0]
    return Comparison(
        labels,
        caption,
        mp4_uri(video, trial.time.fps),
        png_uri(video[len(video) // 3]),
        height,
        width,
        png_uri(strip),
        tuple(f"frame {int(k)}" for k in frames),
        (strip.shape[0], strip.shape[1]),
    )
