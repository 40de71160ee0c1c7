"""How a topology lies in memory: the elements of all worlds end to end, as the kernels want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from gradsim import bridge
from gradsim.simulate.kernels.bending import bend_kernels
from gradsim.simulate.kernels.contact import contact_kernels
from gradsim.simulate.kernels.external import Signal, external_kernels
from gradsim.simulate.kernels.force import Force, lane_count
from gradsim.simulate.kernels.march import PAIR_ROOM, PUSH_ROOM, March, march_kernels
from gradsim.simulate.kernels.node_march import NodeForce
from gradsim.simulate.kernels.springs import spring_kernels
from gradsim.simulate.kernels.tetrahedra import tet_kernels
from gradsim.simulate.kernels.touch import RigidForce
from gradsim.simulate.kernels.triangles import triangle_kernels
from gradsim.simulate.points import WORLDS_IN_LANES, point_blocks
from gradsim.simulate.tables import ROWS
from gradsim.simulate.topology import FORCES, Topology

IN_BLOCKS = ("node", *FORCES)  # families that native kernels take a block of lanes at a time

_MEASURES = {"tet": "tet.volume", "triangle": "triangle.area"}


def padded(dtype: torch.dtype, count: int) -> int:
    """Elements that fill whole blocks of lanes."""
    lanes = lane_count(bridge.real_type(dtype))
    return -(-count // lanes) * lanes


def column_counts(topology: Topology, dtype: torch.dtype, native: bool) -> dict[str, int]:
    """Columns of every family's parameters in one world.

    Every world starts a block of its own, so that the order in which forces are added up, and with it the last bit of
    a result, does not depend on how many worlds share a thread.
    """
    return {
        family: padded(dtype, count) if native and family in IN_BLOCKS else count
        for family, count in topology.elements.items()
    }


def worlds_together(topology: Topology, dtype: torch.dtype, device: torch.device) -> int:
    """Worlds that take one thread as long as a single one: those in the lanes of a march, if nothing else moves."""
    marching = device.type == "cpu" and set(topology.parts) == {"rigid"}
    return lane_count(bridge.real_type(dtype)) if marching else 1


class Layout:
    """The constant arrays of `world_count` worlds, and the forces made of them and of the parameter tables.

    `native` chooses the CPU's native kernels, with their own arrangement in blocks.
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
        self.columns = column_counts(topology, dtype, native)

    def constant(self, array: np.ndarray, columns: str = "") -> object:
        return bridge.constant(array, self.dtype, self.device, columns)

    def spread(self, array: np.ndarray, step: int = 0) -> np.ndarray:
        """An array of one world repeated for all, with indices moved on by `step` a world."""
        offsets = np.arange(self.world_count).reshape(-1, *([1] * array.ndim)) * step
        return (array[None] + offsets).reshape(-1, *array.shape[1:]).astype(array.dtype)

    def _blocks(self, array: np.ndarray, step: int = 0) -> object:
        """Rows of one world's elements [E, columns] as blocks of lanes [worlds, blocks, columns, lanes].

        The last element fills the last block, and indices move on by `step` a world.
        """
        lanes = lane_count(bridge.real_type(self.dtype))
        index = np.minimum(np.arange(padded(self.dtype, len(array))), len(array) - 1)
        blocks = array[index].reshape(-1, lanes, array.shape[1]).swapaxes(1, 2)
        return self.constant(self.spread(blocks, step).ravel())

    def _places(self, nodes: np.ndarray) -> object:
        """Where elements' nodes lie, in scalars of which each takes four."""
        return self._blocks(4 * nodes, 4 * self.columns["node"])

    def force(self, family: str) -> Force:
        """What the portable kernel of a force on nodes takes."""
        arrays, real, table = self.topology.arrays, bridge.real_type(self.dtype), self.tables[family]
        count, nodes = self.topology.elements[family] * self.world_count, self.topology.node_count
        if family == "contact":
            pairs = self._pairs(family, nodes)
            return Force(contact_kernels(real), count, (pairs, self._shape_kinds()), (table, self.tables["shape"]))
        if family == "external":
            return Force(external_kernels(real), count, (), (table,))
        corners = self.constant(self.spread(arrays[f"{family}.nodes"], nodes), "vector")
        if family == "spring":
            return Force(spring_kernels(real), count, (corners,), (table,))
        if family == "bend":
            hinges = self.spread(arrays["bend.hinges"], self.topology.elements["hinge"])
            angle, coupling = (self.spread(arrays[f"bend.{name}"]) for name in ("angle", "coupling"))
            constants = (corners, *(self.constant(array, "vector") for array in (hinges, angle, coupling)))
            return Force(bend_kernels(real), count, constants, (table, self.tables["hinge"]))
        rest, measure = arrays[f"{family}.rest"], arrays[_MEASURES[family]]
        kernels = tet_kernels(real) if family == "tet" else triangle_kernels(real)
        constants = (corners, self.constant(self.spread(rest), "matrix"), self.constant(self.spread(measure)))
        return Force(kernels, count, constants, (table,))

    def node_force(self, family: str) -> NodeForce:
        """What the native kernel of a force on nodes takes."""
        build = {"external": lambda: (), "bend": self._bend_blocks, "contact": self._contact_blocks}
        constants = build.get(family, lambda: self._element_blocks(family))()
        others = {"bend": ("hinge",), "contact": ("shape",)}.get(family, ())
        tables = tuple(self.tables[name] for name in (family, *others))
        return NodeForce(FORCES.index(family), self.blocks(family), constants, tables)

    def blocks(self, family: str) -> int:
        """Blocks of lanes that a family fills in one world."""
        return self.columns[family] // lane_count(bridge.real_type(self.dtype))

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

    def _element_blocks(self, family: str) -> tuple[Any, ...]:
        arrays = self.topology.arrays
        nodes = self._places(arrays[f"{family}.nodes"])
        if family == "spring":
            return (nodes,)
        rest, measure = arrays[f"{family}.rest"], arrays[_MEASURES[family]]
        shape = np.concatenate([rest.reshape(len(rest), -1), measure[:, None]], axis=1)
        shape = np.concatenate([shape, np.repeat(shape[-1:], self.columns[family] - len(shape), axis=0)])
        shape[len(rest) :, -1] = 0.0  # elements that only fill the last block weigh nothing
        return nodes, self._blocks(shape)

    def _bend_blocks(self) -> tuple[Any, ...]:
        nodes, hinges, angle, coupling = (
            self.topology.arrays[f"bend.{name}"] for name in ("nodes", "hinges", "angle", "coupling")
        )
        alone = nodes[:, 3:] == nodes[:, :3]  # edges with no node across
        pairs = ((0, 0), (1, 1), (2, 2), (1, 2), (2, 0), (0, 1))
        coupling = coupling * ~np.stack([alone[:, i] | alone[:, j] for i, j in pairs], 1)
        filler = np.zeros((self.columns["bend"] - len(nodes), 9))  # fills the last block: no coupling, no force
        shape = np.concatenate([np.concatenate([angle, coupling], axis=1), filler])
        return self._places(nodes), self._blocks(hinges, self.topology.elements["hinge"]), self._blocks(shape)

    def _contact_blocks(self) -> tuple[Any, ...]:
        nodes, shapes = self.topology.arrays["contact.nodes"].T
        shapes = self.spread(shapes, self.topology.elements["shape"]).reshape(self.world_count, -1)
        filler = ((0, 0), (0, self.columns["contact"] - len(nodes)))  # fills the last block: pairs with no shape
        shapes = np.pad(shapes, filler, constant_values=-1)
        return self._places(nodes[:, None]), self.constant(shapes.ravel()), self._shape_kinds()

    def signals(self, samples_of: list[bridge.Table]) -> tuple[Signal, ...]:
        return tuple(
            Signal(
                table=self.tables[driver.family],
                row=ROWS[driver.family].index(driver.row),
                samples=samples,
                sample_count=driver.samples,
                element_count=driver.count,
                first=driver.first,
                stride=self.columns[driver.family],
                world_count=self.world_count,
            )
            for driver, samples in zip(self.topology.drivers, samples_of, strict=True)
        )
