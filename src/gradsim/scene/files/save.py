"""Saving of scene files."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gradsim.scene.arguments import checked_path
from gradsim.scene.atomic import write_atomically
from gradsim.scene.components import Components, index_text
from gradsim.scene.errors import InvalidInput, SceneFileError
from gradsim.scene.files.document import dump_yaml
from gradsim.scene.files.values import type_key
from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.paths import SceneLike
from gradsim.scene.priors import Prior
from gradsim.scene.quantity import PerElement, Signal
from gradsim.scene.solids import FURTHER_SOLIDS
from gradsim.scene.time import Time
from gradsim.scene.unknown import FLAGS, Unknown

MAX_INLINE_SIZE = 64  # larger arrays are stored in an .npz file
TAGGED_FIELDS = frozenset(
    {"bodies", "shapes", "lights", "forces", "boundary", "integrator", "friction", "joint", "element"}
)  # values are written with a type key


def save_scene(scene: SceneLike, path: str | os.PathLike[str], *, time: Time | None = None) -> None:
    """Writes a scene file atomically; arrays of more than 64 numbers are stored in an .npz file of the same name.

    Numbers are written with full precision, tensors as their current values. Fields with default values are omitted.

    Args:
        scene: The `Scene`.
        path: A .yaml or .yml file in an existing folder.
        time: Time settings to store with the scene.
    """
    file = checked_path("path", path)
    if file.suffix not in (".yaml", ".yml"):
        raise SceneFileError(str(file), None, "file", f"extension {file.suffix!r}", "must end in .yaml or .yml")
    if not file.parent.is_dir():
        raise SceneFileError(str(file), None, "file", "no such folder", "create its folder first")
    array_file = _ArrayFile(file.with_suffix(".npz").name)
    content = _encode_fields(scene, "", array_file)
    if time is not None:
        content["time"] = _encode_fields(time, "time", array_file)
    text = dump_yaml(content)
    if array_file.arrays:
        write_atomically(file.with_suffix(".npz"), array_file.save, InvalidInput)
    write_atomically(file, lambda target: target.write_text(text, encoding="utf-8"), InvalidInput)


@dataclasses.dataclass(frozen=True)
class _ArrayFile:
    """The .npz file beside the scene file, and the unknowns encoded so far."""

    name: str
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    unknowns: dict[int, dict[str, Any]] = dataclasses.field(default_factory=dict)  # one object in several places is one

    def encode(self, array: np.ndarray, path: str) -> Any:
        """Returns an array as nested lists, or stores it and returns the reference to it."""
        if array.size > MAX_INLINE_SIZE or (array.size == 0 and array.ndim > 1):  # lists would lose the shape [0, n]
            self.arrays[path] = array
            return {"file": self.name, "key": path}
        return array.tolist()

    def save(self, target: Path) -> None:
        np.savez(target, **self.arrays)  # type: ignore[arg-type]


def _encode_fields(scene_object: Any, path: str, array_file: _ArrayFile) -> dict[str, Any]:
    """Returns the fields of a scene object that differ from their defaults."""
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(scene_object):
        value = getattr(scene_object, field.name)
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            default = field.default
        implied = field.metadata.get("implied")
        if not field.init or equal_values(value, default) or (implied is not None and equal_values(value, implied)):
            continue
        if field.name == "pinned" and not value.size:
            continue
        field_path = f"{path}.{field.name}".removeprefix(".")
        tagged = field.name in TAGGED_FIELDS or isinstance(value, FURTHER_SOLIDS)
        fields[field.name] = _encode(value, field_path, array_file, tagged=tagged)
    return fields


def _encode(value: Any, path: str, array_file: _ArrayFile, *, tagged: bool = False) -> Any:
    """Returns a value as mappings, lists and scalars; `tagged` adds the type keys of scene objects."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        return array_file.encode(_to_array(value), path)
    if isinstance(value, PerElement):
        return {"per_element": _encode(value.values, path, array_file)}
    if isinstance(value, Signal):
        return {"signal": _encode(value.values, path, array_file)}
    if isinstance(value, Unknown):
        if id(value) not in array_file.unknowns:
            array_file.unknowns[id(value)] = _encode_unknown(value, path, array_file)
        return array_file.unknowns[id(value)]
    if isinstance(value, Components):
        return value.map(lambda index, part: _encode(part, path + index_text(index), array_file)).values.tolist()
    if isinstance(value, (TriMesh, TetMesh)):
        return _encode_mesh(value, path, array_file)
    if isinstance(value, Mapping):
        return {name: _encode(item, f"{path}.{name}", array_file, tagged=tagged) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encode(item, f"{path}[{k}]", array_file, tagged=tagged) for k, item in enumerate(value)]
    fields = _encode_fields(value, getattr(value, "name", path), array_file)
    if not tagged:
        return fields
    return {type_key(type(value)): fields} if dataclasses.fields(value) else type_key(type(value))


def _encode_unknown(value: Unknown, path: str, array_file: _ArrayFile) -> dict[str, Any]:
    """Returns guess and bounds; a uniform array is stored as one number, with the shape if it is that of the guess."""
    arrays = {"unknown": value.guess, **value.bounds}
    fields = {
        name: array.flat[0].item() if _uniform(array) else array_file.encode(array, f"{path}.{name}")
        for name, array in arrays.items()
    }
    if value.shape and _uniform(value.guess):
        fields["shape"] = list(value.shape)
    if value.prior is not None:
        fields["prior"] = _encode_prior(value.prior, f"{path}.prior", array_file)
    return fields | {name: True for name in FLAGS if getattr(value, name)}


def _encode_prior(prior: Prior, path: str, array_file: _ArrayFile) -> dict[str, Any]:
    names = [field.name for field in dataclasses.fields(prior)]
    return {type_key(type(prior)): {name: array_file.encode(getattr(prior, name), f"{path}.{name}") for name in names}}


def _uniform(array: np.ndarray) -> bool:
    return bool(array.size) and bool((array == array.flat[0]).all())


def _encode_mesh(mesh: TriMesh | TetMesh, path: str, array_file: _ArrayFile) -> dict[str, Any]:
    """Returns the call of a mesh builder if there was one, otherwise the arrays of the mesh."""
    call = mesh.builder_call
    if call is not None:
        only_first = list(call.arguments) == [call.first]
        return {call.builder: call.arguments[call.first] if only_first else dict(call.arguments)}
    fields = {field.name: getattr(mesh, field.name) for field in dataclasses.fields(mesh) if field.init}
    arrays = {name: array for name, array in fields.items() if array is not None}
    return {type_key(type(mesh)): {name: array_file.encode(array, f"{path}.{name}") for name, array in arrays.items()}}


def _to_array(value: Any) -> np.ndarray:
    return value.detach().cpu().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)


def equal_values(value: Any, other: Any) -> bool:
    """Returns whether two values of a field are equal; arrays and tensors are compared by content."""
    if isinstance(value, (np.ndarray, torch.Tensor)):
        if other is None or dataclasses.is_dataclass(other):
            return False
        return other is not dataclasses.MISSING and np.array_equal(_to_array(value), _to_array(other))
    if dataclasses.is_dataclass(value):
        return type(value) is type(other) and all(
            equal_values(getattr(value, field.name), getattr(other, field.name)) for field in dataclasses.fields(value)
        )
    if isinstance(value, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(value) == len(other) and all(map(equal_values, value, other))
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(equal_values(item, other[name]) for name, item in value.items())
    return bool(type(value) is type(other) and value == other) or (value is None and other is None)
