"""Builders of simple closed triangle surfaces."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gradsim.scene.errors import OutOfRange, WrongType
from gradsim.scene.memory import check_memory
from gradsim.scene.mesh_builders import mesh_builder
from gradsim.scene.mesh_validation import CELL_BYTES, Floats, checked_size
from gradsim.scene.meshes import TriMesh, tet_box

MAX_SUBDIVISIONS = 8  # 1.3 million faces


@mesh_builder
def box(size: ArrayLike) -> TriMesh:
    """Creates a box about the origin: 8 vertices, ordered with x slowest and z fastest, and 12 faces.

    Example:
        `gs.meshes.box((0.5, 0.3, 0.4))`

    Args:
        size: Edge lengths [m], one number or (x, y, z).
    """
    cell = tet_box(size, 1)
    return TriMesh(cell.vertices, cell.surface)


@mesh_builder
def sphere(radius: float, rings: int = 16, segments: int = 32) -> TriMesh:
    """Creates a sphere about the origin from circles of latitude and longitude, poles on the y axis.

    The vertices lie on the sphere, so the mesh encloses less volume: 1.6 % less at 16 x 32, and a quarter of that if
    both are doubled.

    Example:
        `gs.meshes.sphere(0.3, 16, 32)`

    Args:
        radius: Radius [m].
        rings: Number of bands from pole to pole, at least 2; an even number places vertices on the equator.
        segments: Number of sides around the axis, at least 3.
    """
    (r,) = checked_size("radius", radius, 1)
    bands = _at_least("rings", rings, 2)
    latitude = np.pi * (np.arange(bands + 1) / bands - 0.5)
    return _surface_of_revolution(r * np.cos(latitude), r * np.sin(latitude), segments)


@mesh_builder
def icosphere(radius: float, subdivisions: int = 3) -> TriMesh:
    """Creates a sphere about the origin from nearly equal triangles, by subdividing an icosahedron.

    The vertices lie on the sphere, so the mesh encloses less volume: 0.9 % less at 3 subdivisions, and a quarter of
    that for each further one.

    Example:
        `gs.meshes.icosphere(0.3, subdivisions=2)`

    Args:
        radius: Radius [m].
        subdivisions: From 0 to 8; the sphere has 20 x 4^subdivisions faces.
    """
    (r,) = checked_size("radius", radius, 1)
    if _at_least("subdivisions", subdivisions, 0) > MAX_SUBDIVISIONS:
        raise OutOfRange(
            "subdivisions", subdivisions, f"needs at most {MAX_SUBDIVISIONS}: faces grow as 4^subdivisions"
        )
    import trimesh

    unit = trimesh.creation.icosphere(
        subdivisions=subdivisions
    )  # of radius 1: trimesh merges vertices by absolute distance
    return TriMesh(r * unit.vertices, unit.faces)


@mesh_builder
def cylinder(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Creates a cylinder about the origin, its axis along y, with a vertex at the centre of each end.

    Example:
        `gs.meshes.cylinder(0.1, 0.5)`

    Args:
        radius: Radius of the circle the vertices lie on [m].
        height: Length along y [m].
        segments: Number of sides around the axis, at least 3.
    """
    (r,), (h,) = checked_size("radius", radius, 1), checked_size("height", height, 1)
    return _surface_of_revolution(np.array([0.0, r, r, 0.0]), h * np.array([-0.5, -0.5, 0.5, 0.5]), segments)


@mesh_builder
def cone(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Creates a cone with its axis along y and its tip up; the origin is at half the height, the centre of mass lower.

    Example:
        `gs.meshes.cone(0.2, 0.5)`

    Args:
        radius: Radius of the circle the vertices of the base lie on, at y = -height / 2 [m].
        height: Length along y [m].
        segments: Number of sides around the axis, at least 3.
    """
    (r,), (h,) = checked_size("radius", radius, 1), checked_size("height", height, 1)
    return _surface_of_revolution(np.array([0.0, r, 0.0]), h * np.array([-0.5, -0.5, 0.5]), segments)


@mesh_builder
def capsule(radius: float, height: float, segments: int = 32) -> TriMesh:
    """Creates a capsule about the origin, its axis along y: a cylinder with hemispherical ends, height + 2 radius long.

    Example:
        `gs.meshes.capsule(0.1, 0.5)`

    Args:
        radius: Radius of the cylinder and of the hemispheres [m].
        height: Length of the cylindrical part, between the centres of the hemispheres [m].
        segments: Number of sides around the axis, at least 3; each hemisphere has a quarter as many bands.
    """
    (r,), (h,) = checked_size("radius", radius, 1), checked_size("height", height, 1)
    bands = max(1, round(_at_least("segments", segments, 3) / 4))
    latitude = np.pi / 2 * np.arange(bands + 1) / bands
    radii, heights = r * np.cos(latitude), r * np.sin(latitude) + h / 2
    return _surface_of_revolution(
        np.concatenate([radii[::-1], radii]), np.concatenate([-heights[::-1], heights]), segments
    )


@mesh_builder
def torus(major: float, minor: float, rings: int = 16, segments: int = 32) -> TriMesh:
    """Creates a torus about the origin, in the x-z plane, its axis along y.

    Example:
        `gs.meshes.torus(0.3, 0.1)`

    Args:
        major: Radius of the centre line of the tube [m].
        minor: Radius of the tube [m], below `major`.
        rings: Number of sides around the tube, at least 3.
        segments: Number of sides around the axis, at least 3.
    """
    (R,), (r,) = checked_size("major", major, 1), checked_size("minor", minor, 1)
    if r >= R:
        raise OutOfRange("minor", minor, f"needs a tube thinner than the ring: below major = {R:g} m")
    sides = _at_least("rings", rings, 3)
    angle = 2 * np.pi * np.arange(sides) / sides
    return _surface_of_revolution(R + r * np.cos(angle), r * np.sin(angle), segments, loop=True)


def _surface_of_revolution(radii: Floats, heights: Floats, segments: int, *, loop: bool = False) -> TriMesh:
    """Creates the surface of a profile revolved about the y axis.

    trimesh.creation is not used, because it drops triangles below 1e-8 m^2: its spheres of 1 mm have holes.

    Args:
        radii: Distances from the axis [m], [P], counter-clockwise in the plane of radius and height.
        heights: Positions along the axis [m], [P].
        segments: Number of sides around the axis.
        loop: Whether the profile is closed; otherwise both ends lie on the axis.
    """
    n = _at_least("segments", segments, 3)
    check_memory("segments", n, CELL_BYTES * float(n) * len(radii), "give fewer segments or rings")
    on_axis = np.zeros((len(radii), 1), dtype=bool)
    if not loop:
        on_axis[[0, -1]] = True
    angle = 2 * np.pi * np.arange(n) / n
    circle = np.stack([np.cos(angle), np.zeros(n), -np.sin(angle)], axis=1)
    radius = np.where(on_axis[:, 0], 0.0, radii)
    points = radius[:, None, None] * circle + heights[:, None, None] * (0.0, 1.0, 0.0)
    # A row of the grid on the axis is one vertex, repeated n times.
    count = np.where(on_axis, 1, n)
    lower = (np.cumsum(count) - count[:, 0])[:, None] + np.where(on_axis, 0, np.arange(n))
    vertices = points[~on_axis | (np.arange(n) == 0)]
    upper = np.roll(lower, -1, axis=0)
    if not loop:
        lower, upper = lower[:-1], upper[:-1]
    lower_next, upper_next = np.roll(lower, -1, axis=1), np.roll(upper, -1, axis=1)
    halves = [np.stack([lower, lower_next, upper_next], axis=-1), np.stack([lower, upper_next, upper], axis=-1)]
    faces = np.stack(halves, axis=2).reshape(-1, 3)
    valid = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2])
    return TriMesh(vertices, faces[valid])


def _at_least(name: str, value: int, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise WrongType(name, value, "needs a whole number")
    if value < least:
        raise OutOfRange(name, value, f"needs at least {least}")
    check_memory(name, value, CELL_BYTES * float(value), "give fewer")
    return int(value)
