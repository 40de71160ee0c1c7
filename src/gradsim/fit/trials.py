"""Trials: a scene with unknowns and an observation of its motion."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.parameters import Parameters
from gradsim.fit.simulation import simulate_over
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.stability import stable_dt
from gradsim.video.video import Video

OFFSET = "video.offset"  # path of the unknown time from the start of the scene to the first frame [s]
MIN_BACKGROUND_PIXELS = 16  # fewest pixels from which the background colour of a compressed video is taken
MIN_SUBSTEPS, MAX_SUBSTEPS = 8, 1024  # per frame
SUBSTEP_SAMPLES = 16  # samples of the unknowns from which the number of substeps is chosen
STABLE_FRACTION = 0.8  # fraction of the samples that are to be stable
SUBSTEP_MARGIN = 1.3  # factor of the estimated number of substeps

Observed = Video | torch.Tensor | Observation


@dataclass(frozen=True, eq=False)
class Trial:
    """A scene with unknowns, an observation of its motion, and the frames at which it was observed."""

    scene: Scene
    observation: Any  # Observation
    time: Time

    def fill(self, values: Mapping[str, torch.Tensor]) -> Scene:
        """Returns the scene with its unknowns replaced by values, by path; other paths are ignored."""
        return self.scene.with_values({path: value for path, value in values.items() if path in self.scene.unknowns})

    def simulate(self, values: Mapping[str, torch.Tensor], frames: int | None = None) -> tuple[Scene, Trajectory]:
        """Returns the scene with values filled in and its trajectory at the first frames; all if None."""
        scene, count = self.fill(values), self.time.frames if frames is None else frames
        if OFFSET in values:
            return scene, simulate_over(scene, replace(self.time, frames=count + 1)).shifted(values[OFFSET])
        return scene, simulate_over(scene, replace(self.time, frames=count))

    def residual(self, values: Mapping[str, torch.Tensor], level: int, frames: int) -> torch.Tensor:
        """Returns residuals [B, N] whose sum of squares is a sum over frames of mean squared differences.

        Args:
            values: Values of the unknowns by path, with a leading batch dimension B.
            level: Level of detail; 0 is the finest.
            frames: Number of frames to compare, from the first.
        """
        scene, trajectory = self.simulate(values, min(frames, self.observation.frames))
        observation_level = max(0, self.observation.levels - 1 - level)
        difference = self.observation.residual(scene, trajectory, observation_level)
        return difference.flatten(-2).div_(math.sqrt(difference.shape[-1]))


def make_trial(
    scene: Scene,
    observed: Observed,
    *,
    fps: float | None,
    substeps: int | None,
    integrator: Integrator,
    **options: Any,
) -> Trial:
    """Returns the trial of a scene and a video or observation; `options` are those of `Pixels`."""
    scene, observation, rate = _observation(scene, observed, fps, options)
    time = Time(observation.frames, float(rate), substeps, integrator)
    return Trial(scene, observation, time if substeps is not None else _with_substeps(time, scene))


def _observation(scene: Scene, observed: Any, fps: float | None, options: dict[str, Any]) -> tuple[Scene, Any, float]:
    """Returns the scene, the observation and its frame rate [1/s].

    Compressed videos are compared by luma, and the scene takes the background colour of the video.
    """
    rate = fps if fps is not None else getattr(observed, "fps", None)
    if rate is None:
        raise InvalidInput("fps", None, "the video has no frame rate: pass one, such as fps=30.0 [1/s]")
    if not rate > 0:
        raise OutOfRange("fps", rate, "must be > 0 [1/s]")
    if isinstance(observed, Video):
        if not observed.encoding.lossy:
            return scene, Pixels(observed, **options), rate
        color = _background_color(scene, observed)
        uniform = torch.as_tensor(scene.background).ndim == 1 and "scene.background" not in scene.unknowns
        if uniform and color is not None:
            scene = replace(scene, background=color)
        return scene, Pixels(observed, **options), rate
    if isinstance(observed, torch.Tensor):
        return scene, Pixels(observed, **options), rate
    if isinstance(observed, Observation):
        return scene, observed, rate
    raise WrongType(
        "video", type(observed).__name__, "must be a gs.Video, a tensor [T, H, W, 3], gs.Masks, gs.Tracks or gs.States"
    )


def _background_color(scene: Scene, video: Video) -> torch.Tensor | None:
    """Returns the median colour [3] of the first frame outside the bodies of the guess; None if too few pixels."""
    parameters = Parameters(scene)
    guess = parameters.fill(parameters.initial())
    with torch.no_grad():
        initial = simulate_over(guess, Time(frames=1, fps=1.0, substeps=MIN_SUBSTEPS))
        coverage = render(guess, initial, video.size, alpha=True)[0, ..., 3]
    background = coverage < 1e-3
    if int(background.sum()) < MIN_BACKGROUND_PIXELS:
        return None
    return video.frames[0][background].median(0).values


def _with_substeps(time: Time, scene: Scene) -> Time:
    """Chooses the number of substeps for which most samples of the unknowns are stable, a power of two."""
    parameters = Parameters(scene)
    generator = torch.Generator().manual_seed(0)
    samples = [parameters.initial(), *parameters.sample(SUBSTEP_SAMPLES - 1, generator)]
    required = sorted(1.0 / (time.fps * stable_dt(parameters.fill(z), time.integrator)) for z in samples)
    substeps = SUBSTEP_MARGIN * required[int(STABLE_FRACTION * len(required))]
    power = 2 ** math.ceil(math.log2(max(substeps, 1.0)))
    return replace(time, substeps=int(min(max(power, MIN_SUBSTEPS), MAX_SUBSTEPS)))
