"""The order in which native kernels process the tetrahedra, edges and nodes of smoothed tetrahedra, and their rows.

Tetrahedra come in groups. After each group follow the edges and nodes that have no later tetrahedra, the nodes whose
neighbours are all done, twice as there are two averages over neighbours, then the blocks of tetrahedra whose edges and
nodes are all done. Rows whose readers are all done are reused, so that the rows in use stay
in the cache: of a mesh whose numbering runs through space, those of a few groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradsim.simulate.forces.smoothing_domains import Average, Domains

GROUP = 16  # blocks of tetrahedra


@dataclass(frozen=True)
class SmoothingOrder:
    """Order and places of rows, all in blocks of lanes; places are in scalars."""

    ends: np.ndarray  # after each group: blocks of tetrahedra and edges, nodes thrice, finished blocks; [groups, 6]
    edge_order: np.ndarray  # edges in their order, [E]
    node_order: np.ndarray  # nodes, [N]
    tet_slots: np.ndarray  # rows of each block of tetrahedra, counted in blocks
    edge_slots: np.ndarray  # of each block of edges
    tet_edges: np.ndarray  # rows of the edges of each tetrahedron, [blocks, 6, lanes]
    tet_nodes: np.ndarray  # its nodes, [blocks, 4, lanes]
    first: np.ndarray  # of each block of edges in `members`
    spans: np.ndarray  # tetrahedra per edge of each block
    members: np.ndarray  # rows of tetrahedra, [spans, lanes] per block; that after the last slot for none
    node_means: Average  # over nodes, all in their order

    @property
    def slots(self) -> tuple[int, int]:
        """Blocks of rows of tetrahedra and edges."""
        return int(self.tet_slots.max()) + 1, int(self.edge_slots.max()) + 1


def smoothing_order(domains: Domains, lanes: int, blocks: int) -> SmoothingOrder:
    """Returns the order for `blocks` blocks of tetrahedra, of which the last may have unused lanes."""
    width = lanes * GROUP  # tetrahedra of a group
    group_count = -(-blocks // GROUP)
    firsts, lasts = domains.members[domains.offsets[:-1]], domains.members[domains.offsets[1:] - 1]
    counts = np.diff(domains.offsets)
    edge_group, node_group = np.split(lasts // width, [domains.edge_count])
    edge_order = np.lexsort((firsts[: domains.edge_count], -counts[: domains.edge_count], edge_group))
    node_order = np.argsort(node_group, kind="stable")
    edge_places, node_places = np.argsort(edge_order), np.argsort(node_order)
    last_edges = np.minimum(np.arange(lanes - 1, lanes + len(edge_order) - 1, lanes), len(edge_order) - 1)
    edge_block_group = edge_group[edge_order[last_edges]]  # of blocks of edges

    tets = np.minimum(np.arange(blocks * lanes), len(domains.tet_edges) - 1)
    edges = edge_places[domains.tet_edges[tets]].reshape(blocks, lanes, 6)
    nodes = domains.tet_nodes[tets].reshape(blocks, lanes, 4) - domains.edge_count
    means = _ordered(domains.node_means, node_order, node_places)
    node_stages = [node_group[node_order]]
    for _ in range(2):  # when all neighbours are done, and the nodes before
        node_stages.append(
            np.maximum.accumulate(np.maximum.reduceat(node_stages[-1][means.members], means.offsets[:-1]))
        )
    ready = np.maximum(edge_block_group[edges // lanes].max((1, 2)), node_stages[-1][node_places[nodes]].max((1, 2)))
    done = np.maximum.accumulate(np.maximum(ready, np.arange(blocks) // GROUP))
    release = np.zeros(len(edge_block_group), int)
    np.maximum.at(release, (edges // lanes).ravel(), np.repeat(done, 6 * lanes))

    groups = np.arange(group_count)
    tet_block_group = np.arange(blocks) // GROUP
    tet_slots, edge_slots = _slots(tet_block_group, done), _slots(edge_block_group, release)
    first, spans, members = _members(domains, edge_order, lanes, tet_slots)
    finished = tet_block_group, edge_block_group, *node_stages, done
    ends = np.stack([np.searchsorted(own, groups, "right") for own in finished], 1)
    edge_rows = edge_slots[edges // lanes] * lanes + edges % lanes
    swapped = (edge_rows.swapaxes(1, 2), node_places[nodes].swapaxes(1, 2))
    return SmoothingOrder(ends, edge_order, node_order, tet_slots, edge_slots, *swapped, first, spans, members, means)


def _ordered(average: Average, order: np.ndarray, places: np.ndarray) -> Average:
    """Returns means over nodes with both in another order."""
    counts = np.diff(average.offsets)[order]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    own = np.repeat(average.offsets[:-1][order], counts) + np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    return Average(offsets, places[average.members[own]], average.weights[own])


def _slots(used: np.ndarray, released: np.ndarray) -> np.ndarray:
    """Returns a slot for each item, in use from one group to another: as few as possible. The first groups increase."""
    free: list[int] = []
    leaving: dict[int, list[int]] = {}
    slots, count, group = np.zeros(len(used), int), 0, 0
    for item, begin in enumerate(used):
        while group < begin:
            free += leaving.pop(group, [])
            group += 1
        slots[item] = free.pop() if free else count
        count += slots[item] == count
        leaving.setdefault(int(released[item]), []).append(int(slots[item]))
    return slots


def _members(
    domains: Domains, order: np.ndarray, lanes: int, tet_slots: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns where the lists of the blocks of ordered edges start, their lengths, and the rows in them."""
    counts = np.diff(domains.offsets[: domains.edge_count + 1])[order]
    padded = np.zeros(-(-len(counts) // lanes) * lanes, int)
    padded[: len(counts)] = counts
    spans = padded.reshape(-1, lanes).max(1)
    first = np.cumsum(spans * lanes) - spans * lanes
    edges = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(edges)) - np.repeat(np.cumsum(counts) - counts, counts)  # of a member in its edge
    own = domains.members[np.repeat(domains.offsets[:-1][order], counts) + number]
    members = np.full(int(spans.sum()) * lanes, (tet_slots.max() + 1) * lanes)
    members[first[edges // lanes] + number * lanes + edges % lanes] = tet_slots[own // lanes] * lanes + own % lanes
    return first, spans, members
