"""Trials: a scene with unknowns, and observations of its motion."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.fit.observations.base import Observation, measurements
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.parameters import Parameters
from gradsim.fit.simulation import simulate_over
from gradsim.fit.trial_model import EXPOSURE, OFFSET, RATE, READOUT, Sampling, TrialModel, delay_path
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.articulated import Articulated
from gradsim.scene.body import NodeBody
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.integrators import Integrator, Verlet
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown
from gradsim.simulate.stability import stable_dt
from gradsim.video.video import Video

MIN_BACKGROUND_PIXELS = 16  # fewest pixels from which the background colour of a compressed video is taken
MIN_SUBSTEPS, MAX_SUBSTEPS = 8, 1024  # per frame
INTEGRATORS: tuple[Integrator, ...] = (Time.integrator, Verlet())  # of which a fit chooses
SUBSTEP_SAMPLES = 16  # samples of the unknowns from which the number of substeps is chosen
STABLE_FRACTION = 0.8  # fraction of the samples that are to be stable
SUBSTEP_MARGIN = 1.3  # factor of the estimated number of substeps

Observed = Video | torch.Tensor | Observation


@dataclass(frozen=True, eq=False)
class Trial:
    """One recording: a scene with unknowns, and what was observed of its motion.

    Example:
        `gs.estimate([gs.Trial(scene, video, name="first"), gs.Trial(scene, second, name="second")])`

    Args:
        scene: Scene at the start of the recording. Unknowns with the same path in several trials are shared, unless
            they are declared with `per_trial=True`.
        observations: A video, a tensor [T, H, W, 3], or `gs.Pixels`, `gs.Masks`, `gs.Tracks`, `gs.States`, `gs.Depth`;
            or a list of these with the same number of frames.
        fps: Frames per second [1/s]; `gs.unknown(30.0, low=29.9, high=30.1)`, with bounds, estimates it. None for that
            of the video.
        times: Times of the frames [s], [T], increasing, in place of `fps`; the scene starts at 0.
        offset: Time from the start of the scene to the first frame [s], a number or an unknown with bounds; at most one
            frame before the start.
        exposure: Time during which the shutter is open, from the time of a frame [s], a number or an unknown with an
            upper bound. It applies to images; tracks and states are measured at the times of the frames.
        name: Name in reports and in the paths of unknowns of this trial; its number if None.
        readout: Time from the first to the last row of a frame of a rolling shutter [s], a number or an unknown with an
            upper bound. A point in row y of an image of height H is seen readout y / H later than the first row. It
            applies to images, whose rows are interpolated between four renderings, and to image tracks, by the measured
            rows.
    """

    scene: Scene
    observations: Observed | Sequence[Observed]
    fps: float | Unknown | None = None
    times: Any = None
    offset: float | Unknown = 0.0
    exposure: float | Unknown = 0.0
    name: str | None = None
    readout: float | Unknown = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.scene, Scene):
            raise WrongType("Trial.scene", type(self.scene).__name__, "must be a gs.Scene")
        if self.fps is not None and self.times is not None:
            raise InvalidInput("Trial.times", "given with fps", "give the times of the frames or their rate, not both")
        for label in ("offset", "exposure", "readout"):
            value = getattr(self, label)
            if not isinstance(value, Unknown) and not _is_number(value):
                remedy = "must be a number [s] or gs.unknown(0.0, low=..., high=...)"
                raise WrongType(f"Trial.{label}", repr(value), remedy)
        for label in ("exposure", "readout"):
            value = getattr(self, label)
            if not isinstance(value, Unknown) and not value >= 0:
                raise OutOfRange(f"Trial.{label}", value, "must be >= 0 [s]")
        for path, unknown in self.time_unknowns.items():
            if unknown.shape:
                raise WrongShape(path, f"shape {unknown.shape}", "must be a single unknown number")

    @property
    def time_unknowns(self) -> dict[str, Unknown]:
        """Unknowns of the frame times, by path: `video.fps`, `video.offset`, `video.exposure`, `video.readout`."""
        named: dict[str, Any] = {RATE: self.fps, OFFSET: self.offset, EXPOSURE: self.exposure, READOUT: self.readout}
        items = self.observations if isinstance(self.observations, (list, tuple)) else [self.observations]
        named |= {delay_path(number): getattr(item, "offset", None) for number, item in enumerate(items)}
        return {path: value for path, value in named.items() if isinstance(value, Unknown)}


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def make_trial_models(
    trials: Sequence[Trial], names: Sequence[str], *, integrator: Integrator | None, **options: Any
) -> tuple[TrialModel, ...]:
    """Returns the models of several trials, all with the same integrator; arguments as for `make_trial_model`."""
    models = tuple(
        make_trial_model(trial, name=name, integrator=integrator, **options)
        for trial, name in zip(trials, names, strict=True)
    )
    if len({model.time.integrator for model in models}) > 1:
        return make_trial_models(trials, names, integrator=Time.integrator, **options)
    return models


def make_trial_model(
    trial: Trial,
    *,
    name: str,
    substeps: int | None,
    integrator: Integrator | None,
    options: dict[str, Any] | None = None,
) -> TrialModel:
    """Returns the model of a trial.

    Args:
        trial: Scene and observations.
        name: Of the trial.
        substeps: Time steps per frame; chosen by stability if None.
        integrator: If None, chosen with the steps, and `Time.integrator` where these are given.
        options: Those of `Pixels`, for observations given as videos or tensors.
    """
    given: Any = trial.observations
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    if not items:
        raise InvalidInput("Trial.observations", "[]", "a trial needs at least one observation")
    scene, observations = trial.scene, []
    for item in items:
        scene, observation = _observation(scene, item, dict(options or {}))
        observations.append(observation)
    counts = {observation.frames for observation in observations}
    if len(counts) != 1:
        raise WrongShape("Trial.observations", f"{sorted(counts)} frames", "must all have the same number of frames")
    sampling = _sampling(trial, observations, counts.pop())
    time = Time(sampling.grid_frames, sampling.fps, substeps, integrator or Time.integrator)
    if substeps is None:
        time = _with_substeps(time, scene, (integrator,) if integrator else INTEGRATORS)
    videos = tuple(item if isinstance(item, Video) else None for item in items)
    return TrialModel(name, scene, tuple(observations), time, sampling, videos)


def _sampling(trial: Trial, observations: Sequence[Observation], count: int) -> Sampling:
    """Returns the times at which a trial was observed."""
    times = None if trial.times is None else _checked_times(trial.times, count)
    rate, stretch = _rate(trial, observations, times)
    delays = [_time_range(delay_path(k), item.offset or 0.0) for k, item in enumerate(observations)]
    offset = _time_range(OFFSET, trial.offset)
    first = (0.0 if times is None else float(times[0])) + offset[0] + min(low for low, _ in delays)
    if first * rate < -1.0:
        raise OutOfRange("offset", f"first frame at {first:g} s", f"must be >= {-1 / rate:g} s, one frame before 0")
    given = {OFFSET: trial.offset, EXPOSURE: trial.exposure, READOUT: trial.readout}
    known = {path: 0.0 if isinstance(value, Unknown) else float(value) for path, value in given.items()}
    reach = sum(_time_range(path, value)[1] - known[path] for path, value in given.items())  # of unknown times
    delay = max(reach + max(high for _, high in delays), 0.0)
    unknown = frozenset(trial.time_unknowns)
    return Sampling(rate, count, times, known[OFFSET], known[EXPOSURE], unknown, delay, stretch, known[READOUT])


def _rate(trial: Trial, observations: Sequence[Observation], times: torch.Tensor | None) -> tuple[float, float]:
    """Returns the rate of the simulated frames [1/s], and the largest ratio of it to the rate of the video."""
    if times is not None:
        return (1.0 / float(times.diff().median()) if len(times) > 1 else 30.0), 1.0
    rate: Any = trial.fps
    if isinstance(rate, Unknown):
        if rate.low is None or not float(rate.low) > 0:
            raise InvalidInput(RATE, rate, "needs bounds > 0: gs.unknown(30.0, low=29.9, high=30.1) [1/s]")
        return float(rate.guess), float(rate.guess / rate.low)
    if rate is None:
        known = (item.fps for item in observations if isinstance(item, Pixels) and item.fps is not None)
        rate = next(known, None)
    if rate is None:
        raise InvalidInput("fps", None, "the video has no frame rate: pass one, such as fps=30.0 [1/s]")
    if not _is_number(rate) or not rate > 0:
        raise OutOfRange("fps", rate, "must be > 0 [1/s]")
    return float(rate), 1.0


def _time_range(path: str, value: float | Unknown) -> tuple[float, float]:
    """Returns the smallest and the largest value of a known or unknown time [s]."""
    if not isinstance(value, Unknown):
        return float(value), float(value)
    low = 0.0 if path in (EXPOSURE, READOUT) and value.low is None else value.low
    if low is None or value.high is None:
        raise InvalidInput(path, value, "needs bounds, which determine the frames to simulate: low=..., high=... [s]")
    return float(low), float(value.high)


def _checked_times(given: Any, count: int) -> torch.Tensor:
    times = measurements("Trial.times", given)
    if tuple(times.shape) != (count,):
        raise WrongShape("Trial.times", f"shape {tuple(times.shape)}", f"must be [{count}], one time per frame [s]")
    if not bool((times.diff() > 0).all()) or bool(torch.isnan(times).any()):
        raise OutOfRange("Trial.times", "not increasing", "must be increasing times of the frames [s]")
    if float(times[0]) < 0:
        raise OutOfRange("Trial.times", float(times[0]), "must be >= 0, the start of the scene [s]")
    return times


def _observation(scene: Scene, observed: Any, options: dict[str, Any]) -> tuple[Scene, Observation]:
    """Returns the scene and the observation.

    Compressed videos are compared by luma, and the scene takes the background colour of the video.
    """
    if isinstance(observed, Video):
        if observed.encoding.lossy:
            color = _background_color(scene, observed)
            uniform = torch.as_tensor(scene.background).ndim == 1 and "scene.background" not in scene.unknowns
            if uniform and color is not None:
                scene = replace(scene, background=color)
        return scene, Pixels(observed, **options)
    if isinstance(observed, torch.Tensor):
        return scene, Pixels(observed, **options)
    if isinstance(observed, Observation):
        for option, value in options.items():
            default = value == Exact() if isinstance(value, Rasterizer) else value is None or value is False
            if not default:
                kind = type(observed).__name__
                raise InvalidInput(option, "given", f"applies to videos: set the option of gs.{kind} itself")
        return scene, observed
    raise WrongType(
        "video",
        type(observed).__name__,
        "must be a gs.Video, a tensor [T, H, W, 3], gs.Pixels, gs.Masks, gs.Tracks, gs.States or gs.Depth",
    )


def _background_color(scene: Scene, video: Video) -> torch.Tensor | None:
    """Returns the median colour [3] of the first frame outside the bodies of the guess; None if too few pixels."""
    guess = _guess(scene)
    with torch.no_grad():
        initial = simulate_over(guess, Time(frames=1, fps=1.0, substeps=MIN_SUBSTEPS))
        coverage = render(guess, initial, video.size, alpha=True)[0, ..., 3]
    background = coverage < 1e-3
    if int(background.sum()) < MIN_BACKGROUND_PIXELS:
        return None
    return video.frames[0][background].median(0).values


def _guess(scene: Scene) -> Scene:
    if not scene.unknowns:
        return scene
    parameters = Parameters(scene)
    return parameters.fill(parameters.initial())


def _with_substeps(time: Time, scene: Scene, integrators: tuple[Integrator, ...]) -> Time:
    """Chooses the number of substeps for which most samples of the unknowns are stable, a power of two.

    Of several integrators, bodies of nodes get the one that then evaluates the forces least often, the first of equals;
    other scenes get the first, as their steps follow from the accuracy of contact.
    """
    samples = [_guess(scene)]
    if scene.unknowns:
        parameters = Parameters(scene)
        drawn = parameters.sample(SUBSTEP_SAMPLES - 1, torch.Generator().manual_seed(0))
        samples += [parameters.fill(z) for z in drawn]
    nodes, joints = (any(isinstance(body, kind) for body in scene.bodies) for kind in (NodeBody, Articulated))
    if joints or not nodes:
        integrators = integrators[:1]
    counts = {integrator: _stable_substeps(samples, time.fps, integrator) for integrator in integrators}
    integrator = min(counts, key=lambda own: counts[own] * own.evaluations)
    return replace(time, substeps=min(counts[integrator], MAX_SUBSTEPS), integrator=integrator)


def _stable_substeps(samples: Sequence[Scene], fps: float, integrator: Integrator) -> int:
    """Returns a power of two, however large."""
    required = sorted(1.0 / (fps * stable_dt(sample, integrator)) for sample in samples)
    substeps = SUBSTEP_MARGIN * required[int(STABLE_FRACTION * len(required))]
    return max(2 ** math.ceil(math.log2(max(substeps, 1.0))), MIN_SUBSTEPS)
