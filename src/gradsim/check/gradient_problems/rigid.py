"""Rigid bodies: pushed, in contact with the ground and with shapes, of any size, and eight tumbling cubes."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, contact_values, ground, lognormal, tensor
from gradsim.scene import surfaces
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.meshes import TriMesh
from gradsim.scene.quantity import per_element
from gradsim.scene.rigid import Push, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere

_CUBE = surfaces.box((0.3, 0.2, 0.25))


def _rigid_values() -> Values:
    return {
        "mass": tensor(2.0),
        "inertia": tensor(np.diag([0.02, 0.03, 0.025]) + 0.002),
        "center": tensor([0.02, -0.01, 0.03]),
        "position": tensor([0.1, 0.5, 0.0]),
        "rotation": tensor([0.1, 0.2, -0.1, 0.9]),
        "velocity": tensor([0.5, 1.0, -0.3]),
        "angular_velocity": tensor([3.0, -4.0, 5.0]),
        "gravity": tensor([0.5, -9.0, 0.3]),
        "impulse": tensor([0.4, 0.2, -0.3]),
        "force": tensor([3.0, -2.0, 5.0]),
        "point": tensor([0.1, 0.05, -0.08]),
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
        "density": tensor(200.0),
        "position": tensor([0.0, 0.22, 0.0]),
        "rotation": tensor([0.1, 0.0, 0.3, 1.0]),
        "velocity": tensor([1.0, -1.5, 0.4]),
        "angular_velocity": tensor([1.0, 2.0, -3.0]),
        "gravity": tensor([0.0, -9.81, 0.0]),
        **contact_values(3e3, 8.0, 30.0, 0.4),
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
    return Scene([body], ground(p), p["gravity"])


def _points_values() -> Values:
    """Returns parameters of a body of point masses and of a ball, a rod and a block with their own contact laws."""
    return {
        "masses": lognormal(41, 0.1, len(_CUBE.vertices)),
        "velocity": tensor([1.0, -1.5, 0.4]),
        "angular_velocity": tensor([1.0, 2.0, -3.0]),
        "rotation": tensor([0.1, 0.0, 0.3, 1.0]),
        "ball_ke": tensor(2e3),
        "rod_kd": tensor(5.0),
        "block_mu": tensor(0.6),
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


def _wedge() -> TriMesh:
    """Returns a box with a slanted top, whose centre of mass and principal axes are not those of its bounding box."""
    box = surfaces.box(1.0)
    slant = np.where(box.vertices[:, 1] > 0.0, 0.4 * box.vertices[:, 0] + 0.2 * box.vertices[:, 2], 0.0)
    return TriMesh(box.vertices + slant[:, None] * [0.0, 1.0, 0.0] + [0.1, -0.2, 0.3], box.faces)


_WEDGE = _wedge()


def _size_values() -> Values:
    return {
        "size": tensor([0.3, 0.2, 0.25]),
        "density": tensor(150.0),
        "velocity": tensor([1.0, -1.5, 0.4]),
        "angular_velocity": tensor([1.0, 2.0, -3.0]),
        "rotation": tensor([0.1, 0.0, 0.3, 1.0]),
    }


def _size_scene(p: Values) -> Scene:
    """Returns a body of variable size that hits the ground, a ball, a rod and a block; their delta varies with it."""
    body = Rigid(
        "body",
        _WEDGE,
        p["density"],
        size=p["size"],
        position=(0.0, 0.19, -0.05),
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
        pushes=[Push(impulse=(0.3, 0.1, -0.2), point=(0.1, 0.02, 0.05), start=0.006)],
        face_samples=True,
    )
    shapes: dict[str, StaticShape] = {
        "ball": StaticSphere(1e3, 3.0, 20.0, 0.3, radius=0.3, position=(0.15, -0.27, 0.1)),
        "rod": StaticCapsule(1e3, 3.0, 20.0, 0.3, radius=0.1, start=(-0.1, 0.0, -0.5), end=(-0.2, 0.0, 0.5)),
        "block": StaticBox(
            1e3, 3.0, 20.0, 0.3, size=(0.2, 0.2, 0.2), position=(0.1, -0.06, -0.12), rotation=(0.1, 0.3, 0.0, 1.0)
        ),
    }
    return Scene([body], Ground(1e3, 3.0, 20.0, 0.3, normal=(0.05, 1.0, -0.03), offset=0.01), shapes=shapes)


SYSTEM = "rigid body"
RIGID_PUSHED = GradientProblem("rigid body, pushed", SYSTEM, _rigid_scene, _rigid_values)
RIGID_IMPACT = GradientProblem("rigid body hits the ground", SYSTEM, _rigid_impact_scene, _rigid_impact_values)
RIGID_SHAPES = GradientProblem("rigid body runs into shapes", SYSTEM, _points_scene, _points_values)
RIGID_SIZE = GradientProblem("rigid body of variable size", SYSTEM, _size_scene, _size_values)

# Eight cubes that tumble on the ground, for gradients that an optimizer can use.
CUBE_COUNT, CUBE_STEP = 8, 1.0 / 9600  # worlds, time step [s]


def cube_values() -> Values:
    """Returns mass and contact parameters of eight random worlds, [8] each."""
    random = np.random.default_rng(7)

    def log_uniform(low: float, high: float) -> torch.Tensor:
        return tensor(np.exp(random.uniform(np.log(low), np.log(high), CUBE_COUNT)))

    return {
        "mass": log_uniform(5.0, 20.0),
        "ke": log_uniform(3e3, 1e4),
        "kd": log_uniform(5.0, 20.0),
        "kf": log_uniform(20.0, 100.0),
        "mu": log_uniform(0.2, 0.6),
    }


def cube_scene(p: Values) -> Scene:
    """Returns eight worlds with one cube of 0.5 m each, thrown down at an angle, spinning."""
    random = np.random.default_rng(8)
    tilt = random.normal(size=(CUBE_COUNT, 4)) * 0.2 + np.array([0.0, 0.0, 0.0, 1.0])
    spin = random.normal(size=(CUBE_COUNT, 3))
    speed = random.uniform((0.5, -1.0, -0.5), (2.0, 0.0, 0.5), size=(CUBE_COUNT, 3))
    cube = Rigid(
        "cube",
        surfaces.box(0.5),
        mass=p["mass"],
        position=(0.0, 0.6, 0.0),
        rotation=tensor(tilt),
        velocity=tensor(speed),
        angular_velocity=tensor(spin),
    )
    return Scene([cube], Ground(p["ke"], p["kd"], p["kf"], p["mu"]))
