"""Triangle and tetrahedral meshes: validated arrays, what follows from them, and the shapes to start from."""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.scene.errors import (
    DegenerateElement,
    InvalidInput,
    InvertedElement,
    NotFinite,
    OutOfRange,
    WrongShape,
    WrongType,
)
from gradsim.scene.recipes import Recipe, built_in

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

# Below this share of the bounding box (its diagonal squared or cubed) an element has no usable area or volume.
DEGENERATE = 1e-12

# The four faces of a tetrahedron of positive volume, counter-clockwise seen from outside.
TET_FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
TET_EDGES = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])

# A cell cut into five tetrahedra; corner number is 4 i + 2 j + k. Neighbouring cells use the other cut, because the
# diagonals on a shared face only match when the cuts alternate.
FIVE_TETS_EVEN = [[1, 0, 3, 5], [2, 3, 0, 6], [4, 5, 6, 0], [7, 6, 5, 3], [0, 3, 5, 6]]
FIVE_TETS_ODD = [[0, 2, 1, 4], [3, 1, 2, 7], [5, 7, 4, 1], [6, 4, 7, 2], [1, 4, 2, 7]]


@dataclass(frozen=True, eq=False)
class TriMesh:
    """A triangle surface or sheet; its arrays are read-only copies of what was given.

    Attributes:
        vertices: Positions [m], [V, 3] float64.
        faces: Vertex numbers, [F, 3] int32, counter-clockwise seen from outside.
        uv: Texture coordinates, [V, 2] float64, or None.
    """

    vertices: Floats
    faces: Ints
    uv: Floats | None = None
    recipe: Recipe | None = field(default=None, init=False, repr=False)  # of a built-in mesh

    def __repr__(self) -> str:
        return f"TriMesh({len(self.vertices)} vertices, {len(self.faces)} faces)"

    def __post_init__(self) -> None:
        vertices = _checked_floats("mesh.vertices", self.vertices, columns=3)
        faces = _checked_elements("mesh.faces", self.faces, columns=3, vertex_count=len(vertices))
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "faces", faces)
        if self.uv is not None:
            uv = _checked_floats("mesh.uv", self.uv, columns=2)
            if len(uv) != len(vertices):
                raise WrongShape("mesh.uv", f"{len(uv)} rows", f"needs one row for each of {len(vertices)} vertices")
            object.__setattr__(self, "uv", uv)
        _reject_degenerate("mesh.faces", faces, self.areas, DEGENERATE * diagonal(vertices) ** 2)

    @cached_property
    def key(self) -> str:
        """Digest of the content: equal for equal arrays, different otherwise."""
        return _digest("triangles", self.vertices, self.faces, self.uv)

    @cached_property
    def areas(self) -> Floats:
        """Area of each face [m^2], [F]."""
        return _read_only(triangle_areas(self.vertices, self.faces))

    @cached_property
    def edges(self) -> Ints:
        """Every edge once, smaller vertex first, in ascending order: [E, 2] int32."""
        return _unique_edges(self.faces[:, [[0, 1], [1, 2], [2, 0]]])

    @cached_property
    def hinges(self) -> Ints:
        """Pairs of faces that bend about a common edge, in the order of `edges`: [H, 4] int32.

        A row is (opposite0, opposite1, edge0, edge1): the first face runs (edge0, edge1, opposite0) counter-clockwise,
        the second (edge1, edge0, opposite1). Boundary edges have no hinge.

        Raises:
            InvalidInput: An edge has more than two faces, or its two faces disagree about which side is outside.
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
                f"neighbouring faces need the same side outside ({np.sum(same)} edges fail): reverse the vertex order "
                "of one of the two, or call trimesh.repair.fix_winding",
            )
        return _read_only(np.stack([opposite[face0], opposite[face1], start[face0], end[face0]], axis=1))


@dataclass(frozen=True, eq=False)
class TetMesh:
    """A volume of tetrahedra; its arrays are read-only copies of what was given.

    Attributes:
        vertices: Positions [m], [V, 3] float64.
        tets: Vertex numbers, [T, 4] int32, of positive volume det(x1 - x0, x2 - x0, x3 - x0) / 6.
    """

    vertices: Floats
    tets: Ints
    recipe: Recipe | None = field(default=None, init=False, repr=False)  # of a built-in mesh

    def __repr__(self) -> str:
        return f"TetMesh({len(self.vertices)} vertices, {len(self.tets)} tets)"

    def __post_init__(self) -> None:
        vertices = _checked_floats("mesh.vertices", self.vertices, columns=3)
        tets = _checked_elements("mesh.tets", self.tets, columns=4, vertex_count=len(vertices))
        object.__setattr__(self, "vertices", vertices)
        object.__setattr__(self, "tets", tets)
        _reject_degenerate("mesh.tets", tets, self.volumes, DEGENERATE * diagonal(vertices) ** 3)
        remedy = "needs a positive volume: swap two of its nodes, or build with meshes.oriented(vertices, tets)"
        _reject_rows(InvertedElement, "mesh.tets", tets, self.volumes < 0, remedy, self.volumes)

    @cached_property
    def key(self) -> str:
        """Digest of the content: equal for equal arrays, different otherwise."""
        return _digest("tetrahedra", self.vertices, self.tets)

    @cached_property
    def volumes(self) -> Floats:
        """Volume of each tetrahedron [m^3], [T]."""
        return _read_only(tet_volumes(self.vertices, self.tets))

    @cached_property
    def edges(self) -> Ints:
        """Every edge once, smaller vertex first, in ascending order: [E, 2] int32."""
        return _unique_edges(self.tets[:, TET_EDGES])

    @cached_property
    def surface(self) -> Ints:
        """Boundary triangles, counter-clockwise seen from outside, in the order of their tets: [F, 3] int32.

        Raises:
            InvalidInput: A face belongs to more than two tetrahedra, so the mesh overlaps itself.
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
        return _read_only(faces[np.sort(order[first[count == 1]])])


@built_in
def tet_box(size: ArrayLike, cells: ArrayLike) -> TetMesh:
    """Box centred at the origin, five tetrahedra a cell; vertices run with x slowest and z fastest.

    Args:
        size: Edge lengths [m], one number or (x, y, z).
        cells: Cells along each edge, one number or (x, y, z).
    """
    length = _checked_size("size", size, 3)
    nx, ny, nz = _checked_cells("cells", cells, 3)
    axes = [(np.arange(n + 1) / n - 0.5) * extent for n, extent in zip((nx, ny, nz), length, strict=True)]
    vertices = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    cell, corners = _cell_corners((nx, ny, nz))
    odd = (cell.sum(axis=1) % 2 == 1)[:, None, None]
    tets = np.where(odd, corners[:, FIVE_TETS_ODD], corners[:, FIVE_TETS_EVEN])
    return TetMesh(vertices, tets.reshape(-1, 4))


@built_in
def tet_ball(radius: float, cells: int) -> TetMesh:
    """Solid ball about the origin: a cube of six tetrahedra a cell, its shells of constant max|p| rounded to spheres.

    Args:
        radius: Radius [m].
        cells: Cells across the diameter, an even number.
    """
    (r,) = _checked_size("radius", radius, 1)
    (n,) = _checked_cells("cells", cells, 1)
    if n % 2:
        raise OutOfRange("cells", n, "needs an even number, so that a vertex lies at the centre")
    axis = np.arange(n + 1) / n * 2.0 - 1.0
    cube = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
    distance = np.linalg.norm(cube, axis=1, keepdims=True)
    stretch = np.abs(cube).max(axis=1, keepdims=True) / np.where(distance > 0, distance, 1.0)
    return oriented(r * stretch * cube, _outward_kuhn_tets(n))


@built_in
def grid(size: ArrayLike, cells: ArrayLike, *, alternate: bool = True) -> TriMesh:
    """Flat rectangle in the x-z plane, normal +y, centred at the origin, uv from 0 to 1; vertices run with x slowest.

    Args:
        size: Edge lengths [m], one number or (x, z).
        cells: Cells along each edge, one number or (x, z).
        alternate: Turn the diagonal in every other cell, so that the sheet has no preferred direction.
    """
    length = _checked_size("size", size, 2)
    nx, nz = _checked_cells("cells", cells, 2)
    uv = np.stack(np.meshgrid(np.arange(nx + 1) / nx, np.arange(nz + 1) / nz, indexing="ij"), axis=-1).reshape(-1, 2)
    flat = (uv - 0.5) * length
    vertices = np.stack([flat[:, 0], np.zeros(len(flat)), flat[:, 1]], axis=1)
    cell, corners = _cell_corners((nx, nz))
    turned = (alternate & (cell.sum(axis=1) % 2 == 1))[:, None, None]
    # Corner number is 2 i + k: turned cells are cut from corner 1 to 2, the others from 0 to 3.
    faces = np.where(turned, corners[:, [[0, 1, 2], [2, 1, 3]]], corners[:, [[0, 3, 2], [0, 1, 3]]])
    return TriMesh(vertices, faces.reshape(-1, 3), uv)


def chain(length: float, segments: int) -> tuple[Floats, Ints]:
    """Points on a line and the edges between neighbours, for a chain of masses and springs.

    Args:
        length: Total length [m].
        segments: Number of edges.

    Returns:
        Points [m] from the origin along +x, [segments + 1, 3], and edges, [segments, 2] int32.
    """
    (total,) = _checked_size("length", length, 1)
    (n,) = _checked_cells("segments", segments, 1)
    points = np.zeros((n + 1, 3))
    points[:, 0] = np.arange(n + 1) / n * total
    start = np.arange(n, dtype=np.int32)
    return points, np.stack([start, start + 1], axis=1)


def oriented(vertices: ArrayLike, tets: ArrayLike) -> TetMesh:
    """Mesh of vertices [m], [V, 3], and tets, [T, 4], with inside-out tets turned by swapping their last two nodes."""
    points = _checked_floats("mesh.vertices", vertices, columns=3)
    elements = _checked_elements("mesh.tets", tets, columns=4, vertex_count=len(points)).copy()
    inverted = tet_volumes(points, elements) < 0
    elements[inverted] = elements[inverted][:, [0, 1, 3, 2]]
    return TetMesh(points, elements)


def diagonal(vertices: Floats) -> float:
    """Diagonal of the bounding box [m]."""
    return float(np.linalg.norm(np.ptp(vertices, axis=0)))


def triangle_areas(vertices: Floats, faces: NDArray[Any]) -> Floats:
    """Area of each triangle [m^2], [F]."""
    a, b, c = (vertices[faces[:, corner]] for corner in range(3))
    return np.asarray(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1))


def tet_volumes(vertices: Floats, tets: NDArray[Any]) -> Floats:
    """Signed volume of each tetrahedron [m^3], [T]: negative when it is inside out."""
    origin = vertices[tets[:, 0]]
    a, b, c = (vertices[tets[:, corner]] - origin for corner in (1, 2, 3))
    return np.asarray(np.einsum("ij,ij->i", np.cross(a, b), c) / 6.0)


def _cell_corners(cells: tuple[int, ...]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of every cell of a grid, [C, D], and the vertex numbers of its corners, [C, 2^D]."""
    cell = np.stack(np.unravel_index(np.arange(np.prod(cells)), cells), axis=1)
    offsets = np.array(list(itertools.product((0, 1), repeat=len(cells))))
    corner = np.moveaxis(cell[:, None, :] + offsets, -1, 0)
    return cell, np.ravel_multi_index(tuple(corner), [n + 1 for n in cells])


def _outward_kuhn_tets(n: int) -> NDArray[np.int64]:
    """Six tetrahedra a cell about diagonals that point away from the centre, [6 n^3, 4].

    So each tetrahedron keeps a vertex inside the ball, and rounding the cube cannot flatten it.
    """
    cell, _ = _cell_corners((n, n, n))
    outward = np.where(cell >= n // 2, 1, -1)
    inner = np.where(cell >= n // 2, cell, cell + 1)
    tets = []
    for walk in itertools.permutations(range(3)):
        path = np.array([[walk.index(axis) < taken for axis in range(3)] for taken in range(4)])
        node = inner[:, None, :] + outward[:, None, :] * path
        tets.append(node @ np.array([(n + 1) ** 2, n + 1, 1]))
    return np.stack(tets, axis=1).reshape(-1, 4)


def _half_edges(faces: Ints) -> tuple[NDArray[Any], ...]:
    """Start, end and opposite vertex of the directed edges of all faces, those of one undirected edge side by side,
    [3 F]; where each undirected edge begins and how many faces it has, [E]."""
    half = faces[:, [[0, 1, 2], [1, 2, 0], [2, 0, 1]]].reshape(-1, 3)
    order, first, count = group_rows(np.sort(half[:, :2], axis=1))
    start, end, opposite = half[order].T
    return start, end, opposite, first, count


def group_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Order that sorts rows and keeps equal ones in sequence, where each group of equal rows begins, and its size."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    begins = np.concatenate([[True], np.any(ordered[1:] != ordered[:-1], axis=1)])
    first = np.flatnonzero(begins)
    return order, first, np.diff(np.append(first, len(rows)))


def _unique_edges(pairs: NDArray[Any]) -> Ints:
    rows = np.sort(pairs.reshape(-1, 2), axis=1)
    order, first, _ = group_rows(rows)
    return _read_only(rows[order[first]])


def _digest(kind: str, *arrays: NDArray[Any] | None) -> str:
    digest = hashlib.blake2b(kind.encode(), digest_size=16)
    for array in arrays:
        digest.update(b"none" if array is None else repr(array.shape).encode() + array.tobytes())
    return digest.hexdigest()


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array = np.ascontiguousarray(array)
    array.setflags(write=False)
    return array


def _checked_floats(name: str, values: ArrayLike, *, columns: int) -> Floats:
    """Read-only float64 copy of rows of finite numbers."""
    try:
        array = np.array(values, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise WrongType(name, type(values).__name__, f"needs an array of numbers, [n, {columns}]: {error}") from error
    _reject_shape(name, array, columns)
    _reject_rows(NotFinite, name, array, ~np.isfinite(array).all(axis=1), "needs finite numbers")
    return _read_only(array)


def _checked_elements(name: str, values: ArrayLike, *, columns: int, vertex_count: int) -> Ints:
    """Read-only int32 copy of rows of vertex numbers."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise WrongType(name, f"dtype {array.dtype}", "needs whole numbers: vertex numbers counted from 0")
    _reject_shape(name, array, columns)
    outside = ((array < 0) | (array >= vertex_count)).any(axis=1)
    _reject_rows(OutOfRange, name, array, outside, f"needs vertex numbers from 0 to {vertex_count - 1}")
    return _read_only(np.array(array, dtype=np.int32, order="C"))


def _reject_shape(name: str, array: NDArray[Any], columns: int) -> None:
    if array.ndim != 2 or array.shape[1] != columns or len(array) == 0:
        raise WrongShape(name, f"shape {list(array.shape)}", f"needs shape [n, {columns}] with n of at least 1")


def _reject_degenerate(name: str, elements: Ints, measures: Floats, smallest: float) -> None:
    """Raise DegenerateElement if an area or volume is as good as zero, as it is when an element repeats a node."""
    remedy = f"needs different nodes and a size above {smallest:.3g}: remove it or move its nodes apart"
    _reject_rows(DegenerateElement, name, elements, np.abs(measures) <= smallest, remedy, measures)


def _reject_rows(
    error: type[InvalidInput], name: str, rows: Ints | Floats, bad: Any, valid: str, measures: Floats | None = None
) -> None:
    """Raise an error that names the first bad row, its area or volume if given, and how many are bad."""
    if np.any(bad):
        index = int(np.argmax(bad))
        size = "" if measures is None else f" of size {measures[index]:.3g}"
        raise error(f"{name}[{index}]", f"{rows[index].tolist()}{size}", f"{valid} ({bad.sum()} of {len(rows)} fail)")


def _checked_size(name: str, values: ArrayLike, count: int) -> Floats:
    """Positive lengths [m], [count]; one number stands for all."""
    lengths = _checked_count(name, np.asarray(values, dtype=np.float64), count)
    if not np.isfinite(lengths).all():
        raise NotFinite(name, values, "needs finite lengths")
    if np.any(lengths <= 0):
        raise OutOfRange(name, values, "needs lengths above 0 m")
    return lengths


def _checked_cells(name: str, values: ArrayLike, count: int) -> tuple[int, ...]:
    """Positive whole numbers, `count` of them; one number stands for all."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise WrongType(name, values, "needs whole numbers")
    if np.any(array < 1):
        raise OutOfRange(name, values, "needs at least 1")
    return tuple(int(n) for n in _checked_count(name, array, count))


def _checked_count(name: str, array: NDArray[Any], count: int) -> NDArray[Any]:
    if array.shape not in ((), (count,)):
        raise WrongShape(name, f"shape {list(array.shape)}", f"needs one number or {count}")
    return np.broadcast_to(array, (count,))
