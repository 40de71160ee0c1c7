"""What follows from plain numbers alone is computed once and looked up by their values.

A render of one small picture is mostly made of small tensors that are the same as in the render before: the camera's
matrix, the lights, colours. Tensors are never looked up by value: they may carry a gradient, or change in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
import torch

from gradsim.scene.quantity import quantities, unwrap

V = TypeVar("V")

REMEMBERED = 256
SMALL = 64  # numbers, at most, of an array that is looked up by its values

_values: dict[Hashable, Any] = {}


def remembered(key: Hashable, build: Callable[[], V]) -> V:
    """What `build` makes, from memory where it was made for that key before; nobody may change it in place."""
    value: V | None = _values.get(key)
    if value is None:
        with torch.inference_mode(False):  # it may meet a gradient later
            value = build()
        if len(_values) >= REMEMBERED:
            _values.pop(next(iter(_values)), None)
        _values[key] = value
    return value


def content_of_array(array: Any) -> Hashable | None:
    """Values and shape of a small array; None for large ones and for tensors."""
    if not isinstance(array, np.ndarray) or array.size > SMALL:
        return None
    return array.shape, array.tobytes()


def content(*nouns: Any) -> Hashable | None:
    """Values of all quantities of frozen objects; None where one of them is a tensor or large."""
    found: list[Any] = []
    for noun in nouns:
        found.append(type(noun))
        for name, _ in quantities(noun):
            value = getattr(noun, name)
            if value is not None:
                value = content_of_array(unwrap(value))
                if value is None:
                    return None
            found.append(value)
    return tuple(found)
