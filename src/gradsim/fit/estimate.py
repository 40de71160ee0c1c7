"""estimate(): values of a scene's unknowns from a video, with intervals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from gradsim.fit.bootstrap import STUDENT_95
from gradsim.fit.bootstrap import bootstrap as bootstrap_fits
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.result import Fit, FitStep
from gradsim.fit.search import Report, Search, SearchResult, is_equal_cost
from gradsim.fit.trials import OFFSET, Observed, Trial, make_trial
from gradsim.fit.uncertainty import NORMAL_95, Identifiability, Uncertainty, estimate_uncertainty
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown
from gradsim.video.video import Video

DISTINCT_MINIMA = 1e-2  # smallest distance between different minima of two searches, in coordinate units
PLAUSIBLE_NOISE = 0.02  # standard deviation of a camera's pixel, where the first frame does not show the noise
COMPRESSED_NOISE_FACTOR = 8.0  # mean square of later frames of a compressed video, relative to that of the first

Progress = Callable[[FitStep], None]


def estimate(
    scene: Scene | Sequence[Scene],
    video: Observed | Sequence[Observed],
    *,
    fps: float | None = None,
    substeps: int | None = None,
    integrator: Integrator = Time.integrator,
    renderer: Rasterizer = Exact(),
    mask: torch.Tensor | None = None,
    frames: Sequence[int] | None = None,
    robust: float | None = None,
    brightness: bool = False,
    offset: Unknown | None = None,
    optimizer: GaussNewton = GaussNewton(),
    starts: int = 1,
    seed: int = 0,
    bootstrap: bool | None = None,
    progress: Progress = lambda step: None,
) -> Fit:
    """Estimates the unknowns of a scene from a video or other observations of its motion.

    The search proceeds from coarse to fine images and from few to all frames; see `gradsim.fit.search`. Ctrl-C returns
    the best values so far.

    Args:
        scene: Scene with unknowns, such as `mass=gs.unknown(2.0, low=1.0, high=10.0)`. Several scenes, one per video,
            share the unknowns that have the same path: several cameras or several trials.
        video: Video from `gs.load_video`, or a tensor [T, H, W, 3] with `fps`; or `gs.Masks`, `gs.Tracks` or
            `gs.States` in place of pixels.
        fps: Frames per second [1/s]; required if the video has no frame rate.
        substeps: Time steps per frame; if None, chosen to be stable over the range of the unknowns.
        integrator: Time integrator; the default is of second order and has a small bias at few steps.
        renderer: Renderer of the simulated video.
        mask: Weights of the pixels, [H, W] or [T, H, W]; pixels with weight 0 are ignored.
        frames: Indices of the frames that are compared; all if None.
        robust: Threshold of the Huber loss; larger differences contribute linearly. None for a quadratic loss.
        brightness: Fit a brightness factor to each frame.
        offset: Unknown time from the start of the scene to the first frame [s], such as
            `gs.unknown(0.0, low=-0.02, high=0.02)`, less than one frame; None for zero. States between frames are
            interpolated smoothly: exclude the frames next to a push.
        optimizer: Options of the least-squares solver.
        starts: Number of searches: one from the guesses, the others from random points within the bounds.
        seed: Seed of all random samples.
        bootstrap: Compute the intervals by fitting re-encoded simulated videos; if None, for compressed videos, whose
            errors are not independent noise.
        progress: Called with a `FitStep` after every iteration.

    Returns:
        Values with 95 % intervals and their identifiability.
    """
    begin = time.perf_counter()
    scenes = [scene] if isinstance(scene, Scene) else list(scene)
    videos = list(video) if isinstance(video, (list, tuple)) else [video]
    compressed = any(isinstance(item, Video) and item.encoding.lossy for item in videos)
    if bootstrap and not compressed:
        raise InvalidInput("bootstrap", True, "needs a compressed video from gs.load_video, whose encoding is repeated")
    pixels: dict[str, Any] = {"renderer": renderer, "mask": mask, "frames": frames}
    pixels |= {"robust": robust, "brightness": brightness}
    trials = _make_trials(scenes, videos, fps=fps, substeps=substeps, integrator=integrator, **pixels)
    parameters = _make_parameters(scenes, offset)
    problem = EstimationProblem(parameters, trials)
    if compressed:
        problem = replace(problem, noise_factor=COMPRESSED_NOISE_FACTOR)
    history: list[FitStep] = []

    def report(stage: str, z: torch.Tensor, mean_square: float, frame_count: int, level: int) -> None:
        values = {path: value.tolist() for path, value in parameters.values(z).items()}
        history.append(FitStep(stage, values, mean_square, time.perf_counter() - begin, frame_count, level))
        progress(history[-1])

    searches = _search(problem, optimizer, max(1, starts), seed, report)
    uncertainty = estimate_uncertainty(problem, searches.best.z)
    intervals = _Intervals(searches.best.z, uncertainty.standard_deviation, NORMAL_95, "residuals")
    if not searches.interrupted and (compressed if bootstrap is None else bootstrap):
        try:
            intervals = _bootstrap_intervals(problem, intervals, videos, optimizer, seed, report)
        except KeyboardInterrupt:
            searches = replace(searches, interrupted=True)
    if searches.interrupted and compressed:
        intervals = replace(intervals, method="residuals: too narrow for a compressed video")
    fit = _make_fit(problem, searches, uncertainty, intervals)
    return replace(fit, history=tuple(history), starts=max(1, starts), seconds=time.perf_counter() - begin)


def _make_trials(scenes: list[Scene], videos: list[Any], **options: Any) -> tuple[Trial, ...]:
    if len(scenes) != len(videos):
        raise InvalidInput("video", f"{len(videos)} for {len(scenes)} scenes", "give as many videos as scenes")
    return tuple(make_trial(scene, video, **options) for scene, video in zip(scenes, videos, strict=True))


def _make_parameters(scenes: list[Scene], offset: Any) -> Parameters:
    if offset is not None and not isinstance(offset, Unknown):
        raise WrongType("offset", repr(offset), "must be gs.unknown(0.0, low=..., high=...) [s], or None")
    return Parameters.shared(scenes, None if offset is None else {OFFSET: offset})


@dataclass(frozen=True, eq=False)
class _Searches:
    """Outcome of several searches."""

    best: SearchResult
    agreeing: int  # searches that ended in the best minimum
    interrupted: bool


@dataclass(frozen=True, eq=False)
class _Intervals:
    """95 % intervals of the coordinates."""

    center: torch.Tensor  # [P]
    standard_deviation: torch.Tensor  # [P]
    half_width: float  # in standard deviations
    method: str


def _search(problem: EstimationProblem, optimizer: GaussNewton, starts: int, seed: int, report: Report) -> _Searches:
    """Searches from several starts; equally low minima of other starts become alternatives of the best."""
    generator = torch.Generator().manual_seed(seed)
    points = [problem.parameters.initial(), *problem.parameters.sample(starts - 1, generator)]
    results: list[SearchResult] = []
    interrupted = False
    for number, point in enumerate(points):
        search = Search(problem, optimizer, seed + number, report)
        try:
            results.append(search.run(point))
        except KeyboardInterrupt:
            interrupted = True
            if search.best is not None:
                results.append(search.best)
            break
    if not results:
        raise KeyboardInterrupt
    results.sort(key=lambda result: result.mean_square)
    best, others = results[0], results[1:]
    distinct = [other for other in others if float((other.z - best.z).abs().max()) >= DISTINCT_MINIMA]
    equal = [other.z for other in distinct if is_equal_cost(other.mean_square, best.mean_square)]
    best.alternative_minima += equal
    return _Searches(best, len(results) - len(distinct), interrupted)


def _bootstrap_intervals(
    problem: EstimationProblem,
    intervals: _Intervals,
    videos: list[Any],
    optimizer: GaussNewton,
    seed: int,
    report: Report,
) -> _Intervals:
    """Returns intervals from the bootstrap, at least as wide as those from the residuals."""
    center, deviation = bootstrap_fits(problem, intervals.center, videos, optimizer, seed, report)
    deviation = torch.maximum(deviation, intervals.standard_deviation)
    return _Intervals(center, deviation, STUDENT_95, "bootstrap: fits of simulated videos encoded in the same way")


def _make_fit(problem: EstimationProblem, searches: _Searches, uncertainty: Uncertainty, intervals: _Intervals) -> Fit:
    parameters, first = problem.parameters, problem.trials[0]
    margin = intervals.half_width * intervals.standard_deviation
    low, high = (parameters.values((intervals.center + side * margin).clamp(*parameters.bounds())) for side in (-1, 1))
    values = parameters.values(intervals.center)
    status, advice = _status(problem, searches, uncertainty)
    return Fit(
        values=values,
        intervals={path: (torch.minimum(low[path], high[path]), torch.maximum(low[path], high[path])) for path in low},
        identifiability=_identifiability(problem, searches, uncertainty, advice),
        correlation=uncertainty.correlation,
        undetermined_directions=uncertainty.undetermined_directions,
        noise=uncertainty.noise,
        interval_method=intervals.method,
        status=status,
        advice=advice,
        scene=first.fill(values),
        trials=problem.trials,
        parameters=parameters,
        coordinates=intervals.center,
        standard_deviation=intervals.standard_deviation,
        alternative_minima=tuple(parameters.values(z) for z in searches.best.alternative_minima),
        agreeing_starts=searches.agreeing,
    )


def _status(problem: EstimationProblem, searches: _Searches, uncertainty: Uncertainty) -> tuple[str, str]:
    """Returns the status of a fit and the advice for it."""
    result = searches.best
    if searches.interrupted:
        return "interrupted", "these are the best values so far; run the estimate again to complete it"
    if result.alternative_minima:
        advice = "other values explain the video equally well: see `alternative_minima`; "
        return "several answers", advice + "more frames, another push or another view may distinguish them"
    noise_known = problem.noise_floors[0] is not None
    if not result.accepted and (noise_known or not uncertainty.noise < PLAUSIBLE_NOISE):
        advice = "the scene does not explain the video fully: inspect the difference; check camera, colours and motion"
        return "above the noise", advice
    if not result.converged:
        return "not converged", "the steps are still large: use optimizer=gs.GaussNewton(iterations=100)"
    if not noise_known and searches.agreeing < 2:
        advice = "the first frame depends on the unknowns and does not show the noise: "
        return "converged", advice + "use starts=3 to check that other starts give the same values"
    return "converged", ""


def _identifiability(
    problem: EstimationProblem, searches: _Searches, uncertainty: Uncertainty, advice: str
) -> dict[str, Identifiability]:
    """Returns the identifiability by coordinate; coordinates that differ between equal minima are at best weak."""
    identifiability = dict(zip(problem.parameters.names, uncertainty.identifiability, strict=True))
    minima = searches.best.alternative_minima
    if not minima or searches.interrupted:
        return identifiability
    ambiguous = torch.stack([(z - searches.best.z).abs() > DISTINCT_MINIMA for z in minima]).any(0).tolist()
    for (name, item), differs in zip(identifiability.items(), ambiguous, strict=True):
        if differs and item.level == "identifiable":
            identifiability[name] = Identifiability("weak", advice)
    return identifiability
