"""Nuisances of the lights: intensity and direction of each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradsim.fit.nuisances import wording
from gradsim.fit.nuisances.changes import DEGREE, center_of, mean, multiplied, perpendicular, tensor_of, turned, vector
from gradsim.fit.nuisances.nuisance import Nuisance
from gradsim.scene.lights import AmbientLight, DirectionalLight, PointLight
from gradsim.scene.scene import Scene

INTENSITY = 10.0  # [%]
DIRECTION = 5.0  # [degree]

NAMES = {AmbientLight: "ambient light", DirectionalLight: "directional light", PointLight: "point light"}


def light_nuisances(scene: Scene) -> Iterator[Nuisance]:
    if scene.camera is None:
        return
    for k, light in enumerate(scene.lights):
        if mean(light.intensity) == 0.0:
            continue
        name = NAMES[type(light)]
        yield Nuisance(
            f"lights[{k}].intensity",
            "light",
            "%",
            INTENSITY,
            wording.larger(name, words=("brighter", "darker")),
            scene=_light_change(k, _intensity),
            changes=(f"lights[{k}].intensity",),
            moves=False,
        )
        if isinstance(light, AmbientLight):
            continue
        field = "direction" if isinstance(light, DirectionalLight) else "position"
        for axis in (0, 1):
            yield Nuisance(
                f"lights[{k}].turn_{'ab'[axis]}",
                "light",
                "degree",
                DIRECTION,
                lambda a, name=name: f"a {name} turned by {wording.number(abs(a))} degrees",  # type: ignore[misc]
                scene=_light_change(k, _turn(field, axis, center_of(scene))),
                changes=(f"lights[{k}].{field}",),
                moves=False,
            )


def _light_change(k: int, change: Callable[[Any, torch.Tensor], Any]) -> Callable[[Scene, torch.Tensor], Scene]:
    def scene_change(scene: Scene, amount: torch.Tensor) -> Scene:
        lights = [change(light, amount) if k == own else light for own, light in enumerate(scene.lights)]
        return dataclasses.replace(scene, lights=lights)

    return scene_change


def _intensity(light: Any, amount: torch.Tensor) -> Any:
    return dataclasses.replace(light, intensity=multiplied(light.intensity, amount / 100))


def _turn(field: str, axis: int, center: Any) -> Callable[[Any, torch.Tensor], Any]:
    """Rotation of a direction, or of a position about the middle of the bodies."""

    def change(light: Any, amount: torch.Tensor) -> Any:
        value = tensor_of(getattr(light, field), amount)
        origin = vector(center, value) if field == "position" else torch.zeros_like(value[..., :3])
        arm = value - origin
        moved = origin + turned(arm, perpendicular(arm)[axis], DEGREE * amount[..., None])
        return dataclasses.replace(light, **{field: moved})

    return change
