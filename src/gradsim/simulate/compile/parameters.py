"""Parameter arrays: the parameters of all elements of a family in all worlds, differentiable in the scene's tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gradsim.scene.quantity import is_per_element
from gradsim.scene.scene import Scene
from gradsim.simulate.compile.batcher import SceneBatcher
from gradsim.simulate.compile.topology import SignalBinding, Topology
from gradsim.simulate.forces.family import ParameterFamily


def parameter_array(
    family: ParameterFamily, objects: Mapping[str, Any], scene: Scene, topology: Topology, batcher: SceneBatcher
) -> torch.Tensor:
    """Returns the parameters of all elements of a family, [B, rows, elements]; rows set by signals are zero."""

    def owner_columns(name: str) -> torch.Tensor:
        if family.columns is not None:
            columns: torch.Tensor = family.columns(objects[name], scene, topology, batcher)
            return columns
        first, end = topology.ranges[family.name, name]
        return batcher.rows((family.name, name), family.values(objects[name]), end - first)

    pieces = batcher.cached_each(("columns", family.name), topology.owners[family.name], owner_columns)
    return batcher.concatenate(list(pieces.values()), 2)


def column_period(family: ParameterFamily, owner: Any, scene: Scene, count: int) -> int:
    """Returns the number of columns after which the parameters of an owner's `count` elements repeat."""
    if family.columns is not None:
        return family.period(scene) if family.period is not None else count
    return count if any(map(is_per_element, family.values(owner))) else 1


def signal_samples(
    signal: SignalBinding, owner: Any, scene: Scene, topology: Topology, batcher: SceneBatcher
) -> torch.Tensor:
    """Returns the samples of a signal, [B, samples, elements]."""
    family = topology.families[signal.family]
    if family.prescribed is None or signal.row not in family.prescribed.rows:
        return batcher(family.value(signal.row, owner), signal.count)
    samples: torch.Tensor = family.prescribed.samples(owner, scene, topology, batcher)[signal.row]
    return samples
