"""Articulated bodies: an arm with springs, limits and motors, and a tree of links that moves freely."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, noise, tensor
from gradsim.scene.articulated import Articulated, Link
from gradsim.scene.joints import Fixed, Free, Prismatic, Revolute, Spherical, Universal
from gradsim.scene.quantity import Signal
from gradsim.scene.scene import Scene
from gradsim.scene.surfaces import box

_BAR = box((0.1, 0.4, 0.12))


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


ARM = GradientProblem("arm at its limits", "articulated body", _arm_scene, _arm_values)
TREE = GradientProblem("tree of links in flight", "articulated body", _tree_scene, _tree_values)
