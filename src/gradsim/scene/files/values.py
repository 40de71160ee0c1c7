"""Values in scene files: quantities, arrays, file names and type keys.

A quantity is a number, a list, or a mapping: {unknown: guess, low: ..., high: ...}, {per_element: [...]},
{signal: [...]}, {file: numbers.npy}, {file: numbers.npz, key: name}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import AfterValidator, PlainValidator, StrictStr, ValidationInfo, WithJsonSchema

from gradsim.scene.errors import InvalidInput, UnknownName, WrongType
from gradsim.scene.quantity import PerElement, Signal, Spec
from gradsim.scene.spelling import did_you_mean
from gradsim.scene.unknown import unknown

WRAPPERS = {
    "unknown": ("unknown", "low", "high", "shape"),
    "per_element": ("per_element",),
    "signal": ("signal",),
    "file": ("file", "key"),
}
VALID_QUANTITY = (
    "must be a number, a list of numbers, or one of {unknown: ...}, {per_element: ...}, {signal: ...}, {file: ...}"
)


def type_key(cls: Any) -> str:
    """Returns the key of a class or builder: `double_pendulum`, `sphere` for StaticSphere, `point` for PointLight."""
    name = cls.__name__.removeprefix("Static").removesuffix("Light")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def abbreviate(value: Any) -> str:
    """Returns the repr of a value, cut to 60 characters."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


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
    folder: Any = info.context
    return Path(folder, name)


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
    try:
        content = np.load(path, allow_pickle=False)
        if path.suffix == ".npy":
            return np.asarray(content)
        with content:
            if key not in content.files:
                hint = did_you_mean(str(key), content.files)
                valid = f"{hint}{path.name} has the keys {', '.join(content.files)}"
                raise UnknownName("key", "missing" if key is None else repr(key), valid)
            return np.asarray(content[key])
    except FileNotFoundError:
        raise InvalidInput("file", str(path), "no such file") from None
    except (OSError, EOFError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput("file", str(path), f"is not a valid array file ({error})") from None


def _quantity(value: Any, info: ValidationInfo) -> Any:
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
    arrays = {name: _array(value[name], info) for name in ("unknown", "low", "high") if value.get(name) is not None}
    if "unknown" not in arrays:
        raise WrongType("unknown", "null", "must be a number or a list, the initial guess")
    shape = None if value.get("shape") is None else tuple(_array(value["shape"], info, "iu").reshape(-1).tolist())
    return unknown(arrays["unknown"], arrays.get("low"), arrays.get("high"), shape)


_FILE = {"type": "object", "properties": {"file": {"type": "string"}, "key": {"type": "string"}}, "required": ["file"]}


def quantity_type(spec: Spec | None = None) -> Any:
    """Returns the pydantic type of a quantity.

    The specification is only for the JSON schema; the scene object validates shape and range itself.
    """
    number: dict[str, Any] = {"type": "number"}
    schema: dict[str, Any] = {"anyOf": [number, {"type": "array"}, {"type": "object"}]}
    if spec is not None:
        limits = {"exclusiveMinimum": spec.above, "minimum": spec.low, "exclusiveMaximum": spec.below}
        number |= {name: limit for name, limit in limits.items() if limit is not None}
        per = "" if spec.per is None else f"; or {{per_element: ...}}, one for each {spec.per}"
        signal = "; or {signal: ...}" if spec.signal else ""
        shape = f", shape {list(spec.shape)}" if spec.shape else ""
        schema["description"] = f"[{spec.unit}]{shape}{per}{signal}; or {{unknown: guess, low: ..., high: ...}}"
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
