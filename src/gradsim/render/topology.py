"""The part of the triangles that all frames share: index arrays, and which corners share attributes."""

from __future__ import annotations

import functools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.cache import Cache
from gradsim.render.edges import face_normals, mesh_edges, smoothing_groups
from gradsim.render.job import EDGE, TEXTURE
from gradsim.render.normals import SmoothingGroups
from gradsim.render.texture_coordinates import box_projection
from gradsim.render.triangles import Connectivity
from gradsim.scene.looks import Checker, Look
from gradsim.scene.quantity import unwrap

FACE_COLUMNS = np.array([name.endswith("face") for name in EDGE])


@dataclass(frozen=True, eq=False)
class Surface:
    """A surface to be rendered, in its rest shape."""

    name: str
    look: Look | Checker
    rest: np.ndarray  # [m], [V, 3]
    faces: np.ndarray  # [F, 3]
    key: Hashable  # equal for equal rest and faces
    stiff: bool = False  # coincident vertices stay coincident
    uv: np.ndarray | None = None  # [V, 2]


@dataclass(frozen=True, eq=False)
class SurfaceTopology:
    """One surface's vertices, normals and rows of attributes."""

    needs_normals: bool
    vertex_ids: torch.Tensor | None  # vertices of the body that are rendered, [V]; None: all
    rest_vertices: torch.Tensor  # of these, [m], [V, 3]
    groups: SmoothingGroups  # of the front side, one normal each
    normal_vertices: torch.Tensor  # vertex of each normal, [G]
    rest_normals: torch.Tensor  # [G, 3]
    has_back_faces: bool  # whether faces follow for the back side, and the opposite normals after the G of the front
    row_normals: torch.Tensor | None  # normal of each row of attributes, [R]; None: in order
    row_colors: torch.Tensor  # colour of each row, [R]
    row_uvs: torch.Tensor  # texture coordinates of each row, [R]
    uv: torch.Tensor | None  # texture coordinates if the look gives none, [n, 2]


@dataclass(frozen=True, eq=False)
class SceneTopology:
    connectivity: Connectivity
    surfaces: tuple[SurfaceTopology, ...]


_topologies: Cache[SceneTopology] = Cache(32)


def scene_topology(
    surfaces: Sequence[Surface], directed: bool, dtype: torch.dtype, device: torch.device
) -> SceneTopology:
    """Returns the topology of some surfaces, cached by meshes and kinds of looks.

    Args:
        surfaces: All surfaces.
        directed: Whether any light has a direction, so that lit surfaces need normals.
        dtype: Type of normals and texture coordinates.
        device: Of all tensors but the connectivity, which is on the CPU.
    """
    key = (tuple(map(_key, surfaces)), directed, dtype, device)
    return _topologies.get(key, lambda: _build(surfaces, directed, dtype, device))


def _key(surface: Surface) -> Hashable:
    look = surface.look
    if isinstance(look, Checker):
        return surface.key, look.lit
    uv = None if look.uv is None else unwrap(look.uv).ndim
    texture = None if look.texture is None else tuple(unwrap(look.texture).shape)
    return surface.key, surface.stiff, _color_kind(look), look.lit, look.smooth, look.two_sided, texture, uv


def _color_kind(look: Look) -> str:
    return "vertex" if look.vertex_colors is not None else "face" if look.face_colors is not None else "one"


def _build(surfaces: Sequence[Surface], directed: bool, dtype: torch.dtype, device: torch.device) -> SceneTopology:
    found: list[SurfaceTopology] = []
    faces, corners, edges, two_sided, face_textures = [], [], [], [], []
    textures: list[np.ndarray] = [np.zeros((0, len(TEXTURE)))]
    vertex_count = face_count = row_count = texel_count = 0
    for surface in surfaces:
        topology, own = _surface_topology(surface, directed, dtype, device)
        found.append(topology)
        faces.append(own.faces + vertex_count)
        corners.append(own.corners + row_count)
        edges.append(_shifted(own.edges, vertex_count, face_count))
        two_sided.append(np.full(len(own.faces), own.two_sided))
        texture = -1
        if isinstance(surface.look, Look) and surface.look.texture is not None:
            texture = len(textures) - 1
            height, width, _ = unwrap(surface.look.texture).shape
            textures.append(np.array([TEXTURE.row(first_texel=texel_count, height=height, width=width)]))
            texel_count += height * width
        face_textures.append(np.full(len(own.faces), texture))
        vertex_count += own.vertex_count
        face_count += len(own.faces)
        row_count += len(topology.row_colors)
    arrays = (np.concatenate(parts) for parts in (faces, corners, edges, two_sided, face_textures, textures))
    return SceneTopology(Connectivity(*(torch.from_numpy(array.astype(np.int32)) for array in arrays)), tuple(found))


def _shifted(edges: np.ndarray, vertex_offset: int, face_offset: int) -> np.ndarray:
    """Edges with renumbered vertices and faces; -1 stays."""
    return np.where(edges < 0, -1, edges + np.where(FACE_COLUMNS, face_offset, vertex_offset))


@dataclass(frozen=True)
class _IndexArrays:
    """A surface's part of the connectivity, numbered from zero."""

    vertex_count: int
    faces: np.ndarray  # [F, 3], or [2 F, 3] with the back side last
    corners: np.ndarray  # likewise
    edges: np.ndarray  # [E, 4]
    two_sided: bool  # both sides are visible, with the same attributes


def _surface_topology(
    surface: Surface, directed: bool, dtype: torch.dtype, device: torch.device
) -> tuple[SurfaceTopology, _IndexArrays]:
    look = surface.look
    needs_normals = look.lit and directed
    vertex_ids, faces = _rendered_vertices(surface)
    mesh = mesh_edges(faces)
    edges = mesh.rows
    both_sides = isinstance(look, Look) and (not mesh.closed if look.two_sided is None else look.two_sided)
    has_back_faces = needs_normals and both_sides
    normals = face_normals(surface.rest[vertex_ids], faces)
    angle = look.smooth if isinstance(look, Look) else 180.0
    groups = smoothing_groups(faces, normals, mesh, angle) if needs_normals else np.zeros_like(faces)
    normal_vertices, rest_normals = _group_normals(groups, faces, normals)
    colors, uvs, uv = _corner_colors(surface), *_corner_uvs(surface)
    all_faces, all_groups = faces, groups
    if has_back_faces:  # a second set of faces with reversed orientation, so that each side is shaded on its own
        edges = np.concatenate([edges, _shifted(edges, 0, len(faces))])
        all_groups = np.concatenate([groups, (groups + len(normal_vertices))[:, ::-1]])
        all_faces, colors, uvs = (np.concatenate([a, a[:, ::-1]]) for a in (faces, colors, uvs))
    rows, corners = _unique_rows(all_groups, colors, uvs)
    in_order = np.array_equal(rows[:, 0], np.arange(len(normal_vertices) * (1 + has_back_faces)))
    all_vertices = np.array_equal(vertex_ids, np.arange(len(surface.rest)))
    index = functools.partial(torch.tensor, dtype=torch.int64, device=device)
    real = functools.partial(torch.tensor, dtype=dtype, device=device)
    topology = SurfaceTopology(
        needs_normals=needs_normals,
        vertex_ids=None if all_vertices else index(vertex_ids),
        rest_vertices=real(surface.rest[vertex_ids]),
        groups=SmoothingGroups(index(faces), index(groups), len(vertex_ids), len(normal_vertices)),
        normal_vertices=index(normal_vertices),
        rest_normals=real(rest_normals),
        has_back_faces=has_back_faces,
        row_normals=None if in_order else index(rows[:, 0]),
        row_colors=index(rows[:, 1]),
        row_uvs=index(rows[:, 2]),
        uv=None if uv is None else real(uv),
    )
    return topology, _IndexArrays(len(vertex_ids), all_faces, corners, edges, both_sides and not has_back_faces)


def _group_normals(groups: np.ndarray, faces: np.ndarray, normals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertex of each smoothing group, [G], and its unit normal, [G, 3]: the sum of its faces' normals."""
    count = int(groups.max()) + 1
    vertices, sums = np.zeros(count, dtype=np.int64), np.zeros((count, 3))
    vertices[groups] = faces
    np.add.at(sums, groups.ravel(), np.repeat(normals, 3, axis=0))
    return vertices, sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-300)


def _rendered_vertices(surface: Surface) -> tuple[np.ndarray, np.ndarray]:
    """Vertices that faces use, [V], and the faces in terms of them. Stiff surfaces have coincident vertices merged."""
    used, corner = np.unique(surface.faces, return_inverse=True)
    representative = used
    if surface.stiff:
        _, first, same = np.unique(surface.rest[used] + 0.0, axis=0, return_index=True, return_inverse=True)
        representative = used[first][same.reshape(-1)]
    vertex_ids, number = np.unique(representative, return_inverse=True)
    return vertex_ids, number.reshape(-1)[corner].reshape(-1, 3)


def _unique_rows(*ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct combinations of the corners' numbers, [R, 3], in order, and the one of each corner, [F, 3]."""
    sizes = [int(one.max()) + 1 for one in ids]
    code, row = np.unique(np.ravel_multi_index([one.ravel() for one in ids], sizes), return_inverse=True)
    return np.column_stack(np.unravel_index(code, sizes)), row.reshape(-1, 3)


def _corner_colors(surface: Surface) -> np.ndarray:
    """Which of the look's colours each corner has, [F, 3]."""
    faces, look = surface.faces, surface.look
    if isinstance(look, Checker):  # two triangles a tile, tiles in row-major order
        tile = np.arange(len(faces)) // 2
        return np.repeat((tile // look.tile_count + tile % look.tile_count)[:, None] % 2, 3, axis=1)
    kind = _color_kind(look)
    if kind == "vertex":
        return faces
    return np.repeat(np.arange(len(faces))[:, None], 3, axis=1) if kind == "face" else np.zeros_like(faces)


def _corner_uvs(surface: Surface) -> tuple[np.ndarray, np.ndarray | None]:
    """Row of each corner's texture coordinates, [F, 3], and the coordinates, [n, 2], if the look gives none."""
    faces, look = surface.faces, surface.look
    if isinstance(look, Checker) or look.texture is None:
        return np.zeros_like(faces), None
    if look.uv is not None:
        return (faces if unwrap(look.uv).ndim == 2 else np.arange(faces.size).reshape(-1, 3)), None
    return (faces, surface.uv) if surface.uv is not None else box_projection(surface.rest, faces)
