"""Topology of a scene: its nodes, bodies and elements with their constants, independent of parameter values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch

from gradsim.cache import Cache
from gradsim.scene.quantity import sample_count
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.family import ForceFamily, ParameterFamily
from gradsim.simulate.forces.registry import families_of
from gradsim.simulate.state.part import StatePart
from gradsim.simulate.state.prescribed import PRESCRIBED
from gradsim.simulate.state.registry import STATE_PARTS

V = TypeVar("V")

_topologies: Cache[Topology] = Cache(32)


@dataclass(frozen=True)
class SignalBinding:
    """A signal that sets one row of a family's parameters, for the elements of one owner."""

    owner: str
    family: str
    row: str
    first: int  # first element that it sets
    count: int  # elements
    samples: int
    interpolation: str = "linear"  # as in `INTERPOLATIONS`


@dataclass(frozen=True, eq=False)
class Topology:
    """The elements of one world."""

    key: Hashable
    families: dict[str, ParameterFamily]  # that have elements in the scene, state parts first
    ranges: dict[tuple[str, str], tuple[int, int]]  # (family, owner) -> first and end of its elements
    elements: dict[str, int]  # family -> number of elements
    signals: tuple[SignalBinding, ...]
    owners: dict[str, tuple[str, ...]]  # family -> names of the scene objects that have such elements
    arrays: dict[str, np.ndarray] = field(repr=False)  # "tet.nodes" -> constants of the elements
    derived: dict[Hashable, Any] = field(repr=False, default_factory=dict)

    @functools.cached_property
    def state_layout(self) -> dict[str, StatePart]:
        """The parts of the state that the scene has, by name."""
        return {name: family for name, family in self.families.items() if isinstance(family, StatePart)}

    @functools.cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of all states, part by part: "node.x", "node.v", "rigid.p", ..."""
        return tuple(name for part in self.state_layout.values() for name in part.state_names)

    @functools.cached_property
    def forces(self) -> tuple[ForceFamily, ...]:
        """Force families that the scene has, in the order in which they are added up."""
        return tuple(family for family in self.families.values() if isinstance(family, ForceFamily))

    @property
    def is_coupled(self) -> bool:
        """Whether a force acts between parts of the state."""
        return any(force.couples for force in self.forces)

    @property
    def is_native(self) -> bool:
        """Whether every force has a native kernel."""
        coupled_links = "link" in self.elements and self.is_coupled
        return not coupled_links and all(force.native is not None for force in self.forces)

    @functools.cached_property
    def is_prescribed(self) -> bool:
        """Whether a part of the state follows a prescribed motion, or links in contact their joints."""
        return "link" in self.families or any(family in PRESCRIBED for family in self.families)

    def owner(self, family: str, index: int) -> str:
        """Returns the name of the scene object that owns an element."""
        ranges = ((owner, span) for (name, owner), span in self.ranges.items() if name == family)
        return next(owner for owner, (first, end) in ranges if first <= index < end)

    def tensor(self, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """Returns an array of the topology as a tensor, converted once."""

        def build() -> torch.Tensor:
            with torch.inference_mode(False):  # a later call may differentiate through it
                return torch.tensor(self.arrays[name], dtype=dtype, device=device)

        return self.constant((name, dtype, device), build)

    def constant(self, key: Hashable, build: Callable[[], V]) -> V:
        """Returns build(), computed once for the topology."""
        if key not in self.derived:
            self.derived[key] = build()
        value: V = self.derived[key]
        return value


class Placement:
    """Ranges of elements in a topology under construction; an argument of `ParameterFamily.elements`."""

    def __init__(self, scene: Scene):
        self.scene = scene
        self.ranges: dict[tuple[str, str], tuple[int, int]] = {}
        self._numbers: dict[str, dict[Hashable, int]] = {}

    def number(self, family: str, key: Hashable) -> tuple[int, bool]:
        """Returns the number of a key among those that a family has asked for, and whether it is new."""
        known = self._numbers.setdefault(family, {})
        is_new = key not in known
        return known.setdefault(key, len(known)), is_new

    def first(self, family: str, owner: Any) -> int:
        """Returns the first element of an owner in a family that is placed already."""
        return self.ranges[family, owner.name][0]


def topology_of(scene: Scene) -> Topology:
    """Returns the topology of a scene, from the cache if one with equal elements was built before."""
    owned = [(family, list(family.owners_in(scene))) for family in (*STATE_PARTS, *families_of(scene))]
    key: tuple[Hashable, ...] = tuple(
        (family.name, name, type(owner), family.key(owner), _sample_counts(family, owner))
        for family, owners in owned
        for name, owner in owners
    )
    key += tuple(family.scene_key(scene) for family, owners in owned if owners)
    return _topologies.get(key, lambda: _build(scene, key, owned))


def _sample_counts(family: ParameterFamily, owner: Any) -> tuple[int, ...]:
    """Returns the samples of every row that may be a signal, and those of a prescribed motion."""
    counts = tuple(sample_count(family.value(row, owner)) for row in family.signals)
    return counts if family.prescribed is None else (*counts, family.prescribed.sample_count(owner))


def _bound_rows(family: ParameterFamily, owner: Any) -> Iterator[tuple[str, str, int]]:
    """Yields row, interpolation and number of samples of every signal of an owner."""
    counts = _sample_counts(family, owner)
    for row, samples in zip(family.signals, counts, strict=False):
        if samples > 1:
            yield row, "linear", samples
    if family.prescribed is not None and counts[-1]:
        for row, interpolation in family.prescribed.rows.items():
            yield row, interpolation, counts[-1]


def _build(scene: Scene, key: Hashable, owned: list[tuple[ParameterFamily, list[tuple[str, Any]]]]) -> Topology:
    placement, signals = Placement(scene), []
    families: dict[str, ParameterFamily] = {}
    elements: dict[str, int] = {}
    pieces: dict[str, list[np.ndarray]] = {}
    for family, owners in owned:
        for name, owner in owners:
            added = family.elements(owner, placement)
            if not added.count:
                continue
            first = elements.get(family.name, 0)
            families[family.name], elements[family.name] = family, first + added.count
            placement.ranges[family.name, name] = (first, first + added.count)
            for array_name, array in added.arrays.items():
                pieces.setdefault(f"{family.name}.{array_name}", []).append(array)
            for row, interpolation, samples in _bound_rows(family, owner):
                signals.append(SignalBinding(name, family.name, row, first, added.count, samples, interpolation))
    arrays = {name: np.concatenate(own) for name, own in pieces.items()}
    names = {family: tuple(owner for name, owner in placement.ranges if name == family) for family in families}
    return Topology(key, families, placement.ranges, elements, tuple(signals), names, arrays)
