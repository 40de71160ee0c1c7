"""What scenes have in common that differ in the numbers of their tensors alone, worked out once for all of them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar

import numpy as np
import torch

from gradsim.scene.meshes import TetMesh, TriMesh
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.parts import PARTS
from gradsim.simulate.topology import Topology

T = TypeVar("T")

CACHED_PATTERNS = 32
KEYED_NUMBERS = 16384  # in an array that is part of a key; hashing more takes as long as starting anew
SEEN_ONLY = ("look", "camera", "lights", "background")  # fields that motion does not depend on
ATOMS = frozenset((str, int, float, bool, np.float64, torch.dtype))


@dataclass(frozen=True, eq=False)
class Pattern:
    """Everything about a scene but the numbers in its tensors."""

    topology: Topology
    batch: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    distinct: dict[tuple[str, str], int]  # (family, body) -> after how many columns its table begins to repeat them
    fixed: dict[str, torch.Tensor] = field(default_factory=dict)  # states and tables that no tensor has a part in
    facts: dict[Hashable, Any] = field(default_factory=dict)  # what was found out from those alone

    @functools.cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of all states, part by part."""
        return tuple(f"{part}.{name}" for part in self.topology.parts for name in PARTS[part].states)

    @functools.cached_property
    def free(self) -> tuple[int, ...]:
        """Which of an assembly's inputs are not fixed; to be asked for once one was put together."""
        signals = (f"signal {k}" for k in range(len(self.topology.drivers)))
        names = (*self.state_names, *self.topology.elements, *signals)
        return tuple(place for place, name in enumerate(names) if name not in self.fixed)

    def fact(self, place: Hashable, needs: tuple[str, ...], find: Callable[..., T], *args: Any) -> T:
        """find(*args), or what it gave before for this place, if all states and tables that it needs are fixed."""
        known: T | None = self.facts.get(place)
        if known is not None:
            return known
        found = find(*args)
        for name in needs:
            if name not in self.fixed:
                return found
        self.facts[place] = found
        return found


_cache: dict[Hashable, Pattern] = {}


def pattern_of(scene: Scene, dtype: torch.dtype | None, start: State | None, build: Callable[[], Pattern]) -> Pattern:
    """The pattern of a scene, from a cache if one like it was seen before, else from build()."""
    parts: tuple[Any, ...] = (scene, dtype)
    if start is not None:
        timed = any(getattr(body, "pushes", ()) for body in scene.bodies)  # nothing else depends on when it starts
        parts += (start.time if timed else None, start.values())
    try:
        key = pattern_key(parts)
    except _NoKey:
        return build()
    pattern = _cache.get(key)
    if pattern is None:
        pattern = build()
        if len(_cache) >= CACHED_PATTERNS:
            _cache.pop(next(iter(_cache)), None)
        _cache[key] = pattern
    return pattern


class _NoKey(Exception):
    """A value that cannot be compared in little time."""


def pattern_key(values: Iterable[Any]) -> Hashable:
    """Equal for nouns that differ in the numbers of their tensors alone.

    Arrays are compared by their numbers, not by identity: they can be written to.
    """
    key: list[Hashable] = []
    arrays: list[np.ndarray] = []
    _extend(key, arrays, values)
    try:
        return *key, b"".join(arrays)  # type: ignore[arg-type]
    except TypeError:  # some are not contiguous
        return *key, b"".join(array.tobytes() for array in arrays)


def _extend(key: list[Hashable], arrays: list[np.ndarray], values: Iterable[Any]) -> None:
    """Add what values are to a key, in such a way that it also tells where the next begins."""
    for value in values:
        kind = type(value)
        if kind is np.ndarray:
            if value.size > KEYED_NUMBERS:
                raise _NoKey
            key.append(value.shape)
            arrays.append(value)
        elif value is None:
            key.append(None)
        elif kind in ATOMS:
            key.append(value)
        elif is_dataclass(kind):
            key.append(kind)
            _extend(key, arrays, _fields(kind)(value))
        elif isinstance(value, torch.Tensor):
            key += (torch.Tensor, value.shape, value.dtype, value.device)
        elif kind is tuple or kind is list:
            key += (Sequence, len(value))
            _extend(key, arrays, value)
        elif isinstance(value, Mapping):
            key += (Mapping, tuple(value))
            _extend(key, arrays, value.values())
        else:
            raise _NoKey


@functools.cache
def _fields(kind: type) -> Callable[[Any], tuple[Any, ...]]:
    """Reads all fields of a noun that its motion may depend on."""
    if kind in (TriMesh, TetMesh):
        return lambda mesh: (mesh.key,)
    names = [item.name for item in fields(kind) if item.name not in SEEN_ONLY]
    if len(names) == 1:
        read_one = operator.attrgetter(names[0])
        return lambda noun: (read_one(noun),)
    return operator.attrgetter(*names) if names else lambda noun: ()
