"""Compilation of a scene: scene objects become the flat, batched tensors of a rollout, differentiably."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from gradsim import bridge
from gradsim.scene.errors import (
    MixedDevices,
    MixedDtypes,
    UnsupportedDevice,
    UnsupportedTransform,
    WrongShape,
    WrongType,
)
from gradsim.scene.quantity import PerElement, batch_shape, check_known, unwrap
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.trajectory import State
from gradsim.scene.transforms import are_transforms_active
from gradsim.simulate.compile.batcher import SceneBatcher
from gradsim.simulate.compile.parameters import column_period, parameter_array, signal_samples
from gradsim.simulate.compile.signature import SceneSignature, signature_of
from gradsim.simulate.compile.topology import Topology, topology_of
from gradsim.simulate.forces.family import scene_objects

V = TypeVar("V")


@dataclass(eq=False)
class CompiledScene:
    """A scene as tensors. The worlds of the batch are flattened into the first dimension, B."""

    signature: SceneSignature
    batcher: SceneBatcher
    states: dict[str, torch.Tensor]  # "node.x" -> initial state [B, count, width]
    parameters: dict[str, torch.Tensor]  # family -> [B, rows, elements]
    signals: tuple[torch.Tensor, ...]  # one for each of the topology's, [B, samples, elements]
    _arrays: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    @property
    def topology(self) -> Topology:
        return self.signature.topology

    @property
    def batch(self) -> tuple[int, ...]:
        return self.signature.batch

    @property
    def dtype(self) -> torch.dtype:
        return self.signature.dtype

    @property
    def device(self) -> torch.device:
        return self.signature.device

    @property
    def world_count(self) -> int:
        return self.signature.world_count

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        """All inputs of a rollout, in the order of `SceneSignature.inputs`."""
        return *self.states.values(), *self.parameters.values(), *self.signals

    def array(self, family: str) -> np.ndarray:
        """Returns a parameter array as NumPy, which reads single numbers in half of Torch's time."""
        if ("parameters", family) not in self.signature.shared:
            self.batcher.uses_tensors = True
        return self._array(family)

    def _array(self, family: str) -> np.ndarray:
        array: np.ndarray | None = self._arrays.get(family)
        if array is None:
            values = self.parameters[family].detach()
            self._arrays[family] = array = values.numpy() if values.is_cpu else values.cpu().numpy()
        return array

    def distinct_columns(self, family: str, owner: str) -> Any:
        """Returns an owner's distinct columns, [rows, B, columns]; a list of numbers if there is one column."""
        place = (family, owner)
        if owner not in self.signature.shared["columns", family][1]:
            return self.batcher.cached(("distinct columns", place), partial(self._distinct, place))
        self.batcher.uses_tensors = True
        found = self._arrays.get(place)
        if found is None:
            found = self._arrays[place] = self._distinct(place)
        return found

    def _distinct(self, place: tuple[str, str]) -> Any:
        array, first, count = self._array(place[0]), self.topology.ranges[place][0], self.signature.periods[place]
        if len(array) * count == 1:
            return array[0, :, first].tolist()
        return array[:, :, first : first + count].swapaxes(0, 1)

    def cached(self, key: Hashable, build: Callable[[], V]) -> V:
        """Returns build(), computed once for this scene, and records whether it read tensors of the scene."""
        found: tuple[V, bool] | None = self._arrays.get(key)
        if found is None:
            before, self.batcher.uses_tensors = self.batcher.uses_tensors, False
            found = self._arrays[key] = build(), self.batcher.uses_tensors
            self.batcher.uses_tensors = before
        self.batcher.uses_tensors = self.batcher.uses_tensors or found[1]
        return found[0]

    def state(self, name: str) -> torch.Tensor:
        """Returns an initial state without its gradient."""
        if ("state", name) not in self.signature.shared:
            self.batcher.uses_tensors = True
        return self.states[name].detach()


@bridge.on_one_torch_thread
def compile_scene(scene: Scene, *, dtype: torch.dtype | None = None, start: State | None = None) -> CompiledScene:
    """Compiles a scene, from a shared signature if one like it was compiled before."""
    if not isinstance(scene, Scene):
        raise WrongType("scene", abbreviate(scene), "must be a gs.Scene")
    if are_transforms_active():
        remedy = "only gs.simulate and gs.render work inside vmap and grad: call this function outside"
        raise UnsupportedTransform("scene", "a scene inside a transform of torch.func", remedy)
    signature = signature_of(scene, dtype, start, lambda: _signature(scene, dtype, start))
    topology, shared = signature.topology, signature.shared
    batcher = SceneBatcher(signature, 0.0 if start is None else start.time)
    objects = _Objects(scene)
    parameters, states = {}, {}
    for key, family in signature.parameter_inputs:
        if (found := shared.get(key)) is None:
            found = batcher.cached(key, partial(parameter_array, family, objects, scene, topology, batcher))
        parameters[family.name] = found
    for key, part, state, name in signature.state_inputs:
        if start is not None:
            found = part.continued_state(state, start, topology, batcher)
        elif (found := shared.get(key)) is None:
            found = batcher.cached(key, partial(part.initial_state, state, objects, topology, batcher))
        states[name] = found
    signals = tuple(
        batcher.cached(
            ("signal", number), partial(signal_samples, signal, objects[signal.owner], scene, topology, batcher)
        )
        for number, signal in enumerate(topology.signals)
    )
    return CompiledScene(signature, batcher, states, parameters, signals)


class _Objects(dict[str, Any]):
    """Bodies, static shapes and forces of a scene by name, collected on first use."""

    def __init__(self, scene: Scene):
        super().__init__()
        self._scene = scene

    def __missing__(self, name: str) -> Any:
        self.update(scene_objects(self._scene))
        return dict.__getitem__(self, name)


def _signature(scene: Scene, dtype: torch.dtype | None, start: State | None) -> SceneSignature:
    batch, dtype, device = _batch_dtype_device(scene, dtype, start)
    topology, objects = topology_of(scene), dict(scene_objects(scene))
    periods = {
        (family, owner): column_period(topology.families[family], objects[owner], scene, end - first)
        for (family, owner), (first, end) in topology.ranges.items()
    }
    return SceneSignature(topology, batch, dtype, device, periods)


def _batch_dtype_device(
    scene: Scene, dtype: torch.dtype | None, start: State | None
) -> tuple[tuple[int, ...], torch.dtype, torch.device]:
    """Returns the common batch shape, dtype and device of all tensors of a scene."""
    given = [(path, value, spec.shape) for path, value, spec in scene.quantities()]
    if start is not None:
        values = {"vertices": start.vertices, "velocities": start.velocities, **start.others}
        given += [
            (f"start.{name}", PerElement(value), tuple(value.shape[-1:]))
            for name, value in values.items()
            if value is not None
        ]
    batch: tuple[int, ...] = ()
    lead: tuple[str, torch.Tensor] | None = None
    for path, value, shape in given:
        if isinstance(value, np.ndarray) and value.ndim == len(shape):
            continue  # plain numbers, equal in all worlds
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
        raise MixedDtypes(lead[0], lead[1].dtype, f"dtype={dtype} was requested; convert the tensor or leave dtype out")
    dtype = dtype or (lead[1].dtype if lead is not None else torch.float64)
    if dtype not in (torch.float32, torch.float64):
        raise MixedDtypes("dtype", dtype, "must be torch.float32 or torch.float64")
    device = lead[1].device if lead is not None else torch.device("cpu")
    if lead is not None and not bridge.has_device(device):
        raise UnsupportedDevice(lead[0], f"a tensor on {device}", "Warp has no such device here; use tensor.cpu()")
    return batch, dtype, device
