"""Images by point sampling, independent of the rasterizers: both share only the input triangles."""

from __future__ import annotations

import torch

from gradsim.render.triangles import Triangles


def supersampled(triangles: Triangles, size: tuple[int, int], samples: int = 32) -> torch.Tensor:
    """Returns images [B, H, W, 4] of colour and coverage; a pixel is the mean of samples x samples rays."""
    return torch.stack([_frame(triangles, frame, size, samples) for frame in range(len(triangles.vertices))])


def _frame(triangles: Triangles, frame: int, size: tuple[int, int], samples: int) -> torch.Tensor:
    height, width = size
    mesh, points = triangles.connectivity, triangles.vertices[frame].detach()
    background = triangles.background[min(frame, len(triangles.background) - 1)].detach()
    color = torch.ones(height * samples, width * samples, 4, dtype=points.dtype)
    color[..., :3] = background.expand(*size, 3).repeat_interleave(samples, 0).repeat_interleave(samples, 1)
    color[..., 3] = 0.0
    nearest = torch.full(color.shape[:2], torch.inf, dtype=points.dtype)
    kinds = zip(mesh.two_sided.tolist(), mesh.face_textures.tolist(), strict=True)
    for face, corner, (two_sided, texture) in zip(mesh.faces.long(), mesh.corners.long(), kinds, strict=True):
        corners = points[face]
        orientation = torch.linalg.det(corners)  # its sign is the visible side, also for corners behind the camera
        if orientation.abs() < 1e-14 or (orientation > 0 and not two_sided):
            continue
        rows, columns = _window(corners, triangles.near, size, samples)
        rays = _rays(rows, columns, samples, points.dtype)
        weights = rays @ torch.linalg.inv(corners)  # the ray (x, y, 1) w as a sum of the corners
        depth = 1.0 / weights.sum(-1)
        weights = weights * depth[..., None]
        hit = (weights >= 0).all(-1) & (depth >= triangles.near) & (depth < nearest[rows, columns])
        nearest[rows, columns] = torch.where(hit, depth, nearest[rows, columns])
        face_color = _color(triangles, weights @ triangles.attributes[frame, corner].detach(), texture)
        color[rows, columns, :3] = torch.where(hit[..., None], face_color, color[rows, columns, :3])
        color[rows, columns, 3] = torch.where(hit, 1.0, color[rows, columns, 3])
    return color.view(height, samples, width, samples, 4).mean((1, 3))


def _window(corners: torch.Tensor, near: float, size: tuple[int, int], samples: int) -> tuple[slice, slice]:
    """Returns the rows and columns of samples that a face can cover; all if it reaches behind the near plane."""
    if bool((corners[:, 2] < near).any()):
        return slice(0, size[0] * samples), slice(0, size[1] * samples)
    positions = corners[:, :2] / corners[:, 2:] * samples
    low, high = positions.amin(0).floor().long().tolist(), positions.amax(0).ceil().long().tolist()
    limits = (size[1] * samples, size[0] * samples)
    columns, rows = (slice(min(max(0, a), m), min(max(0, b), m)) for a, b, m in zip(low, high, limits, strict=True))
    return rows, columns


def _rays(rows: slice, columns: slice, samples: int, dtype: torch.dtype) -> torch.Tensor:
    """Returns the rays (x, y, 1) through the samples in pixels, [rows, columns, 3]."""
    x = (torch.arange(columns.start, columns.stop, dtype=dtype) + 0.5) / samples
    y = (torch.arange(rows.start, rows.stop, dtype=dtype) + 0.5) / samples
    down, across = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([across, down, torch.ones_like(across)], -1)


def _color(triangles: Triangles, attributes: torch.Tensor, texture: int) -> torch.Tensor:
    """Returns the colours [..., 3] of interpolated attributes, with bilinear texture lookup."""
    if attributes.shape[-1] == 3:
        return attributes
    light, highlight, uv = attributes.split((3, 3, 2), -1)
    if texture < 0 or triangles.texels is None:
        return light + highlight
    start, height, width = triangles.connectivity.textures[texture].tolist()
    texels = triangles.texels[start : start + height * width].detach().view(height, width, 3)
    x, y = uv[..., 0] * width - 0.5, (1.0 - uv[..., 1]) * height - 0.5
    column, row = x.floor(), y.floor()
    a, b = (x - column)[..., None], (y - row)[..., None]
    i, j = column.long() % width, row.long() % height
    k, l = (i + 1) % width, (j + 1) % height
    upper = (1 - a) * texels[j, i] + a * texels[j, k]
    lower = (1 - a) * texels[l, i] + a * texels[l, k]
    return ((1 - b) * upper + b * lower) * light + highlight
