"""Contact of nodes: sheets and soft blocks with each other, and both with moving rigid bodies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, tensor
from gradsim.scene import meshes
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Cloth, Soft
from gradsim.scene.body import Body
from gradsim.scene.materials import Membrane, NeoHookean
from gradsim.scene.node_contact import NodeContact
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.self_contact import SelfContact
from gradsim.scene.surfaces import box, capsule, cylinder

_SHEET = meshes.grid(0.4, 6)
_BLOCK = meshes.tet_box((0.2, 0.2, 0.2), (2, 2, 2))
_STILL = (0.0, 0.0, 0.0)


def _pair_values() -> Values:
    return {
        "ke": tensor(300.0),
        "kd": tensor(0.05),
        "kf": tensor(0.1),
        "friction": tensor(0.3),
        "delta": tensor(0.003),
        "radius": tensor(0.03),
        "velocity": tensor([0.1, -1.0, 0.1]),
    }


def _self_contact(p: Values, *, within: bool) -> SelfContact:
    return SelfContact(p["ke"], p["kd"], p["kf"], p["friction"], p["delta"], p["radius"], within=within)


def _sheet_scene(p: Values) -> Scene:
    own: dict[str, Any] = {"material": Membrane(100.0, 100.0, 0.1), "self_contact": _self_contact(p, within=True)}
    lower = Cloth("lower", _SHEET, 0.5, **own)
    upper = Cloth("upper", _SHEET, 0.5, position=(0.013, 0.058, 0.021), velocity=p["velocity"], **own)
    return Scene([lower, upper], gravity=_STILL)


def _block_scene(p: Values) -> Scene:
    own: dict[str, Any] = {"material": NeoHookean(4e3, 4e3, 5.0), "self_contact": _self_contact(p, within=False)}
    lower = Soft("lower", _BLOCK, 100.0, **own)
    place: dict[str, Any] = {
        "position": (0.03, 0.25, -0.02),
        "rotation": (0.1, 0.2, 0.0, 1.0),
        "velocity": p["velocity"],
    }
    upper = Soft("upper", _BLOCK, 150.0, **place, **own)
    return Scene([lower, upper], gravity=_STILL)


def _rigid_values(shape: Values) -> Values:
    return {
        "ke": tensor(200.0),
        "kd": tensor(0.1),
        "kf": tensor(1.0),
        "mu": tensor(0.4),
        "delta": tensor(0.004),
        "thickness": tensor(0.004),
        "mass": tensor(0.4),
        "velocity": tensor([0.1, 1.5, 0.05]),
        "spin": tensor([1.0, 0.5, -2.0]),
        "position": tensor([0.0, 0.1, 0.0]),
        "center": tensor([0.01, 0.005, -0.01]),
        **shape,
    }


def _sheet() -> Cloth:
    return Cloth("soft", _SHEET, 0.5, material=Membrane(100.0, 100.0, 0.1), position=(0.0, 0.21, 0.0))


def _block() -> Soft:
    mesh = meshes.tet_box((0.2, 0.1, 0.2), (2, 1, 2))
    return Soft("soft", mesh, 60.0, material=NeoHookean(4e3, 4e3, 3.0), position=(0.02, 0.27, 0.01))


def _hit(p: Values, soft: Body, hard: type[Rigid], **shape: Any) -> Scene:
    """A rigid body flies into a sheet or a soft block."""
    motion: dict[str, Any] = {"position": p["position"], "velocity": p["velocity"], "angular_velocity": p["spin"]}
    body = hard("body", mass=p["mass"], center=p["center"], **motion, **shape)
    law: dict[str, Any] = {
        name: p[name] for name in ("ke", "kd", "kf", "mu", "delta", "thickness", "rounding") if name in p
    }
    return Scene([soft, body], gravity=_STILL, forces=[NodeContact("touch", body="soft", rigid="body", **law)])


def _ball_scene(p: Values, soft: Callable[[], Body] = _sheet) -> Scene:
    return _hit(p, soft(), Ball, radius=p["radius"])


def _box_scene(p: Values, soft: Callable[[], Body] = _sheet) -> Scene:
    return _hit(p, soft(), Rigid, mesh=box(0.2), size=p["size"], rotation=(0.2, 0.1, 0.3, 1.0))


def _capsule_scene(p: Values) -> Scene:
    return _hit(p, _sheet(), Rigid, mesh=capsule(0.08, 0.1), rotation=(0.2, 0.1, 0.3, 1.0))


def _cylinder_scene(p: Values) -> Scene:
    return _hit(p, _block(), Rigid, mesh=cylinder(0.1, 0.2), size=p["size"], rotation=(0.2, 0.1, 0.3, 1.0))


def _cylinder_values() -> Values:
    return _rigid_values({"size": tensor([0.2, 0.16, 0.18])})


def _ball_values() -> Values:
    return _rigid_values({"radius": tensor(0.1)})


def _box_values() -> Values:
    return _rigid_values({"size": tensor([0.2, 0.16, 0.18]), "rounding": tensor(0.03)})


SHEETS = GradientProblem("two sheets collide", "cloth", _sheet_scene, _pair_values)
BLOCKS = GradientProblem("two soft blocks collide", "deformable object", _block_scene, _pair_values)
SHEET_AND_BALL = GradientProblem("a ball flies into a sheet", "cloth", _ball_scene, _ball_values)
SHEET_AND_BOX = GradientProblem("a box flies into a sheet", "cloth", _box_scene, _box_values)
BLOCK_AND_BALL = GradientProblem(
    "a ball flies into a soft block", "deformable object", partial(_ball_scene, soft=_block), _ball_values
)
BLOCK_AND_BOX = GradientProblem(
    "a box flies into a soft block", "deformable object", partial(_box_scene, soft=_block), _box_values
)
SHEET_AND_CAPSULE = GradientProblem("a capsule flies into a sheet", "cloth", _capsule_scene, partial(_rigid_values, {}))
BLOCK_AND_MESH = GradientProblem(
    "a mesh flies into a soft block", "deformable object", _cylinder_scene, _cylinder_values
)
