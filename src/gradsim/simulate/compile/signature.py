"""Scene signatures: what scenes that differ only in the numbers of their tensors have in common.

Everything derived from a signature alone is computed once and shared by all scenes that have it.
"""

from __future__ import annotations

import functools
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

NOT_SIMULATED = ("look", "camera", "lights", "background")  # fields that the motion does not depend on

_signatures: Cache[SceneSignature] = Cache(32)


@dataclass(frozen=True, eq=False)
class SceneSignature:
    """Everything about a scene but the numbers in its tensors."""

    topology: Topology
    batch: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    periods: dict[tuple[str, str], int]  # (family, owner) -> after how many columns its parameters repeat
    shared: dict[Hashable, Any] = field(default_factory=dict)  # derived values, and inputs that no tensor is part of

    @functools.cached_property
    def parameter_inputs(self) -> tuple[tuple[Hashable, ParameterFamily], ...]:
        """Key and family of every parameter array, in order."""
        return tuple((("parameters", name), family) for name, family in self.topology.families.items())

    @functools.cached_property
    def state_inputs(self) -> tuple[tuple[Hashable, StatePart, str, str], ...]:
        """Key, part, name in the part and full name of every state, in order."""
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
        """Positions of the inputs that tensors are part of; known once a scene was compiled."""
        return tuple(place for place, key in enumerate(self.inputs) if key not in self.shared)


def signature_of(
    scene: Scene, dtype: torch.dtype | None, start: State | None, build: Callable[[], SceneSignature]
) -> SceneSignature:
    """The signature of a scene, from a cache if one like it was compiled before."""
    parts: tuple[Any, ...] = (scene, dtype)
    if start is not None:
        timed = any(getattr(body, "pushes", ()) for body in scene.bodies)  # nothing else depends on the start time
        parts += (start.time if timed else None, start.vertices, start.velocities, start.others)
    key = signature_key(*parts, skip=NOT_SIMULATED)
    return build() if key is None else _signatures.get(key, build)


def clear_signatures() -> None:
    """Forget all signatures."""
    _signatures.clear()
