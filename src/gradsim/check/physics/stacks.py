"""Bodies that rest on each other with sticking friction: stacks, blocks on slopes, a plank, and a turning platform."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradsim.check.physics.friction import LENGTH, THICKNESS, plank_angle, plank_corners
from gradsim.check.physics.measure import G, PhysicsCheck
from gradsim.check.physics.rigid import axis_angle
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.friction import Regularized, Sticking
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.motion import Motion
from gradsim.scene.quantity import Signal
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate

STIFFNESS = 5e5  # of a pair [N/m]
SIDE, LAYERS = 0.2, 5  # of a cube [m], cubes of a stack
DELTA = 1e-3  # [m]
UNUSED = Contact(friction=Regularized())  # with the ground, which the body does not touch


def _laws(ke: float, mu: float, mass: float, delta: float = DELTA) -> tuple[Contact, Ground]:
    """Returns contact between bodies of a mass, damped by half of the critical damping, and the same of the ground."""
    common: dict[str, Any] = {"mu": mu, "delta": delta, "friction": Sticking()}
    ground = Ground(ke=ke / 4, kd=math.sqrt(ke / 4 * mass / 4), **common)  # for each of four points
    return Contact(ke=ke, kd=math.sqrt(ke * mass / 2), **common), ground


def stack_scene(yaw: float, seed: int = 0) -> Scene:
    """Returns a stack of cubes of 1 kg at about its rest height, turned and shifted at random by `yaw` times 1 rad."""
    contact, ground = _laws(STIFFNESS, 0.5, 1.0)
    random, height, bodies = np.random.default_rng(seed), -SIDE / 2, []
    for k in range(LAYERS):
        load = (LAYERS - k) * G / STIFFNESS
        height += SIDE - math.sqrt(2.0 * DELTA * load)  # depth at rest, where it is below delta
        turn, (x, z) = yaw * random.uniform(-1, 1), 0.1 * SIDE * min(yaw, 1.0) * random.uniform(-1, 1, 2)
        place = {"position": (x, height, z), "rotation": axis_angle((0.0, 1.0, 0.0), turn)}
        names = {f"cube_{other}": contact for other in range(LAYERS) if other != k}
        bodies.append(Rigid(f"cube_{k}", surfaces.box(SIDE), mass=1.0, contact=names, **place))  # type: ignore[arg-type]
    return Scene(bodies, ground)


def stack_drift(scene: Scene, seconds: int = 10) -> float:
    """Returns the largest distance that a cube of a stack has moved within `seconds` after the first second [mm]."""
    run = simulate(scene, frames=seconds + 2, fps=1.0, substeps=10000)
    moved = [run[body.name].position[-1] - run[body.name].position[1] for body in scene.bodies]
    return max(float(distance.norm()) for distance in moved) * 1e3


def stacks() -> list[CheckResult]:
    """Checks that stacks of five cubes stay where they are for 10 s, aligned and turned at random."""
    results = [expect_zero("stack of five cubes", "aligned: drift in 10 s [mm]", stack_drift(stack_scene(0.0)), 0.01)]
    for yaw in (0.3, 1.0):
        for seed in (1, 2, 3):
            title = f"turned by up to {yaw:g} rad, seed {seed}: drift in 10 s [mm]"
            results.append(expect_zero("stack of five cubes", title, stack_drift(stack_scene(yaw, seed)), 0.5))
    return results


MU, ABOVE = 0.6, 0.5  # friction between block and slab; degrees above the friction angle


def slope_scene(angle: float) -> Scene:
    """Returns a block on a slab that sticks to the ground, with gravity tilted by an angle [degree]."""
    contact, _ = _laws(1e5, MU, 1.0, 1e-4)
    rough = Ground(ke=2e5, kd=1e3, mu=2.0, delta=1e-4, friction=Sticking())
    slab = Rigid("slab", surfaces.box((2.0, 0.2, 0.6)), mass=20.0, position=(0.6, 0.0998, 0.0))
    flat = surfaces.box((0.3, 0.1, 0.3))  # a cube would rock
    block = Rigid("block", flat, mass=1.0, position=(0.0, 0.2497, 0.0), contact={"slab": contact, "ground": UNUSED})
    a = math.radians(angle)
    return Scene([slab, block], rough, gravity=(G * math.sin(a), -G * math.cos(a), 0.0))


def slope() -> list[CheckResult]:
    """Checks a block on a tilted slab: at rest below the friction angle for 10 s, sliding half a degree above it."""
    limit, topic, results = math.degrees(math.atan(MU)), "sticking block on a tilted slab", []
    for angle in (25.0, limit - ABOVE, limit + ABOVE, limit + 5.0):
        frames = 331 if angle < limit else 31
        run = simulate(slope_scene(angle), frames=frames, fps=30.0, substeps=140)
        along = run["block"].position[:, 0] - run["slab"].position[:, 0]
        if angle < limit:
            drift = float(along[-1] - along[30]) * 1e3
            results.append(expect_zero(topic, f"{angle:.1f} degrees: drift in 10 s [mm]", drift, 0.01))
        else:
            speed = run["block"].velocity[:, 0] - run["slab"].velocity[:, 0]
            a, found = math.radians(angle), float(speed[30] - speed[15]) / 0.5
            expected = G * (math.sin(a) - MU * math.cos(a))
            results.append(expect_close(topic, f"{angle:.1f} degrees: acceleration [m/s^2]", expected, found, 0.01))
    return results


def plank_scene(angle: float, mu: float) -> Scene:
    """Returns a plank that leans on a block, on a slab that lies on the ground."""
    ke, delta, mass = 2e5, 5e-5, 2.0
    contact, _ = _laws(ke, mu, mass, delta)
    rough = Contact(ke=2e5, kd=2e3, mu=2.0, delta=delta, friction=Sticking())
    corners = plank_corners(angle)
    center = (-corners[:, 0].max(), -corners[:, 1].min() - 1e-3, 0.0)
    flat = {"mass": mass, "position": center, "rotation": axis_angle((0.0, 0.0, 1.0), angle)}
    slab = Rigid("slab", surfaces.box((2.0, 0.2, 1.0)), mass=20.0, position=(-0.4, -0.1, 0.0))
    wall = Rigid("wall", surfaces.box((0.5, 1.6, 1.0)), mass=20.0, position=(0.25, 0.799, 0.0))
    own = {"ground": UNUSED, "slab": contact, "wall": contact}  # the plank does not touch the ground
    plank = Rigid("plank", surfaces.box((LENGTH, THICKNESS, 0.2)), contact=own, **flat)  # type: ignore[arg-type]
    floor = Ground(ke=2e5, kd=1e3, mu=2.0, delta=delta, offset=-0.2, friction=Sticking())
    return Scene([slab, wall, plank], floor, pairs={"slab-wall": rough})


def plank_falls(offset: float, mu: float) -> tuple[float, float]:
    """Returns how far a plank slips [m] and its angle [rad], `offset` [rad] above the smallest angle at rest.

    It comes to rest with more friction first.
    """
    time = {"fps": 30.0, "substeps": 200}
    angle = plank_angle(mu) + offset
    rest = simulate(plank_scene(angle, 1.0), frames=31, **time)  # type: ignore[arg-type]
    _, _, z, w = rest["plank"].rotation[-1].tolist()
    run = simulate(plank_scene(angle, mu), frames=91, start=rest.final, **time)["plank"].position  # type: ignore[arg-type]
    return float((run[-1] - run[15]).norm()), 2.0 * math.atan2(z, w)


def plank() -> list[CheckResult]:
    """Checks a plank between two bodies: it holds a degree above the smallest angle, and falls a degree below it."""
    mu, topic, results = 0.4, "plank that leans on a body", []
    for offset in (1.0, -0.8):
        slip, angle = plank_falls(math.radians(offset), mu)
        title = f"{math.degrees(angle - plank_angle(mu)):+.2f} degrees"
        if offset > 0.0:
            results.append(expect_zero(topic, f"{title}: slip in 2.5 s [mm]", slip * 1e3, 0.1))
        else:
            results.append(expect_close(topic, f"{title}: falls", 1.0, min(1.0, slip / (0.1 * LENGTH)), 1e-9))
    return results


def platform() -> list[CheckResult]:
    """Checks a cube on a platform that starts to turn and move: it follows without slipping in the platform's axes."""
    seconds, count = 2.0, 41
    t = np.linspace(0.0, seconds, count)
    turn = 0.5 * t**2
    zero = np.zeros_like(t)
    rotation = np.stack([zero, np.sin(turn / 2), zero, np.cos(turn / 2)], -1)
    position = np.stack([0.5 * t**2, zero, zero], -1)
    contact, _ = _laws(1e5, 0.5, 1.0)
    motion = Motion(displacement=Signal(position), rotation=Signal(rotation))
    table = Rigid("table", surfaces.box((1.0, 0.1, 1.0)), mass=5.0, motion=motion)
    cube = Rigid("cube", surfaces.box(SIDE), mass=1.0, position=(0.2, 0.1495, 0.0))
    run = simulate(Scene([table, cube], pairs={"table-cube": contact}), frames=41, fps=20.0, substeps=100)
    apart = (run["cube"].position - run["table"].position).numpy()
    c, s = np.cos(turn), np.sin(turn)
    local = np.stack([c * apart[:, 0] - s * apart[:, 2], s * apart[:, 0] + c * apart[:, 2]], -1)
    slip = float(np.abs(local[-1] - local[10]).max()) * 1e3
    return [expect_zero("cube on a turning platform", "slip in 1.5 s [mm]", slip, 0.2)]


def rolling() -> list[CheckResult]:
    """Checks a ball that slides and then rolls on a body: 5/7 of its speed, and none lost."""
    radius, speed = 0.1, 1.0
    contact, _ = _laws(1e4, 0.3, 0.5)
    still = Motion(displacement=Signal(np.zeros((2, 3))))
    slab = Rigid("slab", surfaces.box((6.0, 0.2, 1.0)), mass=10.0, position=(2.0, -0.1, 0.0), motion=still)
    ball = Ball("ball", radius=radius, mass=0.5, position=(0.0, radius - 1e-3, 0.0), velocity=(speed, 0.0, 0.0))
    run = simulate(Scene([slab, ball], pairs={"slab-ball": contact}), frames=61, fps=30.0, substeps=64)["ball"]
    v, spin = run.velocity[:, 0], run.angular_velocity[:, 2]
    topic = "ball that rolls on a body"
    return [
        expect_close(topic, "speed when rolling [m/s]", 5 * speed / 7, float(v[30]), 5e-3),
        expect_zero(topic, "loss of speed in 1 s of rolling", float(1 - v[60] / v[30]), 1e-3),
        expect_zero(topic, "slip when rolling / speed", float((v[60] + radius * spin[60]) / v[60]), 6e-3),
    ]


CHECKS = (
    PhysicsCheck("stacks", stacks),
    PhysicsCheck("sticking block on a slab", slope),
    PhysicsCheck("plank that leans on a body", plank),
    PhysicsCheck("cube on a turning platform", platform),
    PhysicsCheck("ball that rolls on a body", rolling),
)
