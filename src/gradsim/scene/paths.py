"""Quantities by path: `cube.density`, `ground.mu`, `beam.material.mu`, `cube.pushes[0].impulse`, `lights[1].color`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gradsim.scene.errors import UnknownName
from gradsim.scene.quantity import filled
from gradsim.scene.spelling import did_you_mean

if TYPE_CHECKING:
    from gradsim.scene.scene import Scene

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def with_values(scene: Scene, values: Mapping[str, Any]) -> Scene:
    """The scene with other values at some paths; `PerElement` and `Signal` stay about a value that has none.

    Raises:
        UnknownName: The scene has no quantity at a path.
    """
    known = [path for path, _, _ in (*scene.quantities(), *scene.view_quantities())]
    for path in values:
        if path not in known:
            raise UnknownName("path", repr(path), f"{did_you_mean(path, known)}the scene has {', '.join(known)}")
    return _replaced(scene, {_steps(path): value for path, value in values.items()}, scene)


def _steps(path: str) -> tuple[str | int, ...]:
    return tuple(int(number) if number else name for name, number in _STEP.findall(path))


def _replaced(part: Any, values: Mapping[tuple[str | int, ...], Any], scene: Scene) -> Any:
    """A part of the scene with values at paths that start from it."""
    if () in values:
        return filled(part, values[()])
    groups: dict[str | int, dict[tuple[str | int, ...], Any]] = {}
    for steps, value in values.items():
        head, rest = _next(part, steps, scene)
        groups.setdefault(head, {})[rest] = value
    if isinstance(part, (list, tuple)):
        return type(part)(_replaced(p, groups[k], scene) if k in groups else p for k, p in enumerate(part))
    if isinstance(part, Mapping):
        return {k: _replaced(p, groups[k], scene) if k in groups else p for k, p in part.items()}
    changes = {str(name): _replaced(getattr(part, str(name)), group, scene) for name, group in groups.items()}
    return dataclasses.replace(part, **changes)


def _next(part: Any, steps: tuple[str | int, ...], scene: Scene) -> tuple[str | int, tuple[str | int, ...]]:
    """The attribute or item that leads on, and the steps after it: bodies and shapes are named without their list."""
    head, rest = steps[0], steps[1:]
    if part is not scene:
        return head, rest
    if head == "scene":
        return rest[0], rest[1:]
    if head in scene.shapes:
        return "shapes", (head, *rest)
    for k, body in enumerate(scene.bodies):
        if body.name == head:
            return "bodies", (k, *rest)
    return head, rest
