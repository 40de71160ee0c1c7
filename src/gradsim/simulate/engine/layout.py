"""Memory layout of a topology: the elements of all worlds end to end, as the kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim import bridge
from gradsim.native.structures import Enumeration
from gradsim.scene.integrators import Integrator
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.launch import PortableForce
from gradsim.simulate.engine.point_blocks import point_blocks
from gradsim.simulate.engine.rigid_rollout import RigidRollout
from gradsim.simulate.engine.signals import SignalArrays
from gradsim.simulate.engine.structures import RIGID_STATES, SIZES, table_of
from gradsim.simulate.engine.world_rollout import NativeForce
from gradsim.simulate.forces.family import ForceFamily

WORLDS_IN_LANES = 2  # worlds of a batch from which on lanes hold worlds and not points of one body


def lane_count(dtype: torch.dtype) -> int:
    """Elements that a native kernel processes at once: a cache line of scalars."""
    return 16 if dtype == torch.float32 else 8


def padded(dtype: torch.dtype, count: int) -> int:
    """Elements that fill whole blocks of lanes."""
    lanes = lane_count(dtype)
    return -(-count // lanes) * lanes


def in_blocks(topology: Topology, name: str) -> bool:
    """Whether native kernels process a family a block of lanes at a time: nodes, and the forces on them alone."""
    family = topology.families[name]
    return name == "node" or (isinstance(family, ForceFamily) and family.acts_on == ("node",))


def column_counts(topology: Topology, dtype: torch.dtype, native: bool) -> dict[str, int]:
    """Columns of every family's parameters in one world.

    Every world starts a block of its own, so that the order in which forces are added up, and with it the last bit of
    a result, does not depend on how many worlds share a thread.
    """
    return {
        family: padded(dtype, count) if native and in_blocks(topology, family) else count
        for family, count in topology.elements.items()
    }


def worlds_per_group(topology: Topology, dtype: torch.dtype, device: torch.device) -> int:
    """Worlds that one thread advances in the time of a single one: those in the lanes of a rigid rollout."""
    in_lanes = device.type == "cpu" and topology.is_native and set(topology.state_layout) == {"rigid"}
    return lane_count(dtype) if in_lanes else 1


class Layout:
    """The constant arrays of `world_count` worlds, and the forces built from them and from the parameter arrays.

    `native` chooses the CPU's native kernels, with their own arrangement in blocks.
    """

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        parameters: dict[str, bridge.Table],
        dtype: torch.dtype,
        device: torch.device,
        native: bool,
    ):
        self.topology, self.world_count, self.parameters = topology, world_count, parameters
        self.dtype, self.device, self.native = dtype, device, native
        self.columns = column_counts(topology, dtype, native)

    def constant(self, array: np.ndarray, columns: str = "") -> Any:
        return bridge.constant(array, self.dtype, self.device, columns)

    def spread(self, array: np.ndarray, step: int = 0) -> np.ndarray:
        """An array of one world repeated for all, with indices increased by `step` per world."""
        offsets = np.arange(self.world_count).reshape(-1, *([1] * array.ndim)) * step
        return (array[None] + offsets).reshape(-1, *array.shape[1:]).astype(array.dtype)

    def indices(self, family: str, name: str, into: str) -> Any:
        """An index array of a family, counted through all worlds."""
        array = self.spread(self.topology.arrays[f"{family}.{name}"], self.topology.elements[into])
        return self.constant(array, "vector" if array.ndim > 1 else "")

    def shared(self, name: str) -> Any:
        """An array of a family, repeated for all worlds."""
        return self.constant(self.spread(self.topology.arrays[name]))

    # --- portable kernels -----------------------------------------------------------------------------------------

    def portable_force(self, family: ForceFamily) -> PortableForce:
        """What the portable kernel of a force takes."""
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
        count = self.topology.elements[family.name] * self.world_count
        parameters = tuple(self.parameters[name] for name in (family.name, *family.uses))
        return PortableForce(family, family.kernels(bridge.real_type(self.dtype)), count, arrays, parameters)

    # --- native kernels -------------------------------------------------------------------------------------------

    def blocks(self, family: str) -> int:
        """Blocks of lanes that a family fills in one world."""
        return self.columns[family] // lane_count(self.dtype)

    def _in_blocks(self, array: np.ndarray, columns: int, step: int = 0, fill: float | None = None) -> Any:
        """Rows of one world's elements [E, width] as blocks of lanes [worlds, blocks, width, lanes].

        Lanes beyond the last element hold `fill`, or repeat it; indices increase by `step` per world.
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
        """What the native kernel of a force on nodes takes: index arrays, one array of all constants, shared arrays."""
        arrays, columns, name = self.topology.arrays, self.columns[family.name], family.name
        constants = []
        for key, index in family.indices.items():
            scale = 4 if index.into == "node" else 1  # nodes lie in rows of four scalars
            own = arrays[f"{name}.{key}"] * np.int32(scale)
            constants.append(self._in_blocks(own, columns, scale * self.columns[index.into], index.fill))
        if family.constants:
            widths = [arrays[f"{name}.{key}"].reshape(self.topology.elements[name], -1) for key in family.constants]
            constants.append(self._in_blocks(np.concatenate(widths, axis=1), columns, fill=0.0))
        constants += map(self.shared, family.shared)
        parameters = tuple(self.parameters[key] for key in (name, *family.uses))
        return NativeForce(name, self.blocks(name), tuple(constants), parameters)

    def native_coupling(self, family: ForceFamily) -> NativeForce:
        """What the native kernel of a force between nodes and rigid bodies takes; bodies are counted in their world."""
        constants = []
        for key, index in family.indices.items():
            own = self.topology.arrays[f"{family.name}.{key}"]
            if index.into == "node":
                constants.append(self.constant(self.spread(own * np.int32(4), 4 * self.columns["node"])))
            else:
                constants.append(self.constant(self.spread(own)))
        return NativeForce(
            family.name, self.topology.elements[family.name], tuple(constants), (self.parameters[family.name],)
        )

    def rigid_rollout(self, buffers: dict[str, Any], integrator: Integrator, batch: int, coupled: bool) -> RigidRollout:
        """All rigid bodies with their contacts and pushes.

        Args:
            buffers: Arrays of the states and their adjoints, by name.
            integrator: Time integrator.
            batch: Worlds of all shards.
            coupled: Whether a world's bodies advance together with its nodes.
        """
        arrays, elements = self.topology.arrays, self.topology.elements
        width, sizes = lane_count(self.dtype), arrays["rigid.sizes"].astype(np.int32)
        lanes = width if batch >= WORLDS_IN_LANES and not coupled else 1
        pieces = np.split(arrays["rigid.points"], np.cumsum(sizes)[:-1])
        points = np.concatenate([point_blocks(piece, width) for piece in pieces])
        first = np.concatenate([[0], np.cumsum(-(-sizes // width))]).astype(np.int32)
        none = np.empty(0, np.int32)
        constants = {
            "blocks": first,
            "sizes": sizes,
            "points": points.ravel(),
            "kinds": arrays.get("shape.kinds", none),
            "pushed": arrays.get("push.bodies", none),
        }
        held = {name: self.constant(array) for name, array in constants.items()}
        empty = bridge.table((1, 0), self.dtype, self.device)
        families = {"contact": "rigid_contact", "shape": "shape", "push": "push", "body": "rigid"}
        tables = {field: self.parameters.get(family) or empty for field, family in families.items()}
        shapes, pushes = elements.get("shape", 0), elements.get("push", 0)
        own = SIZES.pair_scratch * shapes + SIZES.push_scratch * pushes
        step = SIZES.body_scratch + SIZES.stage_scratch * len(integrator.stages) + 4
        size = elements["rigid"] * (own + step) if coupled else own * lanes
        scratch = bridge.numbers((size,), self.dtype, self.device)
        fields = {
            "world_count": self.world_count,
            "body_count": elements["rigid"],
            "shape_count": shapes if "rigid_contact" in elements else 0,
            "push_count": pushes,
            **{name: array.ptr for name, array in held.items()},
            **{field: table_of(table) for field, table in tables.items()},
            **{
                f"{state}{suffix}": buffers[f"{state}{suffix}"].ptr for state in RIGID_STATES for suffix in ("", "_adj")
            },
            "scratch": scratch.array.ptr,
        }
        threads = elements["rigid"] * -(-self.world_count // lanes)
        return RigidRollout(integrator, threads, lanes, fields, (*held.values(), empty, scratch))

    def signals(self, samples_of: list[bridge.Table]) -> tuple[SignalArrays, ...]:
        return tuple(
            SignalArrays(
                table=self.parameters[signal.family],
                row=_rows(self.topology, signal.family).index(signal.row),
                samples=samples,
                sample_count=signal.samples,
                element_count=signal.count,
                first=signal.first,
                stride=self.columns[signal.family],
                world_count=self.world_count,
            )
            for signal, samples in zip(self.topology.signals, samples_of, strict=True)
        )


def _rows(topology: Topology, family: str) -> Enumeration:
    return topology.families[family].rows
