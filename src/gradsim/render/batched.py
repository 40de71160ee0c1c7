"""Tensor operations over W worlds and T frames, each of size one where all worlds or frames share a value."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def broadcast_leading(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Returns the numbers of worlds and frames that leading shapes (1 or W, 1 or T) broadcast to."""
    return tuple(map(max, zip(*shapes, strict=True)))


def affine(x: torch.Tensor, matrix: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """Returns x @ matrix + offset, by a single matrix product over all frames.

    Args:
        x: [1 or W, 1 or T, N, K].
        matrix: [1 or W, K, 3].
        offset: [1 or W, 3].
    """
    worlds = max(len(matrix), len(offset))
    if worlds == 1:
        return torch.addmm(offset[0], x.reshape(-1, x.shape[-1]), matrix[0]).view(*x.shape[:-1], 3)
    worlds, frames, count, width = max(worlds, len(x)), *x.shape[1:]
    flat = x.expand(worlds, -1, -1, -1).reshape(worlds, frames * count, width)
    moved = torch.baddbmm(offset.expand(worlds, 3)[:, None], flat, matrix.expand(worlds, -1, -1))
    return moved.view(worlds, frames, count, 3)


def matmul(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """Returns x [1 or W, 1 or T, N, 3] @ matrix [1 or W, 1 or T, 3, K] without copies of a shared x."""
    if x.shape[:2] == (1, 1):  # `torch.matmul` would copy it for every frame
        flat = matrix.flatten(0, 1)
        return torch.bmm(x[0].expand(len(flat), -1, -1), flat).unflatten(0, matrix.shape[:2])
    return x @ matrix


def concatenate(parts: list[torch.Tensor], dim: int) -> torch.Tensor:
    """Concatenates parts [1 or W, 1 or T, 1 or n, k] along one of the last two dimensions and broadcasts the others."""
    if len(parts) == 1:
        return parts[0]
    count = -1 if dim == 2 else max(part.shape[2] for part in parts)
    lead = broadcast_leading(*(part.shape[:2] for part in parts))
    return torch.cat([part.expand(*lead, count, -1) for part in parts], dim)
