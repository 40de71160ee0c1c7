"""One shard of a batch of worlds: its memory, and the captured graphs of its forward and backward steps."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import torch

from gradsim import bridge
from gradsim.scene.errors import UnsupportedDevice
from gradsim.scene.integrators import Integrator
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.launch import PartArrays, PortableSystem, RolloutClock, stage_weights
from gradsim.simulate.engine.layout import Layout, column_counts, in_blocks, padded
from gradsim.simulate.engine.memory import GRAPH_STEPS
from gradsim.simulate.engine.rigid_rollout import RigidRollout
from gradsim.simulate.engine.step import System, take_steps, take_steps_adjoint
from gradsim.simulate.engine.structures import ANCHOR_BUFFERS, NODE_BUFFERS, NODE_ROW, SIZES
from gradsim.simulate.engine.world_rollout import WorldRollout
from gradsim.simulate.state.anchors import RIGID_ANCHORS
from gradsim.simulate.state.part import StatePart

CACHED_HISTORY = 1 << 20  # history that fits into the caches of most machines [bytes]


class BatchShard:
    """The arrays of some worlds and the captured graphs of their steps.

    Args:
        topology: Elements of one world.
        world_count: Worlds of this shard.
        integrator: Time integrator.
        dtype: Scalar type.
        device: Device of the arrays.
        native: Whether to use native kernels; if None, on the CPU where every force has one.
        batch: Worlds of all shards; those of this one if None.
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
        self.owner: object | None = None  # the rollout whose complete history is stored here
        self.rows = 0
        self.history: dict[str, bridge.Buffer] = {}
        self._graphs: dict[tuple[bool, int], bridge.Graph] = {}

        self.dt = bridge.Settings(4, dtype, device)
        self.clock = bridge.Settings(4, torch.int32, device)
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
        self.layout = Layout(topology, world_count, self.parameters, dtype, device, self.native)
        self.system = self._build_system(batch or world_count)

    @property
    def state_layout(self) -> dict[str, StatePart]:
        """The parts of the state, by name."""
        return self.topology.state_layout

    @property
    def coupled(self) -> bool:
        """Whether the native rollout advances rigid bodies together with the nodes."""
        return self.native and self.topology.is_coupled

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

    def _stage_buffers(self, name: str) -> list[bridge.Buffer]:
        """Returns memory for the rates of the stages or for their adjoints, [stages, count]."""
        part, stages = self.state_layout[name], len(self.integrator.stages)
        row = NODE_ROW if self.native and name == "node" else None
        shape = (stages, self.columns[name] * self.world_count)
        return [bridge.vectors(shape, self.dtype, self.device, width, None, row) for width in part.stage_sums]

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
        self._values = {family: by_world(table.tensor, family) for family, table in self.parameters.items()}
        self._gradients = {family: by_world(table.tensor_grad, family) for family, table in self.parameters.items()}
        shapes = [(worlds, signal.samples, signal.count) for signal in topology.signals]
        views = tuple(zip(self.samples, shapes, strict=True))
        self._samples = tuple(samples.tensor.view(shape) for samples, shape in views)
        self._sample_gradients = tuple(samples.tensor_grad.view(shape) for samples, shape in views)

    # --- kernels --------------------------------------------------------------------------------------------------

    def _build_system(self, batch: int) -> System:
        """Returns all that a step reads and writes but the history."""
        forces = () if self.native else tuple(map(self.layout.portable_force, self.topology.forces))
        portable = PortableSystem(
            clock=RolloutClock(self.clock.array, self.dt.array),
            integrator=self.integrator,
            weights=self.layout.constant(stage_weights(self.integrator)),
            forces=forces,
            signals=() if self.native else self.layout.signals(self.samples),
            prescribed=() if self.native else self.layout.portable_prescribed(),
            no_anchors=None if self.native else self._no_anchors(),
        )
        if not self.native:
            return System(portable)
        rigid = self._rigid_rollout(batch) if "rigid" in self.state_layout else None
        world = self._world_rollout() if "node" in self.state_layout else None
        return System(portable, rigid, world, self.coupled)

    def _no_anchors(self) -> PartArrays:
        """Returns empty arrays of anchors, for contact without sticking friction."""
        kernels = RIGID_ANCHORS.kernels(bridge.real_type(self.dtype))
        empty = (bridge.vectors((0,), self.dtype, self.device).array,)
        table = bridge.table((0, 0), self.dtype, self.device)
        return PartArrays(0, table, kernels, empty, empty, empty, empty, history=(), start_adj=(), stage_adj=())

    def _rigid_rollout(self, batch: int) -> RigidRollout:
        buffers = {
            f"{state}{suffix}": self.buffers[f"{part}.{state}{suffix}"].array
            for part in ("rigid", "rigid_anchor")
            if part in self.state_layout
            for state in self.state_layout[part].states
            for suffix in ("", "_adj")
        }
        signals = self.layout.signals(self.samples)
        return self.layout.rigid_rollout(buffers, self.integrator, batch, self.coupled, signals)

    def _world_rollout(self) -> WorldRollout:
        buffers = {name: self.buffers[f"node.{name}"].array for name in NODE_BUFFERS}
        buffers |= dict(zip(("v_stage", "a_stage"), (b.array for b in self._stage_buffers("node")), strict=True))
        anchors: dict[str, Any] = {}
        anchor_blocks = 0
        if "node_anchor" in self.state_layout:
            anchors = {name: self.buffers[f"node_anchor.{name}"].array for name in ANCHOR_BUFFERS}
            anchors["anchor_stage"] = bridge.scalars((3,), self.dtype, self.device).array
            anchor_blocks = self.layout.blocks("node_anchor")
        return WorldRollout(
            anchors=anchors,
            anchor_blocks=anchor_blocks,
            integrator=self.integrator,
            world_count=self.world_count,
            blocks=self.layout.blocks("node"),
            buffers=buffers,
            parameters=self.parameters["node"],
            forces=tuple(self.layout.native_force(f) for f in self.topology.forces if f.acts_on == ("node",)),
            couplings=tuple(self.layout.native_coupling(f) for f in self.topology.forces if f.couples),
            signals=self.layout.signals(self.samples),
            prescribed=self.layout.prescribed_nodes(),
        )

    def _part_arrays(self, name: str) -> PartArrays:
        """Returns the arrays of a part of the state that portable kernels advance."""
        part = self.state_layout[name]

        def arrays(names: Iterable[str], suffix: str = "") -> tuple[Any, ...]:
            return tuple(self.buffers[f"{name}.{state}{suffix}"].array for state in names)

        constants: tuple[Any, ...] = ()
        if part.whole_steps:
            links = self.topology.arrays[f"{name}.links"]
            constants = (self.layout.constant(self.layout.spread(links)),)
        return PartArrays(
            count=self.topology.elements[name] * self.world_count,
            parameters=self.parameters[name],
            kernels=part.kernels(bridge.real_type(self.dtype)),
            states=arrays(part.states),
            states_adj=arrays(part.states, "_adj"),
            forces=arrays(part.forces),
            forces_adj=arrays(part.forces, "_adj"),
            history=tuple(self.history[f"{name}.{state}"].array for state in (*part.states, *part.forces)),
            start_adj=arrays(part.states, "_start") if part.stage_sums else (),
            stage_adj=() if part.whole_steps else tuple(b.array for b in self._stage_buffers(name)),
            constants=constants,
            whole_steps=part.whole_steps,
        )

    # --- history --------------------------------------------------------------------------------------------------

    @cached_property
    def step_bytes(self) -> int:
        """History of one step [bytes]: states and forces at every evaluation, and the anchors."""
        scalars = sum(self.state_layout[part].width * self.columns[part] for part in self._row_parts) * self.world_count
        rigid = self.system.rigid_rollout
        if rigid is not None:
            scalars += rigid.row_size
        anchors = 0 if rigid is None else rigid.anchor_row * rigid.world_blocks
        anchors += 3 * self._node_anchors
        return (self.integrator.evaluations * scalars + anchors) * self.dtype.itemsize

    @cached_property
    def world_step_bytes(self) -> int:
        """The same of one world, with lanes of its own [bytes]."""
        rigid = self.system.rigid_rollout
        if rigid is None:
            return self.step_bytes // self.world_count
        lanes = rigid.row_size * self.integrator.evaluations + rigid.anchor_row * rigid.world_blocks
        others = self.step_bytes // self.dtype.itemsize - lanes
        return (others // self.world_count + lanes // rigid.world_blocks) * self.dtype.itemsize

    @property
    def _node_anchors(self) -> int:
        """Anchors of nodes that the native rollout advances."""
        return self.columns.get("node_anchor", 0) * self.world_count if self.native else 0

    @property
    def _portable_parts(self) -> list[str]:
        """Parts of the state that portable kernels advance."""
        return [name for name, part in self.state_layout.items() if part.whole_steps or not self.native]

    @property
    def _row_parts(self) -> list[str]:
        """Parts whose history has one row per evaluation for all worlds together."""
        own = ("rigid", "rigid_anchor", "node_anchor") if self.native else ()
        return [part for part in self.state_layout if part not in own]

    @property
    def history_bytes(self) -> int:
        """Memory of the history [bytes]."""
        return self.rows * self.step_bytes // self.integrator.evaluations

    def graph_steps(self, batch_bytes: int) -> int:
        """Returns the length of the longest graph [steps]; native graphs are longer if their history fits the caches.

        The history counted is that of the whole batch, `batch_bytes` per step. Gradients are summed launch by launch,
        so the length of a launch must not depend on the number of shards.
        """
        return max(GRAPH_STEPS, CACHED_HISTORY // batch_bytes) if self.native else GRAPH_STEPS

    def reserve(self, steps: int, limit: float) -> None:
        """Allocates the history of `steps` steps; a longer one is kept up to `limit` [bytes]."""
        rows = steps * self.integrator.evaluations
        if rows <= self.rows and (rows == self.rows or self.history_bytes <= limit):
            return
        self.owner, self.rows, self._graphs = None, rows, {}
        kind = (self.dtype, self.device)
        self.history = {
            f"{name}.{state}": bridge.vectors((rows, self.columns[name] * self.world_count), *kind, width)
            for name in self._row_parts
            for state, width in (dict(self.state_layout[name].states) | dict(self.state_layout[name].forces)).items()
        }
        system = self.system
        rigid, world = system.rigid_rollout, system.world_rollout
        coupled: tuple[Any, ...] = ()
        if rigid is not None:
            shape = (rigid.threads, rows + 1, SIZES.rigid_state * rigid.lanes)
            self.history["rigid"] = bridge.scalars(shape, *kind)
            anchors = bridge.scalars((rigid.world_blocks, steps + 1, rigid.anchor_row), *kind)
            rigid = rigid.with_history(self.history["rigid"].array, anchors.array)
            coupled = (rigid.structures, rigid.pairs.structure) if self.coupled else ()
        if world is not None:
            anchors = bridge.vectors((steps, self._node_anchors), *kind)
            history = [self.history[f"node.{state}"].array for state in "xvf"]
            world = world.with_history([*history, anchors.array], *coupled)
        part_arrays = {name: self._part_arrays(name) for name in self._portable_parts}
        portable = dataclasses.replace(system.portable, part_arrays=part_arrays)
        self.system = dataclasses.replace(system, portable=portable, rigid_rollout=rigid, world_rollout=world)

    def recorded(self, name: str) -> torch.Tensor:
        """Returns the history of a state, [rows, count, width]."""
        rigid, part = self.system.rigid_rollout, name.partition(".")[0]
        if rigid is None or part != "rigid":
            rows = self.history[name].tensor.unflatten(1, (self.world_count, -1))
            return rows[:, :, : self.topology.elements[part]].flatten(1, 2)
        bodies, widths = self.topology.elements["rigid"], self.state_layout["rigid"].states
        rows = self.history["rigid"].tensor.view(bodies, rigid.threads // bodies, -1, SIZES.rigid_state, rigid.lanes)
        worlds = rows.permute(2, 1, 4, 0, 3).flatten(1, 2)[:, : self.world_count].flatten(1, 2)
        return worlds.split(list(widths.values()), -1)[list(widths).index(name.partition(".")[2])]

    def release(self) -> None:
        """Frees the history; the next rollout allocates it again."""
        if self.rows:
            self.rows = 0
            self.reserve(1, 0.0)

    # --- steps ----------------------------------------------------------------------------------------------------

    def run(self, step: int, count: int, row: int, total: int, keep: bool = True) -> None:
        """Takes `count` steps forward.

        Args:
            step: Number of the first step in the rollout.
            count: Steps.
            row: First step of the history buffer that is written.
            total: Steps of the whole rollout, for signals.
            keep: Whether the history is needed; native kernels skip writing it otherwise.
        """
        self._replay(False, step, count, row, total, keep)

    def run_back(self, step: int, count: int, row: int, total: int) -> None:
        """Takes the adjoint back over the `count` steps from `step`; arguments as for `run`."""
        self._replay(True, step, count, row, total, True)

    def capture(self, backward: bool, count: int) -> bridge.Graph:
        """Returns the graph of `count` steps, captured unless it exists."""
        graph = self._graphs.get((backward, count))
        if graph is None:
            graph = bridge.Graph(lambda: self._launch(backward, count), self.device)
            self._graphs[backward, count] = graph
        return graph

    def _replay(self, backward: bool, step: int, count: int, row: int, total: int, keep: bool) -> None:
        graph = self.capture(backward, count)
        self.clock.set(step, row * self.integrator.evaluations, max(total, 1), keep)
        graph.replay()

    def _launch(self, backward: bool, count: int) -> None:
        take = take_steps_adjoint if backward else take_steps
        take(self.system, count)

    # --- values ---------------------------------------------------------------------------------------------------

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
            self.dt.set(dt, begin, *self.integrator.force_slope)
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

    def fast_states(self, suffix: str = "") -> list[Any]:
        """Returns the same as views that are fast to read and write, see `bridge.fast_view`."""
        return self._fast_states[suffix]
