"""estimate(): from a video and a scene with unknowns to their values, with intervals."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.bootstrap import bootstrapped
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.observations import OFFSET, Clock, Observation, Pixels, Trial
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import Problem
from gradsim.fit.result import Fit, Stage
from gradsim.fit.search import RIVAL, SAME, Found, Search
from gradsim.fit.uncertainty import Uncertainty, Verdict, uncertainty
from gradsim.render.exact import Exact
from gradsim.render.raster import Rasterizer
from gradsim.render.render import render
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown
from gradsim.simulate.stability import stable_dt
from gradsim.video.video import Video

LUMA = ((0.299, 0.587, 0.114),)
FREE = 16  # pixels, least from which the background of a compressed video is taken
APART = 1e-2  # coordinates, of answers that are not the same
PLAUSIBLE = 0.02  # noise of a camera, where the first frame does not tell
COMPRESSED = 8.0  # how many times more than the first frame's the differences of later frames may be
NORMAL = 1.959964  # half width of a 95 % interval, in standard deviations
SUBSTEPS = (8, 1024)

Seen = Video | torch.Tensor | Observation
Progress = Callable[[Stage], None]


def estimate(
    scene: Scene | Sequence[Scene],
    video: Seen | Sequence[Seen],
    *,
    fps: float | None = None,
    substeps: int | None = None,
    integrator: Integrator = Midpoint(),
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
    progress: Progress = lambda stage: None,
) -> Fit:
    """Find what is unknown in a scene from what was seen of it.

    The search goes from coarse to fine pictures and from few to all frames; see `gradsim.fit.search`. Interrupting it
    (Ctrl-C) returns the best so far.

    Args:
        scene: With unknowns: `mass=gs.unknown(2.0, low=1.0, high=10.0)`. Several scenes, with as many videos, share the
            unknowns that have the same path: other cameras or other trials.
        video: What `gs.load_video` gives, or a tensor [T, H, W, 3] with `fps`; or instead of pixels
            `gs.Masks`, `gs.Tracks` or `gs.States`.
        fps: Frames a second, where the video does not tell.
        substeps: Physics steps a frame; what is stable over the range of the unknowns if None.
        integrator: Second order by default, for a small bias at few steps.
        renderer: How the scene is drawn for comparison.
        mask: Weights of the pixels, [H, W] or [T, H, W]; 0 leaves out.
        frames: Numbers of the frames that count; all if None.
        robust: Difference of a pixel beyond which it counts by its size instead of its square; None for never.
        brightness: Whether each frame may have a brightness of its own.
        offset: Of the first frame after the scene's start [s], as `gs.unknown(0.0, low=-0.02, high=0.02)`, less than a
            frame; none if None. Motion between frames is taken to be smooth: leave frames beside a push out.
        optimizer: Options of the descents.
        starts: Searches, the first from the guesses, the others from random places within the bounds.
        seed: Of all that is drawn.
        bootstrap: Whether intervals come from fits of videos encoded anew; if None where the video is compressed, whose
            differences are no noise.
        progress: Told of every stage.

    Returns:
        Values with 95 % intervals, and whether this video can tell them.
    """
    begin = time.perf_counter()
    scenes = [scene] if isinstance(scene, Scene) else list(scene)
    videos = list(video) if isinstance(video, (list, tuple)) else [video]
    if len(scenes) != len(videos):
        raise InvalidInput("video", f"{len(videos)} for {len(scenes)} scenes", "give as many videos as scenes")
    options: dict[str, Any] = {
        "mask": mask,
        "renderer": renderer,
        "chosen": frames,
        "robust": robust,
        "brightness": brightness,
    }
    pairs: Any = zip(scenes, videos, strict=True)
    trials = [posed(one, seen, fps, substeps, integrator, **options) for one, seen in pairs]
    if offset is not None and not isinstance(offset, Unknown):
        raise WrongType("offset", repr(offset), "must be gs.unknown(0.0, low=..., high=...) [s], or None")
    parameters = Parameters.shared(scenes, None if offset is None else {OFFSET: offset})
    compressed = any(isinstance(seen, Video) and seen.encoding.lossy for seen in videos)
    problem = Problem(parameters, tuple(trials))
    if compressed:
        problem = replace(problem, slack=COMPRESSED)
    history: list[Stage] = []

    def told(name: str, z: torch.Tensor, square: float, horizon: int, level: int) -> None:
        values = {path: value.tolist() for path, value in parameters.values(z).items()}
        history.append(Stage(name, values, square, time.perf_counter() - begin, horizon, level))
        progress(history[-1])

    found, agreeing, interrupted = _searched(problem, optimizer, max(1, starts), seed, told)
    doubt = uncertainty(problem, found.z)
    method, center, deviation, width = "residuals", found.z, doubt.deviation, NORMAL
    if bootstrap and not compressed:
        raise InvalidInput("bootstrap", True, "needs a compressed video from gs.load_video to encode others alike")
    if not interrupted and (bootstrap or (bootstrap is None and compressed)):
        try:
            center, deviation, width = bootstrapped(problem, found.z, videos, optimizer, seed, told)
            method = "bootstrap: fits of videos encoded like this one"
            deviation = torch.maximum(deviation, doubt.deviation)
        except KeyboardInterrupt:
            interrupted = True
    if interrupted and compressed:
        method = "residuals: too narrow for a compressed video"
    return _answer(problem, found, doubt, center, deviation, width, method, interrupted, agreeing > 1).with_record(
        history=tuple(history), starts=max(1, starts), agreeing=agreeing, seconds=time.perf_counter() - begin
    )


def posed(
    scene: Scene, seen: Seen, fps: float | None, substeps: int | None, integrator: Integrator, **options: Any
) -> Trial:
    """A scene beside what was seen of it, with the options of `Pixels`."""
    scene, observation, rate = _observed(scene, seen, fps, options)
    return Trial(scene, observation, Clock(rate, _substeps(scene, rate, substeps, integrator), integrator))


def _searched(problem: Problem, optimizer: GaussNewton, starts: int, seed: int, told: Any) -> tuple[Found, int, bool]:
    """The best of several searches, how many agree with it, and whether it was interrupted."""
    generator = torch.Generator().manual_seed(seed)
    places = [problem.parameters.start(), *problem.parameters.draw(starts - 1, generator)]
    results: list[Found] = []
    interrupted = False
    for number, place in enumerate(places):
        search = Search(problem, optimizer, seed + number, told)
        try:
            results.append(search.run(place))
        except KeyboardInterrupt:
            interrupted = True
            if search.best is not None:
                results.append(search.best)
            break
    if not results:
        raise KeyboardInterrupt
    results.sort(key=lambda result: result.mean_square)
    best = results[0]
    agreeing = sum(float((result.z - best.z).abs().max()) < APART for result in results)
    for other in results[1:]:
        apart = float((other.z - best.z).abs().max()) >= APART
        if apart and other.mean_square < RIVAL * best.mean_square + SAME:
            best.rivals.append((other.z, other.mean_square))
    return best, agreeing, interrupted


def _answer(
    problem: Problem,
    found: Found,
    doubt: Uncertainty,
    center: torch.Tensor,
    deviation: torch.Tensor,
    width: float,
    method: str,
    interrupted: bool,
    agreed: bool,
) -> Fit:
    parameters = problem.parameters
    low, high = parameters.limits()
    ends = [parameters.values((center + side * width * deviation).clamp(low, high)) for side in (-1, 1)]
    values = parameters.values(center)
    intervals = {path: (torch.minimum(*pair), torch.maximum(*pair)) for path, pair in _paired(ends)}
    status, advice = "converged", ""
    verdicts = dict(zip(parameters.names, doubt.verdicts, strict=True))
    if interrupted:
        status, advice = "interrupted", "this is the best so far; run it again for an answer"
    elif found.rivals:
        status = "several answers"
        advice = "other values explain the video as well: see `rivals`; more frames, another push or view may tell"
        apart = torch.stack([(z - found.z).abs() > APART for z, _ in found.rivals]).any(0).tolist()
        for (name, verdict), differs in zip(verdicts.items(), apart, strict=True):
            if differs and verdict.word == "identifiable":
                verdicts[name] = Verdict("weak", advice)
    elif not found.accepted and not (problem.floors[0] is None and doubt.noise < PLAUSIBLE):
        status = "above the noise"
        advice = "the scene does not explain all of the video: look at the difference, check camera, colours and motion"
    elif not found.converged:
        status, advice = "not converged", "the steps were not small yet: optimizer=gs.GaussNewton(iterations=100)"
    elif problem.floors[0] is None and not agreed:
        advice = "the first frame does not tell the noise: ask for starts=3 to see whether others come to the same"
    known = {path: value for path, value in values.items() if path in problem.trials[0].scene.unknowns}
    return Fit(
        values=values,
        intervals=intervals,
        verdicts=verdicts,
        correlation=doubt.correlation,
        directions=doubt.directions,
        noise=doubt.noise,
        method=method,
        status=status,
        advice=advice,
        scene=problem.trials[0].scene.with_values(known),
        trials=problem.trials,
        parameters=parameters,
        coordinates=center,
        deviation=deviation,
        rivals=tuple(parameters.values(z) for z, _ in found.rivals),
    )


def _paired(ends: list[dict[str, torch.Tensor]]) -> list[tuple[str, tuple[torch.Tensor, torch.Tensor]]]:
    return [(path, (ends[0][path], ends[1][path])) for path in ends[0]]


def _observed(scene: Scene, seen: Any, fps: float | None, options: dict[str, Any]) -> tuple[Scene, Any, float]:
    """What was observed, in comparable form, and its rate; compressed videos by luma, before their own background."""
    rate = fps if fps is not None else getattr(seen, "fps", None)
    if rate is None:
        raise InvalidInput("fps", None, "the video does not tell its rate: give fps=30.0, say")
    if not rate > 0:
        raise OutOfRange("fps", rate, "must be > 0 [1/s]")
    if isinstance(seen, Video):
        if seen.encoding.lossy:
            color = _background(scene, seen)
            plain = torch.as_tensor(scene.background).ndim == 1 and "scene.background" not in scene.unknowns
            if plain and color is not None:
                scene = replace(scene, background=color)
            channels = torch.tensor(LUMA, dtype=seen.frames.dtype)
            return scene, Pixels(seen.frames, channels=channels, **options), rate
        return scene, Pixels(seen.frames, **options), rate
    if isinstance(seen, torch.Tensor):
        return scene, Pixels(seen.detach().to(torch.float64), **options), rate
    if hasattr(seen, "residual"):
        return scene, seen, rate
    raise WrongType(
        "video", type(seen).__name__, "must be a video, a tensor [T, H, W, 3], gs.Masks, gs.Tracks or gs.States"
    )


def _background(scene: Scene, seen: Video) -> torch.Tensor | None:
    """Median colour of the first picture where the scene, as guessed, shows nothing, [3]; None if that is nowhere."""
    parameters = Parameters(scene)
    guess = parameters.fill(parameters.start())
    with torch.no_grad():
        still = Clock(1.0, SUBSTEPS[0]).run(guess, 1)
        covered = render(guess, still, seen.size, alpha=True)[0, ..., 3]
    free = covered < 1e-3
    return seen.frames[0][free].median(0).values if int(free.sum()) >= FREE else None


def _substeps(scene: Scene, fps: float, substeps: int | None, integrator: Integrator) -> int:
    """Steps a frame that most of what the unknowns may be can bear."""
    if substeps is not None:
        return substeps
    parameters = Parameters(scene)
    draws = [parameters.start(), *parameters.draw(15, torch.Generator().manual_seed(0))]
    steps = sorted(1.0 / (fps * stable_dt(parameters.fill(z), integrator)) for z in draws)
    needed = 1.3 * steps[int(0.8 * len(steps))]
    return int(min(max(2 ** math.ceil(math.log2(max(needed, 1.0))), SUBSTEPS[0]), SUBSTEPS[1]))
