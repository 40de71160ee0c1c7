"""Soft bodies in flight, in contact, and a ball that bounces for 5,000 steps."""

from __future__ import annotations

import numpy as np
import torch

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, contact_values, ground, lognormal, noise, tensor
from gradsim.scene import meshes
from gradsim.scene.bodies import Soft
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.quantity import Signal, per_element
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere

_BOX = meshes.tet_box((0.4, 0.2, 0.2), (2, 1, 1))


def _soft_values() -> Values:
    nodes, tets = len(_BOX.vertices), len(_BOX.tets)
    return {
        "vertices": tensor(_BOX.vertices + noise(1, nodes, 3, scale=0.01)),
        "position": tensor([0.1, 0.5, 0.0]),
        "rotation": tensor([0.1, 0.2, -0.1, 0.9]),
        "velocity": tensor(noise(2, nodes, 3, scale=0.5)),
        "mass": lognormal(3, 0.5, nodes),
        "mu": lognormal(4, 2e4, tets),
        "lam": lognormal(5, 3e4, tets),
        "damping": lognormal(6, 20.0, tets),
        "actuation": tensor(noise(7, 4, tets, scale=0.2)),
        "gravity": tensor([0.5, -9.0, 0.3]),
        "force": tensor(noise(8, 3, nodes, 3, scale=2.0)),
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


def _impact_values() -> Values:
    return {
        "density": tensor(500.0),
        "young": tensor(4e4),
        "poisson": tensor(0.3),
        "damping": tensor(10.0),
        "position": tensor([0.0, 0.14, 0.0]),
        "velocity": tensor([1.0, -1.5, 0.4]),
        "gravity": tensor([0.0, -9.81, 0.0]),
        **contact_values(3e3, 8.0, 30.0, 0.4),
    }


def _impact_scene(p: Values) -> Scene:
    material = NeoHookean.from_young(p["young"], p["poisson"], p["damping"])
    body = Soft("box", _BOX, p["density"], material=material, position=p["position"], velocity=p["velocity"])
    return Scene([body], ground(p), p["gravity"])


def _stick_values() -> Values:
    """Presses the box into the ground and increases a lateral force: it sticks, then slips."""
    push = np.zeros((6, 3))
    push[:, 0] = np.linspace(0.0, 12.0, 6)
    push[:, 1] = -3.0
    return {
        "density": tensor(500.0),
        "young": tensor(4e4),
        "force": tensor(push),
        "position": tensor([0.0, 0.0937, 0.0]),
        "velocity": tensor([0.0, 0.0, 0.0]),
        **contact_values(3e3, 8.0, 500.0, 0.3),
        "normal": tensor([0.005, 1.0, -0.003]),
        "offset": tensor(0.0),
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
    return Scene([body], ground(p))


def _soft_on_shapes_values() -> Values:
    return {"young": tensor(4e4), "ke": tensor(2e3), "velocity": tensor([0.5, -1.5, 0.3])}


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


_BALL = meshes.tet_ball(0.5, 4)


def _bounce_values() -> Values:
    return {
        "density": tensor(100.0),
        "mu": tensor(1.2e4),
        "lam": tensor(1.5e4),
        "damping": tensor(10.0),
        "height": tensor(0.7),
        "speed": tensor(2.0),
        "ke": tensor(5e3),
        "kd": tensor(5.0),
        "kf": tensor(20.0),
        "friction": tensor(0.4),
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


SYSTEM = "deformable object"
SOFT_FLIGHT = GradientProblem("soft body in flight", SYSTEM, _soft_scene, _soft_values)
SOFT_IMPACT = GradientProblem("soft body hits the ground", SYSTEM, _impact_scene, _impact_values)
SOFT_STICK_SLIP = GradientProblem("soft body sticks, then slips", SYSTEM, _stick_scene, _stick_values)
SOFT_SHAPES = GradientProblem("soft body runs into shapes", SYSTEM, _soft_on_shapes_scene, _soft_on_shapes_values)
BOUNCE = GradientProblem(  # long, for gradients that an optimizer can use
    "soft ball bounces and slides", SYSTEM, _bounce_scene, _bounce_values, frames=26, fps=25.0, substeps=200
)
