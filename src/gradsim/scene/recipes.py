"""How a built-in mesh was made, so that a scene file can say `box: 0.5` instead of listing its vertices."""

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
class Recipe:
    """A builder's name and the arguments it was given, as plain numbers."""

    builder: str
    arguments: dict[str, Any]
    first: str  # the argument that a file may give without its name


def built_in(build: Callable[P, M]) -> Callable[P, M]:
    """Let the meshes of a builder remember how they were made."""
    signature = inspect.signature(build)
    first = next(iter(signature.parameters))

    @functools.wraps(build)
    def remembering(*args: P.args, **kwargs: P.kwargs) -> M:
        mesh = build(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        arguments = {name: np.asarray(value).tolist() for name, value in given.items()}
        object.__setattr__(mesh, "recipe", Recipe(build.__name__, arguments, first))
        return mesh

    return remembering
