"""A video beside its fit: observed, fitted and what is left, as one film a page can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from gradsim.fit.observations import Pixels, Trial
from gradsim.render.render import render
from gradsim.report.media import beside, gain_of, mp4_uri, png_uri, strengthened


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
    gain = gain_of(left)
    film = beside([seen, fitted, strengthened(left, gain)])
    scale = film.shape[1] // seen.shape[1]
    caption = (
        f"{len(seen)} frames of {seen.shape[1]} x {seen.shape[2]} pixels at {trial.clock.fps:g} a second, as they were "
        f"compared{f', each pixel shown {scale} times as large' if scale > 1 else ''}. The difference, fitted minus "
        f"observed{' in brightness' if observation.channels is not None else ''}, is {gain} times as strong as it is; "
        "grey is none."
    )
    height, width = film.shape[1:3]
    labels = ("observed", "fitted", f"difference × {gain}")
    return Comparison(labels, caption, mp4_uri(film, trial.clock.fps), png_uri(film[len(film) // 3]), height, width)
