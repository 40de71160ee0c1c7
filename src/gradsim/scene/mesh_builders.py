"""Decorator for functions that build meshes: meshes record the call, so that a scene file can store `box: 0.5`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
M = TypeVar("M")


@dataclass(frozen=True)
class BuilderCall:
    """Name and arguments of the call that built a mesh; arguments are numbers and lists."""

    builder: str
    arguments: dict[str, Any]
    first: str  # name of the first parameter, which a scene file may omit


def mesh_builder(build: Callable[P, M]) -> Callable[P, M]:
    """Decorator that stores the call of `build` in the `builder_call` of the mesh it returns."""
    signature = inspect.signature(build)
    first = next(iter(signature.parameters))

    @functools.wraps(build)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> M:
        mesh = build(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        arguments = {name: np.asarray(value).tolist() for name, value in given.items()}
        object.__setattr__(mesh, "builder_call", BuilderCall(build.__name__, arguments, first))
        return mesh

    return recorded
