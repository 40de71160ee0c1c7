"""Signed distances of closed meshes on grids, interpolated by cubic B-splines.

The spline is twice continuously differentiable, so that contact forces have gradients that hold at useful step sizes;
with trilinear interpolation the normal jumps from cell to cell. It rounds edges and corners by about a cell.
"""

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from gradsim.bridge import initialize
from gradsim.cache import Cache
from gradsim.native import kernel_module
from gradsim.scene.meshes import TriMesh
from gradsim.scene.node_contact import MESH_REACH

CELLS = 32  # along the longest side of the mesh
MARGIN = 2  # cells beyond that, which the splines at the border need

_grids: Cache["DistanceGrid"] = Cache(32)


@dataclass(frozen=True, eq=False)
class DistanceGrid:
    """Coefficients of a spline: at the node (i, j, k), the point origin + spacing (i, j, k).

    Attributes:
        shape: Number of nodes along the axes.
        origin: First node in mesh coordinates [m], [3].
        spacing: [m].
        padding: Largest distance from the bounding box at which the spline is known [m].
        coefficients: [n] [m], the last axis fastest.
    """

    shape: tuple[int, int, int]
    origin: np.ndarray
    spacing: float
    padding: float
    coefficients: np.ndarray


def distance_grid(mesh: TriMesh) -> DistanceGrid:
    """Returns the distance grid of a closed mesh, computed once for meshes of equal content."""
    return _grids.get(mesh.key, lambda: _build(mesh))


def _build(mesh: TriMesh) -> DistanceGrid:
    low, high = mesh.vertices.min(0), mesh.vertices.max(0)
    size = float((high - low).max())
    spacing, padding = size / CELLS, MESH_REACH * size
    reach = padding + MARGIN * spacing
    counts = np.ceil((high - low + 2.0 * reach) / spacing).astype(int) + 1
    origin = (low + high) / 2 - spacing * (counts - 1) / 2
    axes = [start + spacing * np.arange(count) for start, count in zip(origin, counts, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
    distances = signed_distances(mesh, points.reshape(-1, 3)).reshape(points.shape[:3])
    shape = (int(counts[0]), int(counts[1]), int(counts[2]))
    return DistanceGrid(shape, origin, spacing, padding, _coefficients(distances).ravel())


def _coefficients(values: np.ndarray) -> np.ndarray:
    """Returns coefficients of a cubic B-spline that takes the values up to the fourth order of the spacing."""
    padded = np.pad(values, 1, mode="edge")
    inner = slice(1, -1)
    neighbours = sum(np.roll(padded, step, axis)[inner, inner, inner] for axis in range(3) for step in (1, -1))
    return np.asarray(values - (neighbours - 6.0 * values) / 6.0)


def signed_distances(mesh: TriMesh, points: np.ndarray) -> np.ndarray:
    """Returns the distances of points [N, 3] from a closed mesh, negative inside [m], [N]."""
    initialize()
    middle, size = mesh.vertices.mean(0), float(np.ptp(mesh.vertices, axis=0).max())
    # Warp queries in single precision: coordinates relative to the mesh, in units of its size.
    vertices = wp.array((mesh.vertices - middle) / size, dtype=wp.vec3, device="cpu")
    indices = wp.array(np.ascontiguousarray(mesh.faces, dtype=np.int32).ravel(), dtype=wp.int32, device="cpu")
    queried = wp.Mesh(points=vertices, indices=indices, support_winding_number=True)
    queries = wp.array((points - middle) / size, dtype=wp.vec3, device="cpu")
    faces = wp.zeros(len(points), dtype=wp.int32, device="cpu")
    places = wp.zeros(len(points), dtype=wp.vec3, device="cpu")  # two barycentric coordinates, and the sign
    wp.launch(query_kernel(), len(points), inputs=[queried.id, queries], outputs=[faces, places], device="cpu")
    u, v, sign = places.numpy().T.astype(np.float64)
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces[faces.numpy()]], 1, 0)
    nearest = a * u[:, None] + b * v[:, None] + c * (1.0 - u - v)[:, None]
    return np.asarray(sign * np.linalg.norm(points - nearest, axis=1))


@functools.cache
def query_kernel() -> Any:
    """Returns the kernel that finds the nearest face, the point on it and the side of each query."""

    vectors, ints = wp.array(dtype=wp.vec3), wp.array(dtype=wp.int32)

    @wp.kernel(enable_backward=False, module=kernel_module("distance_grid", wp.float32))
    def nearest_faces(mesh: wp.uint64, points: vectors, faces: ints, places: vectors):
        i = wp.tid()
        found = wp.mesh_query_point_sign_winding_number(mesh, points[i], 1.0e6)
        faces[i] = found.face
        places[i] = wp.vec3(found.u, found.v, found.sign)

    return nearest_faces
