"""Smoothing domains of tetrahedra: over what deformations and changes of volume are averaged, and with which weights.

The domain of an edge is a sixth of the volume of each of its tetrahedra, that of a node a quarter. The mean changes of
volume of the nodes are averaged a second time: every tetrahedron takes the mean of its four nodes, every node the mean
of its tetrahedra. This is what the pressure resists. With the first average alone, nearly incompressible bodies bend
too little, and short waves of the volume limit the time step.

(Averages from elements to nodes and back: Onishi, Iida and Amaya 2017.)
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from gradsim.simulate.compile.topology import Topology

EDGES = np.array([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)])  # of a tetrahedron


class Average(NamedTuple):
    """Weighted means, one for each node; the weights of each add up to 1."""

    offsets: np.ndarray  # of the members of each mean, [N + 1]
    members: np.ndarray
    weights: np.ndarray


class Domains(NamedTuple):
    """Smoothing domains of tetrahedra: those of the edges, then those of the nodes."""

    offsets: np.ndarray  # of the tetrahedra of each domain in `members`, [D + 1]
    members: np.ndarray  # tetrahedra
    edge_count: int
    tet_edges: np.ndarray  # domains of the edges of each tetrahedron, [T, 6]
    tet_nodes: np.ndarray  # those of its nodes, [T, 4]
    node_means: Average  # the second average: over nodes

    @property
    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """The edges [T, 6] and the nodes [T, 4] of each tetrahedron, each counted from 0."""
        return self.tet_edges, self.tet_nodes - self.edge_count


def smoothing_domains(tets: np.ndarray, volume: np.ndarray) -> Domains:
    """Returns the smoothing domains of tetrahedra [T, 4] and their volumes [m^3]."""
    ends = np.sort(tets[:, EDGES], axis=-1).reshape(-1, 2).astype(np.int64)
    _, edges = np.unique(ends @ [int(tets.max()) + 1, 1], return_inverse=True)
    _, nodes = np.unique(tets.ravel(), return_inverse=True)
    edge_count, tet_edges = int(edges.max()) + 1, edges.reshape(-1, 6)
    tet_nodes = nodes.reshape(-1, 4) + edge_count
    domains = np.concatenate([tet_edges, tet_nodes], axis=1)
    order = np.argsort(domains.ravel(), kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(domains.ravel()))])
    kinds = (offsets, order // domains.shape[1])
    offsets, members = (array.astype(np.int32) for array in kinds)
    own = tet_edges.astype(np.int32), tet_nodes.astype(np.int32)
    return Domains(offsets, members, edge_count, *own, _average(volume_means(nodes.reshape(-1, 4), volume)[1]))


def domains_of(topology: "Topology", family: str) -> Domains:
    """Returns the smoothing domains of all bodies of a world with elements of a family."""
    nodes, volume = (topology.arrays[f"{family}.{name}"] for name in ("nodes", "volume"))
    return topology.constant(("smoothing domains", family), lambda: smoothing_domains(nodes, volume))


def domain_volumes(own: np.ndarray, volume: np.ndarray) -> np.ndarray:
    """Returns the volumes of domains [m^3], given those of each tetrahedron [T, K]."""
    corners = own.shape[1]
    return np.bincount(own.ravel(), np.repeat(volume / corners, corners))


def volume_means(nodes: np.ndarray, volume: np.ndarray) -> tuple[Any, Any]:
    """Returns sparse matrices: of the first average, over tetrahedra [N, T], and of the second, over nodes [N, N]."""
    corners = _corners(nodes)
    means = corners.multiply(volume / 4).multiply(1.0 / domain_volumes(nodes, volume)[:, None]).tocsr()
    return means, 0.25 * (means @ corners.T)


def tet_means(nodes: np.ndarray, volume: np.ndarray) -> Average:
    """Returns both averages together, over tetrahedra."""
    means, again = volume_means(nodes, volume)
    return _average(again @ means)


def _corners(nodes: np.ndarray, values: Any = 1.0) -> Any:
    """Returns a sparse matrix [N, T] with values [T, 4] at the corners of tetrahedra."""
    import scipy.sparse

    filled = np.broadcast_to(values, nodes.shape).ravel()
    return scipy.sparse.csr_matrix((filled, (nodes.ravel(), np.repeat(np.arange(len(nodes)), 4))))


def _average(matrix: Any) -> Average:
    matrix.sort_indices()
    return Average(matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data)


def domain_stretches(tets: np.ndarray, rest: np.ndarray, volume: np.ndarray) -> dict[str, np.ndarray]:
    """Returns factors per element [1/m^2], [T] each, that times modulus / density are squared frequencies.

    As `stretches` of linear tetrahedra, for deformations ("shear") and changes of volume ("dilation") of edges and for
    those of nodes ("pressure"): the largest of those of an element. The share of a domain in the mass of a node is that
    of their common volume.
    """
    edges, nodes = smoothing_domains(tets, volume).split
    gradients = np.concatenate([-rest.sum(1, keepdims=True), rest], axis=1)  # of the shape functions, [T, 4, 3]
    matrices = edge_matrices(edges, nodes, gradients, volume)
    shear, dilation = np.linalg.eigvalsh(matrices)[:, -1], np.trace(matrices, axis1=1, axis2=2)
    pressure = node_stretches(nodes, gradients, volume)
    factors = {"shear": shear[edges], "dilation": dilation[edges], "pressure": pressure[nodes]}
    return {name: own.max(1) for name, own in factors.items()}


def edge_matrices(edges: np.ndarray, nodes: np.ndarray, gradients: np.ndarray, volume: np.ndarray) -> np.ndarray:
    """Returns sum g g' over the mean gradients of an edge and the masses of its nodes [1/m^2], [E, 3, 3]."""
    total, share = domain_volumes(edges, volume), volume / 6
    count = int(nodes.max()) + 1
    keys, inverse = np.unique(edges[:, :, None] * count + nodes[:, None, :], return_inverse=True)  # domain and node
    inverse = inverse.ravel()
    sums = np.zeros((len(keys), 3))
    np.add.at(sums, inverse, np.repeat(share[:, None, None] * gradients, 6, axis=0).reshape(-1, 3))
    masses = np.bincount(inverse, np.repeat(share / 4, 24))
    domain = keys // count
    matrices = np.zeros((len(total), 3, 3))
    np.add.at(matrices, domain, sums[:, :, None] * sums[:, None, :] / (masses * total[domain])[:, None, None])
    return matrices


def node_stretches(nodes: np.ndarray, gradients: np.ndarray, volume: np.ndarray) -> np.ndarray:
    """Returns the factors of the averages of volume, [N]: each is one force on the nodes of its tetrahedra."""
    means, again = volume_means(nodes, volume)
    masses = again @ (0.25 * (means @ _corners(nodes).T))  # over the volume of the domain
    slopes = (again @ (means @ _corners(nodes, gradients[:, :, axis]).T) for axis in range(3))
    squares = sum(slope.multiply(slope) for slope in slopes)
    return np.asarray(squares.multiply(masses.power(-1.0)).sum(1)).ravel()
