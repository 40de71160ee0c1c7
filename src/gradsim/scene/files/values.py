"""Values in scene files: quantities, arrays, file names and type keys.

A quantity is a number, a list, or a mapping: {unknown: guess, low: ..., high: ...}, {per_element: [...]},
{signal: [...]}, {file: numbers.npy}, {file: numbers.npz, key: name}. A component of a list may be unknown. The prior of
an unknown is {normal: {mean: ..., sd: ...}} or {log_normal: {median: ..., sd: ...}}. An unknown with a YAML anchor and
its aliases are one unknown: `mass: &m {unknown: 2.0}` and `mass: *m`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, PlainValidator, StrictStr, ValidationInfo, WithJsonSchema

from gradsim.scene.array_files import array_names, read_array, read_arrays
from gradsim.scene.errors import InvalidInput, UnknownName, WrongType
from gradsim.scene.priors import LogNormal, Normal, Prior
from gradsim.scene.quantity import PerElement, Signal, Spec
from gradsim.scene.spelling import abbreviate, did_you_mean
from gradsim.scene.unknown import FLAGS, Unknown, unknown


@dataclass(frozen=True)
class LoadContext:
    """Context of the validation of a scene file."""

    folder: Path  # to which file names are relative
    within: Path  # folder that must hold all files
    unknowns: dict[int, Unknown] = field(default_factory=dict)  # by identity of their mappings in the document


WRAPPERS = {
    "unknown": ("unknown", "low", "high", "shape", "prior", *FLAGS),
    "per_element": ("per_element",),
    "signal": ("signal",),
    "file": ("file", "key"),
}
VALID_FILE = "must be an array of numbers that NumPy saved"
VALID_QUANTITY = (
    "must be a number, a list of numbers, or one of {unknown: ...}, {per_element: ...}, {signal: ...}, {file: ...}"
)


def type_key(cls: Any) -> str:
    """Returns the key of a class or builder: `double_pendulum`, `sphere` for StaticSphere, `point` for PointLight."""
    name = cls.__name__.removeprefix("Static").removesuffix("Light")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def check_keys(given: Mapping[Any, Any], known: Iterable[str], owner: str) -> None:
    """Raises UnknownName for the first key that is not known."""
    names = list(known)
    for key, value in given.items():
        if key not in names:
            hint = did_you_mean(str(key), names)
            raise UnknownName(
                str(key), abbreviate(value), f"{owner} has no such field; {hint}it has {', '.join(names)}"
            )


def _resolve_file(info: ValidationInfo, name: str) -> Path:
    """Returns the path of a file named in a scene file, which is relative to the folder of the scene file."""
    context: Any = info.context
    path = Path(context.folder, name)
    if "\0" in name or not path.resolve().is_relative_to(context.within.resolve()):
        remedy = "must lie in the folder of the scene file, or give load_scene(..., folder=) or `gradsim --folder DIR`"
        raise InvalidInput("file", abbreviate(name), remedy)
    return path


def _array(value: Any, info: ValidationInfo, kinds: str = "iuf") -> np.ndarray:
    """Returns an array from a number, nested lists or an array file; `kinds` are the valid kinds of NumPy dtypes."""
    if isinstance(value, Mapping) and "file" in value:
        check_keys(value, WRAPPERS["file"], "an array file")
        if not isinstance(value["file"], str):
            raise WrongType("file", abbreviate(value["file"]), "must be the name of a .npy or .npz file")
        array = _array_file(_resolve_file(info, value["file"]), value.get("key"))
    else:
        if not isinstance(value, (int, float, list)):
            raise WrongType("", abbreviate(value), VALID_QUANTITY)
        try:
            array = np.asarray(value)
        except ValueError:
            raise WrongType("", abbreviate(value), "all rows of a list must have the same length") from None
    if array.size and array.dtype.kind not in kinds:
        raise WrongType("", abbreviate(value), VALID_QUANTITY)
    return array


def _array_file(path: Path, key: Any) -> np.ndarray:
    if path.suffix not in (".npy", ".npz"):
        raise InvalidInput("file", path.name, "must be a .npy file, or a .npz file and the key of an array in it")
    if path.suffix == ".npy":
        return read_array(path, "file", VALID_FILE)
    names = array_names(path, "file", VALID_FILE)
    if key not in names:
        valid = f"{did_you_mean(str(key), names)}{path.name} has the keys {', '.join(names)}"
        raise UnknownName("key", "missing" if key is None else abbreviate(key), valid)
    return read_arrays(path, "file", VALID_FILE, (key,))[key]


def _quantity(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, list) and _has_mappings(value):
        return [_component(k, part, info) for k, part in enumerate(value)]
    if not isinstance(value, Mapping):
        return _array(value, info)
    wrapper = next((name for name in WRAPPERS if name in value), None)
    if wrapper is None:
        check_keys(value, WRAPPERS, "a quantity")
        raise WrongType("", "{}", VALID_QUANTITY)
    check_keys(value, WRAPPERS[wrapper], f"{{{wrapper}: ...}}")
    if wrapper == "per_element":
        return PerElement(_quantity(value["per_element"], info))
    if wrapper == "signal":
        return Signal(_quantity(value["signal"], info))
    if wrapper == "file":
        return _array(value, info)
    return _unknown(value, info)


def _has_mappings(value: list[Any]) -> bool:
    """Whether nested lists hold a mapping, such as an unknown component."""
    return any(isinstance(part, Mapping) or (isinstance(part, list) and _has_mappings(part)) for part in value)


def _component(index: int, value: Any, info: ValidationInfo) -> Any:
    """Returns a component of a list; errors name it."""
    try:
        if isinstance(value, Mapping) and "unknown" not in value:
            raise WrongType("", abbreviate(value), "a component is a number or {unknown: ...}")
        return _quantity(value, info)
    except InvalidInput as error:
        field = error.name.partition(".")[2] or error.name
        joint = "." if field and not field.startswith("[") else ""
        raise type(error)(f"list.[{index}]{joint}{field}", error.value, error.valid) from None


def _unknown(value: Mapping[str, Any], info: ValidationInfo) -> Unknown:
    """Returns the unknown of a mapping; the aliases of one YAML node are the same mapping and give the same object."""
    context: Any = info.context
    if id(value) not in context.unknowns:
        context.unknowns[id(value)] = _new_unknown(value, info)
    unknown: Unknown = context.unknowns[id(value)]
    return unknown


def _new_unknown(value: Mapping[str, Any], info: ValidationInfo) -> Unknown:
    arrays = {name: _array(value[name], info) for name in ("unknown", "low", "high") if value.get(name) is not None}
    if "unknown" not in arrays:
        raise WrongType("unknown", "null", "must be a number or a list, the initial guess")
    shape = None if value.get("shape") is None else tuple(_array(value["shape"], info, "iu").reshape(-1).tolist())
    flags = {name: value[name] for name in FLAGS if name in value}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise WrongType(name, abbreviate(flag), "must be true or false")
    prior = None if value.get("prior") is None else _prior(value["prior"], info)
    return unknown(arrays["unknown"], arrays.get("low"), arrays.get("high"), shape, prior=prior, **flags)


def _prior(value: Any, info: ValidationInfo) -> Prior:
    classes = {type_key(cls): cls for cls in (Normal, LogNormal)}
    if not isinstance(value, Mapping) or len(value) != 1 or next(iter(value)) not in classes:
        remedy = "must be {normal: {mean: ..., sd: ...}} or {log_normal: {median: ..., sd: ...}}"
        raise WrongType("prior", abbreviate(value), remedy)
    ((key, fields),) = value.items()
    names = [field.name for field in dataclasses.fields(classes[key])]
    if not isinstance(fields, Mapping) or not all(name in fields for name in names):
        raise WrongType("prior", abbreviate(value), f"{key} needs {' and '.join(names)}")
    check_keys(fields, names, key)
    return classes[key](**{name: _array(fields[name], info) for name in names})


_FILE = {"type": "object", "properties": {"file": {"type": "string"}, "key": {"type": "string"}}, "required": ["file"]}


def quantity_type(spec: Spec | None = None) -> Any:
    """Returns the pydantic type of a quantity.

    The specification is only for the JSON schema; the scene object validates shape and range itself.
    """
    number: dict[str, Any] = {"type": "number"}
    schema: dict[str, Any] = {"anyOf": [number, {"type": "array"}, {"type": "object"}]}
    if spec is not None:
        limits = {"exclusiveMinimum": spec.above, "minimum": spec.low}
        limits |= {"exclusiveMaximum": spec.below, "maximum": spec.high}
        number |= {name: limit for name, limit in limits.items() if limit is not None}
        per = "" if spec.per is None else f"; or {{per_element: ...}}, one for each {spec.per}"
        signal = "; or {signal: ...}" if spec.signal else ""
        shape = f", shape {list(spec.shape)}" if spec.shape else ""
        unknown_text = "; or {unknown: guess, low: ..., high: ..., prior: ...}"
        unknown_text += ", also for a component" if spec.shape else ""
        schema["description"] = f"[{spec.unit}]{shape}{per}{signal}{unknown_text}"
    return Annotated[Any, PlainValidator(_quantity), WithJsonSchema(schema)]


ARRAY: Any = Annotated[
    Any, PlainValidator(_array), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "array"}, _FILE]})
]
NODES: Any = Annotated[
    Any,
    PlainValidator(lambda value, info: _array(value, info, "iub")),
    WithJsonSchema(
        {"anyOf": [{"type": "array"}, _FILE], "description": "indices of nodes, or true or false for each node"}
    ),
]
FILE: Any = Annotated[StrictStr, AfterValidator(lambda value, info: _resolve_file(info, value))]
