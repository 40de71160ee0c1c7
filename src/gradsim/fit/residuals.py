"""Residuals of coordinates, batched over worlds; those that leave the finite numbers count as infinitely bad."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch

from gradsim.scene.errors import ContactWarning, Diverged, StabilityWarning

Residual = Callable[[torch.Tensor], torch.Tensor]  # coordinates [B, P] -> residuals [B, N]

STEP = 1e-5  # of a central difference, in units of the coordinates
FIRST_STEP = 1e-7  # of a forward difference
SHORTEST, LONGEST = 1e-9, 1e-4
CHANGE = 1e-7  # of the residuals' length, by a forward difference: far above rounding, far below curvature


def evaluated(residual: Residual, z: torch.Tensor, most_worlds: int) -> torch.Tensor:
    """Residuals [B, N] of worlds [B, P], some at a time; infinite where a world diverges."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)  # said once, where the estimate starts
        warnings.simplefilter("ignore", ContactWarning)
        pieces = [_tried(residual, piece) for piece in z.split(most_worlds)]
    if len(pieces) == 1:
        return pieces[0]
    width = max(piece.shape[1] for piece in pieces)
    return torch.cat([piece.expand(-1, width) for piece in pieces])


def _tried(residual: Residual, z: torch.Tensor) -> torch.Tensor:
    """As `residual`, halving the batch about worlds that diverge."""
    try:
        return residual(z)
    except Diverged:
        if len(z) == 1:
            return torch.full((1, 1), torch.inf, dtype=z.dtype)
        halves = [_tried(residual, half) for half in z.split(-(-len(z) // 2))]
        width = max(half.shape[1] for half in halves)
        return torch.cat([half.expand(-1, width) for half in halves])


def jacobian(residual: Residual, z: torch.Tensor, most_worlds: int, step: float = STEP) -> torch.Tensor:
    """Central differences of the residuals at worlds z [K, P]: [K, P, N]."""
    count, width = z.shape
    offsets = step * torch.eye(width, dtype=z.dtype)
    moved = torch.stack([z[:, None] + offsets, z[:, None] - offsets])  # [2, K, P, P]
    ends = evaluated(residual, moved.reshape(-1, width), most_worlds).view(2, count, width, -1)
    return (ends[0] - ends[1]) / (2 * step)


def slopes(residual: Residual, z: torch.Tensor, r: torch.Tensor, steps: torch.Tensor, most_worlds: int) -> torch.Tensor:
    """Forward differences of residuals r [K, N] at worlds z [K, P], over steps [K, P]: [K, P, N]; 0 if one diverges."""
    count, width = z.shape
    if count == 0:
        return r.new_zeros(0)
    moved = z[:, None] + torch.diag_embed(steps)
    ends = evaluated(residual, moved.view(-1, width), most_worlds).expand(-1, r.shape[1])
    J = (ends.view(count, width, -1) - r[:, None]).div_(steps[..., None])
    return J.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)


def balanced(J: torch.Tensor) -> torch.Tensor:
    """Steps [P] that change the residuals alike, for a Jacobian [P, N].

    Where one unknown is seen ten thousand times better than another no single step is right for both: the curvature of
    the first would hide the second.
    """
    return (CHANGE / torch.linalg.vector_norm(J, dim=-1).clamp_min(1e-300)).clamp(SHORTEST, LONGEST)
