"""estimate(): values of the unknowns of one or several trials, with intervals."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gradsim.bridge import on_one_torch_thread
from gradsim.fit.bootstrap import STUDENT_95
from gradsim.fit.bootstrap import bootstrap as bootstrap_fits
from gradsim.fit.checkpoint import SolveRecord, fingerprint
from gradsim.fit.contributions import Contributions, variance_contributions
from gradsim.fit.corrections import Analysis, analyse, with_nuisances
from gradsim.fit.first_frame import nuisances_of_first_frame, with_fixed_nuisances
from gradsim.fit.footage_trial import prepared_trial
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.level_solver import Report, SearchResult
from gradsim.fit.observations.pixels import Pixels
from gradsim.fit.optimize import MOST_STARTS
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.result import Fit, FitStep
from gradsim.fit.search import Search
from gradsim.fit.student import NORMAL_95, student_95
from gradsim.fit.trials import Observed, Trial, make_trial_models
from gradsim.fit.uncertainty import Identifiability
from gradsim.footage.prepare import Prepared
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.scene.arguments import check_flag, check_function, checked_whole
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.unknown import Unknown

LOG = logging.getLogger("gradsim.fit")
DISTINCT_MINIMA = 1e-2  # smallest distance between different minima of two searches, in coordinate units
PRIOR_FREEDOM = 10  # degrees of freedom of the default priors of nuisances: their widths are guesses to about a quarter
CORRECTIONS = 5  # largest number of errors of a scene that are estimated in addition
COMPRESSED_NOISE_FACTOR = 8.0  # mean square of later frames of a compressed video, relative to that of the first

Progress = Callable[[FitStep], None]


@on_one_torch_thread
def estimate(
    scene: Scene | Trial | Prepared | Sequence[Scene] | Sequence[Trial],
    video: Observed | Sequence[Observed] | None = None,
    *,
    fps: float | Unknown | None = None,
    substeps: int | None = None,
    integrator: Integrator | None = None,
    renderer: Rasterizer = Exact(),
    mask: torch.Tensor | None = None,
    frames: Sequence[int] | None = None,
    noise: float | None = None,
    robust: Any = None,
    brightness: bool = False,
    offset: Unknown | None = None,
    exposure: float | Unknown = 0.0,
    readout: float | Unknown = 0.0,
    roughly: Sequence[str] = (),
    corrections: int | None = None,
    optimizer: GaussNewton = GaussNewton(),
    starts: int = 1,
    seed: int = 0,
    bootstrap: bool | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress = lambda step: None,
) -> Fit:
    """Estimates the unknowns of a scene from a video or other observations of its motion.

    The search proceeds from coarse to fine images and from few to all frames; see `gradsim.fit.search`. Ctrl-C returns
    the best values so far.

    Example:
        `gs.estimate(scene, gs.load_video("bounce.mp4"))`

    Args:
        scene: Scene with unknowns, such as `mass=gs.unknown(2.0, low=1.0, high=10.0)`; or one or several `gs.Trial`,
            which contain their observations; or a recording from `gs.prepare`. Unknowns with the same path are shared
            by all trials.
        video: Video from `gs.load_video`, or a tensor [T, H, W, 3] with `fps`; or `gs.Masks`, `gs.Tracks`, `gs.States`
            or `gs.Depth` in place of pixels; a list of them for several scenes. None for trials.
        fps: Frames per second [1/s]; required if the video has no frame rate.
        substeps: Time steps per frame; if None, chosen to be stable over the range of the unknowns and so accurate that
            the error of the steps is small compared with the intervals.
        integrator: Time integrator, of second order by default. If `substeps` is None too, bodies of nodes are
            simulated by `Midpoint()` or `Verlet()`, whichever is stable with fewer evaluations of the forces, which is
            `Verlet()` below a damping ratio of about 0.4; otherwise `Midpoint()`. `fit.integrator` states it.
        renderer: Renderer of the simulated video.
        mask: Weights of the pixels, [H, W] or [T, H, W]; pixels with weight 0 are ignored.
        frames: Indices of the frames that are compared; all if None.
        noise: Standard deviation of a pixel; if None, measured in the parts of the video that do not move.
        robust: Threshold of the Huber loss, `gs.Huber` or `gs.Cauchy`, against shadows and occlusions; None for a
            quadratic loss.
        brightness: Fit a brightness factor to each frame.
        offset: Unknown time from the start of the scene to the first frame [s], such as
            `gs.unknown(0.0, low=-0.02, high=0.02)`, less than one frame; None for zero. States between frames are
            interpolated smoothly: exclude the frames next to a push.
        exposure: Time during which the shutter is open [s], known or unknown.
        readout: Time from the first to the last row of a frame of a rolling shutter [s], known or unknown.
        roughly: What is known only roughly: any of "camera", "start", "light", "shape", "gravity", "contact",
            "time". Its errors are estimated with default priors and widen the intervals.
        corrections: Largest number of errors of the scene that are estimated in addition where the scene does not
            explain the observations; 0 for none. By default 5, and 0 for a recording from `gs.prepare`, whose likely
            errors are unknowns already.
        optimizer: Options of the least-squares solver.
        starts: Number of searches: one from the guesses, the others from random points within the bounds.
        seed: Seed of all random samples.
        bootstrap: Compute the intervals by fitting re-encoded simulated videos; if None, for compressed videos, whose
            errors are not independent noise.
        checkpoint: File to which the state of the search is written after every iteration. If it exists, the estimate
            resumes; a file of an estimate with other arguments is refused.
        progress: Called with a `FitStep` after every iteration.

    Returns:
        Values with 95 % intervals, whether the scene explains the observations, and which values they determine.
    """
    begin, seed = time.perf_counter(), checked_seed(seed)
    starts = checked_whole("starts", starts, high=MOST_STARTS)
    _check_options(optimizer, corrections, bootstrap, progress, roughly)
    corrections = corrections if corrections is not None else 0 if isinstance(scene, Prepared) else CORRECTIONS
    if isinstance(scene, Prepared):
        substeps = substeps or scene.substeps
        scene = prepared_trial(scene)
    timing: dict[str, Any] = {
        "fps": fps,
        "offset": 0.0 if _is_none(offset) else offset,
        "exposure": exposure,
        "readout": readout,
    }
    trials = _make_trials(scene, video, timing)
    pixels: dict[str, Any] = {"renderer": renderer, "mask": mask, "frames": frames}
    pixels |= {"noise": noise, "robust": robust, "brightness": brightness}
    names = [str(k) if trial.name is None else trial.name for k, trial in enumerate(trials)]
    if len(set(names)) != len(names):
        raise InvalidInput("Trial.name", ", ".join(names), "every trial needs a name of its own")
    models = make_trial_models(trials, names, substeps=substeps, integrator=integrator, options=pixels)
    compressed = any(video is not None and video.encoding.lossy for model in models for video in model.videos)
    if bootstrap and not compressed:
        raise InvalidInput("bootstrap", True, "needs a compressed video from gs.load_video, whose encoding is repeated")
    parameters = Parameters(
        models[0].scene if len(models) == 1 else [model.scene for model in models],
        time_unknowns=[trial.time_unknowns for trial in trials],
        trial_names=None if len(models) == 1 else names,
    )
    factor = COMPRESSED_NOISE_FACTOR if compressed else EstimationProblem.noise_factor
    problem = EstimationProblem(parameters, models, noise_factor=factor)
    if checkpoint is not None:
        choices: dict[str, Any] = {"substeps": substeps, "integrator": integrator, "optimizer": optimizer}
        choices |= {"roughly": roughly, "corrections": corrections, "bootstrap": bootstrap}
        arguments = fingerprint(trials, pixels, choices, starts, seed, parameters.names)
        optimizer = replace(optimizer, log=SolveRecord(checkpoint, arguments))
    history: list[FitStep] = []

    def report(stage: str, z: torch.Tensor, mean_square: float, frame_count: int, level: int) -> None:
        values = {path: value.tolist() for path, value in parameters.values(z[: parameters.count]).items()}
        history.append(FitStep(stage, values, mean_square, time.perf_counter() - begin, frame_count, level))
        progress(history[-1])

    rough = with_nuisances(problem, roughly)
    if rough is problem:
        amounts = parameters.initial()[:0]
    else:
        amounts = nuisances_of_first_frame(problem, rough, optimizer)
        problem = with_fixed_nuisances(problem, rough, amounts)
    searches = _search(problem, optimizer, starts, seed, report)
    wanted = (compressed if bootstrap is None else bootstrap) and not searches.interrupted
    start = torch.cat([searches.best.z, amounts])
    analysis, searches = _analyse(rough, start, searches, optimizer, corrections, substeps is None, report)
    quantile = student_95(PRIOR_FREEDOM) if analysis.problem.nuisance_paths else NORMAL_95
    intervals = _Intervals(analysis.z, analysis.uncertainty.standard_deviation, quantile)
    if wanted and not searches.interrupted and not analysis.misfit.nonsense:
        try:
            intervals = _bootstrap_intervals(analysis.problem, intervals, optimizer, seed, report)
        except KeyboardInterrupt:
            searches = replace(searches, interrupted=True)
    method = ", ".join([*([intervals.method] if intervals.method else []), *analysis.uncertainty.sources])
    if searches.interrupted and compressed:
        method = "residuals: too narrow for a compressed video"
    fit = _make_fit(analysis, searches, intervals, method)
    return replace(fit, history=tuple(history), starts=starts, seconds=time.perf_counter() - begin)


def _is_none(value: Any) -> bool:
    """Whether an argument of time is left out: None, or 0."""
    return value is None or (isinstance(value, (int, float)) and value == 0)


def _check_options(optimizer: Any, corrections: Any, bootstrap: Any, progress: Any, roughly: Any) -> None:
    if not isinstance(optimizer, GaussNewton):
        raise WrongType("optimizer", abbreviate(optimizer), "must be a gs.GaussNewton()")
    if corrections is not None:
        checked_whole("corrections", corrections, 0)
    if bootstrap is not None:
        check_flag("bootstrap", bootstrap)
    if not isinstance(roughly, (list, tuple)):
        raise WrongType("roughly", abbreviate(roughly), "must be a list, such as ['camera', 'start']")
    check_function("progress", progress, "a step of the search")


def _make_trials(scene: Any, video: Any, timing: dict[str, Any]) -> list[Trial]:
    """Returns the trials of the arguments of `estimate`."""
    items = list(scene) if isinstance(scene, (list, tuple)) else [scene]
    if items and all(isinstance(item, Trial) for item in items):
        if video is not None:
            raise InvalidInput("video", "given", "trials contain their observations: leave it out")
        for name, value in timing.items():
            if not _is_none(value):
                raise InvalidInput(name, value, f"trials have their own: gs.Trial(..., {name}=...)")
        return items
    if not items or not all(isinstance(item, Scene) for item in items):
        kinds = ", ".join(sorted({type(item).__name__ for item in items})) or "nothing"
        raise WrongType("scene", kinds, "must be a gs.Scene, a gs.Trial, or a list of either")
    if not isinstance(timing["offset"], (Unknown, float)):
        raise WrongType("offset", repr(timing["offset"]), "must be gs.unknown(0.0, low=..., high=...) [s], or None")
    if isinstance(scene, Scene):
        return [Trial(scene, video, **timing)]
    videos = list(video) if isinstance(video, (list, tuple)) else [video]
    if len(items) != len(videos):
        raise InvalidInput("video", f"{len(videos)} for {len(items)} scenes", "give as many videos as scenes")
    return [Trial(own, observed, **timing) for own, observed in zip(items, videos, strict=True)]


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
    method: str = ""


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
    equal = [other.z for other in distinct if problem.is_equal_cost(other.mean_square, best.mean_square)]
    best.alternative_minima += equal
    return _Searches(best, len(results) - len(distinct), interrupted)


def _analyse(
    problem: EstimationProblem,
    z: torch.Tensor,
    searches: _Searches,
    optimizer: GaussNewton,
    corrections: int,
    free_substeps: bool,
    report: Report,
) -> tuple[Analysis, _Searches]:
    """Refines the time step, estimates rough quantities, and measures misfit and uncertainty; z [P] has all of them."""
    unrecorded = replace(optimizer, log=None)
    if searches.interrupted:
        return analyse(problem, z, unrecorded, corrections=0, full=False, report=report), searches
    try:
        analysis = analyse(problem, z, optimizer, corrections=corrections, free_substeps=free_substeps, report=report)
    except KeyboardInterrupt:
        searches = replace(searches, interrupted=True)
        return analyse(problem, z, unrecorded, corrections=0, full=False, report=report), searches
    if analysis.polished is not None:
        searches.best.converged = analysis.polished
    searches.best.alternative_minima = _distinct_minima(analysis, searches.best)
    return analysis, searches


def _distinct_minima(analysis: Analysis, best: SearchResult) -> list[torch.Tensor]:
    """Returns the other minima that differ from the best in more than values that the observations do not determine.

    Along an undetermined direction every point is a minimum: that is one answer without such a value, not several.
    """
    levels = [item.level for item in analysis.uncertainty.identifiability[: len(best.z)]]
    determined = torch.tensor([level not in ("not identifiable", "not judged") for level in levels])
    return [z for z in best.alternative_minima if bool(((z - best.z).abs() > DISTINCT_MINIMA)[determined].any())]


def _bootstrap_intervals(
    problem: EstimationProblem, intervals: _Intervals, optimizer: GaussNewton, seed: int, report: Report
) -> _Intervals:
    """Returns intervals from the bootstrap, at least as wide as those from the residuals."""
    center, deviation = bootstrap_fits(problem, intervals.center, optimizer, seed, report)
    deviation = torch.maximum(deviation, intervals.standard_deviation)
    return _Intervals(center, deviation, STUDENT_95, "bootstrap: fits of simulated videos encoded in the same way")


def _make_fit(analysis: Analysis, searches: _Searches, intervals: _Intervals, method: str) -> Fit:
    problem, uncertainty = analysis.problem, analysis.uncertainty
    parameters = problem.parameters
    margin = intervals.half_width * intervals.standard_deviation
    values = parameters.values(intervals.center)
    ends = {
        unknown.path: unknown.interval(intervals.center[part], margin[part]) for unknown, part in parameters.items()
    }
    status, advice = _status(analysis, searches)
    LOG.info("estimate: %s", status)
    wanted = [path for path in values if path not in problem.nuisance_paths]
    return Fit(
        values={path: values[path] for path in wanted},
        intervals={path: ends[path] for path in wanted},
        identifiability=_identifiability(analysis, searches, status, advice),
        correlation=uncertainty.correlation,
        undetermined_directions=uncertainty.undetermined_directions,
        noise=uncertainty.noise,
        interval_method=method,
        status=status,
        advice=advice,
        misfit=analysis.misfit,
        scene=problem.trials[0].fill(parameters.model_values(values, 0)),
        trials=problem.trials,
        parameters=parameters,
        coordinates=intervals.center,
        standard_deviation=intervals.standard_deviation,
        plain_deviation=uncertainty.plain_deviation,
        contributions=_contributions(analysis, intervals),
        nuisances=analysis.nuisance_table(intervals.center, intervals.standard_deviation),
        scatter=analysis.scatter,
        alternative_minima=tuple(
            {path: value for path, value in _padded(problem, z).items() if path in wanted}
            for z in searches.best.alternative_minima
        ),
        agreeing_starts=searches.agreeing,
    )


def _contributions(analysis: Analysis, intervals: _Intervals) -> Contributions:
    """Returns the fractions of the variance of each unknown by source, without those of nuisances."""
    parameters, covariance = analysis.problem.parameters, analysis.uncertainty.plain_covariance
    if covariance is None:
        return {}
    prior, ranges = parameters.prior_normal()[1], parameters.prior()[1]
    found = variance_contributions(parameters.names, covariance, prior, ranges, intervals.standard_deviation.square())
    return {name: own for name, own in found.items() if name not in analysis.problem.nuisance_paths}


def _padded(problem: EstimationProblem, z: torch.Tensor) -> dict[str, torch.Tensor]:
    """Returns the values at coordinates z without those of nuisances, which are zero."""
    full = torch.cat([z, z.new_zeros(problem.parameters.count - len(z))])
    return problem.parameters.values(full)


def _status(analysis: Analysis, searches: _Searches) -> tuple[str, str]:
    """Returns the status of a fit and the advice for it; misfit comes first."""
    result, misfit = searches.best, analysis.misfit
    if searches.interrupted:
        return "interrupted", "these are the best values so far; run the estimate again to complete it"
    subject = "video" if isinstance(analysis.problem.observation((0, 0)), Pixels) else "observations"
    if not misfit.ok:
        advice = "; ".join(misfit.reasons[:2])
        if misfit.nonsense:  # no small error of the scene explains this
            advice += ": check that the scene is the recorded one, and its start"
        elif misfit.causes:
            advice += f": {misfit.causes[0]}"
        else:
            advice += ": inspect the difference; check camera, colours and motion"
        return f"does not explain the {subject}", _joined(advice, analysis.advice)
    if result.alternative_minima:
        advice = f"other values explain the {subject} equally well: see `alternative_minima`; "
        return "several answers", advice + "more frames, another push or another view may distinguish them"
    if not result.converged:
        return "not converged", "the steps are still large: use optimizer=gs.GaussNewton(iterations=100)"
    if misfit.corrections:
        listed = ", ".join(misfit.corrections)
        advice = f"the scene explains the {subject} only with {listed}: correct the scene"
        return "converged with corrections", _joined(advice, analysis.advice)
    return "converged", analysis.advice


def _joined(*advice: str) -> str:
    return "; ".join(text for text in advice if text)


def _identifiability(analysis: Analysis, searches: _Searches, status: str, advice: str) -> dict[str, Identifiability]:
    """Returns the verdict by coordinate; coordinates that differ between equal minima are at best weak."""
    parameters = analysis.problem.parameters
    verdicts = dict(zip(parameters.names, analysis.uncertainty.identifiability, strict=True))
    verdicts = {name: item for name, item in verdicts.items() if name not in analysis.problem.nuisance_paths}
    if status.startswith("does not explain"):
        level = "not identifiable" if analysis.misfit.explained < 0.9 else "weak"
        reason = f"the scene {status}"
        return {
            name: Identifiability(level, reason) if item.level == "identifiable" or level != "weak" else item
            for name, item in verdicts.items()
        }
    minima = searches.best.alternative_minima
    if not minima or searches.interrupted:
        return verdicts
    ambiguous = torch.stack([(z - searches.best.z).abs() > DISTINCT_MINIMA for z in minima]).any(0).tolist()
    for (name, item), differs in zip(list(verdicts.items()), ambiguous, strict=False):
        if differs and item.level == "identifiable":
            verdicts[name] = Identifiability("weak", advice)
    return verdicts
