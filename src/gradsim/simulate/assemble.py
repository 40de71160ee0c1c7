"""From the nouns of a scene to the flat, batched tensors of a rollout, differentiably."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from gradsim import bridge
from gradsim.scene.errors import MixedDevices, MixedDtypes, WrongShape
from gradsim.scene.quantity import PerElement, batch_shape, check_known, is_per_element, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.flatten import Flattener, is_small
from gradsim.simulate.pattern import Pattern, pattern_of
from gradsim.simulate.starts import continued_states, start_state
from gradsim.simulate.tables import driver_samples, family_table, row_values
from gradsim.simulate.topology import Topology, topology_of


@dataclass(eq=False)
class Assembly:
    """A scene as tensors. Worlds of the batch are flattened into the first dimension, B."""

    pattern: Pattern
    states: dict[str, torch.Tensor]  # part.name -> start [B, count, width]
    tables: dict[str, torch.Tensor]  # family -> [B, rows, elements]
    signals: tuple[torch.Tensor, ...]  # one a driver, [B, samples, elements]
    _numbers: dict[str, np.ndarray] = field(default_factory=dict, repr=False)

    @property
    def topology(self) -> Topology:
        return self.pattern.topology

    @property
    def batch(self) -> tuple[int, ...]:
        return self.pattern.batch

    @property
    def dtype(self) -> torch.dtype:
        return self.pattern.dtype

    @property
    def device(self) -> torch.device:
        return self.pattern.device

    @property
    def world_count(self) -> int:
        return math.prod(self.batch)

    def numbers(self, family: str) -> np.ndarray:
        """A table as NumPy sees it, which takes half of Torch's time to work on a few numbers."""
        if family not in self._numbers:
            table = self.tables[family].detach()
            self._numbers[family] = table.numpy() if table.is_cpu else table.cpu().numpy()
        return self._numbers[family]


@bridge.on_one_torch_thread
def assemble(scene: Scene, *, dtype: torch.dtype | None = None, start: State | None = None) -> Assembly:
    """Flatten a scene; see `Assembly`."""
    pattern = pattern_of(scene, dtype, start, lambda: _pattern(scene, dtype, start))
    topology, fixed = pattern.topology, pattern.fixed
    begin = start.time if start is not None else 0.0
    flatten = Flattener(pattern, begin)

    def made(name: str, build: Callable[..., torch.Tensor], what: Any) -> torch.Tensor:
        """What `build` makes of the scene, once for all of its pattern if no tensor of the scene goes into it."""
        found = fixed.get(name)
        if found is None:
            flatten.varies = False
            found = build(what, scene, topology, flatten)
            if not flatten.varies and is_small(found):
                fixed[name] = found
        return found

    tables = {family: made(family, family_table, family) for family in topology.elements}
    if start is None:
        states = {name: made(name, start_state, name) for name in pattern.state_names}
    else:
        states = continued_states(start, topology, flatten)
    signals = tuple(made(f"signal {k}", driver_samples, driver) for k, driver in enumerate(topology.drivers))
    return Assembly(pattern, states, tables, signals)


def _pattern(scene: Scene, dtype: torch.dtype | None, start: State | None) -> Pattern:
    batch, dtype, device = _common(scene, dtype, start)
    topology = topology_of(scene)
    distinct = {place: _distinct(*place, scene, topology) for place in topology.ranges}
    return Pattern(topology, batch, dtype, device, distinct)


def _distinct(family: str, body: str, scene: Scene, topology: Topology) -> int:
    """After how many columns a body's part of a family's table begins to repeat them."""
    first, end = topology.ranges[family, body]
    if family in ("contact", "touch"):
        return len(scene.obstacles)
    if family in ("spring", "triangle", "bend", "hinge", "tet"):
        return 1 if not any(map(is_per_element, row_values(family, scene[body]))) else end - first
    return end - first


def _common(
    scene: Scene, dtype: torch.dtype | None, start: State | None
) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    """Batch shape, dtype and device all tensors of a scene agree on."""
    given = [(path, value, spec.shape) for path, value, spec in scene.quantities()]
    if start is not None:
        given += [
            (f"start {name}", PerElement(value), tuple(value.shape[-1:])) for name, value in start.values().items()
        ]
    batch: tuple[int, ...] = ()
    lead: tuple[str, torch.Tensor] | None = None
    for path, value, shape in given:
        if isinstance(value, np.ndarray) and value.ndim == len(shape):
            continue  # plain numbers for all worlds: nothing to agree on
        check_known(path, value)
        array = unwrap(value)
        own = batch_shape(value, shape)
        if own:
            try:
                batch = tuple(torch.broadcast_shapes(batch, own))
            except RuntimeError:
                raise WrongShape(
                    path, f"batch {own}", f"does not broadcast with the batch {batch} of the quantities before it"
                ) from None
        if not isinstance(array, torch.Tensor):
            continue
        if lead is None:
            lead = (path, array)
        if array.dtype != lead[1].dtype:
            raise MixedDtypes(path, array.dtype, f"{lead[0]} is {lead[1].dtype}; all tensors must share one dtype")
        if array.device != lead[1].device:
            raise MixedDevices(path, array.device, f"{lead[0]} is on {lead[1].device}; all tensors must share a device")
    if 0 in batch:
        raise WrongShape("batch", batch, "a batch needs at least one world")
    if lead is not None and dtype is not None and lead[1].dtype != dtype:
        raise MixedDtypes(lead[0], lead[1].dtype, f"dtype={dtype} was asked for; convert the tensor or leave dtype out")
    dtype = dtype or (lead[1].dtype if lead is not None else torch.float64)
    if dtype not in (torch.float32, torch.float64):
        raise MixedDtypes("dtype", dtype, "must be torch.float32 or torch.float64")
    return batch, dtype, lead[1].device if lead is not None else torch.device("cpu")
