"""Tip deflection of a cantilever under its weight, by element and mesh, in linear elasticity: `docs/locking.md`.

The matrices are those of the elements of `gs.Soft` at the rest shape; tests compare them with the simulator's forces.
The reference has hexahedra with selective reduced integration on a fine mesh.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from gradsim.scene import meshes
from gradsim.scene.meshes import TetMesh
from gradsim.simulate.forces.smoothing_domains import domain_volumes, smoothing_domains, volume_means
from gradsim.simulate.forces.tetrahedra import tet_shapes
from gradsim.simulate.state.nodes import node_measures

SIZE = (1.0, 0.2, 0.2)  # length, height and width [m]
RATIOS = (0.3, 0.45, 0.49, 0.499)
MESHES = ((10, 2, 2), (20, 4, 4), (30, 6, 6))
REFERENCES = ((20, 4, 4), (40, 8, 8))
Cells = tuple[int, int, int]
PAIRS = [(i, j) for i in range(3) for j in range(3)]


def lame(poisson: float, young: float = 1.0) -> tuple[float, float]:
    """Returns mu and lam of linear elasticity [Pa]."""
    return young / (2 * (1 + poisson)), young * poisson / ((1 + poisson) * (1 - 2 * poisson))


def strain_rows(columns: np.ndarray, gradients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns row, column and value of the map from displacements to gradients [E, corners, 3] of one sample each.

    `columns` are the nodes [E, corners]. Row 9 e + 3 i + j is the derivative of component i along axis j.
    """
    count, corners = columns.shape
    shape = (count, corners, 3, 3)
    rows = np.arange(count)[:, None, None, None] * 9 + np.arange(9).reshape(3, 3)
    found = columns[:, :, None, None] * 3 + np.arange(3)[:, None]
    values = np.broadcast_to(gradients[:, :, None, :], shape)
    rows, found, values = (np.broadcast_to(array, shape).ravel() for array in (rows, found, values))
    return rows, found, values


def stiffness(gradient: scipy.sparse.csr_matrix, volume: np.ndarray, mu: float, lam: float) -> scipy.sparse.csr_matrix:
    """Returns G' C G for the map G to displacement gradients at samples of these volumes."""
    law = np.zeros((9, 9))
    for (a, (i, j)), (b, (k, l)) in itertools.product(enumerate(PAIRS), repeat=2):
        law[a, b] = lam * (i == j) * (k == l) + mu * ((i == k) * (j == l) + (i == l) * (j == k))
    return gradient.T @ scipy.sparse.kron(scipy.sparse.diags(volume), law) @ gradient


def tet_gradient(mesh: TetMesh) -> scipy.sparse.csr_matrix:
    """Returns the map from displacements to the displacement gradients of tetrahedra, [9 T, 3 N]."""
    rest = tet_shapes(mesh)
    gradients = np.concatenate([-rest.sum(1, keepdims=True), rest], axis=1)
    rows, columns, values = strain_rows(mesh.tets.astype(np.int64), gradients)
    return scipy.sparse.csr_matrix((values, (rows, columns)), (9 * len(mesh.tets), 3 * len(mesh.vertices)))


def linear_matrix(mesh: TetMesh, mu: float, lam: float) -> scipy.sparse.csr_matrix:
    """Returns the stiffness of constant-strain tetrahedra."""
    return stiffness(tet_gradient(mesh), mesh.volumes, mu, lam)


def smoothed_matrix(mesh: TetMesh, mu: float, lam: float) -> scipy.sparse.csr_matrix:
    """Returns the stiffness of smoothed tetrahedra: mu and a lam equal to it on the edges, the rest on the nodes."""
    edges, nodes = smoothing_domains(mesh.tets, mesh.volumes).split
    gradient = tet_gradient(mesh)
    places = (edges.ravel(), np.repeat(np.arange(len(edges)), 6))
    weights = scipy.sparse.csr_matrix((np.repeat(mesh.volumes / 6, 6), places))
    edge_volume = np.asarray(weights.sum(1)).ravel()
    edge_means = scipy.sparse.diags(1.0 / edge_volume) @ weights
    means, again = volume_means(nodes, mesh.volumes)
    total = None
    for own, volume, moduli in (
        (edge_means, edge_volume, (mu, mu)),
        (again @ means, domain_volumes(nodes, mesh.volumes), (0.0, lam - mu)),
    ):
        spread = scipy.sparse.kron(own, scipy.sparse.identity(9))
        part = stiffness((spread @ gradient).tocsr(), volume, *moduli)
        total = part if total is None else total + part
    return total


def hex_matrix(cells: Cells, mu: float, lam: float) -> tuple[np.ndarray, np.ndarray, scipy.sparse.csr_matrix]:
    """Returns vertices, volumes of the nodes, and the stiffness with lam at the centre of each hexahedron only."""
    axes = [np.linspace(-0.5 * s, 0.5 * s, n + 1) for s, n in zip(SIZE, cells, strict=True)]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    index = np.arange(len(vertices)).reshape([n + 1 for n in cells])
    corners = np.array(list(itertools.product((0, 1), repeat=3)))
    nodes = np.stack([index[a : a + cells[0], b : b + cells[1], c : c + cells[2]].ravel() for a, b, c in corners], 1)
    spacing = np.array(SIZE) / cells
    signs, point = 2 * corners - 1, 3**-0.5
    volume = np.full(len(nodes), spacing.prod())
    total = None
    for place, weight, moduli in [*((point * s, 0.125, (mu, 0.0)) for s in signs), (np.zeros(3), 1.0, (0.0, lam))]:
        factors = 0.5 * (1 + signs * place)
        own = np.stack([signs[:, k] / spacing[k] * np.delete(factors, k, 1).prod(1) for k in range(3)], 1)
        rows, columns, values = strain_rows(nodes, np.broadcast_to(own, (len(nodes), 8, 3)))
        gradient = scipy.sparse.csr_matrix((values, (rows, columns)), (9 * len(nodes), 3 * len(vertices)))
        part = stiffness(gradient, weight * volume, *moduli)
        total = part if total is None else total + part
    return vertices, np.bincount(nodes.ravel(), np.repeat(volume / 8, 8)), total


def displacements(vertices: np.ndarray, volume: np.ndarray, matrix: scipy.sparse.csr_matrix) -> np.ndarray:
    """Returns the displacements [N, 3] under a unit weight per volume downwards, clamped at the low end of x."""
    free = np.repeat(vertices[:, 0] > vertices[:, 0].min() + 1e-9, 3)
    load = np.zeros((len(vertices), 3))
    load[:, 1] = -volume
    found = np.zeros(load.size)
    found[free] = scipy.sparse.linalg.spsolve(matrix[free][:, free].tocsc(), load.ravel()[free])
    return found.reshape(-1, 3)


def tip(vertices: np.ndarray, moved: np.ndarray) -> float:
    """Returns the mean deflection of the free end."""
    return float(-moved[vertices[:, 0] > vertices[:, 0].max() - 1e-9, 1].mean())


def six_tet_box(size: tuple[float, float, float], cells: Cells) -> TetMesh:
    """Returns a box with six tetrahedra per cell around its main diagonal."""
    vertices = meshes.tet_box(size, cells).vertices
    index = np.arange(len(vertices)).reshape([n + 1 for n in cells])
    found = []
    for order in itertools.permutations(range(3)):
        corners = np.zeros((4, 3), dtype=int)
        for k, axis in enumerate(order):
            corners[k + 1 :, axis] = 1
        own = [index[a : a + cells[0], b : b + cells[1], c : c + cells[2]].ravel() for a, b, c in corners]
        odd = np.linalg.det(corners[1:].astype(float)) < 0
        found.append(np.stack([own[0], own[2], own[1], own[3]] if odd else own, 1))
    return TetMesh(vertices, np.concatenate(found))


def tet_tip(matrix_of: Callable[..., Any], mesh: TetMesh, poisson: float) -> float:
    """Returns the deflection of a mesh of tetrahedra."""
    matrix = matrix_of(mesh, *lame(poisson))
    return tip(mesh.vertices, displacements(mesh.vertices, node_measures(mesh), matrix))


def reference_tip(poisson: float, references: tuple[Cells, Cells] = REFERENCES) -> float:
    """Returns the deflection of hexahedra, extrapolated from two meshes, the second with half the spacing."""
    found = []
    for cells in references:
        vertices, volume, matrix = hex_matrix(cells, *lame(poisson))
        found.append(tip(vertices, displacements(vertices, volume, matrix)))
    return found[1] + (found[1] - found[0]) / 3.0


def main() -> None:
    """Prints the table of `docs/locking.md`."""
    references = {poisson: reference_tip(poisson) for poisson in RATIOS}
    print("| element | tetrahedra per cell | nodes | " + " | ".join(f"nu = {ratio}" for ratio in RATIOS) + " |")
    print("|---|---|---|" + "---|" * len(RATIOS))
    for name, matrix_of in (("`LinearTet()`", linear_matrix), ("`SmoothedTet()`", smoothed_matrix)):
        for count, build in ((5, meshes.tet_box), (6, six_tet_box)):
            for mesh in (build(SIZE, cells) for cells in MESHES):
                ratios = [tet_tip(matrix_of, mesh, ratio) / references[ratio] for ratio in RATIOS]
                numbers = " | ".join(f"{ratio:.3f}" for ratio in ratios)
                print(f"| {name} | {count} | {len(mesh.vertices)} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
