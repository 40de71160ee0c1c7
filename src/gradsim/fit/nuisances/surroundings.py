"""Nuisances of gravity and of the pose of planes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import (
    DEGREE,
    center_of,
    magnitude,
    multiplied,
    perpendicular,
    size_of,
    tensor_of,
    turned,
    vector,
    with_obstacle,
)
from gradsim.fit.nuisances.nuisance import Nuisance, SceneChange
from gradsim.scene.materials import Ground
from gradsim.scene.scene import Scene

TILT = 0.5  # of gravity and of planes [degree]
# Gravity is known to 0.3 %. Scaling all lengths of a scene is the same as dividing gravity, so this is the uncertainty
# of the unit of length [%].
GRAVITY = 1.0
HEIGHT = 0.01  # of a plane, relative to the smallest body


def gravity_nuisances(scene: Scene) -> Iterator[Nuisance]:
    if magnitude(scene.gravity) == 0.0:
        return
    for k in (0, 1):
        name = f"scene.gravity.tilt_{'xz'[k]}"
        text = wording.of("tilt of gravity", "degree")
        change = _gravity_tilt(k)
        yield Nuisance(name, "tilt", "degree", TILT, text, scene=change, changes=("scene.gravity",))
    text = wording.larger("gravity")
    change = _gravity_factor
    yield Nuisance("scene.gravity.magnitude", "gravity", "%", GRAVITY, text, scene=change, changes=("scene.gravity",))


def _gravity_tilt(k: int) -> SceneChange:
    """Rotation of gravity towards x (k = 0) or z (k = 1), if it points along -y."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        gravity, angle = tensor_of(scene.gravity, amount), DEGREE * amount[..., None]
        towards = perpendicular(gravity)[k] * gravity.norm(dim=-1, keepdim=True)
        return dataclasses.replace(scene, gravity=gravity * torch.cos(angle) + towards * torch.sin(angle))

    return change


def _gravity_factor(scene: Scene, amount: torch.Tensor) -> Scene:
    return dataclasses.replace(scene, gravity=multiplied(scene.gravity, amount / 100, (3,)))


def plane_nuisances(scene: Scene) -> Iterator[Nuisance]:
    """Height and tilt of the ground and of further planes."""
    sizes = [size_of(body) for body in scene.bodies if hasattr(body, "contact")]
    for name, shape in scene.obstacles.items():
        if not isinstance(shape, Ground) or not sizes:
            continue
        text = wording.shifted(f"position of {name}", "its normal", "m")
        change = _plane_height(name)
        sd = HEIGHT * min(sizes)
        yield Nuisance(f"{name}.height", "contact", "m", sd, text, scene=change, changes=(f"{name}.offset",))
        for k in (0, 1):
            text = wording.of(f"tilt of {name}", "degree")
            change = _plane_tilt(name, k, center_of(scene))
            path, paths = f"{name}.tilt_{'xz'[k]}", (f"{name}.normal",)
            yield Nuisance(path, "tilt", "degree", TILT, text, scene=change, changes=paths)


def _plane_height(name: str) -> SceneChange:
    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        plane: Any = scene.obstacles[name]
        return with_obstacle(scene, name, offset=tensor_of(plane.offset, amount) + amount)

    return change


def _plane_tilt(name: str, k: int, center: np.ndarray) -> SceneChange:
    """Rotation of a plane's normal towards x or z, about the point below the middle of the bodies."""

    def change(scene: Scene, amount: torch.Tensor) -> Scene:
        plane: Any = scene.obstacles[name]
        normal, offset = tensor_of(plane.normal, amount), tensor_of(plane.offset, amount)
        normal = normal / normal.norm(dim=-1, keepdim=True)
        towards = perpendicular(normal)
        tilted = turned(normal, torch.linalg.cross(normal, towards[k]), DEGREE * amount[..., None])
        middle = vector(center, normal)
        foot = middle - ((middle * normal).sum(-1) - offset)[..., None] * normal
        return with_obstacle(scene, name, normal=tilted, offset=(foot * tilted).sum(-1))

    return change
