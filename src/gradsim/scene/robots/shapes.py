"""Visible shapes of a compiled MuJoCo model as meshes with colours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradsim.scene.looks import Look
from gradsim.scene.meshes import DEGENERATE, TriMesh, diagonal, triangle_areas
from gradsim.scene.robots.rotations import matrix, product, xyzw
from gradsim.scene.surfaces import box, capsule, cylinder, icosphere

SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = 2, 3, 4, 5, 6, 7  # types of geometry in MuJoCo
DEFAULT_COLOR = (0.5, 0.5, 0.5, 1.0)  # of geometry that has none of its own
Y_TO_Z = np.array([math.sqrt(0.5), 0.0, 0.0, math.sqrt(0.5)])  # a rotation that turns y to z
Z_TO_Y = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])  # from axes whose y axis is MuJoCo's z axis


def link_shape(model: Any, body: int, anchor: np.ndarray) -> tuple[TriMesh | None, Look | None]:
    """Returns mesh and look of a body in its own axes, with the origin at `anchor`; None for a body without geometry.

    Geometry that takes no part in contact is what is drawn; a body that has none is drawn by its other geometry.
    """
    own = [k for k in range(model.ngeom) if model.geom_bodyid[k] == body]
    seen = [k for k in own if not model.geom_contype[k] and not model.geom_conaffinity[k]] or own
    vertices, faces, colors, first = [], [], [], 0
    for geom in seen:
        shape = _surface(model, geom)
        if shape is None:
            continue
        points, triangles = shape
        turned = points @ matrix(xyzw(model.geom_quat[geom])).T + model.geom_pos[geom] - anchor
        vertices.append(turned)
        faces.append(triangles + first)
        colors.append(np.tile(_color(model, geom), (len(triangles), 1)))
        first += len(turned)
    if not vertices:
        return None, None
    points, triangles = np.concatenate(vertices), np.concatenate(faces)
    visible = triangle_areas(points, triangles) > 2 * DEGENERATE * diagonal(points) ** 2  # files often have others
    color, mesh = np.concatenate(colors)[visible], TriMesh(points, triangles[visible])
    if (color == color[0]).all():
        return mesh, Look(color=color[0])
    return mesh, Look(face_colors=color)


class CollisionShape(NamedTuple):
    """A closed shape that touches, with its place in the axes of the body."""

    mesh: TriMesh
    position: np.ndarray  # [m], [3]
    rotation: np.ndarray  # (x, y, z, w), [4]


def collision_shapes(model: Any, body: int, anchor: np.ndarray) -> Iterator[CollisionShape]:
    """Yields the collision geometry of a body in its own axes, with the origin at `anchor`; meshes as convex hulls."""
    for geom in range(model.ngeom):
        touches = bool(model.geom_contype[geom]) or bool(model.geom_conaffinity[geom])
        mesh = _solid(model, geom) if touches and model.geom_bodyid[geom] == body else None
        if mesh is not None:
            turn = xyzw(model.geom_quat[geom])
            upright = int(model.geom_type[geom]) in (CAPSULE, CYLINDER)
            turn = product(turn, Y_TO_Z) if upright else turn
            yield CollisionShape(mesh, np.array(model.geom_pos[geom]) - anchor, turn)


def _solid(model: Any, geom: int) -> TriMesh | None:
    """Returns the closed shape of a geometry, along y for capsules and cylinders; None for planes and height fields."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == SPHERE:
        return icosphere(float(size[0]), 2)
    if kind == CAPSULE:
        return capsule(float(size[0]), 2.0 * float(size[1]), 8)
    if kind == CYLINDER:
        return cylinder(float(size[0]), 2.0 * float(size[1]), 12)
    if kind == BOX:
        return box(tuple(float(side) for side in 2.0 * size))
    shape = _surface(model, geom)
    if shape is None:
        return None
    if kind == ELLIPSOID:
        return TriMesh(*shape)
    import trimesh

    hull = trimesh.convex.convex_hull(shape[0])
    return TriMesh(np.array(hull.vertices), np.array(hull.faces, dtype=np.int32))


def _surface(model: Any, geom: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Returns vertices [V, 3] and faces [F, 3] in the axes of the geometry; None for planes and height fields."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == MESH:
        mesh = int(model.geom_dataid[geom])
        start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
        face, face_count = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
        points = np.array(model.mesh_vert[start : start + count], dtype=np.float64)
        return points, np.array(model.mesh_face[face : face + face_count], dtype=np.int32)
    if kind == BOX:
        cube = box(2.0 * size)
        return cube.vertices, cube.faces
    if kind in (SPHERE, ELLIPSOID):
        ball = icosphere(1.0, 2)
        return ball.vertices * (size if kind == ELLIPSOID else size[0]), ball.faces
    if kind in (CAPSULE, CYLINDER):
        tube = (capsule if kind == CAPSULE else cylinder)(float(size[0]), 2.0 * float(size[1]), 24)
        return tube.vertices @ Z_TO_Y.T, tube.faces
    return None


def _color(model: Any, geom: int) -> np.ndarray:
    color, material = np.array(model.geom_rgba[geom], dtype=np.float64), int(model.geom_matid[geom])
    if material >= 0 and np.allclose(color, DEFAULT_COLOR):
        color = np.array(model.mat_rgba[material], dtype=np.float64)
    return np.clip(color[:3], 0.0, 1.0)
