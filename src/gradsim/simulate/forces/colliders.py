"""Shapes of rigid bodies in contact with each other: samples of the surface, and a signed distance.

A shape is a core with a radius: its surface lies at this distance around the core. The core of a ball is its centre,
that of a capsule a segment, that of a box a smaller box, so that its edges and corners are rounded by `ROUNDING`
of its shortest side. These cores are boxes with half sizes `extent`, some of them zero. Other meshes have the distance
of `distance_grid.py` and no radius; their `extent` is the scale from mesh to body coordinates.

Samples lie on faces, edges and vertices of the core and have areas as weights, such that one face of a box weighs 1, or
the whole surface of another mesh 6.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradsim.cache import Cache
from gradsim.native.structures import Enumeration, Rows
from gradsim.scene.ball import Ball
from gradsim.scene.closed_surfaces import is_box
from gradsim.scene.meshes import TriMesh
from gradsim.scene.rigid import Rigid
from gradsim.scene.scene import Scene
from gradsim.simulate.forces.distance_grid import DistanceGrid, distance_grid
from gradsim.simulate.forces.family import Elements, ParameterFamily
from gradsim.simulate.state.rigid import center_of_mass

if TYPE_CHECKING:
    from gradsim.simulate.compile.batcher import SceneBatcher
    from gradsim.simulate.compile.topology import Placement, Topology

ROUNDING = 0.05  # radius of a box's edges and corners, as a fraction of its shortest side
BOX_CELLS = 3  # between samples along the mean side of a box
MESH_CELLS = 12  # along the longest side of other meshes
MAX_SAMPLES = 1024  # of a mesh
TOTAL_WEIGHT = 6.0  # of the samples of a mesh: that of a cube

KINDS = Enumeration("collider_kind", ("core", "grid"))
# half sizes of the core, or the scale of a mesh; radius; centre of the core, or origin of the mesh, relative to the
# centre of mass in body axes
ROWS = Rows(
    "collider", "extent_x", "extent_y", "extent_z", "radius", "offset_x", "offset_y", "offset_z"
)  # [m], or factors of a mesh


@dataclass(frozen=True, eq=False)
class ColliderShape:
    """What bodies of equal shape share.

    Attributes:
        kind: One of `KINDS`.
        samples: In units of the extent, [n, 3].
        weights: Areas, [n].
        grid: Of a mesh; None for a core.
    """

    kind: int
    samples: np.ndarray
    weights: np.ndarray
    grid: DistanceGrid | None = None


_shapes: Cache[ColliderShape] = Cache(64)


def collider_key(body: Rigid) -> Hashable:
    """Returns a key that is equal for bodies with equal samples and distances in units of their extents."""
    if isinstance(body, Ball):
        return "ball"
    return ("capsule", body.mesh.key) if is_capsule(body) else body.mesh.key


def collider_shape(body: Rigid) -> ColliderShape:
    """Returns the shape of a body, computed once for bodies of equal key."""
    return _shapes.get(collider_key(body), lambda: _collider_shape(body))


def _collider_shape(body: Rigid) -> ColliderShape:
    if isinstance(body, Ball):
        return ColliderShape(KINDS.core, np.zeros((1, 3)), np.ones(1))
    if is_capsule(body):
        along = np.linspace(-1.0, 1.0, 9)
        weights = np.full(9, 0.25) * np.where(np.abs(along) == 1.0, 0.5, 1.0)
        return ColliderShape(KINDS.core, np.outer(along, [0.0, 1.0, 0.0]), weights)
    if is_box(body.mesh):
        return ColliderShape(KINDS.core, *box_samples(np.ptp(body.mesh.vertices, axis=0)))
    return ColliderShape(KINDS.grid, *mesh_samples(body.mesh), distance_grid(body.mesh))


def is_capsule(body: Rigid) -> bool:
    """Returns whether a body is an exact capsule: built by `gs.meshes.capsule` and not scaled."""
    call = body.mesh.builder_call
    return call is not None and call.builder == "capsule" and not body.is_scaled


def box_samples(size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns samples on the surface of the box from -1 to 1, and weights; cells are about cubes for this size."""
    cells = np.clip(np.round(BOX_CELLS * size / size.prod() ** (1 / 3)), 2, 4 * BOX_CELLS).astype(int)
    ticks = [np.linspace(-1.0, 1.0, count + 1) for count in cells]
    points = np.stack(np.meshgrid(*ticks, indexing="ij"), -1).reshape(-1, 3)
    at_end = np.abs(points) == 1.0
    halves = np.where(at_end, 0.5, 1.0) / cells  # share of an axis that belongs to a sample
    areas = [at_end[:, axis] * np.delete(halves, axis, 1).prod(1) for axis in range(3)]
    weights = np.sum(areas, axis=0)
    return points[weights > 0], weights[weights > 0]


def mesh_samples(mesh: TriMesh) -> tuple[np.ndarray, np.ndarray]:
    """Returns samples on vertices, edges and faces of a mesh, in mesh coordinates, and weights."""
    corners = mesh.vertices[mesh.faces]
    spacing = np.ptp(mesh.vertices, axis=0).max() / MESH_CELLS
    longest = np.linalg.norm(corners - np.roll(corners, 1, 1), axis=2).max(1)
    parts = np.ceil(longest / spacing).astype(int)
    points, areas = [], []
    for count in np.unique(parts):
        lattice, shares = _lattice(int(count))
        own = parts == count
        points.append(np.einsum("pc,fcx->fpx", lattice, corners[own]).reshape(-1, 3))
        areas.append((mesh.areas[own, None] * shares).ravel())
    merged, weights = _merged(np.concatenate(points), np.concatenate(areas), 1e-7 * spacing)
    while len(merged) > MAX_SAMPLES:
        merged, weights = _merged(merged, weights, spacing)
        spacing *= 1.1
    return merged, weights * (TOTAL_WEIGHT / weights.sum())


def _lattice(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns barycentric points of a triangle divided `count` times, [n, 3], and shares of its area, [n]."""
    i, j = (index.ravel() for index in np.indices((count + 1, count + 1)))
    i, j = i[i + j <= count], j[i + j <= count]
    k = count - i - j
    ends = (i == 0).astype(int) + (j == 0) + (k == 0)  # sides that the point lies on
    shares = np.array([6.0, 3.0, 1.0])[ends] / (3.0 * count**2)
    return np.stack([i, j, k], 1) / count, shares


def _merged(points: np.ndarray, weights: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray]:
    """Merges points within cells of a spacing: the one nearest to their mean has the sum of their weights."""
    cells = np.round(points / spacing)
    _, cell = np.unique(cells, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    sums = np.bincount(cell, weights)
    means = np.stack([np.bincount(cell, weights * points[:, k]) / sums for k in range(3)], 1)
    order = np.lexsort((np.linalg.norm(points - means[cell], axis=1), cell))
    first = order[np.unique(cell[order], return_index=True)[1]]
    return points[first], sums


def collider_elements(body: Rigid, place: "Placement") -> Elements:
    """Returns the number of the body's shape, and the shape itself for the first body that has it."""
    number, is_new = place.number("collider", collider_key(body))
    arrays: dict[str, np.ndarray] = {"shapes": np.array([number], dtype=np.int32)}
    shape = collider_shape(body)
    own = [shape] if is_new else []
    arrays |= distance_arrays(own)
    arrays["sizes"] = np.array([len(shape.samples) for shape in own], dtype=np.int32)
    arrays["samples"] = np.concatenate([np.zeros((0, 3)), *(shape.samples for shape in own)])
    arrays["weights"] = np.concatenate([np.zeros(0), *(shape.weights for shape in own)])
    arrays["reach"] = np.array([np.linalg.norm(shape.samples, axis=1).max() for shape in own])
    return Elements(1, arrays)


def distance_arrays(shapes: list[ColliderShape]) -> dict[str, np.ndarray]:
    """Returns the kinds of shapes and their distance grids, as arrays of a topology."""
    grids = [shape.grid for shape in shapes]
    counts = [grid.shape if grid else (0, 0, 0) for grid in grids]
    places = [(*grid.origin, 1.0 / grid.spacing, grid.padding) if grid else (0.0,) * 5 for grid in grids]
    return {
        "kinds": np.array([shape.kind for shape in shapes], dtype=np.int32),
        "grid_shapes": np.array(counts, dtype=np.int32).reshape(-1, 3),
        "grid_places": np.array(places).reshape(-1, 5),
        "coefficients": np.concatenate([np.zeros(0), *(grid.coefficients for grid in grids if grid)]),
    }


def collider_columns(body: Rigid, scene: Scene, topology: "Topology", batcher: "SceneBatcher") -> Any:
    return batcher.concatenate(collider_rows(body, batcher), -1).transpose(1, 2)


def collider_rows(body: Rigid, batcher: "SceneBatcher", rounding: Any = None) -> tuple[Any, Any, Any]:
    """Returns extent, radius and offset of a body's shape, [B, 1, width] each; boxes may have another rounding [m]."""
    factors = batcher.scale(body)
    scale = batcher.per_element(np.ones(3) if factors is None else factors, 1, (3,))
    offset = -center_of_mass(body, batcher)
    if isinstance(body, Ball):
        extent, radius = 0.0 * scale, scale[..., :1]
    elif is_capsule(body):
        arguments = body.mesh.builder_call.arguments  # type: ignore[union-attr]
        extent = scale * scale.new_tensor([0.0, float(arguments["height"]) / 2.0, 0.0])
        radius = scale[..., :1] * float(arguments["radius"])
    elif is_box(body.mesh):
        low, high = body.mesh.vertices.min(0), body.mesh.vertices.max(0)
        half = scale * scale.new_tensor((high - low) / 2.0)
        default = 2.0 * ROUNDING * half.amin(-1, keepdim=True)
        radius = default if rounding is None else batcher(rounding, 1)[..., None]
        extent, offset = half - radius, offset + scale * scale.new_tensor((low + high) / 2.0)
    else:
        extent, radius = scale, 0.0 * scale[..., :1]
    return extent, radius, offset


COLLIDERS = ParameterFamily(
    name="collider",
    rows=ROWS,
    owners=(Rigid,),
    elements=collider_elements,
    columns=collider_columns,
    key=collider_key,
    present=lambda body, scene: scene.has_pairs,
)
