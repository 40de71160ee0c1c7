"""Rotations as unit quaternions (x, y, z, w)."""

from __future__ import annotations

import torch


def rotate(q: torch.Tensor, x: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """Vectors [..., 3] turned by unit quaternions [..., 4], or turned back."""
    axis, x = torch.broadcast_tensors(-q[..., :3] if back else q[..., :3], x)
    turned = torch.linalg.cross(axis, x)
    return x + 2.0 * (q[..., 3:] * turned + torch.linalg.cross(axis, turned))
