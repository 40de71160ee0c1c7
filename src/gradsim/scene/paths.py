"""Replacement of values by path: `cube.density`, `beam.material.mu`, `cube.pushes[0].impulse`, `lights[1].color`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gradsim.scene.errors import UnknownName
from gradsim.scene.quantity import Spec, inner_unknown, rewrap
from gradsim.scene.spelling import did_you_mean

Path = tuple["str | int", ...]  # attribute names, keys and indices

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


class SceneLike(Protocol):
    """The part of `Scene` used here. `Scene` itself imports this module, so it cannot be imported here."""

    @property
    def bodies(self) -> Sequence[Any]: ...

    @property
    def shapes(self) -> Mapping[str, Any]: ...

    @property
    def forces(self) -> Sequence[Any]: ...

    def quantities(self) -> Iterator[tuple[str, Any, Spec]]: ...

    def view_quantities(self) -> Iterator[tuple[str, Any, Spec]]: ...


S = TypeVar("S", bound=SceneLike)


def with_values(scene: S, values: Mapping[str, Any]) -> S:
    """Returns a copy of a scene with new values at some paths.

    `PerElement` and `Signal` of the old value are kept if the new value has neither. The value of an unknown that is
    used in several places is filled in at all of them.

    Raises:
        UnknownName: The scene has no quantity at a path.
    """
    given = [(path, value) for path, value, _ in (*scene.quantities(), *scene.view_quantities())]
    known = [path for path, _ in given]
    for path in values:
        if path not in known:
            raise UnknownName("path", repr(path), f"{did_you_mean(path, known)}the scene has {', '.join(known)}")
    everywhere = {**_tied_values(given, values), **values}
    located = {_location(scene, _parse(path)): value for path, value in everywhere.items()}
    replaced: S = _replace(scene, located)
    return replaced


def _tied_values(given: Sequence[tuple[str, Any]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of unknowns by all paths where they are used; `given` are the scene's quantities by path."""
    places = [(path, id(unknown)) for path, value in given if (unknown := inner_unknown(value)) is not None]
    filled = {key: values[path] for path, key in reversed(places) if path in values}
    return {path: filled[key] for path, key in places if key in filled}


def _parse(path: str) -> Path:
    return tuple(int(index) if index else name for name, index in _STEP.findall(path))


def _location(scene: SceneLike, path: Path) -> Path:
    """Returns the path by attributes: bodies and shapes are named without the field of the scene that holds them."""
    head, rest = path[0], path[1:]
    if head == "scene":
        return rest
    if head in scene.shapes:
        return "shapes", *path
    for k, body in enumerate(scene.bodies):
        if body.name == head:
            return "bodies", k, *rest
    for k, force in enumerate(scene.forces):
        if force.name == head:
            return "forces", k, *rest
    return path


def _replace(value: Any, values: Mapping[Path, Any]) -> Any:
    """Returns a copy of an object, sequence or mapping with new values at paths relative to it."""
    if () in values:
        return rewrap(value, values[()])
    groups: dict[str | int, dict[Path, Any]] = {}
    for (head, *rest), new in values.items():
        groups.setdefault(head, {})[tuple(rest)] = new
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(item, groups[k]) if k in groups else item for k, item in enumerate(value))
    if isinstance(value, Mapping):
        return {k: _replace(item, groups[k]) if k in groups else item for k, item in value.items()}
    changes = {str(name): _replace(getattr(value, str(name)), group) for name, group in groups.items()}
    return dataclasses.replace(value, **changes)
