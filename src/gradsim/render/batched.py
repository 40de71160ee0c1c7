"""Tensor operations over worlds and frames; a dimension of size one stands for all of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def common(*leads: Sequence[int]) -> tuple[int, ...]:
    """Numbers of worlds and frames, of things that have either all of them or one."""
    return tuple(map(max, zip(*leads, strict=True)))


def affine(x: torch.Tensor, matrix: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
    """x @ matrix + offset over worlds and frames, in one multiplication.

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


def product(x: torch.Tensor, matrix: torch.Tensor) -> torch.Tensor:
    """x [1 or W, 1 or T, N, 3] @ matrix [1 or W, 1 or T, 3, K], without repeating in memory what frames share."""
    if x.shape[:2] == (1, 1):  # which `matmul` would repeat
        flat = matrix.flatten(0, 1)
        return torch.bmm(x[0].expand(len(flat), -1, -1), flat).unflatten(0, matrix.shape[:2])
    return x @ matrix


def joined(pieces: list[torch.Tensor], dim: int) -> torch.Tensor:
    """Pieces [1 or W, 1 or T, 1 or n, k] one after another along `dim`, of the last two; the others are broadcast."""
    if len(pieces) == 1:
        return pieces[0]
    count = -1 if dim == 2 else max(piece.shape[2] for piece in pieces)
    lead = common(*(piece.shape[:2] for piece in pieces))
    return torch.cat([piece.expand(*lead, count, -1) for piece in pieces], dim)
