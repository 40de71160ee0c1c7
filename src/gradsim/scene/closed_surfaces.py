"""Closed triangle surfaces: check that a surface bounds a volume, and orientation of its faces outward."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradsim.scene.errors import InvalidInput
from gradsim.scene.mesh_validation import Floats
from gradsim.scene.meshes import DEGENERATE, TriMesh, group_rows, triangle_areas


def check_closed(name: str, mesh: TriMesh) -> None:
    """Raises InvalidInput unless a surface bounds a volume and is oriented outward.

    Vertices at the same position are identified, so that a texture seam is not a hole. A component inside another one
    must be a cavity, oriented towards its inside. Self-intersections are not detected.

    Raises:
        InvalidInput: The surface has open edges or neighbours of opposite orientation, or a component encloses no
            volume or is inside out.
    """
    edges = _edge_groups(name, mesh)
    if np.any(edges.balance):
        raise InvalidInput(
            f"{name}.faces",
            f"{np.sum(edges.balance != 0)} edges whose faces have opposite orientation",
            "needs every face counter-clockwise seen from outside: meshes.outward(mesh) flips the others",
        )
    component = connected_components(len(mesh.faces), edges.first, edges.second)
    volume = _checked_volumes(name, mesh.vertices, mesh.faces, component)
    inverted = volume * _expected_signs(mesh.vertices, mesh.faces, component, volume) < 0
    if np.any(inverted):
        worst = float(volume[inverted].min())
        which = "" if len(volume) == 1 else f" in {inverted.sum()} of {len(volume)} parts"
        if worst < 0:
            remedy = "is inside out: meshes.outward(mesh) flips its faces"
        else:
            remedy = (
                "lies inside another part and would count twice: remove it, or meshes.outward(mesh) makes it a cavity"
            )
        raise InvalidInput(name, f"enclosed volume {worst:.3g} m^3{which}", remedy)


def is_box(mesh: TriMesh) -> bool:
    """Returns whether a closed mesh is a box along the axes: it encloses as much as its bounding box."""
    size = np.ptp(mesh.vertices, axis=0)
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces] - mesh.vertices.min(0), 1, 0)
    volume = np.einsum("ij,ij->", np.cross(a, b), c) / 6.0
    return bool(abs(volume - size.prod()) < 1e-9 * size.prod())


def outward(mesh: TriMesh) -> TriMesh:
    """Returns the surface with all faces oriented outward.

    A component inside another one becomes a cavity. Vertices, uv and the order of the faces are unchanged.

    Example:
        `gs.meshes.outward(gs.meshes.box(1.0))`

    Raises:
        InvalidInput: The surface is open, not orientable, encloses no volume, or has an edge with more than two faces.
    """
    edges = _edge_groups("mesh", mesh)
    if np.any(edges.face_count > 2):
        raise InvalidInput(
            "mesh.faces",
            f"{np.sum(edges.face_count > 2)} edges with more than two faces",
            "parts that share an edge cannot be oriented: separate them",
        )
    # The graph has two nodes per face, one for each orientation; an edge of the mesh connects the orientations that are
    # consistent. In a one-sided surface both orientations of a face are connected.
    n = len(mesh.faces)
    offset = np.where(edges.balance == 0, 0, n)
    start = np.concatenate([edges.first, edges.first + n])
    end = np.concatenate([edges.second + offset, edges.second + n - offset])
    sides = connected_components(2 * n, start, end).reshape(2, n)
    if np.any(sides[0] == sides[1]):
        raise InvalidInput(
            "mesh.faces", "a one-sided surface", "has no outside, like a Klein bottle: give another mesh"
        )
    faces = np.where((sides[1] < sides[0])[:, None], mesh.faces[:, ::-1], mesh.faces)
    _, component = np.unique(sides.min(axis=0), return_inverse=True)
    volume = _checked_volumes("mesh", mesh.vertices, faces, component)
    inverted = volume * _expected_signs(mesh.vertices, faces, component, volume) < 0
    return TriMesh(mesh.vertices, np.where(inverted[component][:, None], faces[:, ::-1], faces), mesh.uv)


class _EdgeGroups(NamedTuple):
    """Faces around each edge of a closed surface."""

    face_count: NDArray[np.int64]  # number of faces of each edge, [E]
    balance: NDArray[np.int64]  # half-edges in one direction minus those in the other, [E]; 0 if consistent
    first: NDArray[np.int64]  # first face of each pair of faces that share an edge, [P], in the order of the edges
    second: NDArray[np.int64]  # second face of each pair, [P]


def _edge_groups(name: str, mesh: TriMesh) -> _EdgeGroups:
    """Groups faces by edge; raises InvalidInput if an edge has an odd number of faces, so that the surface is open."""
    faces: NDArray[Any] = mesh.faces
    half, order, begin, count = _sorted_half_edges(faces)
    if np.any(count % 2):
        _, merged = np.unique(mesh.vertices + 0.0, axis=0, return_inverse=True)  # + 0.0 turns -0.0 into 0.0
        half, order, begin, count = _sorted_half_edges(merged.reshape(-1)[faces])
    odd = count % 2 == 1
    if np.any(odd):
        start, end = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)[order[begin[np.argmax(odd)]]]
        raise InvalidInput(
            f"{name}.faces",
            f"{odd.sum()} open edges, the first between vertices {start} and {end}",
            "needs a closed surface: fill its holes, for example with trimesh.repair.fill_holes",
        )
    direction = np.where(half[order, 0] < half[order, 1], 1, -1)
    same_edge = np.ones(len(order) - 1, dtype=bool)  # whether a half-edge and the next one belong to the same edge
    same_edge[begin[1:] - 1] = False
    pairs = order[:-1][same_edge] // 3, order[1:][same_edge] // 3
    return _EdgeGroups(count, np.add.reduceat(direction, begin), *pairs)


def _sorted_half_edges(faces: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Returns the half-edges of all faces, [3 F, 2], the order that groups them by undirected edge, the start of each
    group, and its size."""
    half = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    return half, *group_rows(np.sort(half, axis=1))


def connected_components(count: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns the connected component of each of `count` nodes of a graph, [count], from its edges (first, second).

    Components are numbered in order of appearance.
    """
    label = np.arange(count)
    while np.any(label[first] != label[second]):
        least = np.minimum(label[first], label[second])
        for root in (label[first], label[second]):
            np.minimum.at(label, root, least)
        label = label[label]
    return np.unique(label, return_inverse=True)[1].reshape(-1)


def _checked_volumes(name: str, vertices: Floats, faces: NDArray[Any], component: NDArray[np.int64]) -> Floats:
    """Returns the volume inside each component [m^3], [components], negative if it is inside out."""
    # Relative to the mean vertex: far from the origin the sum would suffer from cancellation.
    a, b, c = (vertices[faces[:, corner]] - vertices.mean(axis=0) for corner in range(3))
    volume = np.asarray(np.bincount(component, np.einsum("ij,ij->i", np.cross(a, b), c) / 6.0), dtype=np.float64)
    if np.any(np.abs(volume) <= DEGENERATE * np.bincount(component, triangle_areas(vertices, faces)) ** 1.5):
        raise InvalidInput(
            name, f"enclosed volume {np.abs(volume).min():.3g} m^3", "needs a surface that encloses a volume"
        )
    return volume


def _expected_signs(
    vertices: Floats, faces: NDArray[Any], component: NDArray[np.int64], volume: Floats
) -> NDArray[np.int64]:
    """Returns the sign that the volume of each component should have, [components]: 1 for solids, -1 for cavities."""
    surface = [vertices[faces[component == k]] for k in range(len(volume))]
    low, high = np.array([s.min(axis=(0, 1)) for s in surface]), np.array([s.max(axis=(0, 1)) for s in surface])
    contained = (
        (low[:, None] >= low).all(axis=2) & (high[:, None] <= high).all(axis=2) & ~np.eye(len(volume), dtype=bool)
    )
    sign = np.ones(len(volume), dtype=np.int64)
    for inner, outer in np.argwhere(contained):
        # Components may touch each other, so the test points lie slightly below the faces.
        a, b, c = np.moveaxis(surface[inner][:: max(1, len(surface[inner]) // 16)], 1, 0)
        normal = np.cross(b - a, c - a) * np.sign(volume[inner])
        below = (a + b + c) / 3 - 1e-6 * normal / np.linalg.norm(normal, axis=1, keepdims=True) ** 0.5
        if np.median([abs(_winding_number(point, surface[outer])) for point in below]) > 0.5:
            sign[inner] *= -1
    return sign


def _winding_number(point: Floats, triangles: Floats) -> float:
    """Returns the winding number of a closed surface, [F, 3, 3], about a point: 1 or -1 inside, 0 outside.

    Solid angles of triangles after Van Oosterom and Strackee (1983).
    """
    a, b, c = np.moveaxis(triangles - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    dot = [np.einsum("ij,ij->i", u, v) for u, v in ((a, b), (b, c), (c, a))]
    triple = np.einsum("ij,ij->i", np.cross(a, b), c)
    return float(np.arctan2(triple, la * lb * lc + dot[0] * lc + dot[1] * la + dot[2] * lb).sum() / (2 * np.pi))
