"""Normals of deforming surfaces."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.scene.autograd import once_differentiable

FACES_AT_ONCE = 20_000  # whose vectors fit into the processor's cache


class SmoothingGroups:
    """Corners of faces grouped by shared normals, and the indices to process several frames at once.

    Args:
        faces: Vertex of each corner, [F, 3].
        groups: Smoothing group of each corner, [F, 3].
        vertex_count: Number of vertices.
        group_count: Number of groups.
    """

    def __init__(self, faces: torch.Tensor, groups: torch.Tensor, vertex_count: int, group_count: int):
        self.faces, self.vertex_count, self.group_count = faces, vertex_count, group_count
        self.step = max(1, FACES_AT_ONCE // len(faces))  # frames at once
        frame = torch.arange(self.step, device=faces.device)[:, None]
        self._vertices = [(faces[:, k] + frame * vertex_count).reshape(-1) for k in range(3)]
        self._groups = [(groups[:, k] + frame * group_count).reshape(-1) for k in range(3)]

    def normals(self, x: torch.Tensor) -> torch.Tensor:
        """Returns unit normals [B, G, 3] of vertices [B, V, 3]: sums of the faces' normals, weighted by area."""
        normals: torch.Tensor = _GroupNormals.apply(x.contiguous(), self)
        return normals

    def blocks(self, frame_count: int) -> list[tuple[slice, slice, list[torch.Tensor], list[torch.Tensor]]]:
        """Blocks of frames: rows of their vertices and groups, and vertex and group of each corner within these."""
        found = []
        for first in range(0, frame_count, self.step):
            last = min(first + self.step, frame_count)
            used = (last - first) * len(self.faces)
            vertices = slice(first * self.vertex_count, last * self.vertex_count)
            groups = slice(first * self.group_count, last * self.group_count)
            found.append((vertices, groups, [v[:used] for v in self._vertices], [g[:used] for g in self._groups]))
        return found


def _face_edges(x: torch.Tensor, corners: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Two edges of each face, from its first corner."""
    first = x.index_select(0, corners[0])
    return x.index_select(0, corners[1]).sub_(first), x.index_select(0, corners[2]).sub_(first)


class _GroupNormals(torch.autograd.Function):
    """Written by hand: an autograd graph over all frames moves every intermediate vector through memory many times."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, groups: SmoothingGroups) -> torch.Tensor:
        flat = x.view(-1, 3)
        normals = torch.zeros(len(x) * groups.group_count, 3, dtype=x.dtype, device=x.device)
        lengths = torch.empty(len(normals), 1, dtype=x.dtype, device=x.device)
        for vertices, rows, corners, corner_groups in groups.blocks(len(x)):
            face_normal = torch.linalg.cross(*_face_edges(flat[vertices], corners))
            block = normals[rows]
            for group in corner_groups:
                block.index_add_(0, group, face_normal)
            length = torch.linalg.vector_norm(block, dim=1, keepdim=True, out=lengths[rows])
            length.masked_fill_(length <= torch.finfo(x.dtype).tiny, torch.inf)  # zero normal and zero gradient
            block.div_(length)
        ctx.save_for_backward(x, normals, lengths)
        ctx.groups = groups
        return normals.view(len(x), groups.group_count, 3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, adjoint: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, normals, lengths = ctx.saved_tensors
        flat, adjoint = x.view(-1, 3), adjoint.reshape(-1, 3)
        x_adj = torch.zeros_like(flat)
        for vertices, rows, corners, corner_groups in ctx.groups.blocks(len(x)):
            n, g = normals[rows], adjoint[rows]
            sum_adj = torch.addcmul(g, n, (n * g).sum(1, keepdim=True), value=-1).div_(lengths[rows])
            face_adj = sum_adj.index_select(0, corner_groups[0])
            for group in corner_groups[1:]:
                face_adj += sum_adj.index_select(0, group)
            first, second = _face_edges(flat[vertices], corners)
            first_adj, second_adj = torch.linalg.cross(second, face_adj), torch.linalg.cross(face_adj, first)
            block = x_adj[vertices]
            block.index_add_(0, corners[1], first_adj)
            block.index_add_(0, corners[2], second_adj)
            block.index_add_(0, corners[0], first_adj.add_(second_adj).neg_())
        return x_adj.view_as(x), None
