"""Problems that between them use every body, force and parameter; for checks, tests and benchmarks alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from gradsim.scene import meshes, surfaces
from gradsim.scene.bodies import Cloth, Region, Soft, Springs
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.materials import Bending, Contact, Ground, Membrane, NeoHookean
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.quantity import Signal, per_element
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere

Values = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Problem:
    """A scene as a function of its parameters, and how long it runs."""

    name: str
    row: str  # the kind of system, as the seed's table of parameters calls it
    build: Callable[[Values], Scene]
    values: Callable[[], Values]  # float64, seeded
    frames: int = 5
    fps: float = 100.0
    substeps: int = 25
    integrator: Integrator = field(default_factory=SymplecticEuler)


def _t(value: object) -> torch.Tensor:
    return torch.as_tensor(np.asarray(value, dtype=np.float64))


def _noise(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).standard_normal(shape)


def _around(seed: int, mean: float, *shape: int) -> torch.Tensor:
    """Positive values spread by a fifth around a mean."""
    return _t(mean * np.exp(0.2 * _noise(seed, *shape)))


# --- deformable objects ----------------------------------------------------------------------------------------------

_BOX = meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))


def _soft_values() -> Values:
    nodes, tets = len(_BOX.vertices), len(_BOX.tets)
    return {
        "vertices": _t(_BOX.vertices + _noise(1, nodes, 3, scale=0.01)),
        "position": _t([0.1, 0.5, 0.0]),
        "rotation": _t([0.1, 0.2, -0.1, 0.9]),
        "velocity": _t(_noise(2, nodes, 3, scale=0.5)),
        "mass": _around(3, 0.5, nodes),
        "mu": _around(4, 2e4, tets),
        "lam": _around(5, 3e4, tets),
        "damping": _around(6, 20.0, tets),
        "actuation": _t(_noise(7, 4, tets, scale=0.2)),
        "gravity": _t([0.5, -9.0, 0.3]),
        "force": _t(_noise(8, 3, nodes, 3, scale=2.0)),
    }


def _soft_scene(p: Values) -> Scene:
    body = Soft(
        "box",
        _BOX,
        mass=per_element(p["mass"]),
        material=NeoHookean(per_element(p["mu"]), per_element(p["lam"]), per_element(p["damping"])),
        vertices=p["vertices"],
        position=p["position"],
        rotation=p["rotation"],
        velocity=per_element(p["velocity"]),
        actuation=Signal(per_element(p["actuation"])),
        force=Signal(per_element(p["force"])),
        pinned=[0],
    )
    return Scene([body], gravity=p["gravity"])


def _contact_values(ke: float, kd: float, kf: float, mu: float) -> Values:
    return {
        "ke": _t(ke),
        "kd": _t(kd),
        "kf": _t(kf),
        "friction": _t(mu),
        "delta": _t(0.004),
        "normal": _t([0.05, 1.0, -0.03]),
        "offset": _t(0.01),
    }


def _ground(p: Values) -> Ground:
    return Ground(p["ke"], p["kd"], p["kf"], p["friction"], p["delta"], normal=p["normal"], offset=p["offset"])


def _impact_values() -> Values:
    return {
        "density": _t(500.0),
        "young": _t(4e4),
        "poisson": _t(0.3),
        "damping": _t(10.0),
        "position": _t([0.0, 0.14, 0.0]),
        "velocity": _t([1.0, -1.5, 0.4]),
        "gravity": _t([0.0, -9.81, 0.0]),
        **_contact_values(3e3, 8.0, 30.0, 0.4),
    }


def _impact_scene(p: Values) -> Scene:
    material = NeoHookean.from_young(p["young"], p["poisson"], p["damping"])
    body = Soft("box", _BOX, p["density"], material=material, position=p["position"], velocity=p["velocity"])
    return Scene([body], _ground(p), p["gravity"])


def _stick_values() -> Values:
    """Presses the box into the ground and pulls ever harder: it sticks, then slips."""
    push = np.zeros((6, 3))
    push[:, 0] = np.linspace(0.0, 12.0, 6)
    push[:, 1] = -3.0
    return {
        "density": _t(500.0),
        "young": _t(4e4),
        "force": _t(push),
        "position": _t([0.0, 0.0937, 0.0]),
        "velocity": _t([0.0, 0.0, 0.0]),
        **_contact_values(3e3, 8.0, 500.0, 0.3),
        "normal": _t([0.005, 1.0, -0.003]),
        "offset": _t(0.0),
    }


def _stick_scene(p: Values) -> Scene:
    material = NeoHookean.from_young(p["young"], 0.3, 10.0)
    body = Soft(
        "box",
        _BOX,
        p["density"],
        material=material,
        position=p["position"],
        velocity=p["velocity"],
        force=Signal(p["force"]),
    )
    return Scene([body], _ground(p))


# --- cloth -----------------------------------------------------------------------------------------------------------

_SHEET = meshes.grid((0.4, 0.3), (4, 3))


def _cloth_values() -> Values:
    nodes, triangles, hinges = len(_SHEET.vertices), len(_SHEET.faces), len(_SHEET.hinges)
    return {
        "vertices": _t(_SHEET.vertices + _noise(11, nodes, 3, scale=0.01)),
        "position": _t([0.0, 1.0, 0.0]),
        "velocity": _t(np.array([1.0, -2.0, 0.5]) + _noise(12, nodes, 3, scale=0.5)),
        "mass": _around(13, 0.02, nodes),
        "mu": _around(14, 300.0, triangles),
        "lam": _around(15, 200.0, triangles),
        "damping": _around(16, 0.2, triangles),
        "bending": _around(17, 0.02, triangles),
        "bending_damping": _around(18, 1e-4, triangles),
        "drag": _around(19, 1.0, triangles),
        "lift": _around(20, 2.0, triangles),
        "actuation": _t(_noise(21, 3, triangles, scale=0.1)),
        "folding": _t(_noise(22, 4, hinges, scale=0.3)),
        "gravity": _t([0.5, -9.0, 0.3]),
        "force": _t(_noise(23, nodes, 3, scale=0.1)),
    }


def _cloth_scene(p: Values) -> Scene:
    body = Cloth(
        "sheet",
        _SHEET,
        mass=per_element(p["mass"]),
        material=Membrane(per_element(p["mu"]), per_element(p["lam"]), per_element(p["damping"])),
        bending=Bending(per_element(p["bending"]), per_element(p["bending_damping"])),
        drag=per_element(p["drag"]),
        lift=per_element(p["lift"]),
        vertices=p["vertices"],
        position=p["position"],
        velocity=per_element(p["velocity"]),
        actuation=Signal(per_element(p["actuation"])),
        folding=Signal(per_element(p["folding"])),
        force=per_element(p["force"]),
        pinned=Region(high=(-0.19, None, -0.14)),
    )
    return Scene([body], gravity=p["gravity"])


def _cloth_impact_values() -> Values:
    return {
        "density": _t(0.5),
        "mu": _t(300.0),
        "lam": _t(200.0),
        "bending": _t(0.01),
        "drag": _t(0.5),
        "rotation": _t([0.1, 0.0, 0.15, 1.0]),
        "velocity": _t([0.7, -1.0, 0.2]),
        **_contact_values(100.0, 0.05, 0.3, 0.5),
    }


def _cloth_impact_scene(p: Values) -> Scene:
    body = Cloth(
        "sheet",
        _SHEET,
        p["density"],
        material=Membrane(p["mu"], p["lam"], 0.2),
        bending=Bending(p["bending"]),
        drag=p["drag"],
        position=(0.0, 0.12, 0.0),
        rotation=p["rotation"],
        velocity=p["velocity"],
    )
    return Scene([body], _ground(p))


# --- mass and spring -------------------------------------------------------------------------------------------------

_NET = meshes.grid((0.3, 0.3), (3, 3))


def _spring_values() -> Values:
    nodes, edges = len(_NET.vertices), len(_NET.edges)
    lengths = np.linalg.norm(_NET.vertices[_NET.edges[:, 1]] - _NET.vertices[_NET.edges[:, 0]], axis=1)
    return {
        "points": _t(_NET.vertices + _noise(31, nodes, 3, scale=0.01)),
        "position": _t([0.0, 0.03, 0.0]),
        "velocity": _t(np.array([0.5, -1.0, 0.2]) + _noise(32, nodes, 3, scale=0.3)),
        "mass": _around(33, 0.1, nodes),
        "stiffness": _around(34, 400.0, edges),
        "damping": _around(35, 0.5, edges),
        "rest_length": _t(lengths * np.exp(0.1 * _noise(36, edges))),
        "gravity": _t([0.5, -9.0, 0.3]),
        "force": _t(_noise(37, 3, nodes, 3, scale=0.5)),
        **_contact_values(800.0, 1.0, 3.0, 0.5),
    }


def _spring_scene(p: Values) -> Scene:
    body = Springs(
        "net",
        p["points"],
        _NET.edges,
        mass=per_element(p["mass"]),
        stiffness=per_element(p["stiffness"]),
        damping=per_element(p["damping"]),
        rest_length=per_element(p["rest_length"]),
        position=p["position"],
        velocity=per_element(p["velocity"]),
        force=Signal(per_element(p["force"])),
        pinned=[3],
    )
    return Scene([body], _ground(p), p["gravity"])


PROBLEMS: tuple[Problem, ...] = (
    Problem("soft body in flight", "deformable object", _soft_scene, _soft_values),
    Problem("soft body hits the ground", "deformable object", _impact_scene, _impact_values),
    Problem("soft body sticks, then slips", "deformable object", _stick_scene, _stick_values),
    Problem("cloth in the air", "cloth", _cloth_scene, _cloth_values),
    Problem("cloth hits the ground", "cloth", _cloth_impact_scene, _cloth_impact_values),
    Problem("spring net hits the ground", "mass-spring", _spring_scene, _spring_values, fps=50.0),
)


# --- a long one: gradients that optimization can use -----------------------------------------------------------------

_BALL = meshes.tet_ball(0.5, 4)


def _bounce_values() -> Values:
    return {
        "density": _t(100.0),
        "mu": _t(1.2e4),
        "lam": _t(1.5e4),
        "damping": _t(10.0),
        "height": _t(0.7),
        "speed": _t(2.0),
        "ke": _t(5e3),
        "kd": _t(5.0),
        "kf": _t(20.0),
        "friction": _t(0.4),
    }


def _bounce_scene(p: Values) -> Scene:
    zero = torch.zeros_like(p["height"])
    body = Soft(
        "ball",
        _BALL,
        p["density"],
        material=NeoHookean(p["mu"], p["lam"], p["damping"]),
        position=torch.stack([zero, p["height"], zero], -1),
        velocity=torch.stack([p["speed"], zero, zero], -1),
    )
    return Scene([body], Ground(p["ke"], p["kd"], p["kf"], p["friction"]))


BOUNCE = Problem("soft ball bounces and slides", "deformable object", _bounce_scene, _bounce_values, 26, 25.0, 200)


# --- rigid bodies ----------------------------------------------------------------------------------------------------

_CUBE = surfaces.box((0.3, 0.2, 0.25))


def _rigid_values() -> Values:
    return {
        "mass": _t(2.0),
        "inertia": _t(np.diag([0.02, 0.03, 0.025]) + 0.002),
        "center": _t([0.02, -0.01, 0.03]),
        "position": _t([0.1, 0.5, 0.0]),
        "rotation": _t([0.1, 0.2, -0.1, 0.9]),
        "velocity": _t([0.5, 1.0, -0.3]),
        "angular_velocity": _t([3.0, -4.0, 5.0]),
        "gravity": _t([0.5, -9.0, 0.3]),
        "impulse": _t([0.4, 0.2, -0.3]),
        "force": _t([3.0, -2.0, 5.0]),
        "point": _t([0.1, 0.05, -0.08]),
    }


def _rigid_scene(p: Values) -> Scene:
    body = Rigid(
        "body",
        _CUBE,
        mass=p["mass"],
        inertia=0.5 * (p["inertia"] + p["inertia"].mT),
        center=p["center"],
        position=p["position"],
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
        pushes=[
            Push(impulse=p["impulse"], point=p["point"], start=0.006),
            Push(force=p["force"], point=p["point"], start=0.0113, end=0.03),
        ],
    )
    return Scene([body], gravity=p["gravity"])


def _rigid_impact_values() -> Values:
    return {
        "density": _t(200.0),
        "position": _t([0.0, 0.22, 0.0]),
        "rotation": _t([0.1, 0.0, 0.3, 1.0]),
        "velocity": _t([1.0, -1.5, 0.4]),
        "angular_velocity": _t([1.0, 2.0, -3.0]),
        "gravity": _t([0.0, -9.81, 0.0]),
        **_contact_values(3e3, 8.0, 30.0, 0.4),
    }


def _rigid_impact_scene(p: Values) -> Scene:
    body = Rigid(
        "body",
        _CUBE,
        p["density"],
        position=p["position"],
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
        face_samples=True,
    )
    return Scene([body], _ground(p), p["gravity"])


def _points_values() -> Values:
    """A body of point masses that runs into a ball, a rod and a block, with laws of its own."""
    return {
        "masses": _around(41, 0.1, len(_CUBE.vertices)),
        "velocity": _t([1.0, -1.5, 0.4]),
        "angular_velocity": _t([1.0, 2.0, -3.0]),
        "rotation": _t([0.1, 0.0, 0.3, 1.0]),
        "ball_ke": _t(2e3),
        "rod_kd": _t(5.0),
        "block_mu": _t(0.6),
    }


def _points_scene(p: Values) -> Scene:
    body = Rigid(
        "body",
        _CUBE,
        mass=per_element(p["masses"]),
        position=(0.0, 0.16, 0.0),
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
        contact={"block": Contact(ke=1.5e3, kd=3.0, kf=20.0, mu=p["block_mu"], delta=0.01)},
    )
    shapes: dict[str, StaticShape] = {
        "ball": StaticSphere(p["ball_ke"], 3.0, 20.0, 0.3, 0.01, radius=0.3, position=(0.15, -0.27, 0.1)),
        "rod": StaticCapsule(
            2e3, p["rod_kd"], 20.0, 0.3, 0.01, radius=0.1, start=(-0.1, 0.0, -0.5), end=(-0.2, 0.0, 0.5)
        ),
        "block": StaticBox(size=(0.2, 0.2, 0.2), position=(0.1, -0.06, -0.12), rotation=(0.1, 0.3, 0.0, 1.0)),
    }
    return Scene([body], shapes=shapes)


def _soft_on_shapes_values() -> Values:
    return {"young": _t(4e4), "ke": _t(2e3), "velocity": _t([0.5, -1.5, 0.3])}


def _soft_on_shapes_scene(p: Values) -> Scene:
    body = Soft(
        "box",
        _BOX,
        300.0,
        material=NeoHookean.from_young(p["young"], 0.3, 10.0),
        position=(0.0, 0.12, 0.0),
        velocity=p["velocity"],
    )
    shapes: dict[str, StaticShape] = {
        "ball": StaticSphere(p["ke"], 3.0, 20.0, 0.3, 0.01, radius=0.3, position=(0.2, -0.29, 0.1)),
        "rod": StaticCapsule(
            p["ke"], 3.0, 20.0, 0.3, 0.01, radius=0.1, start=(-0.2, -0.08, -0.5), end=(-0.2, -0.08, 0.5)
        ),
        "block": StaticBox(p["ke"], 3.0, 20.0, 0.3, 0.01, size=(0.1, 0.1, 0.1), position=(0.02, -0.06, -0.1)),
    }
    return Scene([body], shapes=shapes)


# --- pendula ---------------------------------------------------------------------------------------------------------


def _pendulum_values() -> Values:
    return {
        "length": _t(0.8),
        "mass": _t(1.5),
        "angle": _t(1.2),
        "rate": _t(0.5),
        "damping": _t(0.3),
        "pivot": _t([0.1, 2.0, 0.3]),
        "gravity": _t([0.5, -9.91, 0.0]),
    }


def _pendulum_scene(p: Values) -> Scene:
    body = Pendulum("pendulum", p["length"], p["mass"], p["angle"], p["rate"], p["damping"], p["pivot"])
    return Scene([body], gravity=p["gravity"])


def _double_values() -> Values:
    return {
        "lengths": _t([1.0, 0.7]),
        "masses": _t([1.0, 2.0]),
        "angles": _t([1.0, 2.0]),
        "rates": _t([0.5, -1.0]),
        "damping": _t([0.1, 0.2]),
        "pivot": _t([0.1, 2.0, 0.3]),
        "gravity": _t([0.5, -9.81, 0.0]),
    }


def _double_scene(p: Values) -> Scene:
    body = DoublePendulum("pendulum", p["lengths"], p["masses"], p["angles"], p["rates"], p["damping"], p["pivot"])
    return Scene([body], gravity=p["gravity"])


PROBLEMS += (
    Problem("rigid body, pushed", "rigid body", _rigid_scene, _rigid_values),
    Problem("rigid body hits the ground", "rigid body", _rigid_impact_scene, _rigid_impact_values),
    Problem("rigid body runs into shapes", "rigid body", _points_scene, _points_values),
    Problem("soft body runs into shapes", "deformable object", _soft_on_shapes_scene, _soft_on_shapes_values),
    Problem("simple pendulum", "simple pendulum", _pendulum_scene, _pendulum_values),
    Problem("double pendulum", "double pendulum", _double_scene, _double_values),
)


# --- eight cubes: gradients of tumbling that optimization can use ----------------------------------------------------

CUBE_COUNT, CUBE_STEP = 8, 1.0 / 9600  # worlds, [s]


def cube_values() -> Values:
    """Parameters of eight random worlds, [8] each: what a cube that bounces and slides is made of."""
    random = np.random.default_rng(7)

    def spread(low: float, high: float) -> torch.Tensor:
        return _t(np.exp(random.uniform(np.log(low), np.log(high), CUBE_COUNT)))

    return {
        "mass": spread(5.0, 20.0),
        "ke": spread(3e3, 1e4),
        "kd": spread(5.0, 20.0),
        "kf": spread(20.0, 100.0),
        "mu": spread(0.2, 0.6),
    }


def cube_scene(p: Values) -> Scene:
    """Eight cubes of half a metre, each in a world of its own, thrown down at an angle with some spin."""
    random = np.random.default_rng(8)
    tilt = random.normal(size=(CUBE_COUNT, 4)) * 0.2 + np.array([0.0, 0.0, 0.0, 1.0])
    spin = random.normal(size=(CUBE_COUNT, 3))
    speed = random.uniform((0.5, -1.0, -0.5), (2.0, 0.0, 0.5), size=(CUBE_COUNT, 3))
    cube = Rigid(
        "cube",
        surfaces.box(0.5),
        mass=p["mass"],
        position=(0.0, 0.6, 0.0),
        rotation=_t(tilt),
        velocity=_t(speed),
        angular_velocity=_t(spin),
    )
    return Scene([cube], Ground(p["ke"], p["kd"], p["kf"], p["mu"]))
