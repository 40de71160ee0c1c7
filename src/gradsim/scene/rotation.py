"""Rotations as unit quaternions (x, y, z, w)."""

from __future__ import annotations

from functools import cache

import torch


def rotate(q: torch.Tensor, x: torch.Tensor, *, back: bool = False) -> torch.Tensor:
    """Vectors [..., 3] turned by unit quaternions [..., 4], or turned back."""
    axis, x = torch.broadcast_tensors(-q[..., :3] if back else q[..., :3], x)
    turned = torch.linalg.cross(axis, x)
    return x + 2.0 * (q[..., 3:] * turned + torch.linalg.cross(axis, turned))


def axes_of(q: torch.Tensor) -> torch.Tensor:
    """Unit vectors turned by unit quaternions [..., 4], as rows, [..., 3, 3]: few operations for few numbers."""
    unit, table = _axes_table(q.dtype, q.device)
    pairs = (q[..., :, None] * q[..., None, :]).reshape(-1, 16)
    return torch.addmm(unit, pairs, table).view(*q.shape[:-1], 3, 3)


@cache
def _axes_table(dtype: torch.dtype, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors [9], and what each product of a quaternion's components adds to them, [16, 9]."""

    def added(q: torch.Tensor) -> torch.Tensor:
        return (rotate(q[..., None, :], unit) - unit).flatten(-2)

    with torch.inference_mode(False), torch.no_grad():
        unit, one = (torch.eye(n, dtype=dtype, device=device) for n in (3, 4))
        both = added(one[:, None] + one)
        return unit.flatten(), ((both - added(one)[:, None] - added(one)) / 2).reshape(16, 9)
