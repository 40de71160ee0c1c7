"""Drafts of scenes: bodies, floor and camera with unknowns, from a motion that was fitted in the picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradsim.footage.motions.view import FREE_RANGE, View
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Springs
from gradsim.scene.body import Body
from gradsim.scene.camera import Camera
from gradsim.scene.errors import UnexplainedMotion
from gradsim.scene.materials import Ground
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.priors import LogNormal, Normal, prior_center
from gradsim.scene.rigid import Drag, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box
from gradsim.scene.unknown import unknown

BODY = "object"  # name of the body in a draft
DENSITY = 500.0  # of an object of unknown mass [kg/m^3]
DENSITY_SD = 0.7  # of its logarithm
DRAG_SD = 0.3  # of the logarithm of the drag coefficient of a body of known mass
AIR = 0.5 * 1.2 * 0.47  # half the density of air [kg/m^3] times the drag coefficient of a ball
DEPTH_SPEED = 0.05  # standard deviation of the speed along the view, relative to the distance [1/s] and to the speed
CONTACT_TIME = 0.002  # usual duration of an impact [s]: hard balls take less, soft ones more
CONTACT_SD = 0.8  # of its logarithm
CONTACT_RANGE = (0.0005, 0.03)  # in a fit [s]
IMPACT_STEPS = 64  # time steps of a usual impact
RAMP = 0.3  # depth over which contact becomes stiff, relative to the depth of a usual impact
SLOPE_SD = 0.1  # of the dependence of restitution on speed [s/m]
FLOOR_TILT = 0.02  # of the floor along the view, or of a ball that always bounces to one side [rad]
MAX_RESTITUTION = 0.99  # below 1, so that differences at this bound stay valid
FLOOR_SD = 2.0  # of a line of the floor that was given [px]
PATH_MARGIN = 3.0  # bounds of the start, in diameters
LEAST_DAMPING = 0.01  # of a double pendulum [1/s]
DAMPING_SD = 1.5  # of the logarithms of the damping of its joints and of the drag of its bobs
ROD_SHARE = 0.02  # mass of its rods over that of their bobs, unless the path shows that they are heavier
ROD_SD = 1.5  # of the logarithm of it
MIN_FRICTION = -0.12  # in a fit: the slope of a picture is known to a few degrees
REVERSED = "the video is played backwards"
BLOCK_RATE = 60.0  # of the contact of a sliding block, sqrt(ke/m) [rad/s]


@dataclass(frozen=True, eq=False)
class Draft:
    """A scene with unknowns, whose motion resembles that of a recording.

    Args:
        scene: The scene at the time of the first frame.
        points: Names of the tracked points, such as "object.center", in the order of the path.
        wanted: Paths of the unknowns that are asked for; the others are nuisances.
        dt: Time step that the motion needs for accuracy [s]; None for any that is stable.
    """

    scene: Scene
    points: tuple[str, ...]
    wanted: tuple[str, ...]
    dt: float | None = None


def draft_scene(
    view: View,
    body: Body,
    wanted: Sequence[str],
    *,
    gravity: Any,
    ground: Ground | None = None,
    camera: Camera | None = None,
    dt: float | None = None,
) -> Draft:
    """Returns the draft of a scene with one body in front of the camera of a view."""
    points = {Pendulum: ("bob0",), DoublePendulum: ("bob1", "bob0"), Springs: ("vertex1",)}
    scene = Scene([body], ground=ground, gravity=gravity, camera=camera or view.camera(), lights=())
    asked = {path for path, own in scene.unknowns.items() if not own.nuisance}
    names = [path for path in (*wanted, "scene.gravity[1]") if path in asked]
    tracked = tuple(f"{BODY}.{point}" for point in points.get(type(body), ("center",)))
    return Draft(scene, tracked, tuple(names), dt)


def ball(view: View, start: tuple[float, float], speed: tuple[float, float], *, sideways: bool = True) -> Ball:
    """Returns a ball in the plane of the motion, with drag.

    Args:
        view: The view.
        start, speed: In the picture [px], [px/s].
        sideways: Whether its horizontal motion is of interest, and not only shown.
    """
    (x, y), (u, v) = view.plane_point(start), view.plane_vector(speed)
    fast = math.hypot(u, v)
    reach, range_ = 2 * PATH_MARGIN * view.radius, max(fast, 1.0)
    depth = math.hypot(DEPTH_SPEED * view.distance, DEPTH_SPEED * fast)
    along: Any = _nuisance(Normal(0.0, depth))
    place, right = _between(x, reach), _between(u, range_)
    if not sideways:
        place, right = _nuisance(Normal(x, view.radius)), _nuisance(Normal(u, DEPTH_SPEED * range_))
    position: Any = (place, _between(y, reach), 0.0)
    velocity: Any = (right, _between(v, range_), along)
    mass = ball_mass(view)
    return Ball(
        BODY,
        radius=view.radius,
        mass=mass,
        position=position,
        velocity=velocity,
        drag=Drag(quadratic=_drag(view)),
    )


def ball_mass(view: View) -> float:
    """Returns the mass of a ball [kg], or the usual one of its size."""
    return DENSITY * 4 / 3 * math.pi * view.radius**3 if view.mass is None else view.mass


def _drag(view: View) -> Any:
    """Returns the coefficient of quadratic drag [kg/m], known as well as the mass of the ball."""
    coefficient = AIR * math.pi * view.radius**2
    return _nuisance(LogNormal(coefficient, DENSITY_SD if view.mass is None else DRAG_SD))


def _nuisance(prior: Normal | LogNormal) -> Any:
    """Returns an unknown of no interest itself, which starts at the centre of its prior."""
    return unknown(prior_center(prior), prior=prior, nuisance=True)


def _between(value: float, margin: float) -> Any:
    return unknown(value, low=value - margin, high=value + margin)


def _within(value: float) -> Any:
    """Returns a positive unknown."""
    return unknown(value, low=value / FREE_RANGE, high=value * FREE_RANGE)


def floor(view: View, impact_y: float, restitution: float, impact_speeds: tuple[float, float]) -> Ground:
    """Returns a level floor with unknown restitution and height.

    Args:
        view: The view.
        impact_y: Height of the centre of the ball at an impact, down [px].
        restitution: Guess.
        impact_speeds: Speed of the fastest impact, and the mean of all [px/s]; the restitution is that at the mean.
    """
    _, y = view.plane_point((0.0, impact_y))
    speed, usual = (max(own / view.pixels_per_metre, 0.1) for own in impact_speeds)
    height = y - view.radius
    prior = None if view.floor is None else Normal(_floor_height(view), FLOOR_SD / view.pixels_per_metre)
    offset: Any = unknown(height, low=height - 2 * view.radius, high=height + 2 * view.radius, prior=prior)
    return Ground(
        ke=_contact_stiffness(ball_mass(view)),
        normal=(0.0, 1.0, _nuisance(Normal(0.0, FLOOR_TILT))),
        delta=RAMP * speed * CONTACT_TIME / math.pi,
        mu=0.0,  # friction acts on the horizontal motion, which is not used
        offset=offset,
        restitution=unknown(min(max(restitution, 0.15), 0.97), low=0.1, high=MAX_RESTITUTION),
        restitution_slope=_nuisance(Normal(0.0, SLOPE_SD)),
        restitution_speed=round(usual, 2),
    )


def _contact_stiffness(mass: float) -> Any:
    """Returns the stiffness of a floor under a ball [N/m], an unknown: impacts take time and delay what follows."""
    usual, least, largest = (mass * (math.pi / time) ** 2 for time in (CONTACT_TIME, *CONTACT_RANGE[::-1]))
    return unknown(usual, low=least, high=largest, prior=LogNormal(usual, 2 * CONTACT_SD), nuisance=True)


def _floor_height(view: View) -> float:
    """Returns the height of the middle of the given line of the floor [m]."""
    assert view.floor is not None
    x1, y1, x2, y2 = view.floor
    return view.plane_point(((x1 + x2) / 2, (y1 + y2) / 2))[1]


def pendulum_body(view: View, numbers: Mapping[str, float], length: float) -> Pendulum:
    """Returns a pendulum of unknown length; `numbers` are those of its fit, `length` is a guess [m]."""
    x, y = view.plane_point((numbers["pivot_x"], numbers["pivot_y"]))
    mass = 1.0 if view.mass is None else view.mass
    decay = min(max(numbers["damping"], 1e-3), 5.0)
    swing = math.hypot(numbers["angle"], numbers["speed"] / numbers["rate"])
    pivot: Any = (_between(x, length), _between(y, length), 0.0)
    return Pendulum(
        BODY,
        length=_within(length),
        mass=mass,
        angle=_between(numbers["angle"], max(swing, 0.1)),
        rate=_between(numbers["speed"], max(swing, 0.1) * abs(numbers["rate"])),
        damping=unknown(decay * mass * length**2, low=1e-6 * mass * length**2, high=20 * mass * length**2),
        pivot=pivot,
        bob=view.radius,
        rod=0.05 * view.radius,
    )


def double_pendulum_body(view: View, numbers: Mapping[str, float], scale: float) -> DoublePendulum:
    """Returns a double pendulum of unknown lengths and ratio of masses.

    Args:
        view: The view; its mass is that of the lower bob. If it is None, the upper bob has 1 kg.
        numbers: Those of its fit.
        scale: Pixels per metre that follow from gravity.
    """
    x, y = view.plane_point((numbers["pivot_x"], numbers["pivot_y"]))
    first, second = numbers["length_1"] / scale, numbers["length_2"] / scale
    ratio, rate = math.exp(numbers["log_ratio"]), math.sqrt(numbers["gravity"] / numbers["length_1"])
    upper, lower = (1.0, ratio) if view.mass is None else (view.mass / ratio, view.mass)
    masses: Any = (1.0, _within(ratio)) if view.mass is None else (_within(upper), view.mass)
    bars = [max(math.exp(numbers[f"log_rod_{k}"]), ROD_SHARE) * mass for k, mass in ((1, upper), (2, lower))]
    joints = ((upper + lower + sum(bars)) * first**2, (lower + bars[1]) * second**2)
    loss = 0.5 * max(numbers["damping"], LEAST_DAMPING)  # of joints and of drag
    damping: Any = tuple(_nuisance(LogNormal(loss * inertia, DAMPING_SD)) for inertia in joints)
    drag: Any = tuple(_nuisance(LogNormal(loss * mass, DAMPING_SD)) for mass in (upper, lower))
    rods: Any = tuple(_nuisance(LogNormal(mass, ROD_SD)) for mass in bars)
    lengths: Any = (_within(first), _within(second))
    angles: Any = tuple(_between(numbers[f"angle_{k}"], 0.5) for k in (1, 2))
    rates: Any = tuple(_between(numbers[f"speed_{k}"], rate) for k in (1, 2))
    pivot: Any = (_between(x, first), _between(y, first), 0.0)
    return DoublePendulum(
        BODY,
        lengths=lengths,
        masses=masses,
        angles=angles,
        rates=rates,
        damping=damping,
        drag=drag,
        rod_masses=rods,
        pivot=pivot,
        bob=view.radius,
        rod=0.05 * view.radius,
    )


def sliding_block(view: View, numbers: Mapping[str, float]) -> tuple[Rigid, Ground, Camera, Any]:
    """Returns a block, the plane it slides on, the camera and gravity, in a world whose x axis is along the plane.

    The angle between the plane and the horizontal is that of the path in the picture; the camera may be rolled.
    """
    angle, right = numbers["angle"], numbers["right"]
    g, side, mass = view.gravity_or_standard, 2 * view.radius, 1.0 if view.mass is None else view.mass
    x, y = _rotated(view.plane_point((numbers["start_x"], numbers["start_y"])), angle * right)
    speed = right * numbers["speed"] / view.pixels_per_metre
    down = right * g * math.sin(angle)
    gravity: Any = (_nuisance(Normal(down, g * view.tilt)), -g * math.cos(angle), 0.0)
    stiffness = mass * BLOCK_RATE**2 / 4
    sag = mass * g * math.cos(angle) / (4 * stiffness)
    friction = math.tan(angle) - numbers["acceleration"] / view.pixels_per_metre / (g * math.cos(angle))
    if friction < MIN_FRICTION:
        remedy = f"its friction would be {friction:.2f}: it is driven, the known length is wrong, or {REVERSED}"
        raise UnexplainedMotion("slide", "the object speeds up faster than its weight can make it", remedy)
    ground = Ground(
        ke=stiffness,
        kd=0.5 * mass * BLOCK_RATE / 4,
        kf=100.0 * mass,
        mu=unknown(min(max(friction, 0.01), 1.9), low=0.0, high=2.0),
        delta=0.2 * sag,
        offset=sag - view.radius,
    )
    position: Any = (_between(x, 2 * PATH_MARGIN * view.radius), 0.0, 0.0)
    depth = math.hypot(DEPTH_SPEED * view.distance, DEPTH_SPEED * speed)
    velocity: Any = (_between(speed, max(abs(speed), 1.0)), 0.0, _nuisance(Normal(0.0, depth)))
    block = Rigid(BODY, box(side), mass=mass, position=position, velocity=velocity)
    shift: Any = _between(-y, 2 * PATH_MARGIN * view.radius)
    camera = view.camera(target=(0.0, shift, 0.0), roll=-angle * right, levelled=False)
    return block, ground, camera, gravity


def _rotated(point: tuple[float, float], angle: float) -> tuple[float, float]:
    """Returns a point of the plane in axes whose x axis falls by an angle to the right."""
    x, y = point
    return x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)


def spring_body(view: View, numbers: Mapping[str, float]) -> tuple[Springs, Camera]:
    """Returns a mass on a spring and the camera, in a world whose y axis is along the motion.

    Gravity only shifts the rest position, so there is none. The spring is much longer than its oscillation.
    """
    along = (numbers["along_x"], numbers["along_y"])
    along = along if along[1] <= 0 else (-along[0], -along[1])  # up in the picture
    sign = 1.0 if numbers["along_y"] <= 0 else -1.0
    mass, scale = 1.0 if view.mass is None else view.mass, view.pixels_per_metre
    amplitude = math.hypot(numbers["cosine"], numbers["sine"]) / scale
    length = max(10 * amplitude, 4 * view.radius)
    start = sign * numbers["cosine"] / scale
    speed = sign * (numbers["sine"] * numbers["rate"] - numbers["cosine"] * numbers["decay"]) / scale
    stiffness = mass * (numbers["rate"] ** 2 + numbers["decay"] ** 2)
    decay = max(numbers["decay"], 1e-3 * abs(numbers["rate"]))
    velocity: Any = (0.0, _between(speed, 2 * amplitude * abs(numbers["rate"]) + 1e-3), 0.0)
    tilt = math.atan2(along[0], -along[1])
    x, y = _rotated(view.plane_point((numbers["rest_x"], numbers["rest_y"])), tilt)
    position: Any = (_between(x, 2 * PATH_MARGIN * view.radius), _between(y, 2 * PATH_MARGIN * view.radius), 0.0)
    body = Springs(
        BODY,
        points=[(0.0, start + length, 0.0), (0.0, start, 0.0)],
        edges=[(0, 1)],
        mass=mass,
        stiffness=_within(stiffness),
        damping=unknown(2 * mass * decay, low=1e-6 * stiffness, high=2 * mass * abs(numbers["rate"])),
        rest_length=unknown(length + start, low=length + start - 2 * amplitude, high=length + start + 2 * amplitude),
        position=position,
        velocity=velocity,
        pinned=[0],
        thickness=view.radius,
    )
    return body, view.camera(roll=-tilt, levelled=False)
