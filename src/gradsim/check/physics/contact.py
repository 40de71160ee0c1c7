"""Rigid bodies in contact: friction on inclines, rolling, bouncing, and static shapes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.dynamics import spring_restitution
from gradsim.check.physics.measure import (
    INTEGRATORS,
    NO_GRAVITY,
    G,
    PhysicsCheck,
    expect_convergence,
    node_forces,
    simulate_stable,
)
from gradsim.check.physics.rigid import axis_angle, rotational_energy, vertical_axis
from gradsim.check.result import CheckResult, expect_close, expect_zero
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


def incline() -> list[CheckResult]:
    """Checks a cube on a sloping plane and a tilted box: it slides at g (sin t - mu cos t), or sticks.

    Friction is compliant, so a sticking cube creeps at the speed where the smoothed cone balances gravity. The front
    corners carry more load than the rear ones.
    """
    slope, mass, side, ke, kf, delta = math.radians(30.0), 1.0, 0.2, 1e4, 3e3, 1e-4
    mu = torch.tensor([0.0, 0.2, 0.4, 0.95 * math.tan(slope), 1.05 * math.tan(slope), 0.8], dtype=torch.float64)
    normal, down = np.array([math.sin(slope), math.cos(slope), 0.0]), np.array([math.cos(slope), -math.sin(slope), 0.0])
    flat = axis_angle((0.0, 0.0, 1.0), -slope)
    contact: dict[str, Any] = {"ke": ke, "kd": 50.0, "kf": kf, "mu": mu, "delta": delta}
    slopes: list[tuple[str, StaticShape]] = [
        ("incline of 30 deg", Ground(normal=normal, **contact)),
        ("box tilted by 30 deg", StaticBox(size=(20.0, 2.0, 2.0), position=-normal, rotation=flat, **contact)),
    ]
    height = side / 2 - mass * G * math.cos(slope) / (4 * ke) - delta / 2
    cube = Rigid("cube", surfaces.box(side), mass=mass, position=height * normal, rotation=flat)
    corners = mass * G / 4 * (math.cos(slope) + np.array([1.0, 1.0, -1.0, -1.0]) * math.sin(slope))  # loads [N]
    results = []
    for topic, shape in slopes:
        motion = simulate_stable(Scene([cube], shapes={"slope": shape}), duration=1.0, frames=3)["cube"]
        speed = motion.velocity.numpy() @ down  # [worlds, frames]
        for world, friction in enumerate(mu.tolist()):
            acceleration = (speed[world, 2] - speed[world, 1]) / 0.5
            name = f"mu = {friction / math.tan(slope):.2f} tan t"
            if friction < math.tan(slope):
                rate = G * (math.sin(slope) - friction * math.cos(slope))
                results.append(expect_close(topic, f"{name}, acceleration [m/s^2]", rate, acceleration, 0.01))
            else:
                creep = creep_speed(friction * corners, kf, mass * G * math.sin(slope))
                results.append(expect_close(topic, f"{name}, creep [m/s]", creep, speed[world, 2], 0.01))
                pull = G * math.sin(slope)  # [m/s^2], and the speed without friction after 1 s [m/s]
                slowness = speed[world, 2] / pull
                results.append(expect_zero(topic, f"{name}, creep / speed without friction", slowness, 1e-3))
                results.append(expect_zero(topic, f"{name}, acceleration / g sin t", acceleration / pull, 1e-6))
    return results


def creep_speed(cones: np.ndarray, kf: float, pull: float) -> float:
    """Returns the speed u [m/s] at which smoothed cones a u / sqrt(u^2 + (a / kf)^2) balance a pull [N].

    Args:
        cones: Largest friction forces a [N].
        kf: Friction force per slip speed at small speeds [N s/m].
        pull: Tangential force [N].
    """
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        friction = float((cones * middle / np.hypot(middle, cones / kf)).sum())
        low, high = (middle, high) if friction < pull else (low, middle)
    return low


def rolling() -> list[CheckResult]:
    """Checks a sphere that starts sliding: it rolls from t = 2 v0 / (7 mu g) on, at 5 v0 / 7.

    About thirty vertices are in contact, at a depth of half a percent of the radius, so that the sphere does not rock
    from vertex to vertex and its effective radius is hardly reduced. Damping is weak, since it resists rolling.
    """
    radius, mass, mu, speed = 0.5, 1.0, 0.3, 1.0
    mesh, rotation = surfaces.icosphere(radius, 5), axis_angle((0.3, 0.5, 0.8), 0.7)
    depth, delta = 0.005 * radius, 0.0015 * radius
    levels = rotate(torch.from_numpy(rotation), torch.tensor(mesh.vertices)).numpy()[:, 1]
    depths = depth - radius - levels[levels < depth - radius]
    compressions = np.where(depths < delta, depths**2 / (2 * delta), depths - delta / 2)  # force over ke [m]
    ke = mass * G / compressions.sum()
    kd = 0.06 * math.sqrt(ke * mass / len(depths))  # 3 % of critical
    body = Rigid(
        "ball", mesh, mass=mass, position=(0.0, radius - depth, 0.0), rotation=rotation, velocity=(speed, 0.0, 0.0)
    )
    scene = Scene([body], ground=Ground(ke=ke, kd=kd, kf=1000.0 / len(depths), mu=mu, delta=delta))
    start = 2 * speed / (7 * mu * G)
    run = simulate_stable(scene, duration=1.2 * start, frames=121)
    time, v = run.time.numpy(), run["ball"].velocity[:, 0].numpy()
    slip = v + radius * run["ball"].angular_velocity[:, 2].numpy()
    sliding = time < 0.9 * start
    slope, intercept = np.polyfit(time[sliding], slip[sliding], 1)
    rolled = v[time > 1.1 * start]
    return [
        expect_close("sliding sphere", "start of rolling [s]", start, float(-intercept / slope), 0.01),
        expect_close("sliding sphere", "speed when rolling [m/s]", 5 * speed / 7, float(rolled.mean()), 0.01),
        expect_zero("sliding sphere", "slip when rolling / initial speed", float(np.abs(slip[-1])) / speed, 0.01),
    ]


def drop_cube(
    ground: Ground, *, dt: float, duration: float, yaw: float = 0.3, integrator: Integrator = Midpoint()
) -> RigidMotion:
    """Simulates a cube of 1 kg and 0.2 m dropped from 1 m with level faces; 1000 frames a second."""
    rotation = axis_angle((0.0, 1.0, 0.0), yaw)
    cube = Rigid("cube", surfaces.box(0.2), mass=1.0, position=(0.0, 1.1, 0.0), rotation=rotation)
    frames, substeps = round(1000 * duration) + 1, round(1 / (1000 * dt))
    scene = Scene([cube], ground=ground)
    return simulate(scene, frames=frames, fps=1000.0, substeps=substeps, integrator=integrator)["cube"]


def flight_heights(motion: RigidMotion) -> np.ndarray:
    """Returns the apex heights of all flights of the cube [m], from y + v^2 / 2 g while it is not in contact."""
    y, v = motion.position[:, 1].numpy() - 0.1, motion.velocity[:, 1].numpy()
    flights = np.split(np.arange(len(y)), np.flatnonzero(np.diff(y > 0)) + 1)
    return np.array([np.median((y + v**2 / (2 * G))[frames]) for frames in flights if y[frames[0]] > 0])


def bounce() -> list[CheckResult]:
    """Checks h_n = e^(2 n) h_0 with a constant e, where gravity is weak compared with the contact force.

    The paper's contact law (delta = 0) has the restitution of Schwager and Poeschel (2007), up to an error of kd dt / m
    from the jump of its force at the start of contact. The C1 law has another e, since its force ends more smoothly.
    """
    ke, ratio, topic = 5e5, 0.1, "bouncing cube"
    kd = 2 * ratio * math.sqrt(4 * ke) / 4  # four corners
    expected = spring_restitution(ratio)
    heights = flight_heights(drop_cube(Ground(ke=ke, kd=kd, delta=0.0), dt=2e-6, duration=2.1))
    found = np.sqrt(heights[1:4] / heights[:3]).tolist()
    results = [
        expect_close(topic, f"paper's law, restitution of bounce {n + 1}", expected, e, 2e-3)
        for n, e in enumerate(found)
    ]
    steps, firsts = (5e-5, 2.5e-5, 1.25e-5, 5e-6), []
    for dt in steps:
        heights = flight_heights(drop_cube(Ground(ke=ke, kd=kd, delta=5e-4), dt=dt, duration=2.1))[:4]
        e = np.sqrt(heights[1:] / heights[:-1])
        firsts.append(float(e[0]))
        title = f"C1 law, dt = {dt:.3g} s"
        results.append(expect_zero(topic, f"{title}: spread of e over three bounces", float(np.ptp(e) / e[0]), 2e-3))
        results.append(
            expect_close(topic, f"{title}: h_3 against e^6 h_0 [m]", e[0] ** 6 * heights[0], heights[3], 0.01)
        )
    names = [f"C1 law, dt = {dt:.3g} s: e against dt = {steps[-1]:.3g} s" for dt in steps[:-1]]
    return results + expect_convergence(topic, names, firsts[-1], firsts[:-1], first=1e-2, last=1e-4)


def flat_drop() -> list[CheckResult]:
    """Checks that a cube that falls on a face stays level and does not spin.

    This holds exactly if its axes are those of the world. With a yaw its corners differ by rounding, and bouncing on
    the corners is unstable: each bounce multiplies the tilt by about 60.
    """
    cases = (
        ("default contact, no yaw", Ground(), 0.0, 4.0),
        ("default contact, yaw", Ground(), 0.3, 2.5),
        ("strong damping, yaw", Ground(kd=20.0), 0.3, 3.0),
        ("paper's law, yaw", Ground(delta=0.0), 0.3, 2.5),
    )
    results = []
    for name, ground, yaw, duration in cases:
        for integrator in INTEGRATORS:
            motion = drop_cube(ground, dt=1e-4, duration=duration, yaw=yaw, integrator=integrator)
            topic, count = f"flat drop, {type(integrator).__name__}", len(flight_heights(motion)) - 1
            spin, tilt = motion.angular_velocity.abs().max(), np.abs(vertical_axis(motion)[:, [0, 2]]).max()
            results.append(expect_zero(topic, f"{name}: spin in {count} bounces [rad/s]", float(spin), 1e-9))
            results.append(expect_zero(topic, f"{name}: tilt [rad]", float(tilt), 1e-9))
    return results


CENTER, ROTATION, SIZE = np.array([0.3, -0.2, 0.1]), axis_angle((0.2, -0.3, 0.4), 1.1), np.array([0.8, 0.6, 1.0])
START, END, UP = np.array([-0.4, 0.1, 0.2]), np.array([0.5, 0.3, -0.1]), np.array([1.0, 2.0, -0.5]) / math.sqrt(5.25)
STIFFNESS_ONLY: dict[str, Any] = {"ke": 1e4, "kd": 0.0, "mu": 0.0, "delta": 0.0}


def capsule_distance(x: np.ndarray) -> np.ndarray:
    axis = END - START
    part = np.clip((x - START) @ axis / (axis @ axis), 0.0, 1.0)
    return np.linalg.norm(x - START - part[:, None] * axis, axis=1) - 0.2


def box_distance(x: np.ndarray) -> np.ndarray:
    local = rotate(torch.from_numpy(ROTATION), torch.from_numpy(x - CENTER), back=True).numpy()
    beyond = np.abs(local) - SIZE / 2
    return np.linalg.norm(np.maximum(beyond, 0.0), axis=1) + np.minimum(beyond.max(1), 0.0)


# Name, shape, and signed distance [m].
DISTANCES: tuple[tuple[str, StaticShape, Callable[[np.ndarray], np.ndarray]], ...] = (
    ("plane", Ground(normal=UP, offset=0.2, **STIFFNESS_ONLY), lambda x: x @ UP - 0.2),
    (
        "sphere",
        StaticSphere(radius=0.5, position=CENTER, **STIFFNESS_ONLY),
        lambda x: np.linalg.norm(x - CENTER, axis=1) - 0.5,
    ),
    ("capsule", StaticCapsule(radius=0.2, start=START, end=END, **STIFFNESS_ONLY), capsule_distance),
    ("box", StaticBox(size=SIZE, position=CENTER, rotation=ROTATION, **STIFFNESS_ONLY), box_distance),
)


def contact_forces() -> list[CheckResult]:
    """Checks the force on points in and near each shape: ke times the depth, along the gradient of the distance."""
    random, results = np.random.default_rng(8), []
    for name, shape, distance in DISTANCES:
        points = random.uniform(-1.2, 1.2, (8000, 3))
        points = points[np.abs(distance(points)) < 0.1][:200]
        h = 1e-6
        gradient = np.stack([(distance(points + h * e) - distance(points - h * e)) / (2 * h) for e in np.eye(3)], 1)
        expected = STIFFNESS_ONLY["ke"] * np.maximum(-distance(points), 0.0)[:, None] * gradient
        body = Springs("points", points, np.zeros((0, 2), dtype=int), mass=1.0)
        got = node_forces(Scene([body], gravity=NO_GRAVITY, shapes={name: shape}))[0].numpy()
        error = float(np.abs(got - expected).max() / np.abs(expected).max())
        results.append(expect_zero("contact force of a shape", f"{name}: error of the force", error, 1e-8))
    return results


def rest_on_box() -> list[CheckResult]:
    """Checks that a cube dropped on a box comes to rest at the depth where the contact force carries its weight."""
    mass, ke, delta = 1.0, 1e4, 1e-4
    cube = Rigid(
        "cube", surfaces.box(0.2), mass=mass, position=(0.1, 1.15, -0.2), rotation=axis_angle((0.0, 1.0, 0.0), 0.4)
    )
    box = StaticBox(size=(1.0, 0.5, 1.0), position=(0.0, 0.75, 0.0), ke=ke, kd=40.0, delta=delta)
    rest = simulate_stable(Scene([cube], shapes={"box": box}), duration=2.0, frames=3)["cube"]
    depth = mass * G / (4 * ke) + delta / 2
    return [
        expect_close("cube on a box", "depth at rest [m]", depth, 1.1 - float(rest.position[-1, 1]), 1e-3),
        expect_zero("cube on a box", "speed after 2 s [m/s]", float(rest.velocity[-1].norm()), 1e-6),
        expect_zero("cube on a box", "tilt [rad]", float(np.abs(vertical_axis(rest)[-1, [0, 2]]).max()), 1e-6),
    ]


def slide_off() -> list[CheckResult]:
    """Checks a ball that slides off a round top without friction.

    It leaves the surface where cos a is 2/3 of its initial value, and keeps its horizontal speed from there on.
    """
    top, radius, angle = 1.0, 0.02, 0.3
    reach = top + radius
    contact: dict[str, Any] = {"ke": 1e4, "kd": 1.0, "mu": 0.0, "delta": 1e-4}
    side = torch.tensor([1.0, -1.0], dtype=torch.float64)
    directions = torch.stack([side * math.sin(angle), torch.ones_like(side) * math.cos(angle), 0.0 * side], -1)
    ball = Rigid("ball", surfaces.icosphere(radius, 3), mass=0.1, position=reach * directions)
    shapes: tuple[tuple[str, StaticShape], ...] = (
        ("ball on a sphere", StaticSphere(radius=top, **contact)),
        ("ball on a capsule", StaticCapsule(radius=top, start=(0.0, 0.0, -1.0), end=(0.0, 0.0, 1.0), **contact)),
    )
    horizontal = (2 / 3 * math.cos(angle)) ** 1.5 * math.sqrt(G * reach)
    results = []
    for topic, shape in shapes:
        run = simulate_stable(Scene([ball], shapes={"top": shape}), duration=1.2, frames=3)
        v = run["ball"].velocity[:, -1].numpy()
        for name, sign, speed in (("to the right", 1.0, v[0, 0]), ("to the left", -1.0, v[1, 0])):
            results.append(expect_close(topic, f"horizontal speed {name} [m/s]", sign * horizontal, float(speed), 0.01))
        sideways = float(np.abs(v[:, 2]).max()) / horizontal
        results.append(expect_zero(topic, "speed along z / horizontal speed", sideways, 0.01))
    return results


def elastic_impact() -> list[CheckResult]:
    """Checks a tumbling block that hits a tilted box without friction: the impulse is along the normal."""
    normal = rotate(torch.from_numpy(ROTATION), torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)).numpy()
    block = Rigid(
        "block",
        surfaces.box((0.1, 0.2, 0.15)),
        mass=1.0,
        position=CENTER + (SIZE[1] / 2 + 0.2) * normal,
        velocity=-2.0 * normal,
        angular_velocity=(2.0, -1.0, 3.0),
    )
    scene = Scene([block], gravity=NO_GRAVITY, shapes={"box": DISTANCES[3][1]})
    run = simulate(scene, frames=3, fps=10.0, substeps=20000, integrator=Midpoint())
    v, momenta = run["block"].velocity.numpy(), run["block"].angular_momentum.numpy()
    change, angular_change = v[-1] - v[0], momenta[-1] - momenta[0]
    inertia = block.mass_properties(torch.float64, torch.device("cpu")).inertia.numpy()
    energy = rotational_energy(run["block"], inertia) + 0.5 * (v**2).sum(1)
    deviation = float(np.linalg.norm(change / np.linalg.norm(change) - normal))
    along = float(angular_change @ normal / np.linalg.norm(angular_change))
    topic = "elastic impact on a tilted box"
    return [
        expect_zero(topic, "direction of the impulse against the normal", deviation, 1e-12),
        expect_zero(topic, "change of L along the normal / change of L", along, 1e-12),
        expect_close(topic, "energy after / before", 1.0, float(energy[-1] / energy[0]), 1e-6),
    ]


CHECKS = (
    PhysicsCheck("cube on an incline", incline),
    PhysicsCheck("sliding sphere", rolling),
    PhysicsCheck("bouncing cube", bounce),
    PhysicsCheck("cube dropped flat", flat_drop),
    PhysicsCheck("contact force of shapes", contact_forces),
    PhysicsCheck("cube on a box", rest_on_box),
    PhysicsCheck("ball on round tops", slide_off),
    PhysicsCheck("elastic impact", elastic_impact),
)
