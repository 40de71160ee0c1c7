"""How a topology lies in memory: the elements of all worlds end to end, as the kernels want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim import bridge
from gradsim.simulate.assemble import ROWS
from gradsim.simulate.kernels.bending import bend_kernels
from gradsim.simulate.kernels.contact import contact_kernels
from gradsim.simulate.kernels.external import Signal, external_kernels
from gradsim.simulate.kernels.force import Force, lane_count
from gradsim.simulate.kernels.march import PAIR_ROOM, PUSH_ROOM, March, march_kernels
from gradsim.simulate.kernels.springs import spring_kernels
from gradsim.simulate.kernels.tetrahedra import native_tet_kernels, tet_kernels
from gradsim.simulate.kernels.touch import RigidForce
from gradsim.simulate.kernels.triangles import native_triangle_kernels, triangle_kernels
from gradsim.simulate.points import WORLDS_IN_LANES, point_blocks
from gradsim.simulate.topology import Topology


def padded(dtype: torch.dtype, count: int) -> int:
    """Elements that fill whole blocks of lanes."""
    lanes = lane_count(bridge.real_type(dtype))
    return -(-count // lanes) * lanes


class Layout:
    """The constant arrays of `world_count` worlds, and the forces made of them and of the parameter tables.

    `native` chooses the CPU's native kernels for tetrahedra and triangles, with their own arrangement in blocks.
    """

    def __init__(
        self,
        topology: Topology,
        world_count: int,
        tables: dict[str, bridge.Table],
        dtype: torch.dtype,
        device: torch.device,
        native: bool,
    ):
        self.topology, self.world_count, self.tables = topology, world_count, tables
        self.dtype, self.device, self.native = dtype, device, native

    def constant(self, array: np.ndarray, columns: str = "") -> object:
        return bridge.constant(array, self.dtype, self.device, columns)

    def spread(self, array: np.ndarray, step: int = 0) -> np.ndarray:
        """An array of one world repeated for all, with indices moved on by `step` a world."""
        offsets = np.arange(self.world_count).reshape(-1, *([1] * array.ndim)) * step
        return (array[None] + offsets).reshape(-1, *array.shape[1:]).astype(array.dtype)

    def _blocks(self, array: np.ndarray) -> object:
        """Rows of elements [E, columns] as blocks of lanes [blocks, columns, lanes], the last element repeated."""
        lanes = lane_count(bridge.real_type(self.dtype))
        index = np.minimum(np.arange(padded(self.dtype, len(array))), len(array) - 1)
        return self.constant(array[index].reshape(-1, lanes, array.shape[1]).swapaxes(1, 2).ravel())

    def force(self, family: str) -> Force:
        arrays, real, table = self.topology.arrays, bridge.real_type(self.dtype), self.tables[family]
        count = self.topology.elements[family] * self.world_count
        if family == "contact":
            pairs = self._pairs(family, self.topology.node_count)
            return Force(contact_kernels(real), count, (pairs, self._shape_kinds()), (table, self.tables["shape"]))
        if family == "external":
            return Force(external_kernels(real), count, (), (table,))
        nodes = self.spread(arrays[f"{family}.nodes"], self.topology.node_count)
        if family in ("tet", "triangle"):
            return self._element_force(family, nodes, count)
        if family == "spring":
            return Force(spring_kernels(real), count, (self.constant(nodes, "vector"),), (table,))
        hinges = self.spread(arrays["bend.hinges"], self.topology.elements["hinge"])
        shape = [hinges, *(self.spread(arrays[f"bend.{name}"]) for name in ("angle", "coupling"))]
        constants = tuple(self.constant(array, "vector") for array in (nodes, *shape))
        return Force(bend_kernels(real), count, constants, (table, self.tables["hinge"]))

    def _pairs(self, family: str, things: int) -> Any:
        """Pairs of a thing and a shape, both counted through all worlds."""
        pairs = self.topology.arrays[f"{family}.nodes"]
        steps = np.array([things, self.topology.elements["shape"]])
        return self.constant(
            (pairs[None] + np.arange(self.world_count)[:, None, None] * steps).reshape(-1, 2), "vector"
        )

    def _shape_kinds(self) -> Any:
        return self.constant(self.spread(self.topology.arrays["shape.kinds"]))

    def march(self, states: tuple[Any, ...], states_adj: tuple[Any, ...], midpoint: bool, batch: int) -> March:
        """All rigid bodies, with their contacts and pushes; `batch` counts the worlds of all shares."""
        arrays, elements, real = self.topology.arrays, self.topology.elements, bridge.real_type(self.dtype)
        width, sizes = lane_count(real), arrays["rigid.sizes"].astype(np.int32)
        lanes = width if batch >= WORLDS_IN_LANES else 1
        pieces = np.split(arrays["rigid.points"], np.cumsum(sizes)[:-1])
        blocks = np.concatenate([point_blocks(piece, width) for piece in pieces])
        first = np.concatenate([[0], np.cumsum(-(-sizes // width))]).astype(np.int32)
        pushed = arrays.get("push.nodes", np.empty(0, np.int32))
        constants = (first, sizes, blocks.ravel(), arrays["shape.kinds"], pushed)
        families = ("touch", "shape", "push", "rigid")
        tables = [self.tables.get(family) or bridge.table((1, 0), self.dtype, self.device) for family in families]
        room = PAIR_ROOM * elements.get("shape", 0) + PUSH_ROOM * elements.get("push", 0)
        return March(
            kernels=march_kernels(real, midpoint, lanes),
            threads=elements["rigid"] * -(-self.world_count // lanes),
            lanes=lanes,
            constants=tuple(self.constant(array) for array in constants),
            parameters=tuple(tables),
            states=states,
            states_adj=states_adj,
            room=bridge.numbers((room * lanes,), self.dtype, self.device).array,
        )

    def rigid_force(self, family: str) -> RigidForce:
        arrays, bodies = self.topology.arrays, self.topology.elements["rigid"]
        count, table = self.topology.elements[family] * self.world_count, self.tables[family]
        if family == "push":
            return RigidForce("push", count, (self.constant(self.spread(arrays["push.nodes"], bodies)),), (table,))
        first = np.concatenate([[0], np.cumsum(self.spread(arrays["rigid.sizes"]))]).astype(np.int32)
        points = self.constant(self.spread(arrays["rigid.points"]), "vector")
        constants = (self._pairs(family, bodies), self.constant(first), points, self._shape_kinds())
        return RigidForce("contact", count, constants, (table, self.tables["shape"]))

    def _element_force(self, family: str, nodes: np.ndarray, count: int) -> Force:
        real, table = bridge.real_type(self.dtype), self.tables[family]
        measure = self.spread(self.topology.arrays["tet.volume" if family == "tet" else "triangle.area"])
        rest = self.spread(self.topology.arrays[f"{family}.rest"])
        if not self.native:
            kernels = tet_kernels(real) if family == "tet" else triangle_kernels(real)
            constants = (self.constant(nodes, "vector"), self.constant(rest, "matrix"), self.constant(measure))
            return Force(kernels, count, constants, (table,))
        kernels = native_tet_kernels(real) if family == "tet" else native_triangle_kernels(real)
        whole = padded(self.dtype, count)
        shape = np.concatenate([rest.reshape(count, -1), measure[:, None]], axis=1)
        shape = np.concatenate([shape, np.repeat(shape[-1:], whole - count, axis=0)])
        shape[count:, -1] = 0.0  # elements that only fill the last block weigh nothing
        threads = whole // lane_count(real)
        return Force(kernels, threads, (self._blocks(nodes), self._blocks(shape)), (table,))

    def signals(self, samples_of: list[bridge.Table]) -> tuple[Signal, ...]:
        return tuple(
            Signal(
                table=self.tables[driver.family],
                row=ROWS[driver.family].index(driver.row),
                samples=samples,
                sample_count=driver.samples,
                element_count=driver.count,
                first=driver.first,
                stride=self.topology.elements[driver.family],
                world_count=self.world_count,
            )
            for driver, samples in zip(self.topology.drivers, samples_of, strict=True)
        )
