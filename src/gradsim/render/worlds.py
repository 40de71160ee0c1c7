"""The batch of a video: its worlds in a row, and quantities and points brought into that form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.render.constants import content_of_array, remembered
from gradsim.scene.quantity import unwrap


@dataclass(frozen=True)
class Worlds:
    """Batch dimensions, flattened into W worlds, and the type and place of all tensors."""

    batch: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def count(self) -> int:
        return math.prod(self.batch)

    def __call__(self, value: Any, shape: tuple[int, ...] = ()) -> torch.Tensor:
        """A quantity whose single value has `shape`: [W, *shape], or [1, *shape] where all worlds share it."""
        array = unwrap(value)
        if isinstance(array, torch.Tensor):
            return self._spread(array, shape)
        array = np.asarray(array)
        known = content_of_array(array)
        if known is None:
            return self._converted(array, shape)
        return remembered((known, shape, self), lambda: self._converted(array, shape))

    def _converted(self, array: np.ndarray, shape: tuple[int, ...]) -> torch.Tensor:
        return self._spread(torch.tensor(array, dtype=self.dtype, device=self.device), shape)

    def _spread(self, array: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
        own = array.shape[: array.ndim - len(shape)]
        if math.prod(own) == 1:
            return array.reshape(1, *shape)
        return array.expand(*self.batch, *shape).reshape(self.count, *shape)


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
