"""Prescribed motion: a moving clamp, bodies on moving shapes, a driven arm."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradsim.check.gradcheck import Values
from gradsim.check.gradient_problems.problem import GradientProblem, noise, tensor
from gradsim.scene import meshes
from gradsim.scene.ball import Ball
from gradsim.scene.bodies import Region, Soft
from gradsim.scene.forces import Tether
from gradsim.scene.materials import Ground, NeoHookean
from gradsim.scene.motion import Motion
from gradsim.scene.quantity import Signal, per_element
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.scene.shapes import StaticBox, StaticCapsule, StaticShape, StaticSphere
from gradsim.scene.surfaces import box

_BEAM = meshes.tet_box((0.4, 0.1, 0.1), (4, 1, 1))
_BOX = meshes.tet_box((0.3, 0.2, 0.2), (2, 1, 1))


def _turns(seed: int) -> np.ndarray:
    """Rotations at four times, up to a fifth of a radian."""
    return np.concatenate([noise(seed, 4, 3, scale=0.05), np.ones((4, 1))], 1)


def _clamp_values() -> Values:
    return {
        "displacement": tensor(noise(31, 4, 3, scale=0.004)),
        "rotation": tensor(_turns(32)),
        "center": tensor([-0.1, 0.5, 0.02]),
        "position": tensor([0.0, 0.5, 0.0]),
        "mu": tensor(2e4),
        "density": tensor(300.0),
    }


def _clamp_scene(p: Values) -> Scene:
    motion = Motion(Signal(p["displacement"]), Signal(p["rotation"]), p["center"])
    beam = Soft(
        "beam",
        _BEAM,
        p["density"],
        material=NeoHookean(p["mu"], 2e4, 20.0),
        position=p["position"],
        pinned=Region(high=(-0.19, None, None)),
        motion=motion,
    )
    return Scene([beam])


def _shape_values() -> Values:
    return {
        "hill_radius": tensor(0.2),
        "hill_position": tensor([0.02, 0.0, 0.0]),
        "rod_radius": tensor(0.1),
        "rod_start": tensor([-0.3, 0.1, -0.2]),
        "rod_end": tensor([0.3, 0.102, 0.22]),
        "block_size": tensor([0.1, 0.1, 0.12]),
        "block_position": tensor([0.16, 0.15, -0.1]),
        "block_rotation": tensor([0.1, 0.02, 0.05, 1.0]),
        "offset": tensor(0.198),
        "displacement": tensor(noise(33, 4, 3, scale=0.003)),
        "rotation": tensor(_turns(34)),
        "belt": tensor([[0.3, 0.0, 0.1], [0.1, 0.0, -0.2]]),
        "friction": tensor(0.4),
    }


def _shape_scene(p: Values) -> Scene:
    law: dict[str, Any] = {"ke": 2e3, "kd": 3.0, "kf": 20.0, "mu": p["friction"], "delta": 0.01}
    motion, lift = Motion(Signal(p["displacement"]), Signal(p["rotation"])), Motion(Signal(p["displacement"]))
    shapes: dict[str, StaticShape] = {
        "hill": StaticSphere(**law, radius=p["hill_radius"], position=p["hill_position"], motion=motion),
        "rod": StaticCapsule(**law, radius=p["rod_radius"], start=p["rod_start"], end=p["rod_end"], motion=motion),
        "block": StaticBox(
            **law, size=p["block_size"], position=p["block_position"], rotation=p["block_rotation"], motion=motion
        ),
        "floor": Ground(**law, offset=p["offset"], motion=lift, surface_velocity=Signal(p["belt"])),
    }
    soft = Soft(
        "soft", _BOX, 300.0, material=NeoHookean(2e4, 2e4, 10.0), position=(0.02, 0.31, 0.0), velocity=(0.1, -1.0, 0.0)
    )
    cube = Rigid(
        "cube",
        box(0.2),
        mass=1.0,
        position=(0.05, 0.335, 0.02),
        rotation=(0.2, 0.1, 0.3, 1.0),
        velocity=(0.0, -1.0, 0.2),
        angular_velocity=(1.0, 2.0, -1.0),
    )
    ball = Ball("ball", radius=0.1, mass=1.0, position=(0.05, 0.31, 0.03), velocity=(0.0, -1.0, 0.0))
    return Scene([soft, cube, ball], shapes=shapes, pairs=False)


def _arm_values() -> Values:
    return {
        "displacement": tensor(noise(35, 4, 3, scale=0.01)),
        "rotation": tensor(_turns(36)),
        "center": tensor([0.1, 0.4, 0.0]),
        "position": tensor([0.3, 0.6, 0.05]),
        "mass_center": tensor([0.01, -0.02, 0.03]),
        "points": tensor([[0.1, 0.02, 0.0], [-0.05, 0.1, 0.04]]),
        "stiffness": tensor(60.0),
    }


def _arm_scene(p: Values) -> Scene:
    motion = Motion(Signal(p["displacement"]), Signal(p["rotation"]), p["center"])
    place: dict[str, Any] = {"center": p["mass_center"], "position": p["position"], "rotation": (0.1, 0.2, 0.3, 1.0)}
    arm = Rigid("arm", box(0.2), mass=1.3, motion=motion, **place)
    soft = Soft("soft", _BOX, 300.0, material=NeoHookean(2e4, 2e4, 10.0), position=(0.0, 0.5, 0.0))
    rope = Tether(
        "rope",
        body="soft",
        nodes=[0, 3],
        rigid="arm",
        points=per_element(p["points"]),
        stiffness=p["stiffness"],
        damping=2.0,
    )
    return Scene([soft, arm], forces=[rope])


CLAMP = GradientProblem("beam in a moving clamp", "deformable object", _clamp_scene, _clamp_values)
MOVING_SHAPES = GradientProblem("bodies on moving shapes", "moving shapes", _shape_scene, _shape_values)
DRIVEN_ARM = GradientProblem("soft body on a driven arm", "deformable object", _arm_scene, _arm_values)
