"""What the dense and the matrix-free Levenberg-Marquardt iterations share: iterates, damping, tests of convergence."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

MIN_DAMPING, MAX_DAMPING = 1e-12, 1e2  # above the maximum the iteration stops
MIN_DECREASE = 1e-9  # relative decrease of the cost below which the iteration has converged
STATIONARY_DECREASE = 1e-2  # relative decrease predicted by the linear model, above which a point is not a minimum
ROUNDING_COST = 1e-24  # cost that consists of rounding errors only

Bounds = tuple[torch.Tensor, torch.Tensor]  # lower and upper bounds of the coordinates, [P] each
StopCriterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # coordinates [K, P], costs [K] -> stop [K]


Memory = dict[str, torch.Tensor]  # what the next iteration depends on beside the iterates, [K, ...] each


class Iterates(NamedTuple):
    """Current iterates of K starts; the tensors are updated in place."""

    z: torch.Tensor  # coordinates [K, P]
    cost: torch.Tensor  # sum of squared residuals, [K]
    converged: torch.Tensor  # [K]
    memory: Memory  # empty if the sequence cannot be continued from here


def never_stop(z: torch.Tensor, cost: torch.Tensor) -> torch.Tensor:
    """Stop criterion that no start fulfils."""
    return torch.zeros_like(cost, dtype=torch.bool)


def least_squares(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Solves linear systems lhs [..., M, N] x = rhs [..., M, K] by LAPACK's gelsd: equal systems give equal bits.

    With the default of `torch.linalg.lstsq`, gelsy, the last bits of the solution differ from call to call.
    """
    try:
        return torch.linalg.lstsq(lhs, rhs, driver="gelsd").solution
    except LinAlgError:  # see `singular_values`
        if lhs.ndim == 2:
            return _least_norm(lhs, rhs)
        return torch.stack([least_squares(*system) for system in zip(lhs, rhs, strict=True)])


def _least_norm(lhs: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """Returns the solution of least norm of one system, from the singular values above rounding."""
    u, s, vh = singular_values(lhs)
    kept = s > max(lhs.shape) * torch.finfo(s.dtype).eps * s.max()
    return vh[kept].T @ ((u[:, kept].T @ rhs) / s[kept, None])


def singular_values(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the thin singular value decomposition u, s, vh of a matrix [M, N].

    LAPACK's gesdd, which `torch.linalg.svd` calls, does not converge for a few ordinary matrices; it then gets a
    triangular factor, which has the same singular values.
    """
    try:
        u, s, vh = torch.linalg.svd(matrix, full_matrices=False)
        return u, s, vh
    except LinAlgError:
        q, r = torch.linalg.qr(matrix)
        u, s, vh = torch.linalg.svd(r, full_matrices=False)
        return q @ u, s, vh


def squared_norms(r: torch.Tensor) -> torch.Tensor:
    """Returns the sums of squares [K] of residuals [K, N]; infinite where a residual is not a number."""
    return torch.nan_to_num((r * r).sum(1), nan=torch.inf, posinf=torch.inf)


def active_bounds(z: torch.Tensor, gradient: torch.Tensor, bounds: Bounds) -> torch.Tensor:
    """Whether coordinates z [..., P] are at a bound that the negative gradient [..., P] would cross, [..., P]."""
    return ((z <= bounds[0]) & (gradient > 0)) | ((z >= bounds[1]) & (gradient < 0))


def limited_step(z: torch.Tensor, step: torch.Tensor, max_step: float, bounds: Bounds) -> torch.Tensor:
    """Returns points [..., P] beside z: steps [..., P] are shortened to a largest component and end at the bounds."""
    length = step.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    return (z + step * torch.clamp(max_step / length, max=1.0)).clamp(*bounds)
