"""Shading at the corners of triangles: ambient, diffuse (Lambert) and highlights (Blinn-Phong).

Highlights are cos * (n . h)^shininess: the factor cos makes them end continuously where the surface turns away from the
light.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.render.batched import affine, concatenate, matmul
from gradsim.render.job import ATTRIBUTE_COUNT
from gradsim.render.surfaces import Pose
from gradsim.render.topology import SurfaceTopology
from gradsim.scene.batcher import Batcher
from gradsim.scene.lights import WHITE, AmbientLight, DirectionalLight, Light, PointLight
from gradsim.scene.looks import GREY, Checker, Look
from gradsim.scene.quantity import unwrap


class Lighting(NamedTuple):
    """All lights and the eye, in the world's axes or in those of a body."""

    ambient: torch.Tensor  # [1 or W, 3]
    directions: torch.Tensor  # unit vectors towards directional lights, [1 or W, 1 or T, K, 3]
    positions: torch.Tensor  # of point lights [m], [1 or W, 1 or T, P, 3]
    colors: torch.Tensor  # of directional and then point lights, times their intensity, [1 or W, K + P, 3]
    eye: torch.Tensor  # [m], [1 or W, 1 or T, 1, 3]

    @property
    def directed(self) -> bool:
        """Whether there are lights other than ambient ones."""
        return self.colors.shape[1] > 0

    def in_body_frame(self, pose: Pose) -> Lighting:
        """The same in the axes of the pose's points: rotating a few lights is cheaper than rotating many normals."""
        if pose.axes is None or pose.origin is None:
            return self
        turn, origin = pose.axes.mT, pose.origin[..., None, :]
        positions = (self.positions - origin) @ turn if self.positions.shape[2] else self.positions
        return self._replace(directions=self.directions @ turn, positions=positions, eye=(self.eye - origin) @ turn)


def lighting(lights: Sequence[Light], eye: torch.Tensor, batcher: Batcher) -> Lighting:
    """Returns lights as tensors."""
    colors: dict[type, list[torch.Tensor]] = {}
    for light in lights:
        color = batcher.per_world(light.intensity)[:, None] * batcher.per_world(light.color, (3,))
        colors.setdefault(type(light), []).append(color)
    directions = [
        -unit(batcher.per_world(light.direction, (3,))) for light in lights if isinstance(light, DirectionalLight)
    ]
    positions = [batcher.per_world(light.position, (3,)) for light in lights if isinstance(light, PointLight)]
    return Lighting(
        ambient=_stacked(colors.get(AmbientLight, []), batcher).sum(1),
        directions=_stacked(directions, batcher)[:, None],
        positions=_stacked(positions, batcher)[:, None],
        colors=_stacked(colors.get(DirectionalLight, []) + colors.get(PointLight, []), batcher),
        eye=eye[:, None, None],
    )


def _stacked(vectors: list[torch.Tensor], batcher: Batcher) -> torch.Tensor:
    """[1 or W, count, 3]."""
    if not vectors:
        return torch.zeros(1, 0, 3, dtype=batcher.dtype, device=batcher.device)
    return torch.stack(torch.broadcast_tensors(*vectors), 1)


def unit(x: torch.Tensor) -> torch.Tensor:
    """Returns normalized vectors; the zero vector stays zero, with zero gradient."""
    square = (x * x).sum(-1, keepdim=True)
    tiny = torch.finfo(x.dtype).tiny
    return x * (torch.rsqrt(square.clamp_min(tiny)) * (square > tiny))


def corner_attributes(
    surface: SurfaceTopology,
    look: Look | Checker,
    pose: Pose,
    lights: Lighting | None,
    batcher: Batcher,
    attribute_count: int,
) -> torch.Tensor:
    """Returns the attributes of a surface's corners, [1 or W, 1 or T, R, 3 or 8]; see `Triangles`.

    Args:
        surface: Its topology.
        look: Its look.
        pose: Its pose.
        lights: None for unlit colours.
        batcher: The batch.
        attribute_count: `ATTRIBUTE_COUNT.plain` or `ATTRIBUTE_COUNT.textured`.
    """
    colors = look_colors(look, batcher)
    tint = colors[:, 0] if colors.shape[1] == 1 else batcher.per_world(WHITE, (3,))
    light, highlight = tint[:, None, None], None
    if lights is not None and look.lit:
        light, highlight = _shade(surface, look, pose, lights, tint, batcher)
    if surface.needs_normals and surface.row_normals is not None:
        light = light.index_select(2, surface.row_normals)
        highlight = None if highlight is None else highlight.index_select(2, surface.row_normals)
    if colors.shape[1] > 1:
        light = light * colors.index_select(1, surface.row_colors)[:, None]
    if attribute_count == ATTRIBUTE_COUNT.plain:
        color = light if highlight is None else light + highlight
        return color.expand(-1, -1, len(surface.row_colors), -1)
    highlight = torch.zeros_like(light[:1, :1, :1]) if highlight is None else highlight
    uv = texture_coordinates(surface, look, batcher).expand(-1, -1, len(surface.row_colors), -1)
    return concatenate([light, highlight, uv], -1)


def texture_coordinates(surface: SurfaceTopology, look: Look | Checker, batcher: Batcher) -> torch.Tensor:
    """[1, 1, R, 2]."""
    if isinstance(look, Checker) or look.texture is None:
        return torch.zeros(1, 1, 1, 2, dtype=batcher.dtype, device=batcher.device)
    if surface.uv is not None:
        coordinates = surface.uv
    else:
        given = unwrap(look.uv)
        coordinates = batcher.per_world(given, tuple(given.shape)).reshape(-1, 2)
    return coordinates.index_select(0, surface.row_uvs)[None, None]


def look_colors(look: Look | Checker, batcher: Batcher) -> torch.Tensor:
    """The look's colours, [1 or W, n, 3]; white if there is only a texture."""
    if isinstance(look, Checker):
        return batcher.per_world(look.colors, (2, 3))
    for colors in (look.vertex_colors, look.face_colors):
        if colors is not None:
            return batcher.per_world(colors, tuple(unwrap(colors).shape[-2:]))
    default = GREY if look.texture is None else WHITE
    return batcher.per_world(default if look.color is None else look.color, (3,))[:, None]


def _is_zero(value: Any) -> bool:
    return isinstance(unwrap(value), np.ndarray) and not unwrap(value).any()


def _shade(
    surface: SurfaceTopology, look: Look | Checker, pose: Pose, lights: Lighting, tint: torch.Tensor, batcher: Batcher
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Ambient and diffuse light times `tint`, and highlights or None, at each normal, [1 or W, 1 or T, G, 3]."""
    ambient = lights.ambient * tint
    if not surface.needs_normals:
        return ambient[:, None, None], None
    diffuse = lights.colors * tint[:, None]
    if isinstance(look, Look):
        diffuse = diffuse * batcher.per_world(look.diffuse)[:, None, None]
    specular = isinstance(look, Look) and not _is_zero(look.specular)
    normals, lights = _normals(surface, pose), lights.in_body_frame(pose)
    cosines, half_cosines = _cosines(normals, surface, pose, lights, specular)
    if surface.has_back_faces:  # with the opposite normals
        cosines = torch.cat([cosines, -cosines], 2)
        half_cosines = None if half_cosines is None else torch.cat([half_cosines, -half_cosines], 2)
    cosines = cosines.clamp_min(0.0)
    light = affine(cosines, diffuse, ambient)
    if half_cosines is None or not isinstance(look, Look):
        return light, None
    highlights = cosines * half_cosines.clamp_min(0.0) ** batcher.per_world(look.shininess)[:, None, None, None]
    strength = lights.colors * batcher.per_world(look.specular)[:, None, None]
    return light, affine(highlights, strength, torch.zeros_like(ambient[:1]))


def _normals(surface: SurfaceTopology, pose: Pose) -> torch.Tensor:
    """Unit normals of the front side in the axes of the pose's points, [1 or W, 1 or T, G, 3]."""
    if not pose.deforms:
        return surface.rest_normals[None, None]
    x = pose.points
    return surface.groups.normals(x.flatten(0, 1)).view(*x.shape[:2], -1, 3)


def _cosines(
    normals: torch.Tensor, surface: SurfaceTopology, pose: Pose, lights: Lighting, specular: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Cosines between normals and lights, and if `specular` between normals and the half-way vectors of light and eye,
    [1 or W, 1 or T, G, K + P]."""
    cosines = [matmul(normals, lights.directions.mT)]
    if not specular and not lights.positions.shape[2]:
        return cosines[0], None
    points = pose.points.index_select(2, surface.normal_vertices)
    rays = [unit(lights.positions[:, :, k : k + 1] - points) for k in range(lights.positions.shape[2])]
    cosines += [_dot(normals, ray) for ray in rays]
    facing = concatenate(cosines, -1)
    if not specular:
        return facing, None
    view = unit(lights.eye - points)
    between = concatenate([matmul(view, lights.directions.mT), *(_dot(view, ray) for ray in rays)], -1)
    # The half-way vector of unit vectors l and v is l + v, of length sqrt(2 + 2 l . v).
    tiny = torch.finfo(view.dtype).eps
    return facing, (facing + _dot(normals, view)) * torch.rsqrt((2.0 + 2.0 * between).clamp_min(tiny))


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(-1, keepdim=True)
