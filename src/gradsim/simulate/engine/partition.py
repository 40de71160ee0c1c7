"""Division of a large world of nodes into subdomains, which several threads advance side by side.

A subdomain is a range of blocks of nodes, with the blocks of each force that act on these nodes only. The blocks that
act on several subdomains follow after all others. Sums therefore have the same order on any number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gradsim.simulate.compile.topology import Topology
from gradsim.simulate.forces.family import ForceFamily

SUBDOMAINS = {5_000: 2, 40_000: 4, 160_000: 8}  # subdomains of a world with at least this many elements
MAX_SHARED = 0.3  # largest share of blocks that act on several subdomains


@dataclass(frozen=True, eq=False)
class Partition:
    """The subdomains of a world."""

    node_bounds: np.ndarray  # first block of nodes of each subdomain, and the end, [subdomains + 1]
    orders: dict[str, np.ndarray]  # blocks of each force, subdomain by subdomain, then those that act on several
    force_bounds: dict[str, np.ndarray]  # where these begin in the orders, and the end, [subdomains + 2]

    @property
    def subdomain_count(self) -> int:
        """Number of subdomains."""
        return len(self.node_bounds) - 1


def partition(topology: Topology, lanes: int) -> Partition:
    """Returns the subdomains of a world whose blocks have `lanes` elements: one, unless it is large."""
    result: Partition = topology.constant(("partition", lanes), lambda: _divide(topology, lanes))
    return result


def whole(topology: Topology, lanes: int) -> Partition:
    """Returns the partition into one subdomain."""
    return Partition(np.array([0, _blocks(topology.elements["node"], lanes)]), {}, {})


def _divide(topology: Topology, lanes: int) -> Partition:
    forces = [force for force in topology.forces if force.acts_on == ("node",) and not force.per_world]
    size = sum(topology.elements[force.name] for force in forces)
    count = max((subdomains for least, subdomains in SUBDOMAINS.items() if size >= least), default=1)
    if count == 1 or not forces:
        return whole(topology, lanes)
    nodes = {force.name: np.concatenate(_indices(topology, force, "node"), axis=1) for force in forces}
    bounds = _node_bounds(nodes.values(), topology.elements["node"], lanes, count)
    subdomains = {name: _subdomains_of_blocks(own // lanes, bounds, lanes) for name, own in nodes.items()}
    for force in forces:
        for index in (entry.into for entry in force.indices.values() if entry.into != "node"):
            columns = np.concatenate(_indices(topology, force, index), axis=1)
            subdomains[force.name] = _without_common_columns(subdomains[force.name], columns, lanes, count)
    shared = sum(int((own == count).sum()) for own in subdomains.values())
    if len(np.unique(bounds)) <= count or shared > MAX_SHARED * sum(map(len, subdomains.values())):
        return whole(topology, lanes)
    orders = {name: np.argsort(own, kind="stable").astype(np.int32) for name, own in subdomains.items()}
    edges = {name: np.searchsorted(np.sort(own), np.arange(count + 2)) for name, own in subdomains.items()}
    return Partition(bounds, orders, edges)


def _blocks(count: int, lanes: int) -> int:
    return -(-count // lanes)


def _indices(topology: Topology, force: ForceFamily, into: str) -> list[np.ndarray]:
    """Returns the indices of a force's elements into a family, [elements, k] each."""
    count = topology.elements[force.name]
    names = [name for name, index in force.indices.items() if index.into == into]
    return [topology.arrays[f"{force.name}.{name}"].reshape(count, -1) for name in names]


def _node_bounds(indices: Iterable[np.ndarray], nodes: int, lanes: int, count: int) -> np.ndarray:
    """Returns bounds between blocks of nodes so that all subdomains have about as many elements."""
    load = np.zeros(_blocks(nodes, lanes))
    for own in indices:
        load += np.bincount(own.ravel() // lanes, minlength=len(load))
    total = np.cumsum(load)
    inner = np.searchsorted(total, total[-1] * np.arange(1, count) / count) + 1
    return np.concatenate([[0], inner, [len(load)]])


def _subdomains_of_blocks(node_blocks: np.ndarray, bounds: np.ndarray, lanes: int) -> np.ndarray:
    """Returns the subdomain on which each block of elements acts, or the number of these if it is several, [blocks]."""
    own = np.searchsorted(bounds, node_blocks, side="right") - 1
    starts = np.arange(0, len(own), lanes)
    low = np.minimum.reduceat(own.min(1), starts)
    high = np.maximum.reduceat(own.max(1), starts)
    return np.where(low == high, low, len(bounds) - 1)


def _without_common_columns(subdomains: np.ndarray, columns: np.ndarray, lanes: int, count: int) -> np.ndarray:
    """Moves the blocks to the end whose elements use columns of another family that a different subdomain uses too."""
    used: np.ndarray = columns >= 0
    users = np.broadcast_to(np.repeat(subdomains, lanes)[: len(columns), None], columns.shape)
    low, high = np.full(columns.max() + 1, count), np.full(columns.max() + 1, -1)
    inside = used & (users < count)
    np.minimum.at(low, columns[inside], users[inside])
    np.maximum.at(high, columns[inside], users[inside])
    common: np.ndarray = np.any(used & (low < high)[np.where(used, columns, 0)], axis=1)
    return np.where(np.logical_or.reduceat(common, np.arange(0, len(common), lanes)), count, subdomains)
