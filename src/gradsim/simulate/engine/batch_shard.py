"""One shard of a batch of worlds: its memory, and the captured graphs of its forward and backward steps."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import torch

from gradsim import bridge
from gradsim.scene.integrators import ImplicitMidpoint, Integrator
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.articulated_rollout import ArticulatedRollout
from gradsim.simulate.engine.implicit_system import ImplicitSystem
from gradsim.simulate.engine.launch import PartArrays, PortableForce, PortableSystem, RolloutClock, stage_weights
from gradsim.simulate.engine.layout import Layout
from gradsim.simulate.engine.memory import GRAPH_STEPS
from gradsim.simulate.engine.rigid_layout import rigid_rollout
from gradsim.simulate.engine.rigid_rollout import RigidRollout
from gradsim.simulate.engine.shard_memory import ShardMemory
from gradsim.simulate.engine.step import System, take_steps, take_steps_adjoint
from gradsim.simulate.engine.structures import ANCHOR_BUFFERS, NODE_BUFFERS, NODE_ROW, SIZES, TEAM_STATE, packed
from gradsim.simulate.engine.world_rollout import WorldRollout
from gradsim.simulate.state.anchors import RIGID_ANCHORS

Member = tuple[int, int]  # number of a thread in a team, and how many these are
ALONE: Member = (0, 1)
CACHED_HISTORY = 1 << 21  # history of a launch that fits into the second-level caches of two cores [bytes]


class BatchShard(ShardMemory):
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
        super().__init__(topology, world_count, integrator, dtype, device, native)
        self.owner: object | None = None  # the rollout whose complete history is stored here
        self.rows = 0
        self.history: dict[str, bridge.Buffer] = {}
        self.frame_steps: int | None = None  # all of the rollout if None
        self._launches = 0  # of the present rollout
        self._stages, self._carries = len(integrator.stages), integrator.carries
        self._graphs: dict[tuple[bool, int, bool, Member], bridge.Graph] = {}
        self.team = 1  # threads that advance the worlds together
        self._team_memory = packed([TEAM_STATE()], TEAM_STATE)
        self.team_state = TEAM_STATE.ctype.from_address(self._team_memory.ptr)
        divides = not integrator.implicit
        self._counts_starts = len(self.frame_starts) > 1
        self.layout = Layout(topology, world_count, self.parameters, dtype, device, self.native, divides)
        self.system = self._build_system(batch or world_count)

    @property
    def coupled(self) -> bool:
        """Whether the native rollout advances rigid bodies together with the nodes."""
        return self.native and self.topology.is_coupled

    # --- kernels --------------------------------------------------------------------------------------------------

    def _stage_buffers(self, name: str) -> list[bridge.Buffer]:
        """Returns memory for the rates of the stages or for their adjoints, [stages, count]."""
        part, stages = self.state_layout[name], len(self.integrator.stages)
        row = NODE_ROW if self.native and name == "node" else None
        shape = (stages, self.columns[name] * self.world_count)
        return [bridge.vectors(shape, self.dtype, self.device, width, None, row) for width in part.stage_sums]

    def _build_system(self, batch: int) -> System:
        """Returns all that a step reads and writes but the history."""
        forces: tuple[PortableForce, ...] = ()
        if not self.native:
            forces = tuple(map(self.layout.portable_force, self.topology.forces))
        portable = PortableSystem(
            clock=RolloutClock(self.clock.array, self.dt.array),
            integrator=self.integrator,
            weights=self.layout.constant(stage_weights(self.integrator)),
            forces=forces,
            signals=() if self.native else self.layout.signals(self.samples),
            prescribed=() if self.native else self.layout.portable_prescribed(),
            no_anchors=None if self.native else self._no_anchors(),
            dynamics=None if self.native else self.layout.portable_dynamics(),
        )
        if not self.native:
            return System(portable)
        rigid = self._rigid_rollout(batch) if "rigid" in self.state_layout else None
        world = self._world_rollout() if "node" in self.state_layout else None
        joints = self._articulated_rollout(batch) if "joint" in self.state_layout else None
        return System(portable, rigid, world, joints, self.coupled)

    def _no_anchors(self) -> PartArrays:
        """Returns empty arrays of anchors, for contact without sticking friction."""
        kernels = RIGID_ANCHORS.kernels(bridge.real_type(self.dtype))
        empty = (bridge.vectors((0,), self.dtype, self.device).array,)
        table = bridge.table((0, 0), self.dtype, self.device)
        return PartArrays(0, table, kernels, empty, empty, empty, empty, history=(), start_adj=(), stage_adj=())

    def _rigid_rollout(self, batch: int) -> RigidRollout:
        buffers = {
            f"{part}.{state}{suffix}": self.buffers[f"{part}.{state}{suffix}"].array
            for part in ("rigid", "rigid_anchor", "pair_anchor")
            if part in self.state_layout
            for state in (*self.state_layout[part].states, *self.state_layout[part].forces)
            for suffix in ("", "_adj")
        }
        signals = self.layout.signals(self.samples)
        return rigid_rollout(self.layout, buffers, self.integrator, batch, self.coupled, signals)

    def _articulated_rollout(self, batch: int) -> ArticulatedRollout:
        names = [f"{state}{suffix}" for state in self.state_layout["joint"].states for suffix in ("", "_adj")]
        buffers = {name: self.buffers[f"joint.{name}"].array for name in names}
        return self.layout.articulated_rollout(buffers, self.integrator, batch, self.layout.signals(self.samples))

    def _world_rollout(self) -> WorldRollout:
        buffers = {name: self.buffers[f"node.{name}"].array for name in NODE_BUFFERS}
        buffers |= dict(zip(("v_stage", "a_stage"), (b.array for b in self._stage_buffers("node")), strict=True))
        anchors: dict[str, Any] = {}
        anchor_blocks = 0
        if "node_anchor" in self.state_layout:
            anchors = {name: self.buffers[f"node_anchor.{name}"].array for name in ANCHOR_BUFFERS}
            anchors["anchor_stage"] = bridge.scalars((3,), self.dtype, self.device).array
            anchor_blocks = self.layout.blocks("node_anchor")
        forces = tuple(self.layout.native_force(f) for f in self.topology.forces if f.acts_on == ("node",))
        implicit = None
        if isinstance(self.integrator, ImplicitMidpoint):
            unused = max(NODE_ROW * self._node_anchors, *(table.tensor.numel() for table in self.parameters.values()))
            names = [force.family for force in forces]
            self._implicit = ImplicitSystem(self.topology, self.integrator, names, unused, self.dtype)
            implicit = self._implicit.structure
        return WorldRollout(
            implicit=implicit,
            anchors=anchors,
            anchor_blocks=anchor_blocks,
            integrator=self.integrator,
            world_count=self.world_count,
            blocks=self.layout.blocks("node"),
            subdomain_bounds=self.layout.constant(self.layout.partition.node_bounds),
            team_state=self._team_memory,
            buffers=buffers,
            parameters=self.parameters["node"],
            forces=forces,
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

    @functools.cached_property
    def step_bytes(self) -> int:
        """History of one step [bytes]: states and forces at every evaluation, and the anchors."""
        blocks = sum(count * size for count, size in self._lane_blocks)
        return (self._world_scalars * self.world_count + blocks) * self.dtype.itemsize

    @functools.cached_property
    def world_step_bytes(self) -> int:
        """The same of one world, with lanes of its own [bytes]."""
        return (self._world_scalars + sum(size for _, size in self._lane_blocks)) * self.dtype.itemsize

    @property
    def _world_scalars(self) -> int:
        """Scalars that a step stores for each world, beside those in lanes."""
        rows = sum(self.state_layout[part].width * self.columns[part] for part in self._row_parts)
        return len(self.integrator.stages) * rows + 3 * self._node_anchors // self.world_count

    @property
    def _lane_blocks(self) -> list[tuple[int, int]]:
        """Blocks of lanes of rigid bodies and of joints, and the scalars that a step stores for each."""
        blocks = []
        rigid, joints = self.system.rigid_rollout, self.system.articulated_rollout
        if rigid is not None:
            states = len(self.integrator.stages) * rigid.row_size // rigid.world_blocks
            blocks.append((rigid.world_blocks, states + rigid.anchor_row + rigid.pairs.anchor_row))
        if joints is not None:
            blocks.append((joints.threads, joints.row_size // joints.threads))
        return blocks

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
        own = ("rigid", "rigid_anchor", "pair_anchor", "node_anchor", "joint") if self.native else ()
        return [part for part in self.state_layout if part not in own]

    @property
    def history_bytes(self) -> int:
        """Memory of the history [bytes]."""
        return self.rows * self.step_bytes // len(self.integrator.stages)

    def graph_steps(self, batch_bytes: int) -> int:
        """Returns the length of the longest graph [steps]; native graphs are longer if their history fits the caches.

        The history counted is that of the whole batch, `batch_bytes` per step. Gradients are summed launch by launch,
        so the length of a launch must not depend on the number of shards.
        """
        return max(GRAPH_STEPS, CACHED_HISTORY // batch_bytes) if self.native else GRAPH_STEPS

    def reserve(self, steps: int, limit: float) -> None:
        """Allocates the history of `steps` steps; a longer one is kept up to `limit` [bytes]."""
        rows = steps * len(self.integrator.stages)
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
            anchors, pair_anchors = (
                bridge.scalars((rigid.world_blocks, steps + 1, row), *kind)
                for row in (rigid.anchor_row, rigid.pairs.anchor_row)
            )
            rigid = rigid.with_history(self.history["rigid"].array, anchors.array, pair_anchors.array)
            coupled = (rigid.structures, rigid.pairs.structure) if self.coupled else ()
        if world is not None:
            anchors = bridge.vectors((steps, self._node_anchors), *kind)
            history = [self.history[f"node.{state}"].array for state in "xvf"]
            world = world.with_history([*history, anchors.array], *coupled)
        joints = system.articulated_rollout
        if joints is not None:
            shape = (joints.threads, steps, joints.row_size // joints.threads)
            self.history["joint"] = bridge.scalars(shape, *kind)
            joints = joints.with_history(self.history["joint"].array)
        part_arrays = {name: self._part_arrays(name) for name in self._portable_parts}
        portable = dataclasses.replace(system.portable, part_arrays=part_arrays)
        self.system = dataclasses.replace(
            system, portable=portable, rigid_rollout=rigid, world_rollout=world, articulated_rollout=joints
        )

    def recorded(self, name: str) -> torch.Tensor:
        """Returns the history of a state, [rows, count, width]."""
        rigid, part = self.system.rigid_rollout, name.partition(".")[0]
        if part == "joint" and self.system.articulated_rollout is not None:
            return self._recorded_joints(name, self.system.articulated_rollout)
        if rigid is None or part != "rigid":
            rows = self.history[name].tensor.unflatten(1, (self.world_count, -1))
            return rows[:, :, : self.topology.elements[part]].flatten(1, 2)
        bodies, widths = self.topology.elements["rigid"], self.state_layout["rigid"].states
        rows = self.history["rigid"].tensor.view(bodies, rigid.threads // bodies, -1, SIZES.rigid_state, rigid.lanes)
        worlds = rows.permute(2, 1, 4, 0, 3).flatten(1, 2)[:, : self.world_count].flatten(1, 2)
        return worlds.split(list(widths.values()), -1)[list(widths).index(name.partition(".")[2])]

    def _recorded_joints(self, name: str, rollout: ArticulatedRollout) -> torch.Tensor:
        """Returns the history of joints that the native rollout writes, repeated for all evaluations of a step."""
        count, widths = self.topology.elements["joint"], self.state_layout["joint"].states
        history = self.history["joint"].tensor
        lanes, scalars = rollout.lanes, count * sum(widths.values())
        states = history[..., : scalars * lanes]
        rows = states.view(*history.shape[:2], count, -1, lanes)  # [threads, steps, joints, 7, lanes]
        worlds = rows.permute(1, 0, 4, 2, 3).flatten(1, 2)[:, : self.world_count].flatten(1, 2)
        own = worlds.split(list(widths.values()), -1)[list(widths).index(name.partition(".")[2])]
        return own.repeat_interleave(len(self.integrator.stages), 0)

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

    def capture(
        self, backward: bool, count: int, starts_frame: bool = True, member: Member | None = None
    ) -> bridge.Graph:
        """Returns the graph of `count` steps, captured unless it exists.

        Args:
            backward: Whether it takes the adjoint.
            count: Steps.
            starts_frame: Whether its first step is that of a frame, which matters to portable kernels.
            member: The thread of a team that replays it; the first of the shard's team if None.
        """
        key = backward, count, starts_frame, member or (0, self.team)
        graph = self._graphs.get(key)
        if graph is None:
            graph = bridge.Graph(functools.partial(self._launch, *key), self.device)
            self._graphs[key] = graph
        return graph

    def begin_team(self, threads: int) -> None:
        """Prepares the launches of a rollout by several threads."""
        self.team, self._launches = threads, 0
        ctypes.memset(self._team_memory.ptr, 0, TEAM_STATE.size)

    def follow(self, backward: bool, count: int, number: int, launch: int) -> None:
        """Takes the part of thread `number` of the team in launch number `launch`: `count` steps, forward or back."""
        graph = self.capture(backward, count, member=(number, self.team))
        self.team_state.launch[number] = launch
        graph.replay()

    @property
    def frame_starts(self) -> tuple[bool, ...]:
        """Values of `starts_frame` for which there are different graphs; native kernels know which step starts one."""
        return (True, False) if self.integrator.carries and not self.native else (True,)

    def _replay(self, backward: bool, step: int, count: int, row: int, total: int, keep: bool) -> None:
        frame, team = self.frame_steps or max(total, 1), self.team
        starts = step % frame == 0
        graph = self.capture(backward, count, starts if self._counts_starts else True)
        self.clock.set(step, row * self._stages, max(total, 1), keep, frame)
        if self._carries and ((step + count) % frame == 0 if backward else starts):
            self.clear_carried("_adj" if backward else "")
        if team > 1:
            self._launches += 1
            self.team_state.launch[0] = self._launches
        graph.replay()

    def _launch(self, backward: bool, count: int, starts_frame: bool, member: Member) -> None:
        take = take_steps_adjoint if backward else take_steps
        system = self.system
        if member != ALONE and system.world_rollout is not None:
            system = dataclasses.replace(system, world_rollout=dataclasses.replace(system.world_rollout, member=member))
        take(system, count, starts_frame)
