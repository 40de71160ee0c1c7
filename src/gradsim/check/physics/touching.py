"""Rigid bodies that touch: inclines, rolling, bouncing, and static shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.check.fact import Fact, relative, small
from gradsim.check.physics.measure import STILL, Check, forces, roll, shrinking
from gradsim.check.physics.rigid import INTEGRATORS, G, turned, turning_energy, vertical
from gradsim.scene import surfaces
from gradsim.scene.bodies import Springs
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.materials import Ground
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere
from gradsim.scene.trajectory import RigidMotion
from gradsim.simulate.simulate import simulate


def incline() -> list[Fact]:
    """A cube on a slope, of a plane and of a box: it slides at g (sin t - mu cos t), or sticks.

    Compliant friction holds a cube back to a creep, at a speed where the smoothed cone balances the pull. The front
    corners carry more than the rear ones.
    """
    slope, mass, side, ke, kf, delta = math.radians(30.0), 1.0, 0.2, 1e4, 3e3, 1e-4
    mu = torch.tensor([0.0, 0.2, 0.4, 0.95 * math.tan(slope), 1.05 * math.tan(slope), 0.8], dtype=torch.float64)
    normal, down = np.array([math.sin(slope), math.cos(slope), 0.0]), np.array([math.cos(slope), -math.sin(slope), 0.0])
    flat = turned((0.0, 0.0, 1.0), -slope)
    law: dict[str, Any] = {"ke": ke, "kd": 50.0, "kf": kf, "mu": mu, "delta": delta}
    slopes: list[tuple[str, StaticShape]] = [
        ("incline of 30 deg", Ground(normal=normal, **law)),
        ("box tilted by 30 deg", StaticBox(size=(20.0, 2.0, 2.0), position=-normal, rotation=flat, **law)),
    ]
    height = side / 2 - mass * G * math.cos(slope) / (4 * ke) - delta / 2
    cube = Rigid("cube", surfaces.box(side), mass=mass, position=height * normal, rotation=flat)
    corners = mass * G / 4 * (math.cos(slope) + np.array([1.0, 1.0, -1.0, -1.0]) * math.sin(slope))  # loads [N]
    facts = []
    for topic, shape in slopes:
        motion = roll(Scene([cube], shapes={"slope": shape}), duration=1.0, frames=3)["cube"]
        speed = motion.velocity.numpy() @ down  # [worlds, frames]
        for world, friction in enumerate(mu.tolist()):
            gained = (speed[world, 2] - speed[world, 1]) / 0.5
            name = f"mu = {friction / math.tan(slope):.2f} tan t"
            if friction < math.tan(slope):
                rate = G * (math.sin(slope) - friction * math.cos(slope))
                facts.append(relative(topic, f"{name}, acceleration [m/s^2]", rate, gained, 0.01))
            else:
                creep = balanced_creep(friction * corners, kf, mass * G * math.sin(slope))
                facts.append(relative(topic, f"{name}, creep [m/s]", creep, speed[world, 2], 0.01))
                pull = G * math.sin(slope)
                facts.append(small(topic, f"{name}, creep / speed without friction", speed[world, 2] / pull, 1e-3))
                facts.append(small(topic, f"{name}, acceleration / g sin t", gained / pull, 1e-6))
    return facts


def balanced_creep(cones: np.ndarray, kf: float, pull: float) -> float:
    """Speed [m/s] at which smoothed cones a u / sqrt(u^2 + (a / kf)^2) of sizes a [N] hold a pull [N], by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        held = float((cones * middle / np.hypot(middle, cones / kf)).sum())
        low, high = (middle, high) if held < pull else (low, middle)
    return low


def rolling() -> list[Fact]:
    """A sphere set down sliding rolls from t = 2 v0 / (7 mu g) on, at 5 v0 / 7.

    It rests on some thirty vertices, half a percent of its radius deep, so that it neither rocks from vertex to vertex
    nor has a much shorter lever; damping is weak, since it acts as a resistance against rolling.
    """
    radius, mass, mu, speed = 0.5, 1.0, 0.3, 1.0
    mesh, rotation = surfaces.icosphere(radius, 5), turned((0.3, 0.5, 0.8), 0.7)
    depth, delta = 0.005 * radius, 0.0015 * radius
    levels = rotate(torch.from_numpy(rotation), torch.tensor(mesh.vertices)).numpy()[:, 1]
    depths = depth - radius - levels[levels < depth - radius]
    bearing = np.where(depths < delta, depths**2 / (2 * delta), depths - delta / 2).sum()  # force over ke [m]
    ke = mass * G / bearing
    kd = 0.06 * math.sqrt(ke * mass / len(depths))  # 3 % of critical
    body = Rigid(
        "ball", mesh, mass=mass, position=(0.0, radius - depth, 0.0), rotation=rotation, velocity=(speed, 0.0, 0.0)
    )
    scene = Scene([body], ground=Ground(ke=ke, kd=kd, kf=1000.0 / len(depths), mu=mu, delta=delta))
    start = 2 * speed / (7 * mu * G)
    run = roll(scene, duration=1.2 * start, frames=121)
    time, v = run.time.numpy(), run["ball"].velocity[:, 0].numpy()
    slip = v + radius * run["ball"].angular_velocity[:, 2].numpy()
    sliding = time < 0.9 * start
    fall, first = np.polyfit(time[sliding], slip[sliding], 1)
    rolled = v[time > 1.1 * start]
    return [
        relative("sliding sphere", "rolls from [s]", start, float(-first / fall), 0.01),
        relative("sliding sphere", "speed once it rolls [m/s]", 5 * speed / 7, float(rolled.mean()), 0.01),
        small("sliding sphere", "slip once it rolls / start speed", float(np.abs(slip[-1])) / speed, 0.01),
    ]


def drop_cube(
    ground: Ground, *, dt: float, duration: float, turn: float = 0.3, integrator: Integrator = Midpoint()
) -> RigidMotion:
    """A cube of 1 kg and 0.2 m dropped from 1 m with level faces, turned about the vertical; 1000 frames a second."""
    upright = turned((0.0, 1.0, 0.0), turn)
    cube = Rigid("cube", surfaces.box(0.2), mass=1.0, position=(0.0, 1.1, 0.0), rotation=upright)
    frames, substeps = round(1000 * duration) + 1, round(1 / (1000 * dt))
    scene = Scene([cube], ground=ground)
    return simulate(scene, frames=frames, fps=1000.0, substeps=substeps, integrator=integrator)["cube"]


def flight_heights(motion: RigidMotion) -> np.ndarray:
    """Heights of all flights of the cube [m], from y + v^2 / 2 g while it does not touch."""
    y, v = motion.position[:, 1].numpy() - 0.1, motion.velocity[:, 1].numpy()
    flights = np.split(np.arange(len(y)), np.flatnonzero(np.diff(y > 0)) + 1)
    return np.array([np.median((y + v**2 / (2 * G))[frames]) for frames in flights if y[frames[0]] > 0])


def bounce() -> list[Fact]:
    """h_n = e^(2 n) h_0 with one e, as long as gravity is weak beside the blow.

    The printed law has the e of Schwager and Poeschel (2007), but for up to kd dt / m of the jump at touch-down; the C1
    law one of its own, since it releases more softly.
    """
    ke, ratio, topic = 5e5, 0.1, "bouncing cube"
    kd = 2 * ratio * math.sqrt(4 * ke) / 4  # four corners
    root = math.sqrt(1.0 - ratio**2)
    closed = math.exp(-ratio / root * (math.pi - math.atan2(2.0 * ratio * root, root**2 - ratio**2)))
    printed = flight_heights(drop_cube(Ground(ke=ke, kd=kd, delta=0.0), dt=2e-6, duration=2.1))
    found = np.sqrt(printed[1:4] / printed[:3]).tolist()
    facts = [
        relative(topic, f"printed law, restitution of bounce {n + 1}", closed, e, 2e-3) for n, e in enumerate(found)
    ]
    steps, firsts = (5e-5, 2.5e-5, 1.25e-5, 5e-6), []
    for dt in steps:
        heights = flight_heights(drop_cube(Ground(ke=ke, kd=kd, delta=5e-4), dt=dt, duration=2.1))[:4]
        e = np.sqrt(heights[1:] / heights[:-1])
        firsts.append(float(e[0]))
        title = f"C1 law, dt = {dt:.3g} s"
        facts.append(small(topic, f"{title}: spread of e over three bounces", float(np.ptp(e) / e[0]), 2e-3))
        facts.append(relative(topic, f"{title}: h_3 against e^6 h_0 [m]", e[0] ** 6 * heights[0], heights[3], 0.01))
    names = [f"C1 law, dt = {dt:.3g} s: e against dt = {steps[-1]:.3g} s" for dt in steps[:-1]]
    return facts + shrinking(topic, names, firsts[-1], firsts[:-1], first=1e-2, last=1e-4)


def flat_drop() -> list[Fact]:
    """A cube that falls on a face stays level and does not spin.

    Exactly so while its axes are those of the world. Turned about the vertical its corners differ by rounding, and a
    cube that bounces on its corners is not stable: each bounce makes about 60 times as much of its tilt.
    """
    cases = (
        ("default contact, axes of the world", Ground(), 0.0, 4.0),
        ("default contact, turned", Ground(), 0.3, 2.5),
        ("strong damping, turned", Ground(kd=20.0), 0.3, 3.0),
        ("printed law, turned", Ground(delta=0.0), 0.3, 2.5),
    )
    facts = []
    for name, ground, turn, duration in cases:
        for integrator in INTEGRATORS:
            motion = drop_cube(ground, dt=1e-4, duration=duration, turn=turn, integrator=integrator)
            topic, count = f"flat drop, {type(integrator).__name__}", len(flight_heights(motion)) - 1
            spin, tilt = motion.angular_velocity.abs().max(), np.abs(vertical(motion)[:, [0, 2]]).max()
            facts.append(small(topic, f"{name}: spin in {count} bounces [rad/s]", float(spin), 1e-9))
            facts.append(small(topic, f"{name}: tilt [rad]", float(tilt), 1e-9))
    return facts


CENTER, TURN, SIZE = np.array([0.3, -0.2, 0.1]), turned((0.2, -0.3, 0.4), 1.1), np.array([0.8, 0.6, 1.0])
START, END, UP = np.array([-0.4, 0.1, 0.2]), np.array([0.5, 0.3, -0.1]), np.array([1.0, 2.0, -0.5]) / math.sqrt(5.25)
BARE: dict[str, Any] = {"ke": 1e4, "kd": 0.0, "mu": 0.0, "delta": 0.0}


def capsule_distance(x: np.ndarray) -> np.ndarray:
    axis = END - START
    part = np.clip((x - START) @ axis / (axis @ axis), 0.0, 1.0)
    return np.linalg.norm(x - START - part[:, None] * axis, axis=1) - 0.2


def box_distance(x: np.ndarray) -> np.ndarray:
    local = rotate(torch.from_numpy(TURN), torch.from_numpy(x - CENTER), back=True).numpy()
    beyond = np.abs(local) - SIZE / 2
    return np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + np.minimum(beyond.max(1), 0.0)


# Name, shape, and its signed distance.
DISTANCES: tuple[tuple[str, StaticShape, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("plane", Ground(normal=UP, offset=0.2, **BARE), lambda x: x @ UP - 0.2),
    (
        "sphere",
        StaticSphere(radius=0.5, position=CENTER, **BARE),
        lambda x: np.linalg.norm(x - CENTER, axis=1) - 0.5,
    ),
    ("capsule", StaticCapsule(radius=0.2, start=START, end=END, **BARE), capsule_distance),
    ("box", StaticBox(size=SIZE, position=CENTER, rotation=TURN, **BARE), box_distance),
)


def distances() -> list[Fact]:
    """Mass points in and near each shape are pushed by ke times their depth, along the gradient of the distance."""
    random, facts = np.random.default_rng(8), []
    for name, shape, distance in DISTANCES:
        points = random.uniform(-1.2, 1.2, (8000, 3))
        points = points[np.abs(distance(points)) < 0.1][:200]
        h = 1e-6
        gradient = np.stack([(distance(points + h * e) - distance(points - h * e)) / (2 * h) for e in np.eye(3)], 1)
        expected = BARE["ke"] * np.maximum(-distance(points), 0.0)[:, None] * gradient
        dust = Springs("dust", points, np.zeros((0, 2), dtype=int), mass=1.0)
        got = forces(Scene([dust], gravity=STILL, shapes={name: shape}))[0].numpy()
        error = float(np.abs(got - expected).max() / np.abs(expected).max())
        facts.append(small("push out of a shape", f"{name}: error of the force", error, 1e-8))
    return facts


def rest_on_box() -> list[Fact]:
    """A cube dropped on a box comes to rest as deep as its weight presses it in."""
    mass, ke, delta = 1.0, 1e4, 1e-4
    cube = Rigid(
        "cube", surfaces.box(0.2), mass=mass, position=(0.1, 1.15, -0.2), rotation=turned((0.0, 1.0, 0.0), 0.4)
    )
    box = StaticBox(size=(1.0, 0.5, 1.0), position=(0.0, 0.75, 0.0), ke=ke, kd=40.0, delta=delta)
    rest = roll(Scene([cube], shapes={"box": box}), duration=2.0, frames=3)["cube"]
    depth = mass * G / (4 * ke) + delta / 2
    return [
        relative("cube on a box", "depth at rest [m]", depth, 1.1 - float(rest.position[-1, 1]), 1e-3),
        small("cube on a box", "speed after 2 s [m/s]", float(rest.velocity[-1].norm()), 1e-6),
        small("cube on a box", "tilt [rad]", float(np.abs(vertical(rest)[-1, [0, 2]]).max()), 1e-6),
    ]


def slide_off() -> list[Fact]:
    """Without friction a ball leaves a round top where cos a is 2/3 of that at its start, and keeps its speed aside."""
    top, radius, angle = 1.0, 0.02, 0.3
    reach = top + radius
    law: dict[str, Any] = {"ke": 1e4, "kd": 1.0, "mu": 0.0, "delta": 1e-4}
    side = torch.tensor([1.0, -1.0], dtype=torch.float64)
    places = torch.stack([side * math.sin(angle), torch.ones_like(side) * math.cos(angle), 0.0 * side], -1)
    ball = Rigid("ball", surfaces.icosphere(radius, 3), mass=0.1, position=reach * places)
    shapes: tuple[tuple[str, StaticShape], ...] = (
        ("ball on a sphere", StaticSphere(radius=top, **law)),
        ("ball on a capsule", StaticCapsule(radius=top, start=(0.0, 0.0, -1.0), end=(0.0, 0.0, 1.0), **law)),
    )
    aside = (2 / 3 * math.cos(angle)) ** 1.5 * math.sqrt(G * reach)
    facts = []
    for topic, shape in shapes:
        v = roll(Scene([ball], shapes={"top": shape}), duration=1.2, frames=3)["ball"].velocity[:, -1].numpy()
        for name, sign, speed in (("to the right", 1.0, v[0, 0]), ("to the left", -1.0, v[1, 0])):
            facts.append(relative(topic, f"speed off {name} [m/s]", sign * aside, float(speed), 0.01))
        facts.append(small(topic, "speed along z / speed aside", float(np.abs(v[:, 2]).max()) / aside, 0.01))
    return facts


def elastic_hit() -> list[Fact]:
    """A tumbling block hits the turned box: without friction its velocity changes along the normal, and L across it."""
    normal = rotate(torch.from_numpy(TURN), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)).numpy()
    block = Rigid(
        "block",
        surfaces.box((0.1, 0.2, 0.15)),
        mass=1.0,
        position=CENTER + (SIZE[1] / 2 + 0.2) * normal,
        velocity=-2.0 * normal,
        angular_velocity=(2.0, -1.0, 3.0),
    )
    scene = Scene([block], gravity=STILL, shapes={"box": DISTANCES[3][1]})
    run = simulate(scene, frames=3, fps=10.0, substeps=20000, integrator=Midpoint())
    v, momenta = run["block"].velocity.numpy(), run.states["rigid.l"][:, 0].numpy()
    change, turn = v[-1] - v[0], momenta[-1] - momenta[0]
    inertia = block.mass_properties(torch.float64, torch.device("cpu")).inertia.numpy()
    energy = turning_energy(run["block"], inertia) + 0.5 * (v**2).sum(1)
    off = float(np.linalg.norm(change / np.linalg.norm(change) - normal))
    across = float(turn @ normal / np.linalg.norm(turn))
    return [
        small("elastic hit on a turned box", "direction of the blow against the normal", off, 1e-12),
        small("elastic hit on a turned box", "change of L along the normal / change of L", across, 1e-12),
        relative("elastic hit on a turned box", "energy after / before", 1.0, float(energy[-1] / energy[0]), 1e-6),
    ]


CHECKS = (
    Check("cube on an incline", incline),
    Check("sliding sphere", rolling),
    Check("bouncing cube", bounce),
    Check("cube dropped flat", flat_drop),
    Check("distances of shapes", distances),
    Check("cube on a box", rest_on_box),
    Check("ball on round tops", slide_off),
    Check("elastic hit", elastic_hit),
)
