"""Replacement of values by path: `cube.density`, `beam.material.mu`, `cube.pushes[0].impulse`, `lights[1].color`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from gradsim.scene.components import replace_components
from gradsim.scene.errors import InvalidInput, UnknownName, WrongType
from gradsim.scene.quantity import PerElement, Signal, Spec, bare, is_per_element, rewrap, unknowns_in, unwrap
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.scene.unknown import Unknown

Path = tuple["str | int", ...]  # attribute names, keys and indices

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_COMPONENT = re.compile(r"(\[\d+\])+$")  # index of a component at the end of a path


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
    if not isinstance(values, Mapping) or not all(isinstance(path, str) for path in values):
        raise WrongType("values", abbreviate(values), "must be values by path, {'cube.mass': 2.0}")
    given = {path: (value, spec) for path, value, spec in (*scene.quantities(), *scene.view_quantities())}
    for path in values:
        if path not in given:
            _check_component(path, given, values)
    everywhere = {**_tied_values(given, values), **values}
    located = {_location(scene, _parse(path)): value for path, value in everywhere.items()}
    replaced: S = _replace(scene, located)
    return replaced


def _check_component(path: str, given: Mapping[str, tuple[Any, Spec]], values: Mapping[str, Any]) -> None:
    """Raises UnknownName or InvalidInput unless a path names a component of a quantity that has no other new value."""
    whole = _COMPONENT.sub("", path)
    if whole not in given:
        raise UnknownName("path", repr(path), f"{did_you_mean(path, given)}the scene has {', '.join(given)}")
    value, spec = given[whole]
    count = len(spec.shape) + int(is_per_element(value)) + int(isinstance(value, Signal))
    array = unwrap(value)
    shape, index = tuple(array.shape[array.ndim - count :]), _parse(path)[-count:] if count else ()
    if len(_parse(path)) - len(_parse(whole)) != count or any(k >= n for k, n in zip(index, shape, strict=True)):
        raise UnknownName("path", repr(path), f"{whole} has shape {shape}; components are counted from 0")
    if isinstance(bare(value), Unknown):
        raise InvalidInput(path, bare(value), f"is part of one unknown: give all components, {whole}")
    if whole in values:
        raise InvalidInput(path, values[path], f"is given twice: {whole} has a new value too")


def _tied_values(given: Mapping[str, tuple[Any, Spec]], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of unknowns by all paths where they are used; `given` are the scene's quantities by path."""
    places = [(place, id(unknown)) for path, (value, _) in given.items() for place, unknown in unknowns_in(path, value)]
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
    if not values:
        return value
    if () in values:
        return rewrap(value, values[()])
    groups: dict[str | int, dict[Path, Any]] = {}
    for (head, *rest), new in values.items():
        groups.setdefault(head, {})[tuple(rest)] = new
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(item, groups[k]) if k in groups else item for k, item in enumerate(value))
    if groups and all(isinstance(head, int) for head in groups):
        return _replace_components(value, values)
    if isinstance(value, Mapping):
        return {k: _replace(item, groups[k]) if k in groups else item for k, item in value.items()}
    changes = {str(name): _replace(getattr(value, str(name)), group) for name, group in groups.items()}
    return dataclasses.replace(value, **changes)


def _replace_components(value: Any, values: Mapping[Any, Any]) -> Any:
    """Returns a quantity, with its wrappers, with other values of some components."""
    if isinstance(value, (PerElement, Signal)):
        return type(value)(_replace_components(value.values, values))
    return replace_components(value, values)
