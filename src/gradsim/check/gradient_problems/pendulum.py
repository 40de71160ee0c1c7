"""Simple and double pendula."""

from __future__ import annotations

from typing import Any

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene.pendula import DoublePendulum, Pendulum
from gradsim.scene.scene import Scene


def _quantities(p: Values) -> dict[str, Any]:
    """Returns the quantities of the body."""
    return {name: value for name, value in p.items() if name != "gravity"}


def _pendulum_values() -> Values:
    return {
        "length": tensor(0.8),
        "mass": tensor(1.5),
        "angle": tensor(1.2),
        "rate": tensor(0.5),
        "damping": tensor(0.3),
        "pivot": tensor([0.1, 2.0, 0.3]),
        "rod_mass": tensor(0.4),
        "drag": tensor(0.2),
        "gravity": tensor([0.5, -9.91, 0.0]),
    }


def _pendulum_scene(p: Values) -> Scene:
    return Scene([Pendulum("pendulum", **_quantities(p))], gravity=p["gravity"])


def _double_values() -> Values:
    return {
        "lengths": tensor([1.0, 0.7]),
        "masses": tensor([1.0, 2.0]),
        "angles": tensor([1.0, 2.0]),
        "rates": tensor([0.5, -1.0]),
        "damping": tensor([0.1, 0.2]),
        "pivot": tensor([0.1, 2.0, 0.3]),
        "rod_masses": tensor([0.3, 0.5]),
        "drag": tensor([0.1, 0.3]),
        "gravity": tensor([0.5, -9.81, 0.0]),
    }


def _double_scene(p: Values) -> Scene:
    return Scene([DoublePendulum("pendulum", **_quantities(p))], gravity=p["gravity"])


PENDULUM = GradientProblem("simple pendulum", "simple pendulum", _pendulum_scene, _pendulum_values)
DOUBLE_PENDULUM = GradientProblem("double pendulum", "double pendulum", _double_scene, _double_values)
