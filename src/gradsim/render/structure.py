"""What of a picture is the same at all frames: which vertices make which faces, and which corners share attributes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.cache import Cache
from gradsim.render.normals import Fans
from gradsim.render.triangles import Connectivity
from gradsim.scene.looks import Checker, Look
from gradsim.scene.meshes import group_rows
from gradsim.scene.quantity import plain
from gradsim.scene.surfaces import components


@dataclass(frozen=True, eq=False)
class Surface:
    """A surface to be drawn, at rest."""

    name: str
    look: Look | Checker
    rest: np.ndarray  # [m], [V, 3]
    faces: np.ndarray  # [F, 3]
    key: Hashable  # of rest and faces
    stiff: bool = False  # vertices at one place stay together
    uv: np.ndarray | None = None  # [V, 2]


@dataclass(frozen=True, eq=False)
class Part:
    """A surface's share of the structure. Normals belong to corners about a vertex that are shaded as one."""

    lit: bool  # whether normals matter
    chosen: torch.Tensor | None  # which of the body's vertices are drawn, [V]; None: all
    rest: torch.Tensor  # the chosen vertices at rest [m], [V, 3]
    fans: Fans  # faces whose normals are added, of the front side
    spots: torch.Tensor  # vertex that each of their normals stands on, [G]
    normals: torch.Tensor  # at rest, [G, 3]
    two_faced: bool  # whether there is a back side with faces of its own, and the opposite normals behind these
    normal_rows: torch.Tensor | None  # normal of each row of attributes, [R]; None: in order
    color_rows: torch.Tensor  # its colour, [R]
    uv_rows: torch.Tensor  # its texture coordinates, [R]
    uv: torch.Tensor | None  # fixed texture coordinates, [n, 2]


@dataclass(frozen=True, eq=False)
class Structure:
    connectivity: Connectivity
    parts: tuple[Part, ...]


def structure_of(surfaces: Sequence[Surface], directed: bool, dtype: torch.dtype, device: torch.device) -> Structure:
    """The structure of what is drawn, from a cache if the like was drawn before.

    Args:
        surfaces: What is drawn.
        directed: Whether there is light from somewhere, so that normals matter.
        dtype: Type of normals and texture coordinates.
        device: Where indices and normals live; the connectivity itself stays on the CPU.
    """
    key = (tuple(map(_key, surfaces)), directed, dtype, device)
    return _structures.get(key, lambda: _build(surfaces, directed, dtype, device))


_structures: Cache[Structure] = Cache(32)


def _key(surface: Surface) -> Hashable:
    look = surface.look
    if isinstance(look, Checker):
        return surface.key, look.lit
    uv = None if look.uv is None else plain(look.uv).ndim
    texture = None if look.texture is None else tuple(plain(look.texture).shape)
    return surface.key, surface.stiff, _color_kind(look), look.lit, look.smooth, look.two_sided, texture, uv


def _color_kind(look: Look) -> str:
    return "vertex" if look.vertex_colors is not None else "face" if look.face_colors is not None else "one"


def _build(surfaces: Sequence[Surface], directed: bool, dtype: torch.dtype, device: torch.device) -> Structure:
    parts: list[Part] = []
    faces, corners, edges, marks = [], [], [], []
    textures: list[np.ndarray] = [np.zeros((0, 3), dtype=np.int32)]
    vertex_count = face_count = row_count = texel_count = 0
    for surface in surfaces:
        part, own = _part(surface, directed, dtype, device)
        parts.append(part)
        faces.append(own.faces + vertex_count)
        corners.append(own.corners + row_count)
        offsets = np.array([vertex_count, vertex_count, face_count, face_count])
        edges.append(np.where(own.edges < 0, -1, own.edges + offsets))
        mark = int(own.two_sided)
        if isinstance(surface.look, Look) and surface.look.texture is not None:
            height, width, _ = plain(surface.look.texture).shape
            textures.append(np.array([[texel_count, height, width]]))
            texel_count += height * width
            mark += 2 * (len(textures) - 1)
        marks.append(np.full(len(own.faces), mark))
        vertex_count += own.vertex_count
        face_count += len(own.faces)
        row_count += len(part.color_rows)

    def joined(arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.concatenate(arrays).astype(np.int32))

    connectivity = Connectivity(joined(faces), joined(corners), joined(edges), joined(marks), joined(textures))
    return Structure(connectivity, tuple(parts))


@dataclass(frozen=True)
class _Faces:
    """A surface's connectivity, counted from zero."""

    vertex_count: int
    faces: np.ndarray  # [F, 3], or [2 F, 3] with the back side behind
    corners: np.ndarray  # likewise
    edges: np.ndarray  # [E, 4]
    two_sided: bool  # both sides are seen, with the same attributes


def _part(surface: Surface, directed: bool, dtype: torch.dtype, device: torch.device) -> tuple[Part, _Faces]:
    look = surface.look
    lit = look.lit and directed
    chosen, faces = _chosen_vertices(surface)
    edges, first, second, closed = edges_of(faces)
    both = isinstance(look, Look) and (not closed if look.two_sided is None else look.two_sided)
    two_faced = lit and both
    normal = face_normals(surface.rest[chosen], faces)
    smooth = look.smooth if isinstance(look, Look) else 180.0
    fan = corner_fans(faces, normal, first, second, smooth) if lit else np.zeros_like(faces)
    spots, normals = _fan_normals(fan, faces, normal)
    colors, uv_rows, uv = _color_corners(surface), *_uv_corners(surface)
    drawn, shown = faces, fan
    if two_faced:  # the back side is the same surface turned over, so that each side has light of its own
        edges = np.concatenate([edges, np.where(edges < 0, -1, edges + np.array([0, 0, len(faces), len(faces)]))])
        shown = np.concatenate([fan, (fan + len(spots))[:, ::-1]])
        drawn, colors, uv_rows = (np.concatenate([a, a[:, ::-1]]) for a in (faces, colors, uv_rows))
    rows, corners = _rows(shown, colors, uv_rows)
    in_order = np.array_equal(rows[:, 0], np.arange(len(spots) * (1 + two_faced)))
    every = np.array_equal(chosen, np.arange(len(surface.rest)))

    def index(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=torch.int64, device=device)

    def real(array: np.ndarray) -> torch.Tensor:
        return torch.tensor(array, dtype=dtype, device=device)

    part = Part(
        lit=lit,
        chosen=None if every else index(chosen),
        rest=real(surface.rest[chosen]),
        fans=Fans(index(faces), index(fan), len(chosen), int(fan.max()) + 1),
        spots=index(spots),
        normals=real(normals),
        two_faced=two_faced,
        normal_rows=None if in_order else index(rows[:, 0]),
        color_rows=index(rows[:, 1]),
        uv_rows=index(rows[:, 2]),
        uv=None if uv is None else real(uv),
    )
    return part, _Faces(len(chosen), drawn, corners, edges, both and not two_faced)


def _fan_normals(fan: np.ndarray, faces: np.ndarray, normal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vertex that each fan stands on, [G], and its unit normal, [G, 3]: the sum of its faces' normals."""
    count = int(fan.max()) + 1
    spots, sums = np.zeros(count, dtype=np.int64), np.zeros((count, 3))
    spots[fan] = faces
    np.add.at(sums, fan.ravel(), np.repeat(normal, 3, axis=0))
    return spots, sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-300)


def _chosen_vertices(surface: Surface) -> tuple[np.ndarray, np.ndarray]:
    """Vertices that faces use, [V], and the faces in terms of them; vertices of stiff surfaces at one place are one."""
    used, corner = np.unique(surface.faces, return_inverse=True)
    place = used
    if surface.stiff:
        _, first, same = np.unique(surface.rest[used] + 0.0, axis=0, return_index=True, return_inverse=True)
        place = used[first][same.reshape(-1)]
    chosen, number = np.unique(place, return_inverse=True)
    return chosen, number.reshape(-1)[corner].reshape(-1, 3)


def edges_of(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """Edges of a surface.

    Returns:
        Two vertices and the one or two faces on them (-1: none), [E, 4], one row a face where there are more than two;
        the two half edges, 3 face + corner, of edges that two faces run along in opposite directions, [P] each; and
        whether the surface is closed.
    """
    half = faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2)
    order, first, count = group_rows(np.sort(half, axis=1))
    pair, lone = first[count == 2], order[np.repeat(count != 2, count)]
    h1, h2 = order[pair], order[pair + 1]
    rows = np.concatenate(
        [
            np.column_stack([half[h1], h1 // 3, h2 // 3]),
            np.column_stack([half[lone], lone // 3, np.full(len(lone), -1)]),
        ]
    )
    balance = np.add.reduceat(np.where(half[:, 0] < half[:, 1], 1, -1)[order], first)
    opposite = half[h1, 0] == half[h2, 1]
    return rows, h1[opposite], h2[opposite], bool(np.all(balance == 0))


def face_normals(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Normals as long as twice the faces' areas, [F, 3]."""
    a, b, c = (points[faces[:, corner]] for corner in range(3))
    return np.asarray(np.cross(b - a, c - a))


def corner_fans(
    faces: np.ndarray, normal: np.ndarray, first: np.ndarray, second: np.ndarray, smooth: float
) -> np.ndarray:
    """Number of the fan that each corner belongs to, [F, 3]: neighbours about a vertex, across edges that are flatter
    than `smooth` [degrees]."""
    unit = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    cosine = np.einsum("ij,ij->i", unit[first // 3], unit[second // 3])
    flat = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))) < smooth
    h1, h2 = first[flat], second[flat]
    here, there = np.concatenate([h1, _end(h1)]), np.concatenate([_end(h2), h2])
    return components(faces.size, here, there).reshape(-1, 3)


def _end(half: np.ndarray) -> np.ndarray:
    return half - half % 3 + (half + 1) % 3


def _rows(*ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different combinations of the corners' numbers, [R, 3], in order, and which of them each corner has, [F, 3]."""
    sizes = [int(one.max()) + 1 for one in ids]
    code, row = np.unique(np.ravel_multi_index([one.ravel() for one in ids], sizes), return_inverse=True)
    return np.column_stack(np.unravel_index(code, sizes)), row.reshape(-1, 3)


def _color_corners(surface: Surface) -> np.ndarray:
    """Which of the look's colours each corner has, [F, 3]."""
    faces, look = surface.faces, surface.look
    if isinstance(look, Checker):  # two triangles a tile, the tiles of a row one after another
        tile = np.arange(len(faces)) // 2
        return np.repeat((tile // look.tile_count + tile % look.tile_count)[:, None] % 2, 3, axis=1)
    kind = _color_kind(look)
    if kind == "vertex":
        return faces
    return np.repeat(np.arange(len(faces))[:, None], 3, axis=1) if kind == "face" else np.zeros_like(faces)


def _uv_corners(surface: Surface) -> tuple[np.ndarray, np.ndarray | None]:
    """Which texture coordinates each corner has, [F, 3], and these, [n, 2], where the look does not give them."""
    faces, look = surface.faces, surface.look
    if isinstance(look, Checker) or look.texture is None:
        return np.zeros_like(faces), None
    if look.uv is not None:
        return (faces if plain(look.uv).ndim == 2 else np.arange(faces.size).reshape(-1, 3)), None
    return (faces, surface.uv) if surface.uv is not None else box_projection(surface.rest, faces)


def box_projection(points: np.ndarray, faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Texture coordinates by projecting each face, along the axis its normal is closest to, onto the bounding box."""
    normals = face_normals(points, faces)
    axis = np.abs(normals).argmax(axis=1)
    low, extent = points.min(axis=0), np.maximum(np.ptp(points, axis=0), 1e-300)
    x, y, z = ((points - low) / extent).T
    views = [(z, y), (1 - z, y), (x, z), (x, 1 - z), (1 - x, y), (x, y)]  # seen from -x, x, -y, y, -z, z: not mirrored
    side = 2 * axis + (np.take_along_axis(normals, axis[:, None], 1)[:, 0] > 0)
    return faces + side[:, None] * len(points), np.concatenate([np.stack(view, 1) for view in views])
