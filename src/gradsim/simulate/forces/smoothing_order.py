"""The order in which native kernels process the tetrahedra, edges and nodes of smoothed tetrahedra, and their rows.

Tetrahedra come in groups. After each group follow the edges that have no later tetrahedra, the blocks of tetrahedra
whose edges are all done, the nodes whose edges are all done, those whose neighbours are all done, twice as there are
two averages over neighbours, then the blocks of tetrahedra whose nodes are all done. Rows whose readers are all done
are reused, so that the rows in use stay in the cache: of a mesh whose numbering runs through space, those of a few
groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradsim.simulate.forces.smoothing_domains import EDGES, Domains

GROUP = 8  # blocks of tetrahedra
TOGETHER = 4  # nodes of a block


@dataclass(frozen=True)
class NodeLists:
    """Lists of the neighbours of nodes and of themselves, for blocks of `TOGETHER` nodes in their order."""

    first: np.ndarray  # of each block in the lists
    spans: np.ndarray  # neighbours per node of each block
    neighbours: np.ndarray  # in the order of the nodes, [spans, TOGETHER] per block; any for none
    weights: np.ndarray  # of their values in the mean; zero for none
    incident: np.ndarray  # edges to the neighbours, in the order of the edges; that after the last for none


@dataclass(frozen=True)
class SmoothingOrder:
    """Order and places of rows, all in blocks of lanes; places are in scalars."""

    ends: np.ndarray  # after each group: blocks of tetrahedra, edges, tetrahedra, nodes thrice, tetrahedra; [groups, 7]
    edge_order: np.ndarray  # edges in their order, [E]
    node_order: np.ndarray  # nodes, [N]
    tet_slots: np.ndarray  # rows of each block of tetrahedra, counted in blocks
    saved_slots: np.ndarray  # what it saves until its nodes are done
    edge_slots: np.ndarray  # of each block of edges
    tet_edges: np.ndarray  # rows of the edges of each tetrahedron, [blocks, 6, lanes]
    tet_nodes: np.ndarray  # its nodes, [blocks, 4, lanes]
    first: np.ndarray  # of each block of edges in `members`
    spans: np.ndarray  # tetrahedra per edge of each block
    members: np.ndarray  # rows of tetrahedra, [spans, lanes] per block; that after the last slot for none
    node_lists: NodeLists

    @property
    def slots(self) -> tuple[int, int, int]:
        """Blocks of rows of tetrahedra, of what these save, and of edges."""
        tets, saved, edges = (int(own.max()) + 1 for own in (self.tet_slots, self.saved_slots, self.edge_slots))
        return tets, saved, edges


def smoothing_order(domains: Domains, lanes: int, blocks: int) -> SmoothingOrder:
    """Returns the order for `blocks` blocks of tetrahedra, of which the last may have unused lanes."""
    width = lanes * GROUP  # tetrahedra of a group
    group_count = -(-blocks // GROUP)
    firsts, lasts = domains.members[domains.offsets[:-1]], domains.members[domains.offsets[1:] - 1]
    counts = np.diff(domains.offsets)
    edge_group, node_group = np.split(lasts // width, [domains.edge_count])
    edge_order = np.lexsort((firsts[: domains.edge_count], -counts[: domains.edge_count], edge_group))
    node_order = np.lexsort((-np.diff(domains.node_means.offsets), node_group))
    edge_places, node_places = np.argsort(edge_order), np.argsort(node_order)
    last_edges = np.minimum(np.arange(lanes - 1, lanes + len(edge_order) - 1, lanes), len(edge_order) - 1)
    edge_block_group = edge_group[edge_order[last_edges]]  # of blocks of edges

    tets = np.minimum(np.arange(blocks * lanes), len(domains.tet_edges) - 1)
    edges = edge_places[domains.tet_edges[tets]].reshape(blocks, lanes, 6)
    nodes = node_places[domains.tet_nodes[tets].reshape(blocks, lanes, 4) - domains.edge_count]
    lists = _node_lists(domains, node_order, node_places, edge_places)
    ready_edges = np.append(np.repeat(edge_block_group, lanes)[: len(edge_order)], 0)  # none are ready at once
    node_stages = _node_stages(lists, ready_edges[lists.incident])
    tet_block_group = np.arange(blocks) // GROUP
    summed = np.maximum.accumulate(np.maximum(edge_block_group[edges // lanes].max((1, 2)), tet_block_group))
    done = np.maximum.accumulate(np.maximum(node_stages[-1][nodes // TOGETHER].max((1, 2)), summed))
    release = np.zeros(len(edge_block_group), int)
    np.maximum.at(release, (edges // lanes).ravel(), np.repeat(summed, 6 * lanes))

    groups = np.arange(group_count)
    used = (tet_block_group, summed), (tet_block_group, done), (edge_block_group, release)
    tet_slots, saved_slots, edge_slots = (_slots(*own) for own in used)
    first, spans, members = _members(domains, edge_order, lanes, tet_slots)
    finished = tet_block_group, edge_block_group, summed, *node_stages, done
    ends = np.stack([np.searchsorted(own, groups, "right") for own in finished], 1)
    edge_rows = edge_slots[edges // lanes] * lanes + edges % lanes
    swapped = (edge_rows.swapaxes(1, 2), nodes.swapaxes(1, 2))
    slots = tet_slots, saved_slots, edge_slots
    return SmoothingOrder(ends, edge_order, node_order, *slots, *swapped, first, spans, members, lists)


def _node_stages(lists: NodeLists, edge_group: np.ndarray) -> list[np.ndarray]:
    """Returns the groups after which blocks of nodes have all their edges, and twice all their neighbours.

    `edge_group` are the groups of the edges in the lists.
    """
    stages = [np.maximum.accumulate(np.maximum.reduceat(edge_group, lists.first))]
    for _ in range(2):
        ready = np.maximum.reduceat(stages[-1][lists.neighbours // TOGETHER], lists.first)
        stages.append(np.maximum.accumulate(ready))
    return stages


def _node_lists(domains: Domains, order: np.ndarray, places: np.ndarray, edge_places: np.ndarray) -> NodeLists:
    """Returns the lists for nodes and edges in their order."""
    means = domains.node_means
    counts = np.diff(means.offsets)[order]
    first, spans = _spans(counts, TOGETHER)
    nodes, number, own = _entries(means.offsets, order, counts)
    at = first[nodes // TOGETHER] + number * TOGETHER + nodes % TOGETHER
    neighbours, weights = np.zeros(int(spans.sum()) * TOGETHER, int), np.zeros(int(spans.sum()) * TOGETHER)
    incident = np.full(len(neighbours), len(edge_places))
    neighbours[at], weights[at] = places[means.members[own]], means.weights[own]
    edges = edge_numbers(domains, order[nodes], means.members[own])
    incident[at[edges >= 0]] = edge_places[edges[edges >= 0]]
    return NodeLists(first, spans, neighbours, weights, incident)


def edge_numbers(domains: Domains, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the edges between the nodes a and b, [K]; -1 where both are the same node."""
    count = len(domains.offsets)
    ends = np.sort((domains.tet_nodes - domains.edge_count)[:, EDGES], axis=-1).reshape(-1, 2).astype(np.int64)
    keys, index = np.unique(ends @ [count, 1], return_index=True)
    wanted = np.minimum(a, b).astype(np.int64) * count + np.maximum(a, b)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[found] == wanted, domains.tet_edges.ravel()[index[found]], -1)


def _spans(counts: np.ndarray, together: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns where the lists of blocks start, and the largest of the counts in each."""
    padded = np.zeros(-(-len(counts) // together) * together, int)
    padded[: len(counts)] = counts
    spans = padded.reshape(-1, together).max(1)
    return (np.cumsum(spans) - spans) * together, spans


def _entries(offsets: np.ndarray, order: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns, for the members of ordered domains: the domain's place, the number in the domain, and the own number."""
    places = np.repeat(np.arange(len(counts)), counts)
    number = np.arange(len(places)) - np.repeat(np.cumsum(counts) - counts, counts)
    return places, number, np.repeat(offsets[:-1][order], counts) + number


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
    first, spans = _spans(counts, lanes)
    edges, number, own = _entries(domains.offsets[: domains.edge_count + 1], order, counts)
    tets = domains.members[own]
    members = np.full(int(spans.sum()) * lanes, (tet_slots.max() + 1) * lanes)
    members[first[edges // lanes] + number * lanes + edges % lanes] = tet_slots[tets // lanes] * lanes + tets % lanes
    return first, spans, members
