"""Memory layout: the constants and parameters of all worlds end to end, as kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim import bridge
from gradsim.scene.integrators import Integrator
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.articulated_rollout import ArticulatedRollout
from gradsim.simulate.engine.launch import PortableForce, PrescribedState
from gradsim.simulate.engine.pair_arrays import native_grids
from gradsim.simulate.engine.partition import Partition, partition, whole
from gradsim.simulate.engine.portable_joints import PortableDynamics, PortableLinks
from gradsim.simulate.engine.signals import SignalArrays
from gradsim.simulate.engine.structures import (
    NODE_ROW,
    PRESCRIBED_NODES,
    SIGNAL,
    SIZES,
    packed,
    table_of,
)
from gradsim.simulate.engine.world_rollout import NativeForce, native_signal
from gradsim.simulate.forces.family import INTERPOLATIONS, ForceFamily
from gradsim.simulate.forces.node_pairs import NEIGHBOURS, skipped_lists
from gradsim.simulate.state.kernels.articulated import SCRATCH_ROWS
from gradsim.simulate.state.kernels.articulated_dynamics import articulated_dynamics
from gradsim.simulate.state.kernels.links import SCRATCH_ROWS as LINK_SCRATCH_ROWS
from gradsim.simulate.state.kernels.links import link_kernels
from gradsim.simulate.state.prescribed import PRESCRIBED

WORLDS_IN_LANES = 2  # smallest batch for which lanes hold worlds instead of points of one body


def lane_count(dtype: torch.dtype) -> int:
    """Returns how many elements a native kernel processes at once: a cache line of scalars."""
    return 16 if dtype == torch.float32 else 8


def padded(dtype: torch.dtype, count: int) -> int:
    """Returns `count` rounded up to whole blocks of lanes."""
    lanes = lane_count(dtype)
    return -(-count // lanes) * lanes


def in_blocks(topology: Topology, name: str) -> bool:
    """Returns whether native kernels process a family in blocks of lanes: nodes, and forces on nodes only."""
    family = topology.families[name]
    if name in ("node", "node_anchor"):
        return True
    if not isinstance(family, ForceFamily) or family.acts_on != ("node",):
        return False
    return not family.per_world or family.native_arrays is not None


def column_counts(topology: Topology, dtype: torch.dtype, native: bool) -> dict[str, int]:
    """Returns the columns of every family's parameter table in one world.

    Every world starts a new block, so that the order of summation of the forces, and with it the last bit of a result,
    does not depend on how many worlds share a thread.
    """
    return {
        family: padded(dtype, count) if native and in_blocks(topology, family) else count
        for family, count in topology.elements.items()
    }


def worlds_per_group(topology: Topology, dtype: torch.dtype, device: torch.device) -> int:
    """Returns how many worlds a thread advances at once: those in the lanes of a rollout of rigid bodies or joints."""
    parts = set(topology.state_layout) - {"rigid_anchor", "pair_anchor"}
    in_lanes = device.type == "cpu" and topology.is_native and parts in ({"rigid"}, {"joint"}, {"rigid", "joint"})
    return lane_count(dtype) if in_lanes else 1


class Layout:
    """Builds the arguments of all force kernels.

    Args:
        topology: Elements of one world.
        world_count: Number of worlds.
        parameters: Parameter table of every family.
        dtype: Scalar type.
        device: Device of the arrays.
        native: Whether the arrays are for native kernels, which process blocks of lanes.
        divides: Whether native kernels divide large worlds into subdomains.
    """

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        parameters: dict[str, bridge.Table],
        dtype: torch.dtype,
        device: torch.device,
        native: bool,
        divides: bool = True,
    ):
        self.topology, self.world_count, self.parameters = topology, world_count, parameters
        self.dtype, self.device, self.native = dtype, device, native
        self.columns = column_counts(topology, dtype, native)
        self.lanes = lane_count(dtype)
        self._divides = divides

    def constant(self, array: np.ndarray, columns: str = "") -> Any:
        """As `bridge.constant`."""
        return bridge.constant(array, self.dtype, self.device, columns)

    def spread(self, array: np.ndarray, step: int | np.ndarray = 0) -> np.ndarray:
        """Repeats an array of one world for all worlds, with indices increased by `step` per world."""
        offsets = np.arange(self.world_count).reshape(-1, *([1] * array.ndim)) * step
        return (array[None] + offsets).reshape(-1, *array.shape[1:]).astype(array.dtype)

    def indices(self, family: str, name: str, into: str) -> Any:
        """Returns an index array of a family, with indices into the elements of all worlds."""
        array = self.spread(self.topology.arrays[f"{family}.{name}"], self.topology.elements[into])
        return self.constant(array, "vector" if array.ndim > 1 else "")

    def shared(self, name: str) -> Any:
        """Returns an array of the topology, repeated for all worlds."""
        return self.constant(self.spread(self.topology.arrays[name]))

    # --- portable kernels -----------------------------------------------------------------------------------------

    def portable_force(self, family: ForceFamily) -> PortableForce:
        """Returns the arguments of a portable force kernel."""
        if family.arrays is not None:
            arrays = family.arrays(self)
        else:
            kinds = {1: "", 2: "vector", 3: "matrix"}
            constants = [self.spread(self.topology.arrays[f"{family.name}.{name}"]) for name in family.constants]
            arrays = (
                *(self.indices(family.name, name, index.into) for name, index in family.indices.items()),
                *(self.constant(array, kinds[array.ndim]) for array in constants),
                *map(self.shared, family.shared),
            )
        threads = family.threads(self.topology) if family.threads else self.topology.elements[family.name]
        count = threads * self.world_count
        parameters = tuple(self.parameters[name] for name in (family.name, *family.uses))
        return PortableForce(family, family.kernels(bridge.real_type(self.dtype)), count, arrays, parameters)

    def portable_prescribed(self) -> tuple[PrescribedState, ...]:
        """Returns the elements that follow a prescribed motion, for portable kernels."""
        found = []
        for family, (part, kernels) in PRESCRIBED.items():
            if family in self.topology.elements:
                elements = self.indices(family, "elements", part)
                count = self.topology.elements[family] * self.world_count
                own = kernels(bridge.real_type(self.dtype))
                found.append(PrescribedState(part, own, count, elements, self.parameters[family]))
        return tuple(found)

    def portable_dynamics(self) -> PortableDynamics | None:
        """Returns the dynamics of articulated bodies and their links in contact, for portable kernels."""
        elements, arrays, real = self.topology.elements, self.topology.arrays, bridge.real_type(self.dtype)
        if "joint" not in elements:
            return None
        count, links = elements["joint"], elements.get("link", 0)
        bodies = np.full(count, -1, np.int32)
        if links:
            bodies[arrays["link.joints"]] = arrays["link.bodies"]
        every = self.spread(bodies, elements.get("rigid", 0))
        scratch, link_scratch = (
            bridge.scalars((rows, count * self.world_count), self.dtype, self.device).array
            for rows in (SCRATCH_ROWS, LINK_SCRATCH_ROWS)
        )
        kinds, parents = self._joint_constants()
        held = self.constant(np.where(np.tile(bodies, self.world_count) >= 0, every, -1).astype(np.int32))
        empty = (
            bridge.vectors((0,), self.dtype, self.device).array,
            bridge.vectors((0, 0), self.dtype, self.device).array,
        )
        own = (articulated_dynamics(real), self.world_count, (count, kinds, parents), held, scratch, empty)
        if not links:
            return PortableDynamics(*own)
        joints, held = self.indices("link", "joints", "joint"), self.indices("link", "bodies", "rigid")
        table = self.parameters["link"]
        return PortableDynamics(*own, PortableLinks(link_kernels(real), links, joints, held, link_scratch, table))

    def _joint_constants(self) -> list[Any]:
        return [self.constant(self.topology.arrays[f"joint.{name}"]) for name in ("kinds", "parents")]

    # --- native kernels -------------------------------------------------------------------------------------------

    def blocks(self, family: str) -> int:
        """Returns how many blocks of lanes a family has in one world."""
        return self.columns[family] // lane_count(self.dtype)

    def element_blocks(self, family: str, indices: str, *constants: str) -> tuple[Any, Any]:
        """Returns node indices and constants of a family's elements in blocks; those of unused lanes are zero."""
        arrays, columns = self.topology.arrays, self.columns[family]
        nodes = arrays[f"{family}.{indices}"] * np.int32(NODE_ROW)
        rows = [arrays[f"{family}.{name}"].reshape(len(nodes), -1) for name in constants]
        own = self._in_blocks(np.concatenate(rows, axis=1), columns, fill=0.0)
        return self._in_blocks(nodes, columns, NODE_ROW * self.columns["node"]), own

    def _in_blocks(self, array: np.ndarray, columns: int, step: int = 0, fill: float | None = None) -> Any:
        """Returns the elements [E, width] of one world as blocks [worlds, blocks, width, lanes] for all worlds.

        Lanes after the last element hold `fill`, or repeat the last element if None; indices increase by `step` per
        world.
        """
        array = array.reshape(len(array), -1)
        lanes = lane_count(self.dtype)
        index = np.minimum(np.arange(columns), len(array) - 1)
        blocks = self.spread(array[index].reshape(-1, lanes, array.shape[1]).swapaxes(1, 2), step)
        if fill is not None:
            empty = np.arange(columns).reshape(-1, 1, lanes) >= len(array)
            blocks = np.where(np.tile(empty, (self.world_count, 1, 1)), np.asarray(fill, blocks.dtype), blocks)
        return self.constant(blocks.ravel())

    def native_force(self, family: ForceFamily) -> NativeForce:
        """Returns the arguments of a native force on nodes: index arrays, one array of all constants, shared arrays."""
        if family.native_arrays is not None:
            own = family.native_arrays(self)
            return NativeForce(family.name, self.blocks(family.name), own, (self.parameters[family.name],))
        if family.per_world:
            return self._node_pairs(family)
        arrays, columns, name = self.topology.arrays, self.columns[family.name], family.name
        constants = []
        for key, index in family.indices.items():
            scale = NODE_ROW if index.into == "node" else 1
            own = arrays[f"{name}.{key}"] * np.int32(scale)
            constants.append(self._in_blocks(own, columns, scale * self.columns[index.into], index.fill))
        if family.constants:
            widths = [arrays[f"{name}.{key}"].reshape(self.topology.elements[name], -1) for key in family.constants]
            constants.append(self._in_blocks(np.concatenate(widths, axis=1), columns, fill=0.0))
        constants += map(self.shared, family.shared)
        parameters = tuple(self.parameters[key] for key in (name, *family.uses))
        return NativeForce(name, self.blocks(name), tuple(constants), parameters, self._block_order(name))

    @property
    def partition(self) -> Partition:
        """The subdomains of a world."""
        return partition(self.topology, self.lanes) if self._divides else whole(self.topology, self.lanes)

    def _block_order(self, force: str) -> tuple[Any, Any] | None:
        """Returns the blocks of a force by subdomain, and the bounds of these; None if there is one subdomain."""
        own = self.partition
        if own.subdomain_count == 1:
            return None
        return self.constant(own.orders[force]), self.constant(own.force_bounds[force].astype(np.int32))

    def _node_pairs(self, family: ForceFamily) -> NativeForce:
        """Returns the arguments of the native contact of nodes with nodes: indices, lists, and memory for the pairs."""
        arrays, count, worlds = self.topology.arrays, self.topology.elements[family.name], self.world_count
        offsets, smaller = skipped_lists(count, arrays["node_pair.skipped"])
        capacity, buckets = NEIGHBOURS * count, 1 << int(2 * count).bit_length()
        sizes = np.array([capacity, buckets], dtype=np.int32)
        fixed = np.concatenate([sizes, arrays["node_pair.groups"], offsets, smaller]).astype(np.int32)
        own = arrays["node_pair.nodes"] * np.int32(NODE_ROW)
        constants = (
            self.constant(self.spread(own, NODE_ROW * self.columns["node"])),
            self.constant(fixed),
            self.constant(np.zeros(worlds * (3 * count + 1))),
            self.constant(np.zeros(worlds * (1 + 2 * capacity + buckets + count), dtype=np.int32)),
        )
        return NativeForce(family.name, count, constants, (self.parameters[family.name],))

    def native_coupling(self, family: ForceFamily) -> NativeForce:
        """Returns the arguments of a native force between nodes and rigid bodies; body indices count within a world."""
        parameters = (self.parameters[family.name],)
        if family.native_arrays is not None and family.native_count is not None:
            return NativeForce(family.name, family.native_count(self), family.native_arrays(self), parameters)
        constants = []
        for key, index in family.indices.items():
            own = self.topology.arrays[f"{family.name}.{key}"]
            constants.append(self.node_places(own) if index.into == "node" else self.constant(self.spread(own)))
        return NativeForce(family.name, self.topology.elements[family.name], tuple(constants), parameters)

    def node_places(self, nodes: np.ndarray) -> Any:
        """Returns the places of nodes in the buffers, for node numbers of one world."""
        return self.constant(self.spread(nodes * np.int32(NODE_ROW), NODE_ROW * self.columns["node"]).ravel())

    def native_grids(self, family: str) -> tuple[Any, Any]:
        """Returns the native structures of the distance grids of a family's shapes, and their coefficients."""
        return native_grids(self, family)

    def prescribed_nodes(self) -> tuple[Any, ...] | None:
        """Returns the native structure of the nodes that follow a prescribed motion, with its arrays; None without."""
        if "node_motion" not in self.topology.elements:
            return None
        own = self.topology.arrays["node_motion.elements"] * np.int32(NODE_ROW)
        nodes = self.constant(self.spread(own, NODE_ROW * self.columns["node"]))
        table = self.parameters["node_motion"]
        count = self.topology.elements["node_motion"]
        return PRESCRIBED_NODES(count=count, nodes=nodes.ptr, table=table_of(table)), nodes

    def articulated_rollout(
        self, buffers: dict[str, Any], integrator: Integrator, batch: int, signals: tuple[SignalArrays, ...]
    ) -> ArticulatedRollout:
        """Returns the native rollout of all joints; arguments as for `rigid_rollout`."""
        count, links = self.topology.elements["joint"], self.topology.elements.get("link", 0)
        lanes = lane_count(self.dtype) if batch >= WORLDS_IN_LANES else 1
        constants = self._joint_constants()
        none = np.empty(0, np.int32)
        places = [self.constant(self.topology.arrays.get(f"link.{name}", none)) for name in ("joints", "bodies")]
        empty = bridge.table((1, 0), self.dtype, self.device)
        own = packed([native_signal(s) for s in signals if s.parameters is self.parameters["joint"]], SIGNAL)
        size = count * lanes * (SIZES.joint_scratch + SIZES.joint_stage_scratch * len(integrator.stages))
        scratch = bridge.scalars((size,), self.dtype, self.device)
        fields = {
            "world_count": self.world_count,
            "joint_count": count,
            "signal_count": own.shape[0],
            "link_count": links,
            "link_joints": places[0].ptr,
            "link_bodies": places[1].ptr,
            "link": table_of(self.parameters.get("link") or empty),
            "kinds": constants[0].ptr,
            "parents": constants[1].ptr,
            "signals": own.ptr,
            "table": table_of(self.parameters["joint"]),
            **{name: array.ptr for name, array in buffers.items()},
            "scratch": scratch.array.ptr,
        }
        threads = -(-self.world_count // lanes)
        return ArticulatedRollout(integrator, threads, lanes, fields, (*constants, own, scratch, *places, empty))

    def signals(self, samples_of: list[bridge.Table]) -> tuple[SignalArrays, ...]:
        """Returns the signals of the topology with their samples."""
        return tuple(
            SignalArrays(
                parameters=self.parameters[signal.family],
                row=self.topology.families[signal.family].rows.index(signal.row),
                samples=samples,
                sample_count=signal.samples,
                element_count=signal.count,
                first=signal.first,
                stride=self.columns[signal.family],
                world_count=self.world_count,
                interpolation=INTERPOLATIONS.index(signal.interpolation),
            )
            for signal, samples in zip(self.topology.signals, samples_of, strict=True)
        )
