"""Simple and double pendula."""

from __future__ import annotations

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.scene import Scene


def _pendulum_values() -> Values:
    return {
        "length": tensor(0.8),
        "mass": tensor(1.5),
        "angle": tensor(1.2),
        "rate": tensor(0.5),
        "damping": tensor(0.3),
        "pivot": tensor([0.1, 2.0, 0.3]),
        "gravity": tensor([0.5, -9.91, 0.0]),
    }


def _pendulum_scene(p: Values) -> Scene:
    body = Pendulum("pendulum", p["length"], p["mass"], p["angle"], p["rate"], p["damping"], p["pivot"])
    return Scene([body], gravity=p["gravity"])


def _double_values() -> Values:
    return {
        "lengths": tensor([1.0, 0.7]),
        "masses": tensor([1.0, 2.0]),
        "angles": tensor([1.0, 2.0]),
        "rates": tensor([0.5, -1.0]),
        "damping": tensor([0.1, 0.2]),
        "pivot": tensor([0.1, 2.0, 0.3]),
        "gravity": tensor([0.5, -9.81, 0.0]),
    }


def _double_scene(p: Values) -> Scene:
    body = DoublePendulum("pendulum", p["lengths"], p["masses"], p["angles"], p["rates"], p["damping"], p["pivot"])
    return Scene([body], gravity=p["gravity"])


PENDULUM = GradientProblem("simple pendulum", "simple pendulum", _pendulum_scene, _pendulum_values)
DOUBLE_PENDULUM = GradientProblem("double pendulum", "double pendulum", _double_scene, _double_values)
