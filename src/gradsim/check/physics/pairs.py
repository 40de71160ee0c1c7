"""Rigid bodies that touch each other: conservation, collisions of balls, restitution, a cradle and crossed edges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from gradsim.check.physics.measure import NO_GRAVITY, G, PhysicsCheck
from gradsim.check.physics.rigid import axis_angle
from gradsim.check.result import CheckResult, expect_close, expect_zero
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TriMesh
from gradsim.scene.rigid import Rigid
from gradsim.scene.rotation import rotate
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate

RESTITUTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
FREQUENCY = 1e3  # of the contact, sqrt(ke / m) [rad/s]
ELASTIC = {"kd": 0.0, "mu": 0.0}


def _tensor(values: Any) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _shapes() -> dict[str, tuple[TriMesh | None, TriMesh | None]]:
    """Returns pairs of meshes by name; None is a ball."""
    box, torus = surfaces.box((0.2, 0.16, 0.24)), surfaces.torus(0.1, 0.04)
    capsule, cone = surfaces.capsule(0.06, 0.14), surfaces.cone(0.1, 0.2)
    return {
        "ball and ball": (None, None),
        "box and box": (box, surfaces.box(0.2)),
        "ball and box": (None, box),
        "capsule and box": (capsule, box),
        "capsule and capsule": (capsule, capsule),
        "ball and capsule": (None, capsule),
        "capsule and torus": (capsule, torus),
        "box and cone": (box, cone),
        "torus and cone": (torus, cone),
        "ball and torus": (None, torus),
    }


def _body(name: str, mesh: TriMesh | None, **more: Any) -> Rigid:
    return Ball(name, radius=0.1, **more) if mesh is None else Rigid(name, mesh, **more)


def _collision(first: TriMesh | None, second: TriMesh | None, **contact: Any) -> Scene:
    """Returns two turning bodies that collide off centre."""
    left = _body("left", first, mass=1.5, velocity=(2.0, 0.3, -0.2), angular_velocity=(3.0, -2.0, 4.0))
    turned = {"rotation": (0.3, -0.1, 0.2, 0.9), "angular_velocity": (-1.0, 2.0, 0.5)}
    right = _body("right", second, mass=1.0, position=(0.3, 0.05, -0.03), **turned)
    return Scene([left, right], gravity=NO_GRAVITY, pairs={"left-right": Contact(ke=1e5, **contact)})


def _momenta(scene: Scene, run: Trajectory) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns momentum and angular momentum about the origin at the first and last frames, [2, 3] each."""
    linear, angular = torch.zeros(2, 3, dtype=torch.float64), torch.zeros(2, 3, dtype=torch.float64)
    for body in scene.bodies:
        motion, mass = run[body.name], float(body.mass)  # type: ignore[attr-defined]
        x, p = motion.center_of_mass[[0, -1]], mass * motion.velocity[[0, -1]]
        linear += p
        angular += torch.linalg.cross(x, p) + motion.angular_momentum[[0, -1]]
    return linear, angular


def _energy(scene: Scene, run: Trajectory, gravity: float = 0.0) -> torch.Tensor:
    """Returns kinetic and potential energy at all frames [J], [T]."""
    total = torch.zeros(len(run.states["rigid.p"]), dtype=torch.float64)
    for body in scene.bodies:
        motion, mass = run[body.name], float(body.mass)  # type: ignore[attr-defined]
        turning = 0.5 * (motion.angular_momentum * motion.angular_velocity).sum(-1)
        total += 0.5 * mass * (motion.velocity**2).sum(-1) + turning + mass * gravity * motion.center_of_mass[:, 1]
    return total


def conservation() -> list[CheckResult]:
    """Checks momentum and angular momentum in collisions with friction and damping, and energy without."""
    results = []
    for name, (first, second) in _shapes().items():
        scene = _collision(first, second, restitution=0.6, mu=0.5, kf=50.0)
        # SymplecticEuler conserves the momenta that the forces conserve; the error of Midpoint is that of its step.
        run = simulate(scene, frames=3, fps=10.0, substeps=2000, integrator=SymplecticEuler())
        linear, angular = _momenta(scene, run)
        change = float((run["right"].velocity[-1] - run["right"].velocity[0]).norm())
        for label, momentum in (("momentum", linear), ("angular momentum", angular)):
            error = float((momentum[1] - momentum[0]).norm() / momentum[0].norm())
            results.append(expect_zero(f"{name} collide", f"change of {label}", error if change > 0.1 else 1.0, 1e-12))
        elastic = _collision(first, second, **ELASTIC)
        energy = _energy(elastic, simulate(elastic, frames=3, fps=10.0, substeps=2000))
        results.append(expect_zero(f"{name} collide", "change of energy", float(energy[-1] / energy[0]) - 1.0, 1e-4))
    return results


def ball_collision(offset: float, stiffness: float = 1e6, mass: float = 2.0) -> Trajectory:
    """Simulates a ball of 1 kg and 0.1 m that hits another at 1 m/s, `offset` [m] off centre, without loss."""
    along = math.sqrt(0.04 - offset**2)
    left = Ball("left", radius=0.1, mass=1.0, position=(-along - 0.01, offset, 0.0), velocity=(1.0, 0.0, 0.0))
    right = Ball("right", radius=0.1, mass=mass)
    contact = Contact(ke=stiffness, delta=1e-5, **ELASTIC)  # type: ignore[arg-type]
    scene = Scene([left, right], gravity=NO_GRAVITY, pairs={"left-right": contact})
    return simulate(scene, frames=2, fps=20.0, substeps=5000)


def collisions() -> list[CheckResult]:
    """Checks balls after a collision against the closed form, and that a hundredfold stiffness divides the error by 10.

    An oblique impact takes time, in which the line of centres turns.
    """
    topic, results = "collision of balls", []
    for offset in (0.0, 0.05, 0.1, 0.15):
        for name, error in _collision_errors(offset, 1e6).items():
            results.append(expect_zero(topic, f"{name}, {offset:g} m off centre", error, 0.01))
    soft, stiff = (_collision_errors(0.1, ke)["left"] for ke in (1e4, 1e6))
    return [*results, expect_close(topic, "error at ke = 1e4 over that at 1e6 N/m", 10.0, soft / stiff, 0.2)]


def _collision_errors(offset: float, stiffness: float) -> dict[str, float]:
    """Returns the errors of the velocities [m/s]: the impulse is 2 m v_n along the line of centres, m reduced mass."""
    run = ball_collision(offset, stiffness)
    n = np.array([-math.sqrt(0.04 - offset**2), offset, 0.0]) / 0.2
    impulse = 2.0 * (2.0 / 3.0) * -n[0] * n
    expected = {"left": np.array([1.0, 0.0, 0.0]) + impulse, "right": -impulse / 2.0}
    return {name: float(np.linalg.norm(run[name].velocity[-1].numpy() - v)) for name, v in expected.items()}


def pi_collisions() -> list[CheckResult]:
    """Checks energy and number of the collisions of a ball between a wall and one of a hundred times its mass.

    Without loss they collide floor(10 pi) = 31 times in all, and the heavy ball leaves.
    """
    contact = Contact(ke=1e5, delta=1e-4, **ELASTIC)  # type: ignore[arg-type]
    light = Ball("light", radius=0.05, mass=0.1, position=(0.55, 0.0, 0.0), contact=contact)
    heavy = Ball("heavy", radius=0.05, mass=10.0, position=(1.0, 0.0, 0.0), velocity=(-1.0, 0.0, 0.0), contact=contact)
    wall = Ground(normal=(1.0, 0.0, 0.0))
    scene = Scene([light, heavy], wall, gravity=NO_GRAVITY)
    run = simulate(scene, frames=4001, fps=2000.0, substeps=25)
    speeds = run["light"].velocity[:, 0]
    energy = _energy(scene, run)
    changes = (speeds[1:] - speeds[:-1]).abs() > 1e-9
    starts = int((changes[1:] & ~changes[:-1]).sum()) + int(changes[0])
    return [
        expect_zero("ball between wall and ball", "change of energy", float(energy[-1] / energy[0]) - 1.0, 1e-3),
        expect_close("ball between wall and ball", "number of collisions", 31.0, float(starts), 0.04),
    ]


def bouncing_energy() -> list[CheckResult]:
    """Checks the energy of a box that bounces and tumbles on a box twenty times or more, without loss."""
    contact = Contact(ke=2e5, delta=1e-3, **ELASTIC)  # type: ignore[arg-type]
    turned = {"rotation": (0.2, 0.1, -0.3, 0.9), "angular_velocity": (0.3, 0.1, -0.2)}
    low = Rigid("low", surfaces.box((4.0, 0.4, 4.0)), mass=40.0, position=(0.0, 0.2, 0.0), contact=contact)
    high = Rigid("high", surfaces.box(0.2), mass=1.0, position=(0.0, 0.7, 0.0), contact=contact, **turned)  # type: ignore[arg-type]
    scene = Scene([low, high], Ground())
    run = simulate(scene, frames=3001, fps=500.0, substeps=40)
    falls = run["high"].velocity[:, 1] - run["low"].velocity[:, 1]
    bounces = int(((falls[1:] > 0.0) & (falls[:-1] <= 0.0)).sum())
    energy = _energy(scene, run, G)
    error = float(energy[-500:].max() / energy[0]) - 1.0  # the largest: in contact, a part of it is elastic
    error = error if bounces >= 20 else 1.0
    return [expect_zero("box bounces on a box", f"change of energy, {bounces} impacts", error, 1e-3)]


def _pose(mesh: TriMesh, pose: str) -> tuple[torch.Tensor, float]:
    """Returns the rotation of a cube with a face, an edge or a corner down, and its lowest point [m]."""
    angles = {"edge": ((1.0, 0.0, 0.0), math.pi / 4), "corner": ((1.0, 0.0, -1.0), math.atan(math.sqrt(2.0)))}
    rotation = _tensor([0.0, 0.0, 0.0, 1.0]) if pose == "face" else torch.from_numpy(axis_angle(*angles[pose]))
    return rotation, float(rotate(rotation, torch.tensor(mesh.vertices))[:, 1].min())


def restitution_of_pair(pose: str, restitution: float, speeds: torch.Tensor, masses: torch.Tensor) -> torch.Tensor:
    """Returns the ratio of relative speeds after and before a body hits a box; `pose` is "ball" or that of a cube."""
    speeds, masses = torch.broadcast_tensors(speeds, masses)
    velocity = torch.stack([torch.zeros_like(speeds), -speeds, torch.zeros_like(speeds)], -1)
    mesh = surfaces.box(0.2)
    rotation, low = (None, -0.1) if pose == "ball" else _pose(mesh, pose)
    place: dict[str, Any] = {"mass": masses, "position": (0.0, 0.1 - low + 0.001, 0.0), "velocity": velocity}
    body = Ball("body", radius=0.1, **place) if pose == "ball" else Rigid("body", mesh, rotation=rotation, **place)
    other = Rigid("other", surfaces.box((0.6, 0.2, 0.6)), mass=3.0 * masses)
    contact = Contact(ke=masses * FREQUENCY**2, mu=0.0, restitution=restitution)
    scene = Scene([body, other], gravity=NO_GRAVITY, pairs={"body-other": contact})
    run = simulate(scene, frames=2, fps=4.0, substeps=25000)
    return (run["body"].velocity - run["other"].velocity)[..., -1, 1] / speeds


def restitution() -> list[CheckResult]:
    """Checks the restitution between bodies: of a ball, and of a cube with face, edge and corner on a box."""
    speeds, masses = _tensor([[0.1], [1.0], [10.0]]), _tensor([1e-3, 1.0, 1e3])
    results = []
    for pose in ("ball", "face", "edge", "corner"):
        for wanted in RESTITUTIONS:
            ratios = restitution_of_pair(pose, wanted, speeds, masses).flatten()
            worst = float(ratios[(ratios - wanted).abs().argmax()])
            name = f"{pose}, restitution {wanted:g}, worst of 0.1-10 m/s and 1 g-1000 kg"
            results.append(expect_close("restitution between bodies", name, wanted, worst, 0.02))
    return results


def cradle() -> list[CheckResult]:
    """Checks five balls in a row, 1 mm apart: the last leaves with the speed of the first, all others stay."""
    contact = Contact(ke=1e6, delta=1e-5, **ELASTIC)  # type: ignore[arg-type]
    places = [(-0.15, 1.0), *((0.101 * k, 0.0) for k in range(4))]
    balls = [
        Ball(f"ball_{k}", radius=0.05, mass=0.5, position=(x, 0.0, 0.0), velocity=(v, 0.0, 0.0), contact=contact)
        for k, (x, v) in enumerate(places)
    ]
    scene = Scene(balls, gravity=NO_GRAVITY)
    run = simulate(scene, frames=2, fps=5.0, substeps=10000)
    last = float(run["ball_4"].velocity[-1, 0])
    others = max(float(run[name].velocity[-1].norm()) for name in ("ball_0", "ball_1", "ball_2", "ball_3"))
    return [
        expect_close("Newton's cradle", "speed of the last ball [m/s]", 1.0, last, 0.01),
        expect_zero("Newton's cradle", "largest speed of the others [m/s]", others, 0.01),
    ]


def crossed_edges() -> list[CheckResult]:
    """Checks that a bar with an edge down rests across a bar with an edge up instead of passing through it."""
    mesh = surfaces.box((1.0, 0.1, 0.1))
    edge = axis_angle((1.0, 0.0, 0.0), math.pi / 4)
    x, w = edge[0], edge[3]
    across = np.array([x * math.sqrt(0.5), w * math.sqrt(0.5), -x * math.sqrt(0.5), w * math.sqrt(0.5)])
    low = Rigid("low", mesh, mass=1e6, rotation=edge)
    high = Rigid("high", mesh, mass=2.0, position=(0.0, 0.1 * math.sqrt(2.0), 0.0), rotation=across)
    contact = Contact(ke=2e5, kd=200.0, mu=1.0, kf=1e3)
    scene = Scene([low, high], gravity=NO_GRAVITY, pairs={"low-high": contact})
    thrown = scene.with_values({"high.velocity": (0.0, -1.0, 0.0)})
    run = simulate(thrown, frames=101, fps=200.0, substeps=50)
    heights = run["high"].position[:, 1] - run["low"].position[:, 1]
    depth = 0.1 * math.sqrt(2.0) - float(heights.min())
    return [expect_zero("crossed edges", "depth over the thickness of a bar", depth / 0.1, 0.25)]


CHECKS = (
    PhysicsCheck("bodies that collide", conservation),
    PhysicsCheck("collisions of balls", collisions),
    PhysicsCheck("collisions without loss", pi_collisions),
    PhysicsCheck("a box bounces on a box", bouncing_energy),
    PhysicsCheck("restitution between bodies", restitution),
    PhysicsCheck("Newton's cradle", cradle),
    PhysicsCheck("crossed edges", crossed_edges),
)
