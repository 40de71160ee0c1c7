"""Quantities given by components, some of which are unknown or tensors: `position=(gs.unknown(0.1), 0.5, 0.0)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.scene.errors import MixedDevices, MixedDtypes, WrongShape
from gradsim.scene.spelling import abbreviate
from gradsim.scene.unknown import Unknown

Index = tuple[int, ...]  # of a component


@dataclass(frozen=True, eq=False)
class Components:
    """Components of a quantity, at least one of which is unknown.

    Attributes:
        values: Array of objects: numbers, tensors [...] with a batch of worlds, and unknowns of one value each.
    """

    values: np.ndarray

    def __repr__(self) -> str:
        return f"components {self.values.tolist()}"

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def ndim(self) -> int:
        return self.values.ndim

    def items(self) -> Iterator[tuple[Index, Any]]:
        """Iterates over the indices and values of the components."""
        return ((index, self.values[index]) for index in np.ndindex(self.shape))

    def map(self, function: Callable[[Index, Any], Any]) -> Components:
        """Returns components computed from indices and values."""
        results = np.empty(self.shape, dtype=object)
        for index, value in self.items():
            results[index] = function(index, value)
        return Components(results)

    def guesses(self) -> np.ndarray | torch.Tensor:
        """Returns the values as one array or tensor [..., *shape], with the guesses of unknowns."""
        return joined("components", self.map(lambda _, value: value.guess if isinstance(value, Unknown) else value))


def index_text(index: Index) -> str:
    """Returns the index of a component as in its path: `[0]`, `[0][1]`."""
    return "".join(f"[{k}]" for k in index)


def as_components(name: str, value: Any) -> Components | None:
    """Returns the components of nested lists with unknowns or tensors; None for other values."""
    if isinstance(value, Components):
        return value
    if not _has_parts(value):
        return None
    shape = _nested_shape(name, value)
    components = np.empty(shape, dtype=object)
    for index in np.ndindex(shape):
        part = value
        for k in index:
            part = part[k]
        components[index] = part
    return Components(components)


def _has_parts(value: Any) -> bool:
    """Whether nested lists hold an unknown or a tensor."""
    if not isinstance(value, (list, tuple)):
        return False
    for part in value:  # scenes are created again in every call: numbers are the usual case
        kind = type(part)
        if kind is float or kind is int:
            continue
        if isinstance(part, (Unknown, torch.Tensor)) or _has_parts(part):
            return True
    return False


def _nested_shape(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, (list, tuple)):
        return ()
    shapes = {_nested_shape(name, part) for part in value}
    if len(shapes) != 1:
        raise WrongShape(name, "a list of parts with different lengths", "a component is one number or one unknown")
    return (len(value), *shapes.pop())


def joined(name: str, components: Components) -> np.ndarray | torch.Tensor:
    """Returns known components as one array; or as one tensor [..., *shape] if there are tensors among them."""
    parts = [value for _, value in components.items()]
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    if not tensors:
        try:
            return np.array([float(part) for part in parts]).reshape(components.shape)
        except (TypeError, ValueError):
            raise WrongShape(name, abbreviate(parts), "a component is one number or one unknown") from None
    first = tensors[0]
    for tensor in tensors:
        if tensor.dtype != first.dtype:
            raise MixedDtypes(name, f"{first.dtype} and {tensor.dtype}", "give all components in one dtype")
        if tensor.device != first.device:
            raise MixedDevices(name, f"{first.device} and {tensor.device}", "give all components on one device")
    try:
        same = torch.broadcast_tensors(
            *(torch.as_tensor(part, dtype=first.dtype, device=first.device) for part in parts)
        )
    except RuntimeError:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors)
        raise WrongShape(name, f"components of shapes {shapes}", "their batches must broadcast") from None
    return torch.stack(same, -1).reshape(*same[0].shape, *components.shape)


def replace_components(value: Any, values: Mapping[Index, Any]) -> Any:
    """Returns an array, tensor or `Components` with other values of some components, as `Components`.

    The leading dimensions of a tensor that has more dimensions than the indices are a batch of worlds.
    """
    components = value if isinstance(value, Components) else _split(value, len(next(iter(values))))
    return components.map(lambda index, part: values.get(index, part))


def _split(array: Any, ndim: int) -> Components:
    """Returns the components of an array or tensor, whose last `ndim` dimensions they are."""
    shape = tuple(array.shape[max(0, array.ndim - ndim) :])
    moved = array.reshape(*array.shape[: array.ndim - len(shape)], -1)  # components last, in one dimension
    flat = np.arange(int(np.prod(shape))).reshape(shape)
    return Components(np.empty(shape, dtype=object)).map(lambda index, _: moved[..., int(flat[index])])
