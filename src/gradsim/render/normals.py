"""Normals of surfaces that change their shape."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.scene.autograd import once_differentiable

AT_ONCE = 20_000  # faces whose vectors stay in the processor's cache


class Fans:
    """Fans of faces, each with one normal, and the indices that many frames at once need."""

    def __init__(self, faces: torch.Tensor, fan: torch.Tensor, vertex_count: int, fan_count: int):
        self.faces, self.fan = faces, fan  # vertex and fan of each corner, [F, 3]
        self.vertex_count, self.fan_count = vertex_count, fan_count
        self.step = max(1, AT_ONCE // len(faces))  # frames at once
        frame = torch.arange(self.step, device=faces.device)[:, None]
        self._ends = [(faces[:, k] + frame * vertex_count).reshape(-1) for k in range(3)]
        self._fans = [(fan[:, k] + frame * fan_count).reshape(-1) for k in range(3)]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Unit normals [B, G, 3] from vertices [B, V, 3]: sums of the faces' normals, weighted by area."""
        normals: torch.Tensor = _FanNormals.apply(x.contiguous(), self)
        return normals

    def pieces(self, frame_count: int) -> list[tuple[slice, slice, list[torch.Tensor], list[torch.Tensor]]]:
        """Some frames at a time: their rows among all vertices and all fans, the ends of faces, the fans of corners."""
        found = []
        for first in range(0, frame_count, self.step):
            last = min(first + self.step, frame_count)
            used = (last - first) * len(self.faces)
            vertices = slice(first * self.vertex_count, last * self.vertex_count)
            fans = slice(first * self.fan_count, last * self.fan_count)
            found.append((vertices, fans, [end[:used] for end in self._ends], [fan[:used] for fan in self._fans]))
        return found


def _sides(x: torch.Tensor, ends: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Two sides of each face, from its first corner."""
    first = x.index_select(0, ends[0])
    return x.index_select(0, ends[1]).sub_(first), x.index_select(0, ends[2]).sub_(first)


class _FanNormals(torch.autograd.Function):
    """By hand, because a graph over all frames would move every intermediate vector through memory many times."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, fans: Fans) -> torch.Tensor:
        flat = x.view(-1, 3)
        total = torch.zeros(len(x) * fans.fan_count, 3, dtype=x.dtype, device=x.device)
        lengths = torch.empty(len(total), 1, dtype=x.dtype, device=x.device)
        for vertices, rows, ends, corners in fans.pieces(len(x)):
            face = torch.linalg.cross(*_sides(flat[vertices], ends))
            piece = total[rows]
            for corner in corners:
                piece.index_add_(0, corner, face)
            length = torch.linalg.vector_norm(piece, dim=1, keepdim=True, out=lengths[rows])
            length.masked_fill_(length <= torch.finfo(x.dtype).tiny, torch.inf)  # no normal, and no gradient
            piece.div_(length)
        ctx.save_for_backward(x, total, lengths)
        ctx.fans = fans
        return total.view(len(x), fans.fan_count, 3)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, adjoint: torch.Tensor) -> tuple[torch.Tensor, None]:
        x, normals, lengths = ctx.saved_tensors
        flat, adjoint = x.view(-1, 3), adjoint.reshape(-1, 3)
        x_adj = torch.zeros_like(flat)
        for vertices, rows, ends, corners in ctx.fans.pieces(len(x)):
            n, g = normals[rows], adjoint[rows]
            total_adj = torch.addcmul(g, n, (n * g).sum(1, keepdim=True), value=-1).div_(lengths[rows])
            face_adj = total_adj.index_select(0, corners[0])
            for corner in corners[1:]:
                face_adj += total_adj.index_select(0, corner)
            first, second = _sides(flat[vertices], ends)
            first_adj, second_adj = torch.linalg.cross(second, face_adj), torch.linalg.cross(face_adj, first)
            piece = x_adj[vertices]
            piece.index_add_(0, ends[1], first_adj)
            piece.index_add_(0, ends[2], second_adj)
            piece.index_add_(0, ends[0], first_adj.add_(second_adj).neg_())
        return x_adj.view_as(x), None
