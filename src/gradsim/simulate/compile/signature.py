"""Scene signatures. Scenes that differ only in the numbers of their tensors have the same signature.

Everything that depends only on the signature is computed once and shared by these scenes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import torch

from gradsim.cache import Cache, signature_key
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.forces.family import ParameterFamily
from gradsim.simulate.state.part import StatePart

NOT_SIMULATED = ("look", "camera", "lights", "background")  # fields that do not affect the motion

_signatures: Cache[SceneSignature] = Cache(32)


@dataclass(frozen=True, eq=False)
class SceneSignature:
    """Everything about a scene except the numbers in its tensors."""

    topology: Topology
    batch: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    periods: dict[tuple[str, str], int]  # (family, owner) -> columns after which its parameters repeat
    shared: dict[Hashable, Any] = field(default_factory=dict)  # derived values, and inputs without tensors

    @functools.cached_property
    def world_count(self) -> int:
        return math.prod(self.batch)

    @functools.cached_property
    def state_bytes(self) -> int:
        """Memory of all states of all worlds at one frame [bytes]."""
        parts = self.topology.state_layout.values()
        scalars = sum(sum(part.states.values()) * self.topology.elements[part.name] for part in parts)
        return scalars * self.world_count * self.dtype.itemsize

    @functools.cached_property
    def parameter_inputs(self) -> tuple[tuple[Hashable, ParameterFamily], ...]:
        """Key and family of every parameter array, in order."""
        return tuple((("parameters", name), family) for name, family in self.topology.families.items())

    @functools.cached_property
    def state_inputs(self) -> tuple[tuple[Hashable, StatePart, str, str], ...]:
        """Key, state part, name in the part and full name of every state, in order."""
        return tuple(
            (("state", name), part, state, name)
            for part in self.topology.state_layout.values()
            for state, name in zip(part.states, part.state_names, strict=True)
        )

    @functools.cached_property
    def inputs(self) -> tuple[Hashable, ...]:
        """Keys of all inputs of a rollout, in order: states, parameter arrays, signals."""
        signals = (("signal", number) for number in range(len(self.topology.signals)))
        return *(key for key, *_ in self.state_inputs), *(key for key, _ in self.parameter_inputs), *signals

    @functools.cached_property
    def varying(self) -> tuple[int, ...]:
        """Positions of the inputs that depend on tensors; known after the first compilation."""
        return tuple(place for place, key in enumerate(self.inputs) if key not in self.shared)


def signature_of(
    scene: Scene, dtype: torch.dtype | None, start: State | None, build: Callable[[], SceneSignature]
) -> SceneSignature:
    """Returns the signature of a scene, from the cache if possible; else from `build()`."""
    values: tuple[Any, ...] = (scene, dtype)
    if start is not None:
        timed = any(getattr(body, "pushes", ()) for body in scene.bodies)  # only pushes depend on time
        values += (start.time if timed else None, start.vertices, start.velocities, start.others)
    key = signature_key(*values, skip=NOT_SIMULATED)
    return build() if key is None else _signatures.get(key, build)


def clear_signatures() -> None:
    """Removes all signatures from the cache."""
    _signatures.clear()
