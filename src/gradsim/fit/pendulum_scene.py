"""Scenes of a compound double pendulum with guesses from tracks, for `gs.pendulum_trials`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradsim import meshes
from gradsim.fit.result import Fit
from gradsim.fit.rod_guess import RodGuess
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.camera import Camera
from gradsim.scene.joints import Revolute
from gradsim.scene.meshes import TriMesh
from gradsim.scene.priors import Normal
from gradsim.scene.rigid import Drag
from gradsim.scene.scene import Scene
from gradsim.scene.unknown import Unknown, unknown

BODY = "bars"
GRAVITY = 9.81  # [m/s^2]
DOWN = (0.0, 0.0, 1.0, 0.0)  # rotation of the base: the bars' y axes point down where the angles are zero
TILT = 0.3  # standard deviation of the sideways component of gravity [m/s^2]: a camera that was levelled by eye
SLIP = 0.2  # rate at which dry friction sets in, relative to the square root of gravity over length
DAMPING, FRICTION, DRAG = 0.1, 0.02, 0.05  # standard deviations, relative to those that stop a bar within a swing
ASIDE = 0.005  # standard deviation of the distance of a centre of mass from the line of its points, relative to it
ROD_WIDTH = 0.15  # of a bar that is drawn, relative to its length
POINT = np.zeros((3, 3))  # inertia of a point mass about itself
RANGE = 4.0  # factor between a guess and its bounds
ANGLE_RANGE = 1.0  # between the guess of an angle at the start and its bounds [rad]
RATE_RANGE = 1.0  # of its rate, relative to the square root of gravity over length, in addition to its size

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Units:
    """Frame rate and length of a unit of the tracks."""

    rate: float  # guess [1/s]
    length: float  # guess [m]
    fps: float | Unknown
    scale: float | Unknown  # [m]


def inside(value: float, bounds: Unknown) -> float:
    """Returns a value moved a little inside the bounds of an unknown."""
    low = -math.inf if bounds.low is None else float(bounds.low)
    high = math.inf if bounds.high is None else float(bounds.high)
    margin = 0.02 * (high - low) if math.isfinite(high - low) else 0.0
    return min(max(value, low + margin), high - margin)


def positive(guess: float) -> Unknown:
    """Returns an unknown that is known up to a factor."""
    return unknown(guess, low=guess / RANGE, high=guess * RANGE)


@dataclass(frozen=True, eq=False)
class SharedNumbers:
    """What all trials share."""

    position: tuple[Any, Any]  # of the pivot [m]
    lengths: tuple[Any, Any]  # [m]
    effective: tuple[Any, Any]  # [m]
    aside: tuple[Any, Any]  # of the centres of mass, to the side of the lines through the points [m]
    ratio: Any
    damping: tuple[Any, Any]  # [N m s], for a mass of 1 kg of the first bar
    friction: tuple[Any, Any]  # [N m], likewise
    drag: tuple[Any, Any]  # quadratic, at the effective lengths [kg/m], likewise
    sideways: Any  # gravity along x [m/s^2]
    view_height: Any  # [m]; None for positions in space


def shared_numbers(
    guess: RodGuess, units: Units, size: tuple[int, int] | None, *, friction: bool, drag: bool, aside: bool
) -> SharedNumbers:
    """Returns the unknowns that all trials share; what is not asked for is zero."""
    metre = units.length
    reach = metre * guess.lengths[0]
    x, y = (float(value) * metre for value in guess.pivot)
    strong = reach**2 * math.sqrt(GRAVITY / reach)  # damping that would stop the first bar within a swing [N m s]
    dry, air, none = FRICTION * GRAVITY * reach, DRAG / reach, (0.0, 0.0)
    if friction or drag:
        damping = (_loss(DAMPING * strong), _loss(DAMPING * strong))
    else:
        guesses = [float(np.clip(value * metre**2 * units.rate, 1e-4 * strong, strong)) for value in guess.damping]
        damping = (unknown(guesses[0], low=0.0, high=2 * strong), unknown(guesses[1], low=0.0, high=2 * strong))
    tilt = float(np.clip(GRAVITY * guess.gravity[0] / np.hypot(*guess.gravity), -TILT, TILT))
    return SharedNumbers(
        position=(unknown(x, low=x - reach, high=x + reach), unknown(y, low=y - reach, high=y + reach)),
        lengths=(positive(metre * guess.lengths[0]), positive(metre * guess.lengths[1])),
        effective=(positive(metre * guess.effective[0]), positive(metre * guess.effective[1])),
        aside=(_aside(metre * guess.effective[0]), _aside(metre * guess.effective[1])) if aside else none,
        ratio=positive(guess.ratio),
        damping=damping,
        friction=(_loss(dry, nuisance=True), _loss(dry, nuisance=True)) if friction else none,
        drag=(_loss(air, nuisance=True), _loss(air, nuisance=True)) if drag else none,
        sideways=unknown(tilt, prior=Normal(0.0, TILT)),
        view_height=None if size is None else _view_height(units.scale, size[0]),
    )


def _aside(length: float) -> Unknown:
    """Returns an unknown distance of a centre of mass from the line of its points: markers are placed by hand."""
    return unknown(0.0, prior=Normal(0.0, ASIDE * length), nuisance=True)


def _loss(size: float, *, nuisance: bool = False) -> Unknown:
    """Returns an unknown >= 0 that takes energy from the motion."""
    return unknown(0.0, low=0.0, prior=Normal(0.0, size), nuisance=nuisance)


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


def fitted_numbers(fit: Fit) -> SharedNumbers:
    """Returns the values of a fit of other trials."""
    scene = fit.scene
    bars: Any = scene[BODY]
    upper, lower, end = (bars.links[name] for name in ("upper", "lower", "end"))
    return SharedNumbers(
        position=(float(bars.position[0]), float(bars.position[1])),
        lengths=(float(lower.position[1]), float(end.position[1])),
        effective=(float(upper.center[1]), float(lower.center[1])),
        aside=(float(upper.center[0]), float(lower.center[0])),
        ratio=float(lower.mass),
        damping=(float(upper.joint.damping), float(lower.joint.damping)),
        friction=(float(upper.joint.friction), float(lower.joint.friction)),
        drag=(_drag_of(upper), _drag_of(lower)),
        sideways=float(scene.gravity[0]),  # type: ignore[index]
        view_height=None if scene.camera is None else float(scene.camera.view_height),  # type: ignore[arg-type]
    )


def _drag_of(link: Link) -> float:
    drag: Any = None if link.drag is None else link.drag.quadratic
    return 0.0 if drag is None else float(drag)


def pendulum_scene(shared: SharedNumbers, start: Array) -> Scene:
    """Returns the scene of a trial from guesses of both angles from straight down and of their rates [4]."""
    speed = math.sqrt(GRAVITY / _number(shared.lengths[0]))  # of a swing [rad/s]
    upper, lower = (_joint(shared, k, start, speed) for k in range(2))
    first, second = (_rod(_number(length)) for length in shared.lengths)
    point: dict[str, Any] = {"inertia": POINT}
    joint, end = ((0.0, length, 0.0) for length in shared.lengths)
    centers = [(aside, length, 0.0) for aside, length in zip(shared.aside, shared.effective, strict=True)]
    own = [{**point, "drag": Drag(quadratic=drag)} if _is_used(drag) else point for drag in shared.drag]
    links = {
        "upper": Link(upper, mass=1.0, center=centers[0], mesh=first, **own[0]),
        "lower": Link(lower, "upper", joint, mass=shared.ratio, center=centers[1], mesh=second, **own[1]),
        "end": Link(parent="lower", position=end),
    }
    bars = Articulated(BODY, links, position=(*shared.position, 0.0), rotation=DOWN)
    camera = None if shared.view_height is None else Camera(target=(0.0, 0.0, 0.0), view_height=shared.view_height)
    return Scene([bars], gravity=(shared.sideways, -GRAVITY, 0.0), camera=camera)


def _joint(shared: SharedNumbers, k: int, start: Array, speed: float) -> Revolute:
    """Returns the joint of the first or second bar, whose angle is relative to the bar before."""
    a, b, u, v = start.tolist()
    angle, rate = ((a, u), (b - a, v - u))[k]
    losses = {"damping": shared.damping[k], "friction": shared.friction[k], "slip": SLIP * speed}
    return Revolute(angle=_around(angle, ANGLE_RANGE), rate=_around(rate, RATE_RANGE * speed + abs(rate)), **losses)


def _is_used(value: float | Unknown) -> bool:
    return isinstance(value, Unknown) or value > 0


def _number(value: float | Unknown) -> float:
    return float(value.guess) if isinstance(value, Unknown) else value


def _rod(length: float) -> TriMesh:
    """Returns what a bar is drawn as: a box from its hinge on."""
    box = meshes.box((ROD_WIDTH * length, length, ROD_WIDTH * length / 2))
    return TriMesh(box.vertices + np.array([0.0, length / 2, 0.0]), box.faces)


def _around(guess: float, margin: float) -> Unknown:
    return unknown(guess, low=guess - margin, high=guess + margin, per_trial=True)
