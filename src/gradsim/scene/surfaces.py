"""Closed triangle surfaces: the shapes to start from, and whether any surface is closed with its outside out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradsim.scene.errors import InvalidInput, OutOfRange, WrongType
from gradsim.scene.meshes import (
    DEGENERATE,
    Floats,
    TriMesh,
    _checked_size,
    group_rows,
    tet_box,
    triangle_areas,
)
from gradsim.scene.recipes import built_in

FINEST_ICOSPHERE = 8  # 1.3 million faces


@built_in
def box(size: ArrayLike) -> TriMesh:
    """Box about the origin: 8 vertices, with x slowest and z fastest, and 12 faces.

    Args:
        size: Edge lengths [m], one number or (x, y, z).
    """
    cell = tet_box(size, 1)
    return TriMesh(cell.vertices, cell.surface)


@built_in
def sphere(radius: float, rings: int = 16, segments: int = 32) -> TriMesh:
    """Sphere about the origin by latitude and longitude, poles on the y axis.

    Its vertices lie on the sphere, so it encloses less: by 1.6 % of the volume at 16 x 32, and by a quarter of
    that when both are doubled.

    Args:
        radius: Radius [m].
        rings: Bands from pole to pole, at least 2; an even number puts vertices on the equator.
        segments: Sides around the axis, at least 3.
    """
    (r,) = _checked_size("radius", radius, 1)
    bands = _at_least("rings", rings, 2)
    latitude = np.pi * (np.arange(bands + 1) / bands - 0.5)
    return _revolved(r * np.cos(latitude), r * np.sin(latitude), segments)


@built_in
def icosphere(radius: float, subdivisions: int = 3) -> TriMesh:
    """Sphere about the origin of nearly equal triangles: an icosahedron, each face cut in four `subdivisions` times.

    Its vertices lie on the sphere, so it encloses less: by 0.9 % of the volume at 3 subdivisions, and by a quarter of
    that with each one more.

    Args:
        radius: Radius [m].
        subdivisions: From 0 to 8, for 20 x 4^subdivisions faces.
    """
    (r,) = _checked_size("radius", radius, 1)
    if _at_least("subdivisions", subdivisions, 0) > FINEST_ICOSPHERE:
        raise OutOfRange(
            "subdivisions", subdivisions, f"needs at most {FINEST_ICOSPHERE}: faces grow as 4^subdivisions"
        )
    import trimesh

    unit = trimesh.creation.icosphere(subdivisions=subdivisions)  # of radius 1: trimesh welds by absolute distances
    return TriMesh(r * unit.vertices, unit.faces)


@built_in
def cylinder(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Cylinder about the origin, its axis along y, a vertex in the middle of each end.

    Args:
        radius: Radius of the circle the vertices lie on [m].
        height: Length along y [m].
        segments: Sides around the axis, at least 3.
    """
    (r,), (h,) = _checked_size("radius", radius, 1), _checked_size("height", height, 1)
    return _revolved(np.array([0.0, r, r, 0.0]), h * np.array([-0.5, -0.5, 0.5, 0.5]), segments)


@built_in
def cone(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Cone with its axis along y and its tip up; the origin is half-way up, the centre of mass a quarter.

    Args:
        radius: Radius of the circle the vertices of the base lie on, at y = -height / 2 [m].
        height: Length along y [m].
        segments: Sides around the axis, at least 3.
    """
    (r,), (h,) = _checked_size("radius", radius, 1), _checked_size("height", height, 1)
    return _revolved(np.array([0.0, r, 0.0]), h * np.array([-0.5, -0.5, 0.5]), segments)


@built_in
def capsule(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Cylinder with half a sphere at each end, about the origin, its axis along y: height + 2 radius long.

    Args:
        radius: Radius of the cylinder and of the half spheres [m].
        height: Length of the cylindrical part, between the centres of the half spheres [m].
        segments: Sides around the axis, at least 3; the half spheres have a quarter as many bands each.
    """
    (r,), (h,) = _checked_size("radius", radius, 1), _checked_size("height", height, 1)
    bands = max(1, round(_at_least("segments", segments, 3) / 4))
    latitude = np.pi / 2 * np.arange(bands + 1) / bands
    radii, heights = r * np.cos(latitude), r * np.sin(latitude) + h / 2
    return _revolved(np.concatenate([radii[::-1], radii]), np.concatenate([-heights[::-1], heights]), segments)


@built_in
def torus(major: float, minor: float, rings: int = 16, segments: int = 32) -> TriMesh:
    """Ring about the origin that lies in the x-z plane, its axis along y.

    Args:
        major: Radius of the circle that the centre of the tube follows [m].
        minor: Radius of the tube [m], below `major`.
        rings: Sides around the tube, at least 3.
        segments: Sides around the axis, at least 3.
    """
    (R,), (r,) = _checked_size("major", major, 1), _checked_size("minor", minor, 1)
    if r >= R:
        raise OutOfRange("minor", minor, f"needs a tube thinner than the ring: below major = {R:g} m")
    sides = _at_least("rings", rings, 3)
    angle = 2 * np.pi * np.arange(sides) / sides
    return _revolved(R + r * np.cos(angle), r * np.sin(angle), segments, loop=True)


def check_closed(name: str, mesh: TriMesh) -> None:
    """Raise unless a surface bounds a volume, with its outside out.

    Vertices at one position count as one, so that a texture seam is no hole. A part inside another is a hollow in it.
    Whether the surface cuts through itself is not looked at.

    Raises:
        InvalidInput: The surface has open edges, neighbours that disagree about the outside, or a part that encloses
            no volume or is inside out.
    """
    edges = _edge_groups(name, mesh)
    if np.any(edges.balance):
        raise InvalidInput(
            f"{name}.faces",
            f"{np.sum(edges.balance != 0)} edges whose faces disagree about the outside",
            "needs the vertices of every face counter-clockwise seen from outside: meshes.outward(mesh) turns them",
        )
    part = components(len(mesh.faces), edges.first, edges.second)
    volume = _checked_volumes(name, mesh.vertices, mesh.faces, part)
    turned = volume * _nesting(mesh.vertices, mesh.faces, part, volume) < 0
    if np.any(turned):
        worst = float(volume[turned].min())
        which = "" if len(volume) == 1 else f" in {turned.sum()} of {len(volume)} parts"
        if worst < 0:
            remedy = "is inside out: meshes.outward(mesh) turns its faces"
        else:
            remedy = (
                "lies inside another part and would count twice: remove it, or meshes.outward(mesh) makes it a hollow"
            )
        raise InvalidInput(name, f"enclosed volume {worst:.3g} m^3{which}", remedy)


def outward(mesh: TriMesh) -> TriMesh:
    """The same surface with its faces turned so that neighbours agree and the outside is out.

    A part inside another one becomes a hollow in it. Vertices, uv and the order of the faces stay.

    Raises:
        InvalidInput: The surface is open, one-sided, encloses no volume, or has an edge with more than two faces.
    """
    edges = _edge_groups("mesh", mesh)
    if np.any(edges.face_count > 2):
        raise InvalidInput(
            "mesh.faces",
            f"{np.sum(edges.face_count > 2)} edges with more than two faces",
            "parts that touch along an edge cannot be turned as one: separate them",
        )
    # Each face appears twice, as it is and turned over, and each edge joins the versions that agree.
    n = len(mesh.faces)
    turn = np.where(edges.balance == 0, 0, n)
    here = np.concatenate([edges.first, edges.first + n])
    there = np.concatenate([edges.second + turn, edges.second + n - turn])
    sides = components(2 * n, here, there).reshape(2, n)
    if np.any(sides[0] == sides[1]):
        raise InvalidInput("mesh.faces", "a one-sided surface", "has no outside, like a Klein bottle")
    faces = np.where((sides[1] < sides[0])[:, None], mesh.faces[:, ::-1], mesh.faces)
    _, part = np.unique(sides.min(axis=0), return_inverse=True)
    volume = _checked_volumes("mesh", mesh.vertices, faces, part)
    turned = volume * _nesting(mesh.vertices, faces, part, volume) < 0
    return TriMesh(mesh.vertices, np.where(turned[part][:, None], faces[:, ::-1], faces), mesh.uv)


def _revolved(radii: Floats, heights: Floats, segments: int, *, loop: bool = False) -> TriMesh:
    """Surface of a profile turned about the y axis.

    Own code, because trimesh.creation drops triangles below 1e-8 m^2: its spheres of a millimetre have holes.

    Args:
        radii: Distances from the axis [m], [P], counter-clockwise in the plane of radius and height.
        heights: Positions along the axis [m], [P].
        segments: Sides around the axis.
        loop: The last point of the profile joins the first; otherwise both ends lie on the axis.
    """
    n = _at_least("segments", segments, 3)
    on_axis = np.zeros((len(radii), 1), dtype=bool)
    if not loop:
        on_axis[[0, -1]] = True
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), np.zeros(n), -np.sin(angle)], axis=1)
    radius = np.where(on_axis[:, 0], 0.0, radii)
    points = radius[:, None, None] * circle + heights[:, None, None] * (0.0, 1.0, 0.0)
    # A row of the grid that lies on the axis is one vertex, named n times.
    count = np.where(on_axis, 1, n)
    lower = (np.cumsum(count) - count[:, 0])[:, None] + np.where(on_axis, 0, np.arange(n))
    vertices = points[~on_axis | (np.arange(n) == 0)]
    upper = np.roll(lower, -1, axis=0)
    if not loop:
        lower, upper = lower[:-1], upper[:-1]
    lower_next, upper_next = np.roll(lower, -1, axis=1), np.roll(upper, -1, axis=1)
    halves = [np.stack([lower, lower_next, upper_next], axis=-1), np.stack([lower, upper_next, upper], axis=-1)]
    faces = np.stack(halves, axis=2).reshape(-1, 3)
    whole = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2])
    return TriMesh(vertices, faces[whole])


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise WrongType(name, value, "needs a whole number")
    if value < least:
        raise OutOfRange(name, value, f"needs at least {least}")
    return int(value)


class _EdgeGroups(NamedTuple):
    """The edges of a closed surface."""

    face_count: NDArray[np.int64]  # about each edge, [E]
    balance: NDArray[np.int64]  # faces that run along it, less those that run against it, [E]
    first: NDArray[np.int64]  # pairs of faces about one edge, [P]: for edges of two faces, in the order of the edges
    second: NDArray[np.int64]


def _edge_groups(name: str, mesh: TriMesh) -> _EdgeGroups:
    """Faces about each edge; raises InvalidInput where an odd number meets, which is a hole."""
    faces: NDArray[Any] = mesh.faces
    half, order, begin, count = _sorted_half_edges(faces)
    if np.any(count % 2):
        _, number = np.unique(mesh.vertices + 0.0, axis=0, return_inverse=True)  # + 0.0: -0.0 is 0.0
        half, order, begin, count = _sorted_half_edges(number.reshape(-1)[faces])
    odd = count % 2 == 1
    if np.any(odd):
        start, end = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)[order[begin[np.argmax(odd)]]]
        raise InvalidInput(
            f"{name}.faces",
            f"{odd.sum()} open edges, the first between vertices {start} and {end}",
            "needs a closed surface: fill its holes, for example with trimesh.repair.fill_holes",
        )
    along = np.where(half[order, 0] < half[order, 1], 1, -1)
    same = np.ones(len(order) - 1, dtype=bool)
    same[begin[1:] - 1] = False
    return _EdgeGroups(count, np.add.reduceat(along, begin), order[:-1][same] // 3, order[1:][same] // 3)


def _sorted_half_edges(faces: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Directed edges of all faces, [3 F, 2]; the order that puts those of one edge side by side, where each edge
    begins in it, and how many faces it has."""
    half = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    return half, *group_rows(np.sort(half, axis=1))


def components(count: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the connected component of each of `count` things, in order of appearance, from pairs that touch."""
    label = np.arange(count)
    while np.any(label[first] != label[second]):
        least = np.minimum(label[first], label[second])
        for touched in (label[first], label[second]):
            np.minimum.at(label, touched, least)
        label = label[label]
    return np.unique(label, return_inverse=True)[1].reshape(-1)


def _checked_volumes(name: str, vertices: Floats, faces: NDArray[Any], part: NDArray[np.int64]) -> Floats:
    """Volume that each part encloses [m^3], [parts]: negative when it is inside out."""
    # About a point nearby, because far from the origin the sum would cancel.
    a, b, c = (vertices[faces[:, corner]] - vertices.mean(axis=0) for corner in range(3))
    volume = np.asarray(np.bincount(part, np.einsum("ij,ij->i", np.cross(a, b), c) / 6.0), dtype=np.float64)
    if np.any(np.abs(volume) <= DEGENERATE * np.bincount(part, triangle_areas(vertices, faces)) ** 1.5):
        raise InvalidInput(name, f"enclosed volume {np.abs(volume).min():.3g} m^3", "needs a surface with an inside")
    return volume


def _nesting(vertices: Floats, faces: NDArray[Any], part: NDArray[np.int64], volume: Floats) -> NDArray[np.int64]:
    """Sign that the volume of each part should have, [parts]: 1 for solids, -1 for hollows in them."""
    surface = [vertices[faces[part == k]] for k in range(len(volume))]
    low, high = np.array([s.min(axis=(0, 1)) for s in surface]), np.array([s.max(axis=(0, 1)) for s in surface])
    fits = (low[:, None] >= low).all(axis=2) & (high[:, None] <= high).all(axis=2) & ~np.eye(len(volume), dtype=bool)
    sign = np.ones(len(volume), dtype=np.int64)
    for inner, outer in np.argwhere(fits):
        # Parts may touch, so look from points just under the faces.
        a, b, c = np.moveaxis(surface[inner][:: max(1, len(surface[inner]) // 16)], 1, 0)
        normal = np.cross(b - a, c - a) * np.sign(volume[inner])
        under = (a + b + c) / 3 - 1e-6 * normal / np.linalg.norm(normal, axis=1, keepdims=True) ** 0.5
        if np.median([abs(_winding(point, surface[outer])) for point in under]) > 0.5:
            sign[inner] *= -1
    return sign


def _winding(point: Floats, triangles: Floats) -> float:
    """How often a closed surface, [F, 3, 3], goes around a point: 1 or -1 inside, 0 outside (solid angles after Van
    Oosterom and Strackee 1983)."""
    a, b, c = np.moveaxis(triangles - point, 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    dot = [np.einsum("ij,ij->i", u, v) for u, v in ((a, b), (b, c), (c, a))]
    triple = np.einsum("ij,ij->i", np.cross(a, b), c)
    return float(np.arctan2(triple, la * lb * lc + dot[0] * lc + dot[1] * la + dot[2] * lb).sum() / (2 * np.pi))
