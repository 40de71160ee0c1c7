"""Articulated bodies: an arm with springs, limits and motors, and a tree of links that moves freely."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, contact_values, ground, noise, tensor
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal
from gradsim.scene.materials import Contact
from gradsim.scene.quantity import Signal
from gradsim.scene.rigid import Drag, Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box, capsule, icosphere

_BAR = box((0.1, 0.4, 0.12))
_TRUNK = box((0.2, 0.1, 0.16))
_HAND = box((0.05, 0.06, 0.05))
_LEAF = box((0.03, 0.4, 0.5))


def _inertia(value: Any) -> Any:
    return 0.5 * (value + value.mT)


def _arm_values() -> Values:
    hinge = {"angle": 0.4, "rate": 3.0, "stiffness": 0.8, "rest": 0.1, "damping": 0.05, "friction": 1.0, "slip": 1.0}
    hinge |= {"armature": 0.02, "low": 0.41, "high": 0.43, "limit_stiffness": 40.0, "limit_damping": 0.3}
    hinge |= {"limit_width": 0.05, "target": 0.3, "gain": 2.0, "target_rate": 1.0, "rate_gain": 0.1}
    slider = {"displacement": 0.02, "rate": -1.0, "stiffness": 30.0, "rest": 0.01, "damping": 0.5, "friction": 0.4}
    slider |= {
        "slip": 0.3,
        "armature": 0.1,
        "low": 0.015,
        "high": 0.019,
        "limit_stiffness": 300.0,
        "limit_damping": 3.0,
    }
    slider |= {"limit_width": 0.02, "gain": 20.0, "rate_gain": 0.5, "force": 1.5, "target_rate": 0.3}
    return {
        **{f"hinge.{name}": tensor(value) for name, value in hinge.items()},
        "hinge.axis": tensor([0.1, 0.2, 1.0]),
        "hinge.torque": tensor([1.0, -2.0, 0.5]),
        **{f"slider.{name}": tensor(value) for name, value in slider.items()},
        "slider.axis": tensor([0.3, -1.0, -0.2]),
        "slider.target": tensor([0.02, 0.05, -0.01, 0.03]),
        "base": tensor([0.1, 0.2, 0.3]),
        "base_rotation": tensor([0.1, -0.2, 0.1, 0.9]),
        "position": tensor([0.02, -0.4, 0.03]),
        "rotation": tensor([0.2, 0.1, -0.1, 1.0]),
        "mass": tensor(0.8),
        "center": tensor([0.02, -0.2, 0.01]),
        "inertia": tensor(np.diag([0.02, 0.012, 0.025]) + 0.002),
        "density": tensor(200.0),
        "tip_mass": tensor(0.3),
        "tip_position": tensor([0.05, -0.3, 0.02]),
        "gravity": tensor([0.5, -9.0, 0.3]),
    }


def _arm_scene(p: Values) -> Scene:
    def of(joint: str) -> dict[str, Any]:
        return {name.partition(".")[2]: value for name, value in p.items() if name.startswith(f"{joint}.")}

    hinge, slider = of("hinge"), of("slider")
    links = {
        "upper": Link(
            Revolute(**{**hinge, "torque": Signal(hinge["torque"])}),
            mass=p["mass"],
            center=p["center"],
            inertia=_inertia(p["inertia"]),
            mesh=_BAR,
        ),
        "lower": Link(
            Prismatic(**{**slider, "target": Signal(slider["target"])}),
            "upper",
            p["position"],
            p["rotation"],
            density=p["density"],
            mesh=_BAR,
        ),
        "tip": Link(Fixed(), "lower", p["tip_position"], mass=p["tip_mass"], mesh=_BAR),
    }
    return Scene([Articulated("arm", links, p["base"], p["base_rotation"])], gravity=p["gravity"])


def _tree_values() -> Values:
    return {
        "free.displacement": tensor([0.1, 1.0, -0.2]),
        "free.rotation": tensor([0.2, 0.1, -0.3, 0.8]),
        "free.velocity": tensor([0.5, 1.0, -0.3]),
        "free.angular_velocity": tensor([1.0, -2.0, 1.5]),
        "ball.rotation": tensor([0.3, -0.2, 0.1, 0.9]),
        "ball.angular_velocity": tensor([-2.0, 1.0, 3.0]),
        "ball.stiffness": tensor(0.7),
        "ball.damping": tensor(0.02),
        "ball.friction": tensor(0.3),
        "ball.slip": tensor(2.0),
        "ball.armature": tensor(0.01),
        "universal.axis": tensor([1.0, 0.2, 0.1]),
        "universal.second_axis": tensor([-0.1, 0.9, -0.4]),
        "universal.angles": tensor([0.4, -0.7]),
        "universal.rates": tensor([2.0, -3.0]),
        "universal.stiffness": tensor([0.5, 0.3]),
        "universal.rest": tensor([0.1, -0.1]),
        "universal.damping": tensor([0.02, 0.03]),
        "universal.friction": tensor([0.2, 0.1]),
        "universal.slip": tensor(2.0),
        "universal.armature": tensor([0.01, 0.02]),
        "masses": tensor([1.2, 0.7, 0.5]),
        "centers": tensor(noise(51, 3, 3, scale=0.05)),
        "inertias": tensor(np.stack([np.diag([0.02, 0.03, 0.025])] * 3) + 0.002),
        "positions": tensor(noise(52, 2, 3, scale=0.2)),
        "rotations": tensor(noise(53, 2, 4)),
        "gravity": tensor([0.5, -9.0, 0.3]),
    }


def _tree_scene(p: Values) -> Scene:
    def of(joint: str) -> dict[str, Any]:
        return {name.partition(".")[2]: value for name, value in p.items() if name.startswith(f"{joint}.")}

    def own(k: int) -> dict[str, Any]:
        inertia = _inertia(p["inertias"][..., k, :, :])
        return {"mass": p["masses"][..., k], "center": p["centers"][..., k, :], "inertia": inertia, "mesh": _BAR}

    places = [(p["positions"][..., k, :], p["rotations"][..., k, :]) for k in range(2)]
    links = {
        "trunk": Link(Free(**of("free")), **own(0)),
        "arm": Link(Spherical(**of("ball")), "trunk", *places[0], **own(1)),
        "leg": Link(Universal(**of("universal")), "trunk", *places[1], **own(2)),
    }
    return Scene([Articulated("tree", links)], gravity=p["gravity"])


def _hopper_values() -> Values:
    return {
        **contact_values(ke=8e3, kd=5.0, kf=20.0, mu=0.4),
        "place": tensor([0.05, 0.338, -0.02]),
        "rotation": tensor([0.05, 0.1, -0.04, 1.0]),
        "velocity": tensor([0.8, -1.2, 0.3]),
        "spin": tensor([0.5, -1.0, 2.0]),
        "mass": tensor(1.5),
        "center": tensor([0.01, 0.02, -0.01]),
        "inertia": tensor(np.diag([0.02, 0.03, 0.025]) + 0.002),
        "leg_mass": tensor(0.3),
        "leg_center": tensor([0.01, -0.12, 0.02]),
        "air": tensor(0.3),
        "wind": tensor(0.4),
        "hip": tensor([0.06, -0.05, 0.01]),
        "hip_rotation": tensor([0.05, 0.02, 0.1, 1.0]),
        "axis": tensor([0.1, 0.2, 1.0]),
        "angle": tensor(0.2),
        "rate": tensor(2.0),
        "stiffness": tensor(3.0),
        "foot": tensor([0.01, -0.25, 0.0]),
        "reach": tensor(-0.062),
        "push_rate": tensor(-1.5),
        "door_angle": tensor(0.15),
        "door_rate": tensor(-3.0),
        "door_density": tensor(150.0),
        "crate_mass": tensor(0.4),
        "crate": tensor([0.28, 0.085, -0.02]),
        "pair_ke": tensor(6e3),
        "pair_restitution": tensor(0.5),
        "gravity": tensor([0.2, -9.8, 0.1]),
    }


def _hopper_scene(p: Values) -> Scene:
    """Returns a body that lands on a foot and hits a door, a crate, and itself with a sliding arm."""
    touching: dict[str, Any] = {"collides": True, "contact": Contact(p["pair_ke"], 4.0, 15.0, 0.3, 2e-3)}
    free = Free(p["place"], p["rotation"], p["velocity"], p["spin"])
    hip = Revolute(p["axis"], p["angle"], p["rate"], stiffness=p["stiffness"], damping=0.02)
    slider = Prismatic((0.0, 1.0, 0.0), p["reach"], p["push_rate"], stiffness=20.0)
    leg: dict[str, Any] = {"mass": p["leg_mass"], "center": p["leg_center"], "inertia": np.eye(3) * 2e-3}
    leg["drag"] = Drag(p["air"], p["wind"])
    links = {
        "trunk": Link(
            free,
            mass=p["mass"],
            center=p["center"],
            inertia=_inertia(p["inertia"]),
            mesh=box((0.2, 0.1, 0.16)),
            **touching,
        ),
        "leg": Link(hip, "trunk", p["hip"], p["hip_rotation"], **leg, mesh=capsule(0.02, 0.16, 12)),
        "foot": Link(Fixed(), "leg", p["foot"], mesh=icosphere(0.04, 1), collides=True),
        "hand": Link(slider, "trunk", (0.09, -0.16, -0.05), mass=0.2, inertia=np.eye(3) * 1e-3, mesh=_HAND, **touching),
    }
    door = {
        "leaf": Link(
            Revolute((0.0, 1.0, 0.0), p["door_angle"], p["door_rate"]),
            density=p["door_density"],
            mesh=_LEAF,
            **touching,
        )
    }
    crate = Rigid("crate", box((0.1, 0.12, 0.14)), mass=p["crate_mass"], position=p["crate"])
    hit = Contact(p["pair_ke"], kf=10.0, mu=0.2, delta=2e-3, restitution=p["pair_restitution"])
    return Scene(
        [Articulated("hopper", links), crate, Articulated("door", door, position=(0.178, 0.36, 0.0))],
        ground=ground(p),
        gravity=p["gravity"],
        pairs={"hopper/foot-crate": hit},
    )


ARM = GradientProblem("arm at its limits", "articulated body", _arm_scene, _arm_values)
TREE = GradientProblem("tree of links in flight", "articulated body", _tree_scene, _tree_values)
HOPPER = GradientProblem(
    "links that touch ground, crate, door and each other", "articulated body", _hopper_scene, _hopper_values
)
