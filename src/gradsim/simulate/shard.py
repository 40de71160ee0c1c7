"""One share of a batch of worlds: its memory, and the graphs that move it forth and back in time."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch

from gradsim import bridge
from gradsim.scene.integrators import Integrator
from gradsim.simulate.assemble import ROWS
from gradsim.simulate.layout import Layout, column_counts, padded
from gradsim.simulate.parts import PARTS
from gradsim.simulate.step import System, take_step, take_step_adjoint
from gradsim.simulate.topology import FORCES, RIGID_FORCES, Topology


class Shard:
    """The arrays of `world_count` worlds and the recorded graphs of their steps.

    `native` forces the choice between native and portable kernels; None takes native ones on the CPU.
    """

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        integrator: Integrator,
        dtype: torch.dtype,
        device: torch.device,
        native: bool | None = None,
    ):
        self.topology, self.world_count, self.integrator = topology, world_count, integrator
        self.dtype, self.device = dtype, device
        self.owner: object | None = None  # the rollout whose complete history lies here
        self.rows = 0
        self.history: dict[str, bridge.Buffer] = {}
        self._graphs: dict[tuple[bool, int], bridge.Graph] = {}

        self.dt = bridge.Settings(1, dtype, device)
        self.clock = bridge.Settings(3, torch.int32, device)
        native = device.type == "cpu" if native is None else native
        self.columns = column_counts(topology, dtype, native)
        self.tables = {
            family: bridge.table((len(ROWS[family]), padded(dtype, count * world_count)), dtype, device)
            for family, count in self.columns.items()
        }
        self.samples = [
            bridge.table((world_count * driver.samples * driver.count,), dtype, device) for driver in topology.drivers
        ]
        self.buffers: dict[str, bridge.Buffer] = {}
        for part, count in topology.parts.items():
            for name, width in (PARTS[part].states | PARTS[part].forces).items():
                for suffix in ("", "_adj", "_end"):
                    shape = (count * world_count,)
                    self.buffers[f"{part}.{name}{suffix}"] = bridge.vectors(shape, dtype, device, width)
        self._see()
        self.layout = Layout(topology, world_count, self.tables, dtype, device, native)
        self.system = System(
            forces=tuple(self.layout.force(family) for family in FORCES if family in topology.elements),
            rigid_forces=tuple(self.layout.rigid_force(f) for f in RIGID_FORCES if f in topology.elements),
            signals=self.layout.signals(self.samples),
            dt=self.dt.array,
            clock=self.clock.array,
        )

    def _see(self) -> None:
        """Views of the memory as the engine moves it, [worlds, ...] each, made once: a call makes many copies."""
        worlds, topology = self.world_count, self.topology

        def by_world(tensor: torch.Tensor, family: str) -> torch.Tensor:
            whole, count = self.columns[family], topology.elements[family]
            return tensor[:, : whole * worlds].unflatten(1, (worlds, whole))[:, :, :count].transpose(0, 1)

        self._vectors = {name: buffer.tensor.unflatten(0, (worlds, -1)) for name, buffer in self.buffers.items()}
        self._states = {
            suffix: [self._vectors[name + suffix] for name in self.state_names] for suffix in ("", "_adj", "_end")
        }
        self._forces = [self.buffers[f"{part}.{name}"].tensor for part in topology.parts for name in PARTS[part].forces]
        self._values = {family: by_world(table.tensor, family) for family, table in self.tables.items()}
        self._gradients = {family: by_world(table.tensor_grad, family) for family, table in self.tables.items()}
        shapes = [(worlds, driver.samples, driver.count) for driver in topology.drivers]
        seen = tuple(zip(self.samples, shapes, strict=True))
        self._samples = tuple(samples.tensor.view(shape) for samples, shape in seen)
        self._sample_gradients = tuple(samples.tensor_grad.view(shape) for samples, shape in seen)

    def _part(self, part: str) -> Any:
        """A part's arrays, as kernels and launchers know them."""

        def arrays(names: dict[str, int], suffix: str = "") -> list[Any]:
            return [self.buffers[f"{part}.{name}{suffix}"].array for name in names]

        kind = PARTS[part]
        count = self.topology.elements[part] * self.world_count
        namespace = SimpleNamespace(
            count=count,
            threads=count,
            table=self.tables[part],
            states=arrays(kind.states),
            states_adj=arrays(kind.states, "_adj"),
            ends=arrays(kind.states, "_end"),
            forces=arrays(kind.forces),
            forces_adj=arrays(kind.forces, "_adj"),
            history=[self.history[f"{part}.{name}"].array for name in kind.states | kind.forces],
        )
        for name in kind.states | kind.forces:
            setattr(namespace, name, self.buffers[f"{part}.{name}"].array)
            setattr(namespace, f"{name}_adj", self.buffers[f"{part}.{name}_adj"].array)
        if part == "node":
            namespace.kernels, namespace.threads = self.layout.node_updates(count)
        if part == "pendulum":
            namespace.links = self.layout.constant(self.layout.spread(self.topology.arrays["pendulum.links"]))
        return namespace

    @cached_property
    def step_bytes(self) -> int:
        """History of one step [bytes]: state and forces at every evaluation."""
        scalars = sum(PARTS[part].width * count for part, count in self.topology.parts.items())
        return self.integrator.evaluations * scalars * self.world_count * self.dtype.itemsize

    @property
    def history_bytes(self) -> int:
        """Memory the history takes [bytes]."""
        return self.rows * self.step_bytes // self.integrator.evaluations

    # --- time -----------------------------------------------------------------------------------------------------

    def reserve(self, steps: int, limit: float) -> None:
        """Make room for the history of `steps` steps; memory above `limit` [bytes] is given back."""
        rows = steps * self.integrator.evaluations
        if rows <= self.rows and (rows == self.rows or self.history_bytes <= limit):
            return
        self.owner, self.rows, self._graphs = None, rows, {}
        self.history = {
            f"{part}.{name}": bridge.vectors((rows, count * self.world_count), self.dtype, self.device, width)
            for part, count in self.topology.parts.items()
            for name, width in (PARTS[part].states | PARTS[part].forces).items()
        }
        self.system = dataclasses.replace(self.system, **{part: self._part(part) for part in self.topology.parts})

    def release(self) -> None:
        """Give the history's memory back; the next rollout reserves anew."""
        if self.rows:
            self.rows = 0
            self.reserve(1, 0.0)

    def run(self, step: int, count: int, row: int, total: int) -> None:
        """Take `count` steps from step number `step`, writing history from step `row` of the buffer on."""
        self._play(False, step, count, row, total)

    def run_back(self, step: int, count: int, row: int, total: int) -> None:
        """Bring the adjoint back over the `count` steps from `step`, reading history from step `row` on."""
        self._play(True, step, count, row, total)

    def record(self, backward: bool, count: int) -> None:
        """Record the graph of `count` steps, unless it was recorded before."""
        if (backward, count) not in self._graphs:
            self._graphs[backward, count] = bridge.Graph(lambda: self._launch(backward, count), self.device)

    def _play(self, backward: bool, step: int, count: int, row: int, total: int) -> None:
        self.record(backward, count)
        self.clock.set(step, row * self.integrator.evaluations, total)
        self._graphs[backward, count].replay()

    def _launch(self, backward: bool, count: int) -> None:
        steps = range(count)
        for step in reversed(steps) if backward else steps:
            if backward:
                take_step_adjoint(self.system, self.integrator, step)
            else:
                take_step(self.system, self.integrator, step)

    # --- values ---------------------------------------------------------------------------------------------------

    def load(self, tables: dict[str, torch.Tensor], signals: tuple[torch.Tensor, ...], dt: float) -> None:
        """Take over parameters, [worlds, rows, elements] each."""
        self.dt.set(dt)
        for family, values in tables.items():
            self._values[family].copy_(values)
        for samples, values in zip(self._samples, signals, strict=True):
            samples.copy_(values)
        self.clear_forces()

    def gradients(self) -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
        """Gradients of the tables and signals, shaped as `load` takes them."""
        return self._gradients, self._sample_gradients

    def clear_gradients(self) -> None:
        for table in (*self.tables.values(), *self.samples):
            table.tensor_grad.zero_()

    def clear_forces(self) -> None:
        for force in self._forces:
            force.zero_()

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of all states, part by part."""
        return tuple(f"{part}.{name}" for part in self.topology.parts for name in PARTS[part].states)

    def vectors(self, name: str) -> torch.Tensor:
        """A state, force or adjoint buffer as [worlds, count, width]."""
        return self._vectors[name]

    def states(self, suffix: str = "") -> list[torch.Tensor]:
        """All states, or with "_adj" their adjoints, as [worlds, count, width]."""
        return self._states[suffix]
