"""Light at the corners of triangles: ambient, diffuse (Lambert) and highlights (Blinn and Phong).

Highlights are cos * (n . h)^shininess: with the cosine they end where the light does, without a jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.render.batched import affine, joined, product
from gradsim.render.structure import Part
from gradsim.render.surfaces import Pose
from gradsim.scene.batcher import Batcher
from gradsim.scene.lights import WHITE, AmbientLight, DirectionalLight, Light, PointLight
from gradsim.scene.looks import GREY, Checker, Look
from gradsim.scene.quantity import plain


class Lighting(NamedTuple):
    """All lights, and where they are looked at from; in the world's axes or in a body's own."""

    ambient: torch.Tensor  # [1 or W, 3]
    beams: torch.Tensor  # unit vectors towards directional lights, [1 or W, 1 or T, K, 3]
    lamps: torch.Tensor  # positions of point lights [m], [1 or W, 1 or T, P, 3]
    colors: torch.Tensor  # of beams and then lamps, times their intensity, [1 or W, K + P, 3]
    eye: torch.Tensor  # [m], [1 or W, 1 or T, 1, 3]

    @property
    def directed(self) -> bool:
        """Whether any light comes from somewhere."""
        return self.colors.shape[1] > 0

    def seen_by(self, pose: Pose) -> Lighting:
        """The same in the axes of the pose's points: turning a few lights is cheaper than turning many normals."""
        if pose.axes is None or pose.origin is None:
            return self
        turn, origin = pose.axes.mT, pose.origin[..., None, :]
        lamps = (self.lamps - origin) @ turn if self.lamps.shape[2] else self.lamps
        return self._replace(beams=self.beams @ turn, lamps=lamps, eye=(self.eye - origin) @ turn)


def lighting(lights: Sequence[Light], eye: torch.Tensor, batcher: Batcher) -> Lighting:
    """Lights as tensors."""
    colors: dict[type, list[torch.Tensor]] = {}
    for light in lights:
        colors.setdefault(type(light), []).append(
            batcher.per_world(light.intensity)[:, None] * batcher.per_world(light.color, (3,))
        )
    beams = [-unit(batcher.per_world(light.direction, (3,))) for light in lights if isinstance(light, DirectionalLight)]
    lamps = [batcher.per_world(light.position, (3,)) for light in lights if isinstance(light, PointLight)]
    return Lighting(
        ambient=_stacked(colors.get(AmbientLight, []), batcher).sum(1),
        beams=_stacked(beams, batcher)[:, None],
        lamps=_stacked(lamps, batcher)[:, None],
        colors=_stacked(colors.get(DirectionalLight, []) + colors.get(PointLight, []), batcher),
        eye=eye[:, None, None],
    )


def _stacked(vectors: list[torch.Tensor], batcher: Batcher) -> torch.Tensor:
    """[1 or W, count, 3]."""
    if not vectors:
        return torch.zeros(1, 0, 3, dtype=batcher.dtype, device=batcher.device)
    return torch.stack(torch.broadcast_tensors(*vectors), 1)


def unit(x: torch.Tensor) -> torch.Tensor:
    """Vectors of length one; the zero vector stays, with gradient zero."""
    square = (x * x).sum(-1, keepdim=True)
    tiny = torch.finfo(x.dtype).tiny
    return x * (torch.rsqrt(square.clamp_min(tiny)) * (square > tiny))


def attributes(
    part: Part, look: Look | Checker, pose: Pose, lights: Lighting | None, batcher: Batcher, *, textured: bool
) -> torch.Tensor:
    """What each row of a surface's attributes carries, [1 or W, 1 or T, R, 3 or 8]; see `Triangles`.

    Args:
        part: The surface's structure.
        look: Its look.
        pose: Where it is.
        lights: None for bare colours.
        batcher: The batch.
        textured: Eight attributes instead of three.
    """
    colors = _colors(look, batcher)
    tint = colors[:, 0] if colors.shape[1] == 1 else batcher.per_world(WHITE, (3,))
    light, highlight = tint[:, None, None], None
    if lights is not None and look.lit:
        light, highlight = _illuminate(part, look, pose, lights, tint, batcher)
    if part.lit and part.normal_rows is not None:
        light = light.index_select(2, part.normal_rows)
        highlight = None if highlight is None else highlight.index_select(2, part.normal_rows)
    if colors.shape[1] > 1:
        light = light * colors.index_select(1, part.color_rows)[:, None]
    if not textured:
        shown = light if highlight is None else light + highlight
        return shown.expand(-1, -1, len(part.color_rows), -1)
    highlight = torch.zeros_like(light[:1, :1, :1]) if highlight is None else highlight
    uv = _texture_coordinates(part, look, batcher).expand(-1, -1, len(part.color_rows), -1)
    return joined([light, highlight, uv], -1)


def _texture_coordinates(part: Part, look: Look | Checker, batcher: Batcher) -> torch.Tensor:
    """[1, 1, R, 2]."""
    if isinstance(look, Checker) or look.texture is None:
        return torch.zeros(1, 1, 1, 2, dtype=batcher.dtype, device=batcher.device)
    if part.uv is not None:
        table = part.uv
    else:
        given = plain(look.uv)
        table = batcher.per_world(given, tuple(given.shape)).reshape(-1, 2)
    return table.index_select(0, part.uv_rows)[None, None]


def _colors(look: Look | Checker, batcher: Batcher) -> torch.Tensor:
    """The look's colours, [1 or W, n, 3]; with a texture and no colour, white."""
    if isinstance(look, Checker):
        return batcher.per_world(look.colors, (2, 3))
    for table in (look.vertex_colors, look.face_colors):
        if table is not None:
            return batcher.per_world(table, tuple(plain(table).shape[-2:]))
    default = GREY if look.texture is None else WHITE
    return batcher.per_world(default if look.color is None else look.color, (3,))[:, None]


def _is_zero(value: Any) -> bool:
    return isinstance(plain(value), np.ndarray) and not plain(value).any()


def _illuminate(
    part: Part, look: Look | Checker, pose: Pose, lights: Lighting, tint: torch.Tensor, batcher: Batcher
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Scattered light times `tint`, and highlights if there are any, at each normal, [1 or W, 1 or T, G, 3]."""
    ambient = lights.ambient * tint
    if not part.lit:
        return ambient[:, None, None], None
    diffuse = lights.colors * tint[:, None]
    if isinstance(look, Look):
        diffuse = diffuse * batcher.per_world(look.diffuse)[:, None, None]
    shiny = isinstance(look, Look) and not _is_zero(look.specular)
    normals, lights = _normals(part, pose), lights.seen_by(pose)
    cosines, halves = _angles(normals, part, pose, lights, shiny)
    if part.two_faced:  # the back side's normals are the opposite ones
        cosines = torch.cat([cosines, -cosines], 2)
        halves = None if halves is None else torch.cat([halves, -halves], 2)
    cosines = cosines.clamp_min(0.0)
    scattered = affine(cosines, diffuse, ambient)
    if halves is None or not isinstance(look, Look):
        return scattered, None
    glints = cosines * halves.clamp_min(0.0) ** batcher.per_world(look.shininess)[:, None, None, None]
    strength = lights.colors * batcher.per_world(look.specular)[:, None, None]
    return scattered, affine(glints, strength, torch.zeros_like(ambient[:1]))


def _normals(part: Part, pose: Pose) -> torch.Tensor:
    """Unit normals of the front side in the axes of the pose's points, [1 or W, 1 or T, G, 3]."""
    if not pose.deforms:
        return part.normals[None, None]
    x = pose.points
    return part.fans(x.flatten(0, 1)).view(*x.shape[:2], -1, 3)


def _angles(
    normals: torch.Tensor, part: Part, pose: Pose, lights: Lighting, shiny: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Cosines of the angles between normals and lights, and for highlights between normals and the vector half-way
    from light to eye, [1 or W, 1 or T, G, K + P]."""
    cosines = [product(normals, lights.beams.mT)]
    if not shiny and not lights.lamps.shape[2]:
        return cosines[0], None
    places = pose.points.index_select(2, part.spots)
    rays = [unit(lights.lamps[:, :, k : k + 1] - places) for k in range(lights.lamps.shape[2])]
    cosines += [_dot(normals, ray) for ray in rays]
    facing = joined(cosines, -1)
    if not shiny:
        return facing, None
    view = unit(lights.eye - places)
    between = joined([product(view, lights.beams.mT), *(_dot(view, ray) for ray in rays)], -1)
    # Half-way between unit vectors l and v lies l + v, of length sqrt(2 + 2 l . v).
    tiny = torch.finfo(view.dtype).eps
    return facing, (facing + _dot(normals, view)) * torch.rsqrt((2.0 + 2.0 * between).clamp_min(tiny))


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(-1, keepdim=True)
