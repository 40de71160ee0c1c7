"""Balls, restitution and air drag of rigid bodies."""

from __future__ import annotations

from typing import Any

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.materials import Contact, Ground
from gradsim.scene.rigid import Drag, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere

SYSTEM = "rigid body"

_BOX = surfaces.box((0.3, 0.2, 0.25))


def _restitution_values() -> Values:
    return {
        "restitution": tensor(0.6),
        "slope": tensor(0.15),
        "speed": tensor(0.8),
        "ke": tensor(1e3),
        "delta": tensor(0.004),
        "friction": tensor(0.4),
        "normal": tensor([0.05, 1.0, -0.03]),
        "offset": tensor(0.01),
        "density": tensor(200.0),
    }


def _law(p: Values) -> dict[str, Any]:
    """Returns the parameters of a contact with restitution."""
    own: dict[str, Any] = {
        "restitution": p["restitution"],
        "restitution_slope": p["slope"],
        "restitution_speed": p["speed"],
    }
    return {"ke": p["ke"], "kf": 30.0, "mu": p["friction"], "delta": p.get("delta"), **own}


def _shapes(p: Values) -> dict[str, StaticShape]:
    """Returns the ground and the shapes that the bodies hit."""
    shapes: dict[str, StaticShape] = {
        "hill": StaticSphere(**_law(p), radius=0.3, position=(0.15, -0.27, 0.1)),
        "rod": StaticCapsule(**_law(p), radius=0.1, start=(-0.1, 0.0, -0.5), end=(-0.2, 0.0, 0.5)),
        "block": StaticBox(1e3, 3.0, size=0.2, position=(0.1, -0.06, -0.12), rotation=(0.1, 0.3, 0.0, 1.0)),
    }
    return shapes | {"floor": Ground(**_law(p), normal=p["normal"], offset=p["offset"])}


def _restitution_scene(p: Values) -> Scene:
    """Returns a box that hits the ground and shapes with several points at once."""
    body = Rigid(
        "body",
        _BOX,
        p["density"],
        position=(0.0, 0.16, -0.05),
        rotation=p["rotation"],
        velocity=p["velocity"],
        angular_velocity=(1.0, 2.0, -3.0),
        face_samples=True,
        contact={"block": Contact(**{**_law(p), "ke": 800.0})},
    )
    return Scene([body], shapes=_shapes(p))


def _box_values() -> Values:
    return _restitution_values() | {
        "rotation": tensor([0.1, 0.0, 0.3, 1.0]),
        "velocity": tensor([1.0, -1.5, 0.4]),
    }


def _ball_values() -> Values:
    values = _restitution_values()
    del values["delta"]
    return values | {
        "radius": tensor(0.1),
        "center": tensor([0.01, -0.02, 0.015]),
        "position": tensor([0.0, 0.12, -0.02]),
        "velocity": tensor([0.5, -1.5, -0.4]),
        "angular_velocity": tensor([1.0, 2.0, -3.0]),
        "linear": tensor(0.3),
        "quadratic": tensor(0.2),
        "gravity": tensor([0.3, -9.0, 0.2]),
    }


def _ball_scene(p: Values) -> Scene:
    """Returns a ball with air drag that hits the ground, shapes, and the edge of a block; delta varies with it."""
    body = Ball(
        "body",
        p["density"],
        radius=p["radius"],
        center=p["center"],
        position=p["position"],
        velocity=p["velocity"],
        angular_velocity=p["angular_velocity"],
        drag=Drag(p["linear"], p["quadratic"]),
    )
    return Scene([body], gravity=p["gravity"], shapes=_shapes(p))


RESTITUTION = GradientProblem("rigid body with restitution", SYSTEM, _restitution_scene, _box_values)
BALL = GradientProblem("ball with restitution and drag", SYSTEM, _ball_scene, _ball_values)
