"""Triangle and tetrahedral meshes: validated arrays, derived connectivity, and builders of simple shapes."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.scene.errors import InvalidInput, InvertedElement, OutOfRange, WrongShape
from gradsim.scene.mesh_builders import BuilderCall, mesh_builder
from gradsim.scene.mesh_validation import (
    Floats,
    Ints,
    checked_cells,
    checked_elements,
    checked_floats,
    checked_size,
    read_only,
    reject_degenerate,
    reject_rows,
)

# Elements are degenerate below this fraction of the squared or cubed bounding box diagonal.
DEGENERATE = 1e-12

# Faces of a tetrahedron of positive volume, counter-clockwise seen from outside.
TET_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
TET_EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])

# Subdivision of a cell into five tetrahedra; the index of corner (i, j, k) is 4 i + 2 j + k. The two subdivisions
# alternate between neighbouring cells, so that the diagonals on shared faces match.
FIVE_TETS_EVEN = [[1, 0, 3, 5], [2, 3, 0, 6], [4, 5, 6, 0], [7, 6, 5, 3], [0, 3, 5, 6]]
FIVE_TETS_ODD = [[0, 2, 1, 4], [3, 1, 2, 7], [5, 7, 4, 1], [6, 4, 7, 2], [1, 4, 2, 7]]


@dataclass(frozen=True, eq=False)
class TriMesh:
    """A triangle mesh, a closed surface or a sheet; its arrays are read-only copies.

    Example:
        `gs.TriMesh([(0, 0, 0), (1, 0, 0), (0, 1, 0)], [(0, 1, 2)])`

    Attributes:
        vertices: Positions [m], [V, 3] float64.
        faces: Vertex indices, [F, 3] int32, counter-clockwise seen from outside.
        uv: Texture coordinates, [V, 2] float64, or None.
    """

    vertices: Floats
    faces: Ints
    uv: Floats | None = None
    builder_call: BuilderCall | None = field(default=None, init=False, repr=False)  # set by mesh builders

    def __repr__(self) -> str:
        return f"TriMesh({len(self.vertices)} vertices, {len(self.faces)} faces)"

    def __post_init__(self) -> None:
        vertices = checked_floats("mesh.vertices", self.vertices, columns=3)
        faces = checked_elements("mesh.faces", self.faces, columns=3, vertex_count=len(vertices))
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        if self.uv is not None:
            uv = checked_floats("mesh.uv", self.uv, columns=2)
            if len(uv) != len(vertices):
                raise WrongShape("mesh.uv", f"{len(uv)} rows", f"needs one row for each of {len(vertices)} vertices")
            object.__setattr__(self, "uv", uv)
        reject_degenerate("mesh.faces", faces, self.areas, DEGENERATE * diagonal(vertices) ** 2)

    @cached_property
    def key(self) -> str:
        """Hash of the content, equal for equal arrays."""
        return _digest("triangles", self.vertices, self.faces, self.uv)

    @cached_property
    def areas(self) -> Floats:
        """Area of each face [m^2], [F]."""
        return read_only(triangle_areas(self.vertices, self.faces))

    @cached_property
    def edges(self) -> Ints:
        """Unique edges, smaller index first, in lexicographic order: [E, 2] int32."""
        return _unique_edges(self.faces[:, [[0, 1], [1, 2], [2, 0]]])

    @cached_property
    def hinges(self) -> Ints:
        """Hinges: pairs of faces that share an edge, in the order of `edges`: [H, 4] int32.

        A row is (opposite0, opposite1, edge0, edge1): the first face is (edge0, edge1, opposite0) counter-clockwise,
        the second (edge1, edge0, opposite1). Boundary edges have no hinge.

        Raises:
            InvalidInput: An edge has more than two faces, or its two faces have opposite orientation.
        """
        start, end, opposite, first, count = _half_edges(self.faces)
        if np.any(count > 2):
            half = first[np.argmax(count > 2)]
            raise InvalidInput(
                "mesh.faces",
                f"{count.max()} faces about edge ({start[half]}, {end[half]})",
                f"an edge has at most two faces ({np.sum(count > 2)} edges fail): remove or separate the extra ones",
            )
        face0 = first[count == 2]
        face1 = face0 + 1
        same = start[face0] == start[face1]
        if np.any(same):
            half = face0[np.argmax(same)]
            raise InvalidInput(
                "mesh.faces",
                f"both faces run along edge ({start[half]}, {end[half]}) in the same direction",
                f"neighbouring faces need consistent orientation ({np.sum(same)} edges fail): reverse the vertex order "
                "of one of the two, or call trimesh.repair.fix_winding",
            )
        return read_only(np.stack([opposite[face0], opposite[face1], start[face0], end[face0]], axis=1))


@dataclass(frozen=True, eq=False)
class TetMesh:
    """A tetrahedral mesh; its arrays are read-only copies.

    Example:
        `gs.TetMesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], [(0, 1, 2, 3)])`

    Attributes:
        vertices: Positions [m], [V, 3] float64.
        tets: Vertex indices, [T, 4] int32, of positive volume det(x1 - x0, x2 - x0, x3 - x0) / 6.
    """

    vertices: Floats
    tets: Ints
    builder_call: BuilderCall | None = field(default=None, init=False, repr=False)  # set by mesh builders

    def __repr__(self) -> str:
        return f"TetMesh({len(self.vertices)} vertices, {len(self.tets)} tets)"

    def __post_init__(self) -> None:
        vertices = checked_floats("mesh.vertices", self.vertices, columns=3)
        tets = checked_elements("mesh.tets", self.tets, columns=4, vertex_count=len(vertices))
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "tets", tets)
        reject_degenerate("mesh.tets", tets, self.volumes, DEGENERATE * diagonal(vertices) ** 3)
        remedy = "needs a positive volume: swap two of its nodes, or build with meshes.oriented(vertices, tets)"
        reject_rows(InvertedElement, "mesh.tets", tets, self.volumes < 0, remedy, self.volumes)

    @cached_property
    def key(self) -> str:
        """Hash of the content, equal for equal arrays."""
        return _digest("tetrahedra", self.vertices, self.tets)

    @cached_property
    def volumes(self) -> Floats:
        """Volume of each tetrahedron [m^3], [T]."""
        return read_only(tet_volumes(self.vertices, self.tets))

    @cached_property
    def edges(self) -> Ints:
        """Unique edges, smaller index first, in lexicographic order: [E, 2] int32."""
        return _unique_edges(self.tets[:, TET_EDGES])

    @cached_property
    def surface(self) -> Ints:
        """Boundary faces, counter-clockwise seen from outside, in the order of their tets: [F, 3] int32.

        Raises:
            InvalidInput: A face belongs to more than two tetrahedra, so tetrahedra overlap.
        """
        faces = self.tets[:, TET_FACES].reshape(-1, 3)
        order, first, count = group_rows(np.sort(faces, axis=1))
        if np.any(count > 2):
            worst = order[first[np.argmax(count > 2)]]
            raise InvalidInput(
                "mesh.tets",
                f"{count.max()} tets about face {faces[worst].tolist()}",
                "a face has at most two tets: remove duplicated or overlapping tets",
            )
        return read_only(faces[np.sort(order[first[count == 1]])])


@mesh_builder
def tet_box(size: ArrayLike, cells: ArrayLike) -> TetMesh:
    """Creates a box centred at the origin, five tetrahedra per cell; vertices are ordered with x slowest, z fastest.

    Example:
        `gs.meshes.tet_box((1.0, 0.2, 0.2), (10, 2, 2))`

    Args:
        size: Edge lengths [m], one number or (x, y, z).
        cells: Number of cells along each edge, one number or (x, y, z).
    """
    length = checked_size("size", size, 3)
    nx, ny, nz = checked_cells("cells", cells, 3)
    axes = [(np.arange(n + 1) / n - 0.5) * extent for n, extent in zip((nx, ny, nz), length, strict=True)]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    cell, corners = _cell_corners((nx, ny, nz))
    odd = (cell.sum(axis=1) % 2 == 1)[:, None, None]
    tets = np.where(odd, corners[:, FIVE_TETS_ODD], corners[:, FIVE_TETS_EVEN])
    return TetMesh(vertices, tets.reshape(-1, 4))


@mesh_builder
def tet_ball(radius: float, cells: int) -> TetMesh:
    """Creates a solid ball about the origin: a cube of six tetrahedra per cell, its shells of max|p| mapped to spheres.

    Example:
        `gs.meshes.tet_ball(0.35, 6)`

    Args:
        radius: Radius [m].
        cells: Number of cells across the diameter, even.
    """
    (r,) = checked_size("radius", radius, 1)
    (n,) = checked_cells("cells", cells, 1)
    if n % 2:
        raise OutOfRange("cells", n, "needs an even number, so that a vertex lies at the centre")
    axis = np.arange(n + 1) / n * 2.0 - 1.0
    cube = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = np.linalg.norm(cube, axis=1, keepdims=True)
    stretch = np.abs(cube).max(axis=1, keepdims=True) / np.where(distance > 0, distance, 1.0)
    return oriented(r * stretch * cube, _outward_kuhn_tets(n))


@mesh_builder
def grid(size: ArrayLike, cells: ArrayLike, *, alternate: bool = True) -> TriMesh:
    """Creates a rectangle in the x-z plane, centred at the origin, with normal +y and uv in [0, 1]; x varies slowest.

    Example:
        `gs.meshes.grid((1.0, 0.5), (8, 4))`

    Args:
        size: Edge lengths [m], one number or (x, z).
        cells: Number of cells along each edge, one number or (x, z).
        alternate: Flip the diagonal in every other cell, so that the sheet has no preferred direction.
    """
    length = checked_size("size", size, 2)
    nx, nz = checked_cells("cells", cells, 2)
    uv = np.stack(np.meshgrid(np.arange(nx + 1) / nx, np.arange(nz + 1) / nz, indexing="ij"), axis=-1).reshape(-1, 2)
    flat = (uv - 0.5) * length
    vertices = np.stack([flat[:, 0], np.zeros(len(flat)), flat[:, 1]], axis=1)
    cell, corners = _cell_corners((nx, nz))
    flipped = (alternate & (cell.sum(axis=1) % 2 == 1))[:, None, None]
    # The index of corner (i, k) is 2 i + k. Flipped cells have the diagonal from corner 1 to 2, the others from 0 to 3.
    faces = np.where(flipped, corners[:, [[0, 1, 2], [2, 1, 3]]], corners[:, [[0, 3, 2], [0, 1, 3]]])
    return TriMesh(vertices, faces.reshape(-1, 3), uv)


def chain(length: float, segments: int) -> tuple[Floats, Ints]:
    """Creates points on a line and the edges between neighbours, for a chain of masses and springs.

    Example:
        `points, edges = gs.meshes.chain(0.4, 4)`

    Args:
        length: Total length [m].
        segments: Number of edges.

    Returns:
        Points [m] from the origin along +x, [segments + 1, 3], and edges, [segments, 2] int32.
    """
    (total,) = checked_size("length", length, 1)
    (n,) = checked_cells("segments", segments, 1)
    points = np.zeros((n + 1, 3))
    points[:, 0] = np.arange(n + 1) / n * total
    start = np.arange(n, dtype=np.int32)
    return points, np.stack([start, start + 1], axis=1)


def oriented(vertices: ArrayLike, tets: ArrayLike) -> TetMesh:
    """Creates a mesh of vertices [m], [V, 3], and tets, [T, 4]; swaps the last two nodes of inverted tets.

    Example:
        `gs.meshes.oriented(vertices, tets)`
    """
    points = checked_floats("mesh.vertices", vertices, columns=3)
    elements = checked_elements("mesh.tets", tets, columns=4, vertex_count=len(points)).copy()
    inverted = tet_volumes(points, elements) < 0
    elements[inverted] = elements[inverted][:, [0, 1, 3, 2]]
    return TetMesh(points, elements)


def diagonal(vertices: Floats) -> float:
    """Returns the diagonal of the bounding box [m]."""
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def triangle_areas(vertices: Floats, faces: NDArray[Any]) -> Floats:
    """Returns the area of each triangle [m^2], [F].

    Example:
        `gs.meshes.triangle_areas(cube.mesh.vertices, cube.mesh.faces)`
    """
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return np.asarray(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1))


def tet_volumes(vertices: Floats, tets: NDArray[Any]) -> Floats:
    """Returns the signed volume of each tetrahedron [m^3], [T], negative if it is inverted.

    Example:
        `gs.meshes.tet_volumes(mesh.vertices, mesh.tets)`
    """
    origin = vertices[tets[:, 0]]
    a, b, c = (vertices[tets[:, corner]] - origin for corner in (1, 2, 3))
    return np.asarray(np.einsum("ij,ij->i", np.cross(a, b), c) / 6.0)


def _cell_corners(cells: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the position of each cell of a grid, [C, D], and the vertex indices of its corners, [C, 2^D]."""
    cell = np.stack(np.unravel_index(np.arange(np.prod(cells)), cells), axis=1)
    offsets = np.array(list(itertools.product((0, 1), repeat=len(cells))))
    corner = np.moveaxis(cell[:, None, :] + offsets, -1, 0)
    return cell, np.ravel_multi_index(tuple(corner), [n + 1 for n in cells])


def _outward_kuhn_tets(n: int) -> NDArray[np.int64]:
    """Returns six tetrahedra per cell of a cube (Kuhn subdivision), [6 n^3, 4].

    The diagonals of the cells point away from the centre. Each tetrahedron then has a vertex in the interior, so that
    mapping the cube to a ball cannot flatten it.
    """
    cell, _ = _cell_corners((n, n, n))
    outward = np.where(cell >= n // 2, 1, -1)
    inner = np.where(cell >= n // 2, cell, cell + 1)
    tets = []
    for path in kuhn_paths():
        node = inner[:, None, :] + outward[:, None, :] * path
        tets.append(node @ np.array([(n + 1) ** 2, n + 1, 1]))
    return np.stack(tets, axis=1).reshape(-1, 4)


def kuhn_paths() -> NDArray[np.bool_]:
    """Returns the corners of the six tetrahedra of a cell in the Kuhn subdivision, [6, 4, 3].

    Each order of the axes gives a path of four corners from the first corner of the cell to the opposite one.
    """
    orders = itertools.permutations(range(3))
    return np.array([[[order.index(axis) < taken for axis in range(3)] for taken in range(4)] for order in orders])


def _half_edges(faces: Ints) -> tuple[NDArray[Any], ...]:
    """Returns start, end and opposite vertex of the half-edges of all faces, [3 F], grouped by undirected edge; and the
    first half-edge and number of faces of each undirected edge, [E]."""
    half = faces[:, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]].reshape(-1, 3)
    order, first, count = group_rows(np.sort(half[:, :2], axis=1))
    start, end, opposite = half[order].T
    return start, end, opposite, first, count


def group_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Returns the stable order that sorts rows, and the start and the size of each group of equal rows in it."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    begins = np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)])
    first = np.flatnonzero(begins)
    return order, first, np.diff(np.append(first, len(rows)))


def _unique_edges(pairs: NDArray[Any]) -> Ints:
    rows = np.sort(pairs.reshape(-1, 2), axis=1)
    order, first, _ = group_rows(rows)
    return read_only(rows[order[first]])


def _digest(kind: str, *arrays: NDArray[Any] | None) -> str:
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for array in arrays:
        digest.update(b"none" if array is None else repr(array.shape).encode() + array.tobytes())
    return digest.hexdigest()
