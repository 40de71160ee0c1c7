"""The memory of one shard of a batch of worlds: states, forces, adjoints, parameters and signals."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from gradsim import bridge
from gradsim.scene.errors import UnsupportedDevice
from gradsim.scene.integrators import Integrator
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.layout import column_counts, in_blocks, padded
from gradsim.simulate.engine.structures import NODE_ROW
from gradsim.simulate.state.part import StatePart


class ShardMemory:
    """The arrays of some worlds, with views of them by world; arguments as for `BatchShard`."""

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        integrator: Integrator,
        dtype: torch.dtype,
        device: torch.device,
        native: bool | None,
    ):
        self.topology, self.world_count, self.integrator = topology, world_count, integrator
        self.dtype, self.device = dtype, device
        self.dt = bridge.Settings(5, dtype, device)
        self.clock = bridge.Settings(5, torch.int32, device)
        self.native = device.type == "cpu" and topology.is_native if native is None else native
        if self.native and device.type != "cpu":
            raise UnsupportedDevice("device", device, "the native kernels read memory of the CPU: use portable kernels")
        self.columns = column_counts(topology, dtype, self.native)
        self._allocate()
        self._create_views()
        self._loaded: dict[
            str, torch.Tensor | None
        ] = {}  # parameters of the last rollout that need no copy if they recur
        self._times: tuple[float, float] | None = None  # time step and start of the last rollout
        self._initial: Sequence[torch.Tensor] = ()  # initial states of the last rollout
        self._initial_block: torch.Tensor | None = None  # the same in the layout of the pool, if they recurred

    @property
    def state_layout(self) -> dict[str, StatePart]:
        """The parts of the state, by name."""
        return self.topology.state_layout

    def _allocate(self) -> None:
        """Allocates states, forces, adjoints, parameters and signals."""
        dtype, device, worlds = self.dtype, self.device, self.world_count
        families = self.topology.families
        shapes = {
            family: (len(families[family].rows), padded(dtype, count * worlds))
            for family, count in self.columns.items()
        }
        samples = [(worlds * signal.samples * signal.count,) for signal in self.topology.signals]
        padded_parts = [part for part in self.state_layout if self.native and in_blocks(self.topology, part)]
        rows = {part: NODE_ROW if part in padded_parts else None for part in self.state_layout}
        states = [
            (self.columns[name] * worlds, rows[name] or width)
            for name, part in self.state_layout.items()
            for width in part.states.values()
        ]
        self.state_pool = bridge.Pool(states, dtype, device)
        self.adjoint_pool = bridge.Pool((*states, *shapes.values(), *samples), dtype, device)
        forces = [
            (self.columns[name] * worlds, rows[name] or width)
            for name, part in self.state_layout.items()
            for width in part.forces.values()
        ]
        self.force_pool = bridge.Pool(forces, dtype, device)
        self.buffers: dict[str, bridge.Buffer] = {}
        for name, part in self.state_layout.items():
            count = self.columns[name] * worlds
            for state, width in (dict(part.states) | dict(part.forces)).items():
                state_pools = {"": self.state_pool, "_adj": self.adjoint_pool}
                pools = state_pools if state in part.states else {"": self.force_pool}
                for suffix in ("", "_adj", "_start"):
                    self.buffers[f"{name}.{state}{suffix}"] = bridge.vectors(
                        (count,), dtype, device, width, pools.get(suffix), rows[name]
                    )
        self._parameter_adjoints = self.adjoint_pool.rest
        self.parameters = {
            family: bridge.table(shape, dtype, device, self.adjoint_pool) for family, shape in shapes.items()
        }
        self.samples = [bridge.table(shape, dtype, device, self.adjoint_pool) for shape in samples]

    def _create_views(self) -> None:
        """Creates views [worlds, ...] of the memory, once because every call copies through them."""
        worlds, topology = self.world_count, self.topology

        def by_world(tensor: torch.Tensor, family: str) -> torch.Tensor:
            columns, count = self.columns[family], topology.elements[family]
            return tensor[:, : columns * worlds].unflatten(1, (worlds, columns))[:, :, :count].transpose(0, 1)

        self._vectors = {
            name: buffer.tensor.unflatten(0, (worlds, -1))[:, : topology.elements[name.partition(".")[0]]]
            for name, buffer in self.buffers.items()
        }
        self._states = {
            suffix: [self._vectors[name + suffix] for name in self.state_names] for suffix in ("", "_adj", "_start")
        }
        self._fast_states = {suffix: list(map(bridge.fast_view, views)) for suffix, views in self._states.items()}
        carrying = [part for part in self.state_layout.values() if part.stage_sums and self.integrator.carries]
        self._carried = {
            suffix: [self._vectors[f"{part.name}.{force}{suffix}"] for part in carrying for force in part.forces]
            for suffix in ("", "_adj")
        }
        self._values = {family: by_world(table.tensor, family) for family, table in self.parameters.items()}
        self._gradients = {family: by_world(table.tensor_grad, family) for family, table in self.parameters.items()}
        shapes = [(worlds, signal.samples, signal.count) for signal in topology.signals]
        views = tuple(zip(self.samples, shapes, strict=True))
        self._samples = tuple(samples.tensor.view(shape) for samples, shape in views)
        self._sample_gradients = tuple(samples.tensor_grad.view(shape) for samples, shape in views)

    def load(
        self, parameters: dict[str, torch.Tensor], signals: Sequence[torch.Tensor], dt: float, begin: float = 0.0
    ) -> None:
        """Copies the parameters and signals of a rollout, and sets all forces to zero.

        Args:
            parameters: Family -> [worlds, rows, elements].
            signals: [worlds, samples, elements] each.
            dt: Time step [s].
            begin: Start time [s].
        """
        if self._times != (dt, begin):
            self.dt.set(dt, begin, *self.integrator.force_slope, self.integrator.carries)
            self._times = (dt, begin)
        for family, values in parameters.items():
            if self._loaded.get(family) is not values:
                self._values[family].copy_(values)
                self._loaded[family] = None if values.requires_grad else values
        for samples, values in zip(self._samples, signals, strict=True):
            samples.copy_(values)
        self.clear_forces()

    def load_states(self, values: Sequence[torch.Tensor]) -> None:
        """Copies the initial states, [worlds, count, width] each; all at once if they are those of the last rollout.

        The states of scenes without tensors are the same objects in every rollout and do not change.
        """
        recur = len(self._initial) == len(values) and all(map(operator.is_, self._initial, values))
        if recur and self._initial_block is not None:
            self.state_pool.tensor.copy_(self._initial_block)
            return
        for target, value in zip(self.states(), values, strict=True):
            target.copy_(value)
        self._initial_block = self.state_pool.tensor.clone() if recur else None
        self._initial = values if recur or not any(value.requires_grad for value in values) else ()

    def gradients(self) -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
        """Returns the gradients of parameters and signals, in the shapes of `load`."""
        return self._gradients, self._sample_gradients

    def clear_gradients(self) -> None:
        """Sets the gradients of parameters and signals to zero."""
        self._parameter_adjoints.zero_()

    def clear_forces(self) -> None:
        """Sets all forces to zero."""
        self.force_pool.tensor.zero_()

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of all states, part by part."""
        return self.topology.state_names

    def vectors(self, name: str) -> torch.Tensor:
        """Returns a state, force or adjoint buffer as [worlds, count, width]."""
        return self._vectors[name]

    def states(self, suffix: str = "") -> list[torch.Tensor]:
        """Returns all states, or with "_adj" their adjoints, as [worlds, count, width]."""
        return self._states[suffix]

    def checkpoint(self) -> list[torch.Tensor]:
        """Returns what determines the steps that follow: all states, then the forces that the integrator carries."""
        return [*self._states[""], *self._carried[""]]

    def fast_states(self, suffix: str = "") -> list[Any]:
        """Returns the same as views that are fast to read and write, see `bridge.fast_view`."""
        return self._fast_states[suffix]
