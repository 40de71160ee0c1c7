"""Declaration of the parts of the state: nodes, rigid bodies, pendula."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from gradsim.scene.errors import WrongShape
from gradsim.scene.quantity import PerElement
from gradsim.scene.trajectory import State
from gradsim.simulate.forces.family import ParameterFamily
from gradsim.simulate.state.kernels import UpdateKernels

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Topology

Initial = Callable[[Any, "Topology", "SceneBatcher"], torch.Tensor]  # (body, topology, batcher) -> [B, count, width]


@dataclass(frozen=True, eq=False)
class StatePart(ParameterFamily):
    """A part of the state of a world, with parameters as for `ParameterFamily`.

    Args:
        states: Names of its states and their widths in scalars.
        forces: Names of the forces that are summed for it, and their widths.
        initial: Initial value of every state, for one body.
        motion: Function (body, compiled scene, states) that returns a function for the body's motion; None if the
            part is not the motion of a body.
        kernels: Function of a Warp scalar type that returns the portable update.
        stage_sums: Widths of the rates whose adjoints are summed over later stages, in the order of the kernel.
        fixed: Arrays that multiply initial states: {"v": "moving"} sets the velocities of pinned nodes to zero.
        start_fields: States that are fields of `gs.State`, with the names of these fields.
        whole_steps: Whether one launch takes all steps of a graph instead of one stage.
        starts_at_zero: Whether a `gs.State` without its states starts them at zero.
    """

    states: Mapping[str, int] = field(kw_only=True)
    forces: Mapping[str, int] = field(kw_only=True)
    initial: Mapping[str, Initial] = field(kw_only=True)
    motion: Callable[..., Callable[[], Any]] | None = None
    kernels: Callable[[Any], UpdateKernels] = field(kw_only=True)
    stage_sums: tuple[int, ...] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)
    start_fields: Mapping[str, str] = field(default_factory=dict)
    whole_steps: bool = False
    starts_at_zero: bool = False

    @property
    def width(self) -> int:
        """Scalars of states and forces of one element."""
        return sum(self.states.values()) + sum(self.forces.values())

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Full names, such as "node.x"."""
        return tuple(f"{self.name}.{state}" for state in self.states)

    def initial_state(
        self, state: str, objects: Mapping[str, Any], topology: Topology, batcher: SceneBatcher
    ) -> torch.Tensor:
        """Returns an initial state from the objects of the scene by name, [B, count, width]."""

        def owner_state(owner: str) -> torch.Tensor:
            return self.initial[state](objects[owner], topology, batcher)

        pieces = batcher.cached_each(("initial", self.name, state), topology.owners[self.name], owner_state)
        return self._masked(state, batcher.concatenate(list(pieces.values()), 1), topology)

    def continued_state(self, state: str, start: State, topology: Topology, batcher: SceneBatcher) -> torch.Tensor:
        """Returns an initial state from a `gs.State`, [B, count, width]."""
        name, count, width = f"{self.name}.{state}", topology.elements[self.name], self.states[state]
        label = self.start_fields.get(state, name)
        value = getattr(start, label) if state in self.start_fields else start.others.get(name)
        if value is None and self.starts_at_zero:
            return torch.zeros(batcher.world_count, count, width, dtype=batcher.dtype, device=batcher.device)
        if value is None or value.shape[-2:] != (count, width):
            got = "nothing" if value is None else f"shape {tuple(value.shape)}"
            raise WrongShape(f"start.{label}", got, f"the scene needs shape [..., {count}, {width}]")
        return self._masked(state, batcher(PerElement(value), count, (width,)), topology)

    def _masked(self, state: str, values: torch.Tensor, topology: Topology) -> torch.Tensor:
        if state not in self.fixed:
            return values
        return values * topology.tensor(f"{self.name}.{self.fixed[state]}", values.dtype, values.device)[:, None]
