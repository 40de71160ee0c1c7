"""Rollouts with implicit steps: what they support, and the memory of the sparse systems that they solve.

The structure of the systems follows from the elements of the force families. `native/implicit` takes the steps.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

from gradsim import bridge
from gradsim.scene.errors import InvalidInput, UnsupportedDevice
from gradsim.scene.integrators import ImplicitMidpoint
from gradsim.simulate.compile.elimination import Front, Graph, coupling_graph, elimination_fronts
from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.engine.implicit_structures import (
    BLOCK_FORMS,
    FORCE_TANGENT,
    FRONT,
    IMPLICIT_SIZES,
    IMPLICIT_SYSTEM,
)
from gradsim.simulate.engine.layout import lane_count, padded
from gradsim.simulate.engine.structures import FORCE_KIND, NODE_ROW, packed
from gradsim.simulate.forces.external import EXTERNAL
from gradsim.simulate.forces.family import ForceFamily

STEP_COSTS = {  # averages over the beams of `benchmarks/implicit.py`
    "entry": 0.03,  # an entry of the factor in a solution, over an element in an evaluation of the forces
    "iterations": 5.0,  # of a step
    "steps": 8.0,  # that a factor serves
}
REMEDY = "use gs.Verlet() or gs.Midpoint(), or leave it out of the scene"


def check_implicit(topology: Topology, device: torch.device) -> None:
    """Raises unless all bodies and forces of a scene can be advanced by implicit steps."""
    if device.type != "cpu":
        raise UnsupportedDevice(
            "integrator", "gs.ImplicitMidpoint()", "runs on the CPU: use tensor.cpu() or gs.Verlet()"
        )

    def refuse(family: str, what: str, remedy: str = REMEDY) -> None:
        owner = topology.owners[family][0]
        raise InvalidInput("integrator", "gs.ImplicitMidpoint()", f"does not advance '{owner}' ({what}): {remedy}")

    for name in topology.state_layout:
        if name not in ("node", "node_anchor"):
            refuse(name, "only soft bodies, cloth and springs are supported")
    for force in topology.forces:
        if force.name in ("mass_damping", "bulk_viscosity"):
            refuse(force.name, "Rayleigh damping", "use the damping of the material, gs.Verlet() or gs.Midpoint()")
        per_world = (force.per_world or force.native_arrays is not None) and force.tangent is None
        if force.native is None or per_world or force.acts_on != ("node",):
            refuse(force.name, f"the force '{force.name}'")


@dataclass(frozen=True, eq=False)
class Sparsity:
    """Where the blocks of a world's matrix are.

    Args:
        fronts: In order of elimination.
        places: Row and column of every block among the nodes of its front, [blocks, 2].
        counts: Blocks of each front.
        near: Some neighbours of every node, for the rotation of its surroundings.
        maps: For every force but constant ones, [elements, pairs]: four times a block plus its form, or -1.
    """

    fronts: list[Front]
    places: np.ndarray
    counts: np.ndarray
    maps: dict[str, np.ndarray]
    near: Graph


def element_nodes(topology: Topology, force: ForceFamily) -> np.ndarray:
    """Returns the nodes of a force's elements, [E, K]."""
    name = "nodes" if force.tangent else next(name for name, index in force.indices.items() if index.into == "node")
    nodes = topology.arrays[f"{force.name}.{name}"]
    return nodes.reshape(len(nodes), -1)


def sparsity_of(topology: Topology) -> Sparsity:
    """Returns the sparsity of the matrix of a world, computed once for a topology."""
    return topology.constant("sparsity", lambda: _sparsity(topology))


def _sparsity(topology: Topology) -> Sparsity:
    elements = {force.name: element_nodes(topology, force) for force in topology.forces if force is not EXTERNAL}
    free = topology.arrays["node.free"] > 0
    count = len(free)
    graph = coupling_graph(count, list(elements.values()), free)
    fronts = elimination_fronts(graph, topology.arrays["node.rest"], free)
    order, owner, column = (np.full(count, -1) for _ in range(3))
    eliminated = np.concatenate([np.zeros(0, int), *(front.own for front in fronts)])
    order[eliminated] = np.arange(len(eliminated))
    owner[eliminated] = np.repeat(np.arange(len(fronts)), [len(front.own) for front in fronts])
    column[eliminated] = np.concatenate([np.zeros(0, int), *(np.arange(len(front.own)) for front in fronts)])
    rows, columns = (np.repeat(np.arange(count), np.diff(graph.offsets)), graph.neighbours)
    lower = order[rows] > order[columns]
    rows = np.concatenate([rows[lower], np.flatnonzero(free)])
    columns = np.concatenate([columns[lower], np.flatnonzero(free)])
    sequence = np.lexsort((order[rows], order[columns]))  # the columns of a front follow each other
    rows, columns = rows[sequence], columns[sequence]
    row_places = np.empty(len(rows), int)
    for number, front in enumerate(fronts):
        place = np.full(count, -1)
        place[front.nodes] = np.arange(len(front.nodes))
        own = slice(*np.searchsorted(owner[columns], [number, number + 1]))
        row_places[own] = place[rows[own]]
    keys = order[columns] * count + order[rows]
    maps = {name: _element_map(nodes, free, order, keys, count) for name, nodes in elements.items()}
    places = np.stack([row_places, column[columns]], 1)
    near = _some_neighbours(coupling_graph(count, list(elements.values()), np.ones(count, bool)))
    return Sparsity(fronts, places, np.bincount(owner[columns], minlength=len(fronts)), maps, near)


def _some_neighbours(graph: Graph, most: int = 8) -> Graph:
    """Returns a graph with at most so many neighbours of every node, spread evenly over its list."""
    counts = np.diff(graph.offsets)
    taken = np.minimum(counts, most)
    offsets = np.concatenate([[0], np.cumsum(taken)])
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], taken)
    index = np.repeat(graph.offsets[:-1], taken) + place * np.repeat(counts, taken) // np.maximum(
        np.repeat(taken, taken), 1
    )
    return Graph(offsets, graph.neighbours[index])


def _element_map(nodes: np.ndarray, free: np.ndarray, order: np.ndarray, keys: np.ndarray, count: int) -> np.ndarray:
    """Returns the block and form of every pair of nodes of the elements, [E, pairs]; `keys` are those of the blocks."""
    first, second = np.triu_indices(nodes.shape[1])
    a, b = nodes[:, first], nodes[:, second]
    early, late = np.minimum(order[a], order[b]), np.maximum(order[a], order[b])
    block = np.searchsorted(keys, early * count + late)
    repeated = (a == b) & (first != second)
    form = np.where(
        repeated, BLOCK_FORMS.both, np.where(order[a] < order[b], BLOCK_FORMS.transposed, BLOCK_FORMS.plain)
    )
    return np.where(free[a] & free[b], 4 * block + form, -1)


def _stack_places(fronts: Sequence[Front]) -> tuple[np.ndarray, int]:
    """Returns the place of every front's Schur complement on a stack that its parent takes it from, and its size."""
    places, top, most = np.zeros(len(fronts), int), 0, 0
    for number, front in enumerate(fronts):
        top = min([top, *(int(places[child]) for child in front.children)])
        places[number] = top
        top += (3 * len(front.boundary)) ** 2
        most = max(most, top)
    return places, most


def refresh_cost(sparsity: Sparsity, evaluations: float) -> float:
    """Returns the cost of a new factor in iterations, each a solution and an evaluation of the forces.

    Args:
        sparsity: Of the matrix.
        evaluations: Evaluations of the forces' adjoints that give the matrix.
    """
    own = np.array([3.0 * len(front.own) for front in sparsity.fronts])
    size = np.array([3.0 * len(front.nodes) for front in sparsity.fronts])
    factor = float((own * size**2 - own**2 * size + own**3 / 3.0).sum())
    solution = float((2.0 * own * size).sum())
    return evaluations + factor / max(3.0 * solution, 1.0)


class ImplicitSystem:
    """The structure and memory of the linear systems of a shard.

    Args:
        topology: Elements of one world.
        integrator: With the tolerances.
        forces: Names of the force families, in the order of the rollout.
        unused: Scalars of the largest parameter table.
        dtype: Scalar type of the simulation.
    """

    def __init__(
        self, topology: Topology, integrator: ImplicitMidpoint, forces: Sequence[str], unused: int, dtype: torch.dtype
    ):
        sparsity = sparsity_of(topology)
        lanes, nodes = lane_count(dtype), padded(dtype, topology.elements["node"])
        self._arrays: list[Any] = []  # keeps memory alive
        double = functools.partial(self._memory, dtype=wp.float64)
        widths = {name: element_nodes(topology, topology.families[name]).shape[1] for name in sparsity.maps}  # type: ignore[arg-type]
        widest = max(widths.values(), default=1)
        fronts, sizes = self._fronts(sparsity)
        tangents = self._tangents(topology, sparsity, widths, forces, lanes)
        real = bridge.real_type(dtype)
        self.structure = packed(
            [
                IMPLICIT_SYSTEM(
                    front_count=len(sparsity.fronts),
                    block_count=len(sparsity.places),
                    node_count=topology.elements["node"],
                    max_iterations=integrator.max_iterations,
                    tolerance=max(integrator.tolerance, 1e-6 if dtype == torch.float32 else 0.0),
                    refresh_cost=refresh_cost(sparsity, tangent_evaluations(topology)),
                    fronts=self._keep(packed(fronts, FRONT)),
                    tangents=self._keep(packed(tangents, FORCE_TANGENT)),
                    front_nodes=self._integers([front.nodes * NODE_ROW for front in sparsity.fronts]),
                    relative=self._integers(self._relative(sparsity.fronts)),
                    children=self._integers([np.array(front.children, int) for front in sparsity.fronts]),
                    block_places=self._integers([sparsity.places]),
                    element_nodes=self._integers([np.arange(widest * lanes) * NODE_ROW]),
                    near_offsets=self._integers([sparsity.near.offsets]),
                    near=self._integers([sparsity.near.neighbours * NODE_ROW]),
                    blocks=double(9 * len(sparsity.places)),
                    factor=double(sizes["factor"]),
                    inverses=double(sizes["unknowns"]),
                    stack=double(sizes["stack"]),
                    work=double(sizes["work"]),
                    vectors=double((2 * IMPLICIT_SIZES.history + 8) * NODE_ROW * nodes),
                    element_memory=self._memory((6 * NODE_ROW * widest + 9 * widest**2) * lanes, real),
                    unused=self._memory(unused, real),
                )
            ],
            IMPLICIT_SYSTEM,
        )

    def _keep(self, array: Any) -> int:
        self._arrays.append(array)
        return int(array.ptr or 0)

    def _memory(self, count: int, dtype: Any) -> int:
        return self._keep(wp.zeros(max(count, 1), dtype=dtype, device="cpu"))

    def _integers(self, pieces: Sequence[np.ndarray]) -> int:
        values = np.concatenate([np.zeros(0, np.int32), *(piece.ravel() for piece in pieces)])
        return self._keep(wp.array(values.astype(np.int32), dtype=wp.int32, device="cpu"))

    def _tangents(
        self, topology: Topology, sparsity: Sparsity, widths: dict[str, int], forces: Sequence[str], lanes: int
    ) -> list[Any]:
        tangents = []
        for name in forces:
            if name not in sparsity.maps:
                tangents.append(FORCE_TANGENT(kind=0, nodes=0, map=0))
                continue
            family: Any = topology.families[name]
            own = sparsity.maps[name]
            whole = np.full((-(-len(own) // lanes) * lanes, own.shape[1]), -1)
            whole[: len(own)] = own
            blocks = whole.reshape(-1, lanes, own.shape[1]).swapaxes(1, 2)
            kind = FORCE_KIND.index(family.tangent or name)
            tangents.append(FORCE_TANGENT(kind=kind, nodes=widths[name], map=self._integers([blocks])))
        return tangents

    @staticmethod
    def _relative(fronts: Sequence[Front]) -> list[np.ndarray]:
        """Returns the places of every front's boundary among the nodes of its parent."""
        found = [np.zeros(0, int)] * len(fronts)
        for front in fronts:
            order = np.argsort(front.nodes)
            for child in front.children:
                found[child] = order[np.searchsorted(front.nodes[order], fronts[child].boundary)]
        return found

    @staticmethod
    def _fronts(sparsity: Sparsity) -> tuple[list[Any], dict[str, int]]:
        """Returns the native structures of the fronts, and the sizes of their memory [scalars]."""
        updates, stack = _stack_places(sparsity.fronts)
        sizes = dict.fromkeys(("nodes", "relative", "children", "blocks", "factor", "unknowns"), 0)
        structures, work = [], 64
        for front, count, update in zip(sparsity.fronts, sparsity.counts, updates, strict=True):
            own, size = len(front.own), len(front.nodes)
            stride = -(-3 * size // 8) * 8
            structures.append(
                FRONT(own=own, size=size, stride=stride, child_count=len(front.children), block_count=int(count),
                      update=int(update), **sizes)
            )  # fmt: skip
            added = {"nodes": size, "relative": len(front.boundary), "children": len(front.children)}
            added |= {"blocks": int(count), "factor": 3 * own * stride, "unknowns": 3 * own}
            sizes = {name: value + added[name] for name, value in sizes.items()}
            work = max(work, 3 * size * stride)
        return structures, sizes | {"stack": stack, "work": work}


def implicit_evaluations(topology: Topology) -> float:
    """Returns the evaluations of the forces that take as long as an implicit step, by averages of `STEP_COSTS`."""
    sparsity = sparsity_of(topology)
    entries = sum(9 * len(front.own) * len(front.nodes) for front in sparsity.fronts)
    elements = sum(len(own) for own in sparsity.maps.values())
    iteration = 1.0 + STEP_COSTS["entry"] * entries / max(elements, 1)
    factor = refresh_cost(sparsity, tangent_evaluations(topology))
    return iteration * (STEP_COSTS["iterations"] + factor / STEP_COSTS["steps"])


def tangent_evaluations(topology: Topology) -> float:
    """Returns the evaluations of the forces that take as long as the matrix: an adjoint for each coordinate."""
    widths = [element_nodes(topology, force).shape[1] for force in topology.forces if force is not EXTERNAL]
    return 1.5 * 3.0 * max(widths, default=1)
