"""Trials of a compound double pendulum from tracks of its joint and of its end."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim.fit.observations.points import Marker
from gradsim.fit.observations.robust import Cauchy, Huber
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.pendulum_scene import (
    BODY,
    GRAVITY,
    SharedNumbers,
    Units,
    fitted_numbers,
    inside,
    pendulum_scene,
    positive,
    shared_numbers,
)
from gradsim.fit.result import Fit
from gradsim.fit.rod_guess import Paths, RodGuess, guess_rods, guess_start, without_outliers
from gradsim.fit.track_tables import MIN_FRAMES, read_recordings
from gradsim.fit.trial_model import RATE
from gradsim.fit.trials import Trial
from gradsim.scene.camera import checked_pixels
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.unknown import Unknown, unknown

SWING = 8.0  # length of a segment, in square roots of length over gravity: about one and a quarter small swings
MAX_RATE_ERROR = 2.5  # factor between a frame rate and the one that follows from gravity
MIN_SEGMENTS, MAX_SEGMENTS = 6, 32  # that are compared: few do not show how much their answers scatter
FINE = 20.0  # frames in the square root of length over gravity, from which on all losses are unknown by default
PIVOT_NOISE = 5.0  # error of the marker of the pivot, which may be off the axis, relative to the noise

Array = NDArray[np.float64]


def pendulum_trials(
    tracks: Any,
    *,
    fps: float | Unknown,
    size: tuple[int, int] | None = None,
    scale: float | Unknown | None = None,
    lengths: tuple[float, float] | None = None,
    frames: int | None = None,
    segments: int = MAX_SEGMENTS,
    friction: bool | None = None,
    drag: bool | None = None,
    noise: float | None = None,
    robust: Any = None,
    known: Fit | None = None,
) -> list[Trial]:
    """Returns the trials of a compound double pendulum, for `gs.estimate`, from tracks of points on its bars.

    The bars may have any masses, centres and inertias. Only some combinations of them affect a motion: each bar moves
    as a point mass at its effective length, the length of a simple pendulum of the same period. The scene has a body
    `bars` with unknown pivot, lengths, effective lengths, ratio of the masses, and damping, dry friction and air drag
    of both bars; the mass of the first bar is 1, as only ratios matter. Gravity may be tilted by a few degrees in the
    picture. Angles and rates at the start belong to each trial. All guesses come from the tracks. Long recordings are
    cut into segments, since small errors grow exponentially in a chaotic motion. Points that are not at the ends of
    the bars, such as those of a lost marker, are left out.

    Example:
        `fit = gs.estimate(gs.pendulum_trials([first, second], fps=gs.unknown(48.0, low=30.0, high=80.0)))`

    Args:
        tracks: Positions of the joint between the bars and of a point near the end of the second bar, [T, 2, 2] or
            [T, 4], or of the pivot too, [T, 3, 2] or [T, 6], in any order; or the name of a .csv, .txt, .npz or .npy
            file with x and y of each point in turn; or a list of these, one per recording. NaN where a point is not
            seen. Positions are in metres, x to the right and y up; with `size` or `scale` in pixels, y down.
        fps: Frames per second [1/s], or an unknown with bounds. Its guess is taken from the tracks.
        size: Height and width of the pictures [px], if `tracks` are in pixels. Not needed if their scale is known:
            positions are then those of the tracks times the scale, with y up.
        scale: Metres per pixel, known or unknown; None estimates it, which needs a known frame rate or known lengths:
            gravity determines one of the two.
        lengths: Distances from the pivot to the joint and from there to the tracked end [m], if they are known.
        frames: Largest number of frames of a segment; by default about one and a quarter small swings.
        segments: Largest number of segments, which are spread evenly over longer recordings.
        friction: Whether dry friction of both joints is unknown too; otherwise their damping stands for it. None
            decides by the frame rate: where 20 frames or more are taken while a bar falls by half its length, the
            guesses are good enough for it.
        drag: Whether air drag of both bars is unknown too; None as for `friction`.
        noise: Standard deviation of a coordinate, in the unit of the tracks; measured in the residuals if None.
        robust: Threshold of the Huber loss, `gs.Huber` or `gs.Cauchy`, in the same unit, against outliers.
        known: A fit of other trials of the same pendulum. Its values are kept, and only the starts are unknown.
    """
    for name, count, least in (("frames", frames, MIN_FRAMES), ("segments", segments, 1)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < least):
            raise OutOfRange(name, count, f"must be a whole number >= {least}")
    recordings = read_recordings(tracks)
    size = None if size is None else checked_pixels("size", size)
    _check_units(fps, size, scale, lengths)
    if size is None and scale is not None and not isinstance(scale, Unknown):
        recordings, noise, robust = _in_metres(recordings, scale, noise, robust)
    recordings = _without_outliers(recordings, size)
    options = {"noise": noise, "robust": robust}
    if known is not None:
        return _trials_of(known, recordings, fps, size, frames, options)
    guess = guess_rods([_paths(own, size) for own in recordings])
    units = _units(guess, fps, _scale_of(lengths, guess, scale, size), pixels=size is not None)
    fine = _swing_frames(guess) >= FINE
    friction, drag = fine if friction is None else friction, fine if drag is None else drag
    shared = shared_numbers(guess, units, size, friction=friction, drag=drag, aside=fine)
    if lengths is not None:
        shared = replace(shared, lengths=(float(lengths[0]), float(lengths[1])))
    count = frames or _segment_frames(recordings, SWING * _swing_frames(guess), fine=fine)
    pieces = _spread([piece for own in recordings for piece in _segments(own, count)], segments)
    return _trials(pieces, shared, units, guess.pivot, size, options)


def _trials(
    pieces: list[Array],
    shared: SharedNumbers,
    units: Units,
    pivot: Array,
    size: tuple[int, int] | None,
    options: dict[str, Any],
) -> list[Trial]:
    """Returns the trials of all segments; `pivot` [2] is in the unit of the tracks."""
    found: list[Trial] = []
    for piece in pieces:
        start = guess_start(_paths(piece, size), pivot) * np.array([1.0, 1.0, units.rate, units.rate])
        observed = _observed(piece, size, PIVOT_NOISE**-2 / len(pieces), options)
        found.append(Trial(pendulum_scene(shared, start), observed, fps=units.fps, name=f"segment {len(found)}"))
    return found


def _trials_of(
    known: Fit, recordings: list[Array], fps: Any, size: Any, frames: int | None, options: Any
) -> list[Trial]:
    """Returns the trials of a pendulum of which only the starts are unknown."""
    shared = fitted_numbers(known)
    rate = float(known.values[RATE]) if RATE in known.values else fps
    if isinstance(rate, Unknown):
        raise InvalidInput("fps", "unknown", "the known fit has no frame rate of its own: give a number")
    metre = 1.0 if size is None else shared.view_height / size[0]
    pieces = [piece for own in recordings for piece in _segments(own, frames or len(own))]
    return _trials(pieces, shared, Units(rate, metre, rate, metre), np.array(shared.position) / metre, size, options)


def _in_metres(recordings: list[Array], scale: float, noise: Any, robust: Any) -> tuple[list[Array], Any, Any]:
    """Returns tracks in pixels, y down, in metres, y up, with their noise and the threshold of a robust loss."""
    found = [own * np.array([scale, -scale]) for own in recordings]
    if isinstance(robust, (Huber, Cauchy)):
        return found, _scaled(noise, scale), replace(robust, threshold=scale * robust.threshold)
    return found, _scaled(noise, scale), _scaled(robust, scale)


def _scaled(value: Any, scale: float) -> Any:
    return scale * value if _is_number(value) else value


def _without_outliers(recordings: list[Array], size: tuple[int, int] | None) -> list[Array]:
    """Returns the recordings with NaN for points that are not at the ends of the bars."""
    kept = without_outliers([_paths(own, size) for own in recordings])
    found = []
    for own, paths in zip(recordings, kept, strict=True):
        missing = np.isnan(np.stack([paths.joint, paths.end], 1))
        found.append(np.concatenate([own[:, :-2], np.where(missing, np.nan, own[:, -2:])], 1))
    return found


def _scale_of(lengths: Any, guess: RodGuess, scale: Any, size: Any) -> Any:
    """Returns the scale [m/px]; that which follows from known lengths if it is not given."""
    if lengths is None or size is None or scale is not None:
        return scale
    length = sum(lengths) / sum(guess.lengths)
    return unknown(length, low=0.8 * length, high=1.25 * length)


def _spread(pieces: list[Array], count: int) -> list[Array]:
    """Returns at most `count` segments, evenly spread."""
    if len(pieces) <= count:
        return pieces
    return [pieces[k] for k in np.unique(np.linspace(0, len(pieces) - 1, count).round().astype(int))]


def _check_units(fps: Any, size: Any, scale: Any, lengths: Any) -> None:
    if not isinstance(fps, Unknown) and not (_is_number(fps) and fps > 0):
        raise OutOfRange("fps", fps, "must be a number > 0 or gs.unknown(60.0, low=..., high=...)")
    if size is None and isinstance(scale, Unknown):
        raise InvalidInput("scale", "unknown", "belongs to tracks in pixels: give size=(height, width) of the pictures")
    if scale is not None and not isinstance(scale, Unknown) and not (_is_number(scale) and 0 < scale < math.inf):
        raise OutOfRange("scale", scale, "must be a number > 0 [m/px] or gs.unknown(1e-3, low=..., high=...)")
    known = lengths is None or (
        np.shape(lengths) == (2,) and all(_is_number(own) and 0 < own < math.inf for own in lengths)
    )
    if not known:
        raise OutOfRange("lengths", lengths, "must be two numbers > 0 [m]")
    loose = [own is None or (isinstance(own, Unknown) and own.prior is None) for own in (fps, scale)]
    if size is not None and lengths is None and ((isinstance(fps, Unknown) and scale is None) or all(loose)):
        remedy = "gravity determines the scale or the frame rate, not both: give one of them, a prior, or the lengths"
        raise InvalidInput("scale", "unknown, as is fps", remedy)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _paths(tracks: Array, size: tuple[int, int] | None) -> Paths:
    """Returns the points of a recording, y up; pixels from the middle of the picture."""
    if size is not None:
        tracks = (tracks - np.array([size[1] / 2, size[0] / 2])) * np.array([1.0, -1.0])
    return Paths(tracks[:, -2], tracks[:, -1], tracks[:, 0] if tracks.shape[1] == 3 else None)


def _swing_frames(guess: RodGuess) -> float:
    """Returns the square root of length over gravity, in frames."""
    return math.sqrt(sum(guess.lengths) / 2 / float(np.hypot(*guess.gravity)))


def _segment_frames(recordings: list[Array], frames: float, *, fine: bool) -> int:
    """Returns the largest number of frames of a segment: `frames`, down to half of it where segments are too few."""
    enough = sum(map(len, recordings)) / MIN_SEGMENTS if fine else frames
    return max(MIN_FRAMES, round(min(frames, max(enough, frames / 2))))


def _segments(tracks: Array, count: int) -> list[Array]:
    """Cuts a recording into parts of nearly equal length of at most `count` frames that start with seen points."""
    parts = math.ceil(len(tracks) / count)
    found = np.array_split(tracks, parts)
    seen = [np.isfinite(part[:, -2:]).all((1, 2)) for part in found]
    return [part[int(np.argmax(own)) :] for part, own in zip(found, seen, strict=True) if own.sum() >= MIN_FRAMES // 2]


def _units(guess: RodGuess, fps: float | Unknown, scale: float | Unknown | None, *, pixels: bool) -> Units:
    """Returns the units of the tracks: whichever of frame rate and scale is unknown follows from gravity."""
    if not guess.gravity[1] < 0:
        raise InvalidInput(
            "tracks", "gravity points up in them", "y points up in metres, and down in pixels: give size or scale"
        )
    pull = float(np.hypot(*guess.gravity))  # [unit / frame^2]
    if not pixels:
        scale = 1.0
    if isinstance(fps, Unknown):
        assert scale is not None  # see _check_units
        length = float(scale.guess) if isinstance(scale, Unknown) else scale
        rate = inside(_checked_rate(math.sqrt(GRAVITY / (pull * length)), float(fps.guess)), fps)
        return Units(rate, length, replace(fps, guess=np.array(rate)), scale)
    if isinstance(scale, (int, float)):
        _checked_rate(math.sqrt(GRAVITY / (pull * scale)), fps)
        return Units(fps, scale, fps, scale)
    length = GRAVITY / (pull * fps**2)
    if scale is None:
        return Units(fps, length, fps, positive(length))
    length = inside(length, scale)
    return Units(fps, length, fps, replace(scale, guess=np.array(length)))


def _checked_rate(found: float, stated: float) -> float:
    """Returns the frame rate at which the tracks fall with gravity, if it is near the one that is stated."""
    if not 1 / MAX_RATE_ERROR < found / stated < MAX_RATE_ERROR:
        value = f"bars that fall with gravity at about {found:.3g} frames per second, not {stated:g}"
        raise InvalidInput("tracks", value, "must be in metres, or in pixels with size= and scale=: check the units")
    return found


def _observed(tracks: Array, size: tuple[int, int] | None, share: float, options: dict[str, Any]) -> Tracks:
    """Returns the tracks of a segment: of the joint and the end, and of the pivot if it was tracked.

    The median of the pivot is compared in a single frame, with the weight `share`: its error is the same in all frames.
    """
    points = [Marker(BODY, link=name) for name in ("upper", "lower", "end")[-tracks.shape[1] :]]
    tracks, weights = tracks.copy(), np.ones_like(tracks)
    if tracks.shape[1] == 3:
        seen = tracks[np.isfinite(tracks[:, 0]).all(-1), 0]
        weights[:, 0] = 0.0
        if len(seen):
            tracks[0, 0], weights[0, 0] = np.median(seen, 0), share
    if size is not None:
        return Tracks(points, tracks, size, weights=weights, **options)
    positions, weights = (np.concatenate([own, np.zeros_like(own[..., :1])], -1) for own in (tracks, weights))
    return Tracks(points, positions=positions, weights=weights, **options)
