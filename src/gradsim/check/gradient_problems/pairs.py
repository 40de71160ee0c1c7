"""Rigid bodies that touch each other: balls, boxes, capsules and meshes, with damping or restitution."""

from __future__ import annotations

from typing import Any

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene import surfaces
from gradsim.scene.ball import Ball
from gradsim.scene.materials import Contact
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene


def _ball_values() -> Values:
    return {
        "left_density": tensor(800.0),
        "right_mass": tensor(0.4),
        "radius": tensor(0.05),
        "left_center": tensor([0.004, 0.002, -0.003]),
        "velocity": tensor([2.0, -0.3, 0.2]),
        "spin": tensor([3.0, 8.0, -5.0]),
        "position": tensor([0.105, 0.03, -0.02]),
        "gravity": tensor([0.3, -9.0, 0.2]),
        "ke": tensor(2e4),
        "restitution": tensor(0.6),
        "slope": tensor(0.1),
        "kf": tensor(15.0),
        "friction": tensor(0.4),
        "delta": tensor(5e-4),
    }


def _ball_scene(p: Values) -> Scene:
    left = Ball(
        "left",
        radius=p["radius"],
        density=p["left_density"],
        center=p["left_center"],
        velocity=p["velocity"],
        angular_velocity=p["spin"],
    )
    right = Ball("right", radius=0.06, mass=p["right_mass"], position=p["position"])
    contact = Contact(
        ke=p["ke"],
        kf=p["kf"],
        mu=p["friction"],
        delta=p["delta"],
        restitution=p["restitution"],
        restitution_slope=p["slope"],
    )
    return Scene([left, right], gravity=p["gravity"], pairs={"left-right": contact})


def _box_values() -> Values:
    return {
        "density": tensor(500.0),
        "size": tensor([0.2, 0.16, 0.24]),
        "velocity": tensor([1.5, 0.2, -0.1]),
        "spin": tensor([1.0, -2.0, 3.0]),
        "rotation": tensor([0.3, -0.1, 0.2, 0.9]),
        "position": tensor([0.24, 0.02, -0.01]),
        "left_ke": tensor(4e4),
        "right_ke": tensor(6e4),
        "kd": tensor(20.0),
        "kf": tensor(40.0),
        "friction": tensor(0.3),
        "delta": tensor(1e-3),
    }


def _bodies(p: Values, mesh: Any, other: Any, **more: Any) -> Scene:
    """Returns a thrown body of its own size and another at rest, each with contact parameters."""
    own = Contact(ke=p["left_ke"], kd=p["kd"], kf=p["kf"], mu=p["friction"], delta=p["delta"])
    left = Rigid(
        "left",
        mesh,
        density=p["density"],
        size=p.get("size"),
        velocity=p["velocity"],
        angular_velocity=p["spin"],
        contact=own,
    )
    right = Rigid(
        "right",
        other,
        density=400.0,
        position=p["position"],
        rotation=p["rotation"],
        contact=Contact(ke=p["right_ke"], delta=1e-3),
    )
    return Scene([left, right], **more)


def _box_scene(p: Values) -> Scene:
    return _bodies(p, surfaces.box(0.1), surfaces.box((0.22, 0.2, 0.18)))


def _mesh_values() -> Values:
    changed = {"size": tensor([0.26, 0.12, 0.24]), "position": tensor([0.19, 0.03, -0.02])}
    return _box_values() | changed


def _mesh_scene(p: Values) -> Scene:
    return _bodies(p, surfaces.torus(0.1, 0.04), surfaces.cone(0.1, 0.2))


def _capsule_values() -> Values:
    values = _box_values() | {"position": tensor([0.17, 0.05, -0.03])}
    del values["size"]
    return values


def _capsule_scene(p: Values) -> Scene:
    return _bodies(p, surfaces.capsule(0.05, 0.2), surfaces.box((0.22, 0.2, 0.18)))


def _mixed_values() -> Values:
    return {
        "ke": tensor(4e4),
        "kd": tensor(15.0),
        "kf": tensor(30.0),
        "friction": tensor(0.3),
        "delta": tensor(1e-3),
        "mass": tensor(0.8),
        "radius": tensor(0.05),
        "velocity": tensor([1.5, 0.2, -0.1]),
        "spin": tensor([2.0, -3.0, 1.0]),
        "places": tensor([[0.0, 0.0, 0.0], [0.118, 0.01, 0.015], [0.235, -0.008, 0.0], [0.358, 0.01, 0.0]]),
    }


def _mixed_scene(p: Values) -> Scene:
    """Returns a ball that catches up with a box, which hits a capsule, and a torus that flies into the capsule."""
    contact = Contact(ke=p["ke"], kd=p["kd"], kf=p["kf"], mu=p["friction"], delta=p["delta"])
    own: dict[str, Any] = {"contact": contact}
    moving: list[dict[str, Any]] = [
        {"velocity": factor * p["velocity"], "angular_velocity": p["spin"]} for factor in (1.0, 0.5, -1.0)
    ]
    thrown, slow, back = moving
    places = [p["places"][..., k, :] for k in range(4)]
    return Scene(
        [
            Ball("ball", radius=p["radius"], mass=p["mass"], position=places[0], **thrown, **own),
            Rigid("box", surfaces.box((0.12, 0.2, 0.16)), mass=p["mass"], position=places[1], **slow, **own),
            Rigid("capsule", surfaces.capsule(0.05, 0.1), mass=0.5, position=places[2], **own),
            Rigid("torus", surfaces.torus(0.05, 0.02), mass=0.4, position=places[3], **back, **own),
        ]
    )


BALL_PAIR = GradientProblem("two balls", "rigid body", _ball_scene, _ball_values, fps=200.0)
BOX_PAIR = GradientProblem("two boxes", "rigid body", _box_scene, _box_values, fps=200.0)
MESH_PAIR = GradientProblem("torus and cone", "rigid body", _mesh_scene, _mesh_values, fps=200.0)
CAPSULE_PAIR = GradientProblem("capsule and box", "rigid body", _capsule_scene, _capsule_values, fps=200.0)
MIXED_PAIRS = GradientProblem("ball, box, capsule and torus", "rigid body", _mixed_scene, _mixed_values, fps=200.0)
