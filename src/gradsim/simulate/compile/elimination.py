"""Order of elimination of a sparse symmetric matrix with one row for each node: nested dissection into fronts.

A front is a dense matrix of the nodes that it eliminates, its own, and of later nodes that these are coupled with, its
boundary (Duff and Reid 1983). Fronts come after their children, and the nodes of separators after the parts that they
separate (George 1973).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

LEAF = 10  # nodes of a part that is not divided further


@dataclass(frozen=True, eq=False)
class Graph:
    """Couplings of nodes: the neighbours of node i are `neighbours[offsets[i] : offsets[i + 1]]`, without i."""

    offsets: np.ndarray
    neighbours: np.ndarray

    @property
    def node_count(self) -> int:
        return len(self.offsets) - 1

    def around(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the neighbours of some nodes, and for each the place of its node among them."""
        first, counts = self.offsets[nodes], np.diff(self.offsets)[nodes]
        place = np.repeat(np.arange(len(nodes)), counts)
        step = np.arange(len(place)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.neighbours[first[place] + step], place


@dataclass(frozen=True, eq=False)
class Front:
    """Nodes that a front eliminates, later nodes that they are coupled with in order of elimination, and children."""

    own: np.ndarray
    boundary: np.ndarray
    children: tuple[int, ...]

    @property
    def nodes(self) -> np.ndarray:
        return np.concatenate([self.own, self.boundary])


def coupling_graph(node_count: int, elements: Sequence[np.ndarray], free: np.ndarray) -> Graph:
    """Returns the couplings of the free nodes by elements, index arrays [E, K] each."""
    keys = [np.zeros(0, np.int64)]
    for nodes in elements:
        own = nodes.astype(np.int64)
        rows, columns = np.broadcast_arrays(own[:, :, None], own[:, None, :])
        used = free[rows] & free[columns] & (rows != columns)
        keys.append(np.unique(rows[used] * node_count + columns[used]))
    rows, columns = np.divmod(np.unique(np.concatenate(keys)), max(node_count, 1))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=node_count))])
    return Graph(offsets, columns)


def elimination_fronts(graph: Graph, points: np.ndarray, free: np.ndarray) -> list[Front]:
    """Returns the fronts of all free nodes, children first.

    Args:
        graph: Couplings of the nodes.
        points: A place of each node, by which parts are divided, [N, 3].
        free: Which nodes are unknown, [N].
    """
    owned: list[np.ndarray] = []
    children: list[list[int]] = []
    mark = np.zeros(graph.node_count, np.int8)

    def add(nodes: np.ndarray) -> int:
        """Adds the fronts of a connected part and returns the last of them."""
        separator, parts = _divide(graph, points, nodes, mark)
        below = [add(part) for part in parts]
        owned.append(separator)
        children.append(below)
        return len(owned) - 1

    for part in _components(graph, np.flatnonzero(free), mark):
        if not np.ptp(points[part], axis=0).any():
            points = points.copy()
            points[part] = _distances(graph, part, mark)
        add(part)
    order = np.full(graph.node_count, -1)
    order[np.concatenate([np.zeros(0, int), *owned])] = np.arange(int(free.sum()))
    fronts: list[Front] = []
    for own, below in zip(owned, children, strict=True):
        reached = np.concatenate([graph.around(own)[0], *(fronts[child].boundary for child in below)])
        reached = np.unique(reached)
        later = reached[order[reached] > order[own].max()]
        fronts.append(Front(own, later[np.argsort(order[later])], tuple(below)))
    return fronts


def _components(graph: Graph, nodes: np.ndarray, mark: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the connected parts of some nodes; `mark` is working memory, zero before and after, [N]."""
    mark[nodes] = 1
    for start in nodes:
        if mark[start]:
            yield np.sort(np.concatenate(_levels(graph, start, mark)))


def _levels(graph: Graph, start: int, mark: np.ndarray) -> list[np.ndarray]:
    """Returns the marked nodes that are connected with a node, by their distance from it, and removes their marks."""
    mark[start] = 0
    found = [np.array([start])]
    while len(found[-1]):
        near = np.unique(graph.around(found[-1])[0])
        near = near[mark[near] > 0]
        mark[near] = 0
        found.append(near)
    return found


def _distances(graph: Graph, nodes: np.ndarray, mark: np.ndarray) -> np.ndarray:
    """Returns the distances of the nodes of a part from three of them that are far apart, [N, 3]."""
    distances = np.zeros((graph.node_count, 3))
    start = nodes[0]
    for axis in range(3):
        mark[nodes] = 1
        for level, reached in enumerate(_levels(graph, start, mark)):
            distances[reached, axis] = level
        start = nodes[np.argmax(distances[nodes, : axis + 1].min(1))]
    return distances[nodes]


def _divide(
    graph: Graph, points: np.ndarray, nodes: np.ndarray, mark: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns a separator of a connected part and what it separates; the whole part if it is small.

    Args:
        graph, points: As for `elimination_fronts`.
        nodes: The part.
        mark: Working memory, zero before and after, [N].
    """
    if len(nodes) <= LEAF:
        return nodes, []
    place = points[nodes]
    best = nodes
    for axis in np.argsort(-np.ptp(place, axis=0), kind="stable"):
        near = place[:, axis] < np.median(place[:, axis])
        if not near.any():
            continue
        mark[nodes] = 1 + near
        for side in (1, 2):
            own = nodes[mark[nodes] == side]
            around, index = graph.around(own)
            separator = own[np.unique(index[mark[around] == 3 - side])]
            if len(separator) < len(best):
                best = separator
        mark[nodes] = 0
        if len(best) < 0.5 * len(nodes):
            break
    if len(best) >= 0.6 * len(nodes):
        return nodes, []
    return best, list(_components(graph, np.setdiff1d(nodes, best), mark))
