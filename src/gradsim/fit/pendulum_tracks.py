"""Trials of a compound double pendulum from tracks of its joint and of its end."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim import meshes
from gradsim.fit.observations.points import Marker
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.result import Fit
from gradsim.fit.rod_guess import Paths, RodGuess, guess_rods, guess_start
from gradsim.fit.trial_model import RATE
from gradsim.fit.trials import Trial
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.camera import Camera, checked_pixels
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape, WrongType
from gradsim.scene.joints import Revolute
from gradsim.scene.meshes import TriMesh
from gradsim.scene.priors import Normal
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown, unknown

BODY = "bars"
GRAVITY = 9.81  # [m/s^2]
DOWN = (0.0, 0.0, 1.0, 0.0)  # rotation of the base: the bars' y axes point down where the angles are zero
TILT = 0.3  # standard deviation of the sideways component of gravity [m/s^2]: a camera that was levelled by eye
SWING = 8.0  # length of a segment, in square roots of length over gravity: about one and a quarter small swings
SLIP = 0.2  # rate at which dry friction sets in [rad/s]
FRICTION = 1e-3  # guess of the dry friction of a joint, relative to the weight of the first bar at its length
MAX_RATE_ERROR = 2.5  # factor between a frame rate and the one that follows from gravity
ROD_WIDTH = 0.15  # of a bar that is drawn, relative to its length
POINT = np.zeros((3, 3))  # inertia of a point mass about itself
MIN_FRAMES = 20  # of a segment
RANGE = 4.0  # factor between a guess and its bounds
ANGLE_RANGE = 1.0  # between the guess of an angle at the start and its bounds [rad]
RATE_RANGE = 5.0  # of its rate, in addition to its size [rad/s]

Array = NDArray[np.float64]


def pendulum_trials(
    tracks: Any,
    *,
    fps: float | Unknown,
    size: tuple[int, int] | None = None,
    scale: float | Unknown | None = None,
    frames: int | None = None,
    friction: bool = False,
    noise: float | None = None,
    robust: Any = None,
    known: Fit | None = None,
) -> list[Trial]:
    """Returns the trials of a compound double pendulum, for `gs.estimate`, from tracks of points on its bars.

    The bars may have any masses, centres and inertias. Only some combinations of them affect a motion: each bar moves
    as a point mass at its effective length, the length of a simple pendulum of the same period. The scene has a body
    `bars` with unknown pivot, lengths, effective lengths, ratio of the masses and damping of both joints; the mass of
    the first bar is 1, as only ratios matter. Gravity may be tilted by a few degrees in the picture. Angles and rates
    at the start belong to each trial. All guesses come from the tracks. Long recordings are cut into segments, since
    small errors grow exponentially in a chaotic motion.

    Example:
        `fit = gs.estimate(gs.pendulum_trials([first, second], fps=gs.unknown(48.0, low=30.0, high=80.0)))`

    Args:
        tracks: Positions of the joint between the bars and of a point near the end of the second bar, [T, 2, 2], or
            of the pivot, the joint and that point, [T, 3, 2]; or a list of these, one per recording. NaN where a point
            is not seen. Positions are in metres, x to the right and y up; with `size` in pixels, y down.
        fps: Frames per second [1/s], or an unknown with bounds. Its guess is taken from the tracks.
        size: Height and width of the pictures [px], if `tracks` are in pixels.
        scale: Metres per pixel, known or unknown; None estimates it, which needs a known frame rate: gravity determines
            one of the two.
        frames: Largest number of frames of a segment; by default about one and a quarter small swings.
        friction: Whether dry friction of both joints is unknown too; otherwise their damping stands for it.
        noise: Standard deviation of a coordinate, in the unit of the tracks; measured in the residuals if None.
        robust: Threshold of the Huber loss, `gs.Huber` or `gs.Cauchy`, in the same unit, against outliers.
        known: A fit of other trials of the same pendulum. Its values are kept, and only the starts are unknown.
    """
    recordings = [_checked(own, number) for number, own in enumerate(_as_list(tracks))]
    size = None if size is None else checked_pixels("size", size)
    _check_units(fps, size, scale)
    if frames is not None and (isinstance(frames, bool) or not isinstance(frames, int) or frames < MIN_FRAMES):
        raise OutOfRange("frames", frames, f"must be a whole number >= {MIN_FRAMES}")
    options = {"noise": noise, "robust": robust}
    if known is not None:
        return _trials_of(known, recordings, fps, size, frames, options)
    guess = guess_rods([_paths(own, size) for own in recordings])
    units = _units(guess, fps, scale, pixels=size is not None)
    shared = _shared(guess, units, size)
    if friction:
        shared = replace(shared, friction=(_friction(shared.lengths[0]), _friction(shared.lengths[0])))
    count = frames or max(MIN_FRAMES, round(SWING * _swing_frames(guess)))
    return _trials(recordings, shared, units.fps, units.rate, guess.pivot, count, size, options)


def _trials(
    recordings: list[Array],
    shared: _Shared,
    fps: float | Unknown,
    rate: float,
    pivot: Array,
    count: int,
    size: tuple[int, int] | None,
    options: dict[str, Any],
) -> list[Trial]:
    """Returns the trials of all segments of at most `count` frames; `pivot` [2] is in the unit of the tracks."""
    found: list[Trial] = []
    for piece in (piece for own in recordings for piece in _segments(own, count)):
        start = guess_start(_paths(piece, size), pivot) * np.array([1.0, 1.0, rate, rate])
        observed = _observed(piece, size, options)
        found.append(Trial(_scene(shared, start), observed, fps=fps, name=f"segment {len(found)}"))
    return found


def _trials_of(
    known: Fit, recordings: list[Array], fps: Any, size: Any, frames: int | None, options: Any
) -> list[Trial]:
    """Returns the trials of a pendulum of which only the starts are unknown."""
    shared = _of_fit(known)
    rate = float(known.values[RATE]) if RATE in known.values else fps
    if isinstance(rate, Unknown):
        raise InvalidInput("fps", "unknown", "the known fit has no frame rate of its own: give a number")
    metre = 1.0 if size is None else shared.view_height / size[0]
    count = frames or max(len(own) for own in recordings)
    pivot = np.array(shared.position) / metre
    return _trials(recordings, shared, float(rate), float(rate), pivot, count, size, options)


@dataclass(frozen=True)
class _Units:
    """Frame rate and length of a unit of the tracks."""

    rate: float  # guess [1/s]
    length: float  # guess [m]
    fps: float | Unknown
    scale: float | Unknown  # [m]


def _as_list(tracks: Any) -> list[Any]:
    if isinstance(tracks, (list, tuple)) and tracks and np.ndim(tracks[0]) == 3:
        return list(tracks)
    return [tracks]


def _checked(tracks: Any, number: int) -> Array:
    try:
        array = np.asarray(tracks, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError):
        raise WrongType(f"tracks[{number}]", type(tracks).__name__, "must be an array [T, 2, 2] or [T, 3, 2]") from None
    if array.ndim != 3 or array.shape[1] not in (2, 3) or array.shape[2] != 2:
        remedy = "must be [T, 2, 2], of the joint and the end, or [T, 3, 2], of the pivot, the joint and the end"
        raise WrongShape(f"tracks[{number}]", array.shape, remedy)
    seen = np.isfinite(array[:, -2:]).all((1, 2))
    if seen.sum() < MIN_FRAMES:
        raise InvalidInput(f"tracks[{number}]", f"{seen.sum()} frames with both points", f"needs {MIN_FRAMES} or more")
    return array


def _check_units(fps: Any, size: Any, scale: Any) -> None:
    if not isinstance(fps, Unknown) and (isinstance(fps, bool) or not isinstance(fps, (int, float)) or not fps > 0):
        raise OutOfRange("fps", fps, "must be a number > 0 or gs.unknown(60.0, low=..., high=...)")
    if size is None and scale is not None:
        raise InvalidInput("scale", scale, "belongs to tracks in pixels: give size=(height, width) of the pictures")
    loose = [own is None or (isinstance(own, Unknown) and own.prior is None) for own in (fps, scale)]
    if size is not None and ((isinstance(fps, Unknown) and scale is None) or all(loose)):
        remedy = "gravity determines the scale or the frame rate, not both: give one of them, or a prior"
        raise InvalidInput("scale", "unknown, as is fps", remedy)


def _paths(tracks: Array, size: tuple[int, int] | None) -> Paths:
    """Returns the points of a recording, y up; pixels from the middle of the picture."""
    if size is not None:
        tracks = (tracks - np.array([size[1] / 2, size[0] / 2])) * np.array([1.0, -1.0])
    return Paths(tracks[:, -2], tracks[:, -1], tracks[:, 0] if tracks.shape[1] == 3 else None)


def _swing_frames(guess: RodGuess) -> float:
    """Returns the square root of length over gravity, in frames."""
    return math.sqrt(sum(guess.lengths) / 2 / float(np.hypot(*guess.gravity)))


def _segments(tracks: Array, count: int) -> list[Array]:
    """Cuts a recording into parts of nearly equal length of at most `count` frames that start with seen points."""
    parts = math.ceil(len(tracks) / count)
    found = np.array_split(tracks, parts)
    seen = [np.isfinite(part[:, -2:]).all((1, 2)) for part in found]
    return [part[int(np.argmax(own)) :] for part, own in zip(found, seen, strict=True) if own.sum() >= MIN_FRAMES // 2]


def _units(guess: RodGuess, fps: float | Unknown, scale: float | Unknown | None, *, pixels: bool) -> _Units:
    """Returns the units of the tracks: whichever of frame rate and scale is unknown follows from gravity."""
    if not guess.gravity[1] < 0:
        raise InvalidInput(
            "tracks", "gravity points up in them", "y points up in metres, and down in pixels: give size"
        )
    pull = float(np.hypot(*guess.gravity))  # [unit / frame^2]
    if not pixels:
        scale = 1.0
    if isinstance(fps, Unknown):
        assert scale is not None  # see _check_units
        length = float(scale.guess) if isinstance(scale, Unknown) else scale
        rate = _inside(_checked_rate(math.sqrt(GRAVITY / (pull * length)), float(fps.guess)), fps)
        return _Units(rate, length, replace(fps, guess=np.array(rate)), scale)
    if isinstance(scale, (int, float)):
        _checked_rate(math.sqrt(GRAVITY / (pull * scale)), fps)
        return _Units(fps, scale, fps, scale)
    length = GRAVITY / (pull * fps**2)
    if scale is None:
        return _Units(fps, length, fps, _positive(length))
    length = _inside(length, scale)
    return _Units(fps, length, fps, replace(scale, guess=np.array(length)))


def _checked_rate(found: float, stated: float) -> float:
    """Returns the frame rate at which the tracks fall with gravity, if it is near the one that is stated."""
    if not 1 / MAX_RATE_ERROR < found / stated < MAX_RATE_ERROR:
        value = f"bars that fall with gravity at about {found:.3g} frames per second, not {stated:g}"
        raise InvalidInput("tracks", value, "must be in metres, or in pixels with size= and scale=: check the units")
    return found


def _inside(value: float, bounds: Unknown) -> float:
    """Returns a value moved a little inside the bounds of an unknown."""
    low = -math.inf if bounds.low is None else float(bounds.low)
    high = math.inf if bounds.high is None else float(bounds.high)
    margin = 0.02 * (high - low) if math.isfinite(high - low) else 0.0
    return min(max(value, low + margin), high - margin)


def _positive(guess: float) -> Unknown:
    return unknown(guess, low=guess / RANGE, high=guess * RANGE)


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all trials share."""

    position: tuple[Any, Any]  # of the pivot [m]
    lengths: tuple[Any, Any]  # [m]
    effective: tuple[Any, Any]  # [m]
    ratio: Any
    damping: tuple[Any, Any]  # [N m s], for a mass of 1 kg of the first bar
    friction: tuple[Any, Any]  # [N m], likewise
    sideways: Any  # gravity along x [m/s^2]
    view_height: Any  # [m]; None for positions in space


def _shared(guess: RodGuess, units: _Units, size: tuple[int, int] | None) -> _Shared:
    """Returns the unknowns that all trials share."""
    metre = units.length
    reach = metre * guess.lengths[0]
    x, y = (float(value) * metre for value in guess.pivot)
    strong = reach**2 * math.sqrt(GRAVITY / reach)  # damping that would stop the first bar within a swing [N m s]
    damping = [float(np.clip(value * metre**2 * units.rate, 1e-4 * strong, strong)) for value in guess.damping]
    first, second = (unknown(value, low=0.0, high=2 * strong) for value in damping)
    tilt = float(np.clip(GRAVITY * guess.gravity[0] / np.hypot(*guess.gravity), -TILT, TILT))
    return _Shared(
        position=(unknown(x, low=x - reach, high=x + reach), unknown(y, low=y - reach, high=y + reach)),
        lengths=(_positive(metre * guess.lengths[0]), _positive(metre * guess.lengths[1])),
        effective=(_positive(metre * guess.effective[0]), _positive(metre * guess.effective[1])),
        ratio=_positive(guess.ratio),
        damping=(first, second),
        friction=(0.0, 0.0),
        sideways=unknown(tilt, prior=Normal(0.0, TILT)),
        view_height=None if size is None else _view_height(units.scale, size[0]),
    )


def _friction(length: Unknown) -> Unknown:
    """Returns an unknown dry friction of a joint, for a mass of 1 kg at a length [m]."""
    weight = GRAVITY * float(length.guess)
    return unknown(FRICTION * weight, low=0.0, high=0.1 * weight)


def _view_height(scale: float | Unknown, height: int) -> float | Unknown:
    """Returns what a picture shows [m] for a scale [m/px]."""
    if not isinstance(scale, Unknown):
        return scale * height
    prior: Any = scale.prior
    if isinstance(prior, Normal):
        prior = Normal(np.asarray(prior.mean) * height, np.asarray(prior.sd) * height)
    elif prior is not None:
        prior = replace(prior, median=np.asarray(prior.median) * height)
    low, high = (None if own is None else float(own) * height for own in (scale.low, scale.high))
    return unknown(float(scale.guess) * height, low=low, high=high, prior=prior)


def _of_fit(fit: Fit) -> _Shared:
    """Returns the values of a fit of other trials."""
    scene = fit.scene
    bars: Any = scene[BODY]
    upper, lower, end = (bars.links[name] for name in ("upper", "lower", "end"))
    return _Shared(
        position=(float(bars.position[0]), float(bars.position[1])),
        lengths=(float(lower.position[1]), float(end.position[1])),
        effective=(float(upper.center[1]), float(lower.center[1])),
        ratio=float(lower.mass),
        damping=(float(upper.joint.damping), float(lower.joint.damping)),
        friction=(float(upper.joint.friction), float(lower.joint.friction)),
        sideways=float(scene.gravity[0]),  # type: ignore[index]
        view_height=None if scene.camera is None else float(scene.camera.view_height),  # type: ignore[arg-type]
    )


def _scene(shared: _Shared, start: Array) -> Scene:
    """Returns the scene of a trial from guesses of both angles from straight down and of their rates [4]."""
    a, b, u, v = start.tolist()
    angles, rates = (a, b - a), (u, v - u)
    joints = [
        Revolute(angle=_angle(angle), rate=_rate(rate), damping=damping, friction=friction, slip=SLIP)
        for angle, rate, damping, friction in zip(angles, rates, shared.damping, shared.friction, strict=True)
    ]
    first, second = (_rod(_number(length)) for length in shared.lengths)
    upper = Link(joints[0], mass=1.0, center=(0.0, shared.effective[0], 0.0), inertia=POINT, mesh=first)
    place, center = (0.0, shared.lengths[0], 0.0), (0.0, shared.effective[1], 0.0)
    lower = Link(joints[1], "upper", place, mass=shared.ratio, center=center, inertia=POINT, mesh=second)
    end = Link(parent="lower", position=(0.0, shared.lengths[1], 0.0))
    links = {"upper": upper, "lower": lower, "end": end}
    bars = Articulated(BODY, links, position=(*shared.position, 0.0), rotation=DOWN)
    camera = None if shared.view_height is None else Camera(target=(0.0, 0.0, 0.0), view_height=shared.view_height)
    return Scene([bars], gravity=(shared.sideways, -GRAVITY, 0.0), camera=camera)


def _number(value: float | Unknown) -> float:
    return float(value.guess) if isinstance(value, Unknown) else value


def _rod(length: float) -> TriMesh:
    """Returns what a bar is drawn as: a box from its hinge on."""
    box = meshes.box((ROD_WIDTH * length, length, ROD_WIDTH * length / 2))
    return TriMesh(box.vertices + np.array([0.0, length / 2, 0.0]), box.faces)


def _angle(guess: float) -> Unknown:
    return unknown(guess, low=guess - ANGLE_RANGE, high=guess + ANGLE_RANGE, per_trial=True)


def _rate(guess: float) -> Unknown:
    margin = RATE_RANGE + abs(guess)
    return unknown(guess, low=guess - margin, high=guess + margin, per_trial=True)


def _observed(tracks: Array, size: tuple[int, int] | None, options: dict[str, Any]) -> Tracks:
    """Returns the tracks of a segment: of the joint and the end, and of the pivot if it was tracked."""
    points = [Marker(BODY, link=name) for name in ("upper", "lower", "end")[-tracks.shape[1] :]]
    if size is not None:
        return Tracks(points, tracks, size, **options)
    positions = np.concatenate([tracks, np.zeros_like(tracks[..., :1])], -1)
    weights = np.ones_like(positions) * np.array([1.0, 1.0, 0.0])  # the third coordinate was not measured
    return Tracks(points, positions=positions, weights=weights, **options)
