"""Parts of slow reference rasterizers, dense over triangles and pixels, differentiated by autograd."""

from __future__ import annotations

from typing import NamedTuple

import torch

from gradsim.render.triangles import Triangles


class Screen(NamedTuple):
    """Triangles of one frame in screen space, clipped at the near plane."""

    place: torch.Tensor  # [N, 3, 2]
    inverse: torch.Tensor  # one over depth, [N, 3]
    attributes: torch.Tensor  # [N, 3, A]
    textures: list[int]  # -1: none


def screen_of(triangles: Triangles, frame: int) -> Screen:
    mesh, near = triangles.connectivity, triangles.near
    parts = []
    kinds = zip(mesh.two_sided.tolist(), mesh.face_textures.tolist(), strict=True)
    for face, corner, (two_sided, texture) in zip(mesh.faces.tolist(), mesh.corners.tolist(), kinds, strict=True):
        points = [
            torch.cat([triangles.vertices[frame, v], triangles.attributes[frame, c]])
            for v, c in zip(face, corner, strict=True)
        ]
        polygon = []
        for p, q in zip(points, points[1:] + points[:1], strict=True):
            if p[2] >= near:
                polygon.append(p)
            if (p[2] >= near) != (q[2] >= near):
                polygon.append(p + (p[2] - near) / (p[2] - q[2]) * (q - p))
        for k in range(2, len(polygon)):
            part = torch.stack([polygon[0], polygon[k - 1], polygon[k]])
            xy = part[:, :2] / part[:, 2:3]
            area = _cross(xy[1] - xy[0], xy[2] - xy[0]).item()
            if area < -1e-12 or (area > 1e-12 and two_sided):
                parts.append((xy, 1.0 / part[:, 2], part[:, 3:], texture))
    if not parts:
        empty = triangles.vertices.new_zeros
        return Screen(empty(0, 3, 2), empty(0, 3), empty(0, 3, triangles.attributes.shape[-1]), [])
    place, inverse, attributes, textures = zip(*parts, strict=True)
    return Screen(torch.stack(place), torch.stack(inverse), torch.stack(attributes), list(textures))


def _cross(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def centers(height: int, width: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    return torch.stack([x, y], -1).double()


def barycentric(screen: Screen, pixels: torch.Tensor) -> torch.Tensor:
    """[N, H, W, 3]."""
    a, b, c = (screen.place[:, k, None, None] for k in range(3))
    area = _cross(b - a, c - a)
    return (
        torch.stack([_cross(c - b, pixels - b), _cross(a - c, pixels - c), _cross(b - a, pixels - a)], -1)
        / area[..., None]
    )


def squared_distance(screen: Screen, pixels: torch.Tensor) -> torch.Tensor:
    """Squared distances to the boundaries of the triangles, [N, H, W]."""
    squares = []
    for k in range(3):
        a, b = screen.place[:, k, None, None], screen.place[:, (k + 1) % 3, None, None]
        along = ((pixels - a) * (b - a)).sum(-1) / ((b - a) ** 2).sum(-1)
        squares.append(((pixels - a - along.clamp(0, 1)[..., None] * (b - a)) ** 2).sum(-1))
    return torch.stack(squares).amin(0)


def colors(triangles: Triangles, screen: Screen, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Depth [N, H, W] and colour [N, H, W, 3] at screen-space barycentric coordinates."""
    inverse = weights * screen.inverse[:, None, None]
    depth = weights.sum(-1) / inverse.sum(-1)
    share = inverse / inverse.sum(-1, keepdim=True)
    attributes = torch.einsum("nhwk,nka->nhwa", share, screen.attributes)
    if attributes.shape[-1] == 3:
        return depth, attributes
    texture = torch.ones_like(attributes[..., :3])
    for n, number in enumerate(screen.textures):
        if number >= 0:
            assert triangles.texels is not None
            start, height, width = triangles.connectivity.textures[number].tolist()
            texels = triangles.texels[start : start + height * width].reshape(height, width, 3)
            texture[n] = bilinear(texels, attributes[n, ..., 6], attributes[n, ..., 7])
    return depth, texture * attributes[..., :3] + attributes[..., 3:6]


def bilinear(texels: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    height, width = texels.shape[:2]
    x, y = u * width - 0.5, (1.0 - v) * height - 0.5
    i, j = x.detach().floor(), y.detach().floor()
    a, b = (x - i)[..., None], (y - j)[..., None]
    i, j = i.long(), j.long()
    pick = {(p, q): texels[(j + q) % height, (i + p) % width] for p in (0, 1) for q in (0, 1)}
    above = (1 - a) * pick[0, 0] + a * pick[1, 0]
    below = (1 - a) * pick[0, 1] + a * pick[1, 1]
    return (1 - b) * above + b * below


def background(triangles: Triangles, frame: int, size: tuple[int, int]) -> torch.Tensor:
    behind = triangles.background
    return behind[frame if len(behind) > 1 else 0].expand(*size, 3)
