"""save_scene(): a scene as a file that reads back as the same scene."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.scene.atomic import write_atomically
from gradsim.scene.errors import InvalidInput, SceneFileError
from gradsim.scene.files.document import written
from gradsim.scene.files.forms import kind_of
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.quantity import PerElement, Signal
from gradsim.scene.scene import Scene
from gradsim.scene.time import Time
from gradsim.scene.unknown import Unknown

LONGEST = 64  # numbers that stand in the file itself; longer arrays go to a file beside it
KINDS = frozenset({"bodies", "shapes", "lights", "boundary", "integrator"})  # fields of nouns that come in kinds


def save_scene(scene: Scene, path: str | os.PathLike[str], *, time: Time | None = None) -> None:
    """Write a scene file; arrays of more than 64 numbers go to an .npz file of the same name beside it.

    Numbers are written with all their digits, tensors as the numbers they hold now. What a field has by default is
    left out. The files appear whole or not at all.

    Args:
        path: A .yaml or .yml file, in a folder that exists.
        time: Time settings that belong to the scene.
    """
    file = Path(path)
    if file.suffix not in (".yaml", ".yml"):
        raise SceneFileError(str(file), None, "file", f"extension {file.suffix!r}", "must end in .yaml or .yml")
    if not file.parent.is_dir():
        raise SceneFileError(str(file), None, "file", "no such folder", "create its folder first")
    arrays = _Arrays(file.with_suffix(".npz").name)
    content = _fields(scene, "", arrays)
    if time is not None:
        content["time"] = _fields(time, "time", arrays)
    text = written(content)
    if arrays.kept:
        write_atomically(file.with_suffix(".npz"), arrays.save, InvalidInput)
    write_atomically(file, lambda target: target.write_text(text, encoding="utf-8"), InvalidInput)


@dataclasses.dataclass(frozen=True)
class _Arrays:
    """The arrays that go to a file beside the scene file."""

    file: str
    kept: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)

    def written(self, array: np.ndarray, path: str) -> Any:
        """An array as numbers, or as where to find it."""
        if array.size > LONGEST or (array.size == 0 and array.ndim > 1):
            self.kept[path] = array
            return {"file": self.file, "key": path}
        return array.tolist()

    def save(self, target: Path) -> None:
        np.savez(target, **self.kept)  # type: ignore[arg-type]


def _fields(noun: Any, path: str, arrays: _Arrays) -> dict[str, Any]:
    """Those fields of a noun that are not as by default."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(noun):
        value = getattr(noun, field.name)
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        if same(value, default) or (field.name == "pinned" and not value.size):
            continue
        within = f"{path}.{field.name}".removeprefix(".")
        fields[field.name] = _written(value, within, arrays, kinds=field.name in KINDS)
    return fields


def _written(value: Any, path: str, arrays: _Arrays, *, kinds: bool = False) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return arrays.written(_numbers(value), path)
    if isinstance(value, PerElement):
        return {"per_element": _written(value.values, path, arrays)}
    if isinstance(value, Signal):
        return {"signal": _written(value.values, path, arrays)}
    if isinstance(value, Unknown):
        return _unknown(value, path, arrays)
    if isinstance(value, (TriMesh, TetMesh)):
        return _mesh(value, path, arrays)
    if isinstance(value, Mapping):
        return {name: _written(part, f"{path}.{name}", arrays, kinds=kinds) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(part, f"{path}[{k}]", arrays, kinds=kinds) for k, part in enumerate(value)]
    fields = _fields(value, getattr(value, "name", path), arrays)
    if not kinds:
        return fields
    return {kind_of(type(value)): fields} if dataclasses.fields(value) else kind_of(type(value))


def _unknown(value: Unknown, path: str, arrays: _Arrays) -> dict[str, Any]:
    """Guess and bounds; where all their values are equal, one of them."""
    parts = {"unknown": value.guess, **value.bounds}
    fields = {
        name: part.flat[0].item() if _uniform(part) else arrays.written(part, f"{path}.{name}")
        for name, part in parts.items()
    }
    return fields | {"shape": list(value.shape)} if value.shape and _uniform(value.guess) else fields


def _uniform(array: np.ndarray) -> bool:
    return bool(array.size) and bool((array == array.flat[0]).all())


def _mesh(mesh: TriMesh | TetMesh, path: str, arrays: _Arrays) -> dict[str, Any]:
    """A built-in mesh by how it was made, another one by its arrays."""
    if mesh.recipe is not None:
        given, first = mesh.recipe.arguments, mesh.recipe.first
        return {mesh.recipe.builder: given[first] if list(given) == [first] else dict(given)}
    fields = {field.name: getattr(mesh, field.name) for field in dataclasses.fields(mesh) if field.init}
    given = {name: part for name, part in fields.items() if part is not None}
    return {kind_of(type(mesh)): {name: arrays.written(part, f"{path}.{name}") for name, part in given.items()}}


def _numbers(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def same(value: Any, other: Any) -> bool:
    """Whether two values of a field mean the same."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        if other is None or isinstance(other, (PerElement, Signal, Unknown)) or dataclasses.is_dataclass(other):
            return False
        return other is not dataclasses.MISSING and np.array_equal(_numbers(value), _numbers(other))
    if dataclasses.is_dataclass(value):
        return type(value) is type(other) and all(
            same(getattr(value, field.name), getattr(other, field.name)) for field in dataclasses.fields(value)
        )
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(same(part, other[name]) for name, part in value.items())
    return bool(type(value) is type(other) and value == other) or (value is None and other is None)
