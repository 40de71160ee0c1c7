"""One share of a batch of worlds: its memory, and the graphs that move it forth and back in time."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import torch

from gradsim import bridge
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.simulate.kernels.march import STATE, March
from gradsim.simulate.kernels.node_march import LIVE, NodeMarch
from gradsim.simulate.layout import Layout, column_counts, padded
from gradsim.simulate.memory import GRAPH_STEPS
from gradsim.simulate.parts import PARTS
from gradsim.simulate.step import System, take_steps, take_steps_adjoint
from gradsim.simulate.tables import ROWS
from gradsim.simulate.topology import FORCES, RIGID_FORCES, Topology

NEAR = 1 << 20  # history that the caches of most machines hold [bytes]


class Shard:
    """The arrays of `world_count` worlds and the recorded graphs of their steps.

    `native` forces the choice between native and portable kernels; None takes native ones on the CPU. `batch` counts
    the worlds of all shares, this one's if None.
    """

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        integrator: Integrator,
        dtype: torch.dtype,
        device: torch.device,
        native: bool | None = None,
        batch: int | None = None,
    ):
        self.topology, self.world_count, self.integrator = topology, world_count, integrator
        self.dtype, self.device = dtype, device
        self.owner: object | None = None  # the rollout whose complete history lies here
        self.rows = 0
        self.history: dict[str, bridge.Buffer] = {}
        self._graphs: dict[tuple[bool, int], bridge.Graph] = {}

        self.dt = bridge.Settings(1, dtype, device)
        self.clock = bridge.Settings(4, torch.int32, device)
        self.native = native = device.type == "cpu" if native is None else native
        self.columns = column_counts(topology, dtype, native)
        shapes = {
            family: (len(ROWS[family]), padded(dtype, count * world_count)) for family, count in self.columns.items()
        }
        samples = [(world_count * driver.samples * driver.count,) for driver in topology.drivers]
        rows = {part: 4 if native and part == "node" else None for part in topology.parts}
        states = [
            (self.columns[part] * world_count, row or width)
            for part, row in rows.items()
            for width in PARTS[part].states.values()
        ]
        self.moving = bridge.Pool(states, dtype, device)  # all states
        self.adjoints = bridge.Pool((*states, *shapes.values(), *samples), dtype, device)  # of states and parameters
        self.buffers: dict[str, bridge.Buffer] = {}
        for part in topology.parts:
            for name, width in (PARTS[part].states | PARTS[part].forces).items():
                pools = {"": self.moving, "_adj": self.adjoints} if name in PARTS[part].states else {}
                for suffix in ("", "_adj", "_end"):
                    self.buffers[f"{part}.{name}{suffix}"] = bridge.vectors(
                        (self.columns[part] * world_count,), dtype, device, width, pools.get(suffix), rows[part]
                    )
        self._parameter_adjoints = self.adjoints.rest
        self.tables = {family: bridge.table(shape, dtype, device, self.adjoints) for family, shape in shapes.items()}
        self.samples = [bridge.table(shape, dtype, device, self.adjoints) for shape in samples]
        self._see()
        self._held: dict[str, torch.Tensor | None] = {}  # what was loaded last, where it may come again
        self.layout = Layout(topology, world_count, self.tables, dtype, device, native)
        forces, rigid_forces = () if native else FORCES, () if native else RIGID_FORCES
        self.system = System(
            forces=tuple(self.layout.force(family) for family in forces if family in topology.elements),
            rigid_forces=tuple(self.layout.rigid_force(f) for f in rigid_forces if f in topology.elements),
            signals=() if native else self.layout.signals(self.samples),
            dt=self.dt.array,
            clock=self.clock.array,
            march=self._march(batch or world_count) if native and "rigid" in topology.parts else None,
            node_march=self._node_march() if native and "node" in topology.parts else None,
        )

    def _see(self) -> None:
        """Views of the memory as the engine moves it, [worlds, ...] each, made once: a call makes many copies."""
        worlds, topology = self.world_count, self.topology

        def by_world(tensor: torch.Tensor, family: str) -> torch.Tensor:
            whole, count = self.columns[family], topology.elements[family]
            return tensor[:, : whole * worlds].unflatten(1, (worlds, whole))[:, :, :count].transpose(0, 1)

        self._vectors = {
            name: buffer.tensor.unflatten(0, (worlds, -1))[:, : topology.parts[name.partition(".")[0]]]
            for name, buffer in self.buffers.items()
        }
        self._states = {
            suffix: [self._vectors[name + suffix] for name in self.state_names] for suffix in ("", "_adj", "_end")
        }
        self._fast_states = {suffix: list(map(bridge.fast_view, views)) for suffix, views in self._states.items()}
        self._forces = [self.buffers[f"{part}.{name}"].tensor for part in topology.parts for name in PARTS[part].forces]
        self._values = {family: by_world(table.tensor, family) for family, table in self.tables.items()}
        self._gradients = {family: by_world(table.tensor_grad, family) for family, table in self.tables.items()}
        shapes = [(worlds, driver.samples, driver.count) for driver in topology.drivers]
        seen = tuple(zip(self.samples, shapes, strict=True))
        self._samples = tuple(samples.tensor.view(shape) for samples, shape in seen)
        self._sample_gradients = tuple(samples.tensor_grad.view(shape) for samples, shape in seen)

    def _march(self, batch: int) -> March:
        states, states_adj = (
            tuple(self.buffers[f"rigid.{name}{suffix}"].array for name in PARTS["rigid"].states)
            for suffix in ("", "_adj")
        )
        return self.layout.march(states, states_adj, isinstance(self.integrator, Midpoint), batch)

    def _node_march(self) -> NodeMarch:
        return NodeMarch(
            world_count=self.world_count,
            blocks=self.layout.blocks("node"),
            midpoint=isinstance(self.integrator, Midpoint),
            arrays={name: self.buffers[f"node.{name}"].array for name in LIVE},
            table=self.tables["node"],
            forces=tuple(self.layout.node_force(family) for family in FORCES if family in self.topology.elements),
            signals=self.layout.signals(self.samples),
        )

    def _part(self, part: str) -> Any:
        """A part's arrays, as kernels and launchers know them."""

        def arrays(names: dict[str, int], suffix: str = "") -> list[Any]:
            return [self.buffers[f"{part}.{name}{suffix}"].array for name in names]

        kind = PARTS[part]
        count = self.topology.elements[part] * self.world_count
        namespace = SimpleNamespace(
            count=count,
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
        if part == "pendulum":
            namespace.links = self.layout.constant(self.layout.spread(self.topology.arrays["pendulum.links"]))
        return namespace

    @cached_property
    def step_bytes(self) -> int:
        """History of one step [bytes]: state and forces at every evaluation."""
        scalars = sum(PARTS[part].width * self.columns[part] for part in self._in_rows) * self.world_count
        if self.system.march is not None:
            scalars += self.system.march.row_size
        return self.integrator.evaluations * scalars * self.dtype.itemsize

    @property
    def _stepped(self) -> list[str]:
        """Parts that are launched step by step."""
        return [part for part in self.topology.parts if part == "pendulum" or not self.native]

    @property
    def _in_rows(self) -> list[str]:
        """Parts whose history has a row an evaluation, over all worlds."""
        return [part for part in self.topology.parts if part != "rigid" or not self.native]

    @property
    def history_bytes(self) -> int:
        """Memory the history takes [bytes]."""
        return self.rows * self.step_bytes // self.integrator.evaluations

    def graph_steps(self, batch_bytes: int) -> int:
        """Longest stretch of steps worth a graph: a march is one launch, long while its history stays near.

        The history is the whole batch's, `batch_bytes` a step, and not this share's: gradients are added up launch by
        launch, so that the length of one must not depend on the number of threads.
        """
        return GRAPH_STEPS if self._stepped else max(GRAPH_STEPS, NEAR // batch_bytes)

    # --- time -----------------------------------------------------------------------------------------------------

    def reserve(self, steps: int, limit: float) -> None:
        """Make room for the history of `steps` steps; memory above `limit` [bytes] is given back."""
        rows = steps * self.integrator.evaluations
        if rows <= self.rows and (rows == self.rows or self.history_bytes <= limit):
            return
        self.owner, self.rows, self._graphs = None, rows, {}
        kind = (self.dtype, self.device)
        self.history = {
            f"{part}.{name}": bridge.vectors((rows, self.columns[part] * self.world_count), *kind, width)
            for part in self._in_rows
            for name, width in (PARTS[part].states | PARTS[part].forces).items()
        }
        march, node_march = self.system.march, self.system.node_march
        if node_march is not None:
            node_march = node_march.recording([self.history[f"node.{name}"].array for name in "xvf"])
        if march is not None:
            self.history["rigid"] = bridge.numbers((march.threads, rows + 1, STATE * march.lanes), *kind)
            march = dataclasses.replace(march, history=self.history["rigid"].array)
        parts = {part: self._part(part) for part in self._stepped}
        self.system = dataclasses.replace(self.system, march=march, node_march=node_march, **parts)

    def recorded(self, name: str) -> torch.Tensor:
        """History of a state, [rows, count, width]."""
        march, part = self.system.march, name.partition(".")[0]
        if march is None or part != "rigid":
            rows = self.history[name].tensor.unflatten(1, (self.world_count, -1))
            return rows[:, :, : self.topology.parts[part]].flatten(1, 2)
        bodies, widths = self.topology.parts["rigid"], PARTS["rigid"].states
        rows = self.history["rigid"].tensor.view(bodies, march.threads // bodies, -1, STATE, march.lanes)
        worlds = rows.permute(2, 1, 4, 0, 3).flatten(1, 2)[:, : self.world_count].flatten(1, 2)
        return worlds.split(list(widths.values()), -1)[list(widths).index(name.partition(".")[2])]

    def release(self) -> None:
        """Give the history's memory back; the next rollout reserves anew."""
        if self.rows:
            self.rows = 0
            self.reserve(1, 0.0)

    def run(self, step: int, count: int, row: int, total: int, keep: bool = True) -> None:
        """Take `count` steps from step number `step`, writing history from step `row` of the buffer on.

        Where it need not be kept, nothing may be written.
        """
        self._play(False, step, count, row, total, keep)

    def run_back(self, step: int, count: int, row: int, total: int) -> None:
        """Bring the adjoint back over the `count` steps from `step`, reading history from step `row` on."""
        self._play(True, step, count, row, total, True)

    def record(self, backward: bool, count: int) -> None:
        """Record the graph of `count` steps, unless it was recorded before."""
        if (backward, count) not in self._graphs:
            self._graphs[backward, count] = bridge.Graph(lambda: self._launch(backward, count), self.device)

    def _play(self, backward: bool, step: int, count: int, row: int, total: int, keep: bool) -> None:
        self.record(backward, count)
        self.clock.set(step, row * self.integrator.evaluations, total, keep)
        self._graphs[backward, count].replay()

    def _launch(self, backward: bool, count: int) -> None:
        take = take_steps_adjoint if backward else take_steps
        take(self.system, self.integrator, count)

    # --- values ---------------------------------------------------------------------------------------------------

    def load(self, tables: dict[str, torch.Tensor], signals: tuple[torch.Tensor, ...], dt: float) -> None:
        """Take over parameters, [worlds, rows, elements] each."""
        self.dt.set(dt)
        for family, values in tables.items():
            if self._held.get(family) is not values:
                self._values[family].copy_(values)
                self._held[family] = None if values.requires_grad else values
        for samples, values in zip(self._samples, signals, strict=True):
            samples.copy_(values)
        self.clear_forces()

    def gradients(self) -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, ...]]:
        """Gradients of the tables and signals, shaped as `load` takes them."""
        return self._gradients, self._sample_gradients

    def clear_gradients(self) -> None:
        """Set the gradients of tables and signals to zero."""
        self._parameter_adjoints.zero_()

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

    def fast_states(self, suffix: str = "") -> list[Any]:
        """The same as what is fastest to read and write, see `bridge.fast_view`."""
        return self._fast_states[suffix]
