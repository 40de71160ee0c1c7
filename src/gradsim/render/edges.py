"""Edges of triangle meshes, and which corners share a normal across them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gradsim.render.job import EDGE
from gradsim.scene.closed_surfaces import connected_components
from gradsim.scene.meshes import group_rows


class MeshEdges(NamedTuple):
    """Edges of a triangle mesh. A half-edge is numbered 3 face + corner."""

    rows: np.ndarray  # two vertices and the one or two faces that share them (-1: none), columns `EDGE`, [E, 4]
    first: np.ndarray  # half-edges of edges whose two faces are oriented alike, [P]
    second: np.ndarray  # their opposite half-edges, [P]
    closed: bool  # whether the mesh has no boundary


def mesh_edges(faces: np.ndarray) -> MeshEdges:
    """Returns the edges of faces [F, 3]. An edge of more than two faces has one row for each of them."""
    half = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    order, first, count = group_rows(np.sort(half, axis=1))
    pair, single = first[count == 2], order[np.repeat(count != 2, count)]
    h1, h2 = order[pair], order[pair + 1]
    rows = np.concatenate([_edge_rows(half, h1, h2 // 3), _edge_rows(half, single, np.full(len(single), -1))])
    balance = np.add.reduceat(np.where(half[:, 0] < half[:, 1], 1, -1)[order], first)
    opposite = half[h1, 0] == half[h2, 1]
    return MeshEdges(rows, h1[opposite], h2[opposite], bool(np.all(balance == 0)))


def _edge_rows(half: np.ndarray, own: np.ndarray, other_face: np.ndarray) -> np.ndarray:
    start, end = half[own].T
    return np.column_stack(EDGE.row(start=start, end=end, face=own // 3, other_face=other_face))


def face_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Returns normals whose length is twice the area of the face, [F, 3]."""
    a, b, c = (points[faces[:, corner]] for corner in range(3))
    return np.asarray(np.cross(b - a, c - a))


def smoothing_groups(faces: np.ndarray, normals: np.ndarray, edges: MeshEdges, angle: float) -> np.ndarray:
    """Returns the smoothing group of each corner, [F, 3].

    A group holds corners at one vertex, of faces connected by edges across which the normals differ by less than
    `angle` [degrees].
    """
    unit = normals / np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    cosine = np.einsum("ij,ij->i", unit[edges.first // 3], unit[edges.second // 3])
    flat = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) < angle
    h1, h2 = edges.first[flat], edges.second[flat]
    here, there = np.concatenate([h1, _end(h1)]), np.concatenate([_end(h2), h2])
    return connected_components(faces.size, here, there).reshape(-1, 3)


def _end(half: np.ndarray) -> np.ndarray:
    """The corner at the end of a half-edge."""
    return half - half % 3 + (half + 1) % 3
