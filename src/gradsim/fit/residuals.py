"""Evaluation and finite-difference Jacobians of residuals, batched over worlds.

A world that diverges has infinite residuals.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradsim.fit.structure import Structure
from gradsim.scene.errors import ContactWarning, Diverged, StabilityWarning

Residual = Callable[[torch.Tensor], torch.Tensor]  # coordinates [B, P] -> residuals [B, N]

CENTRAL_STEP = 1e-5  # of a central difference, in coordinate units
FORWARD_STEP = 1e-7  # of the first forward difference, in coordinate units
MIN_STEP, MAX_STEP = 1e-9, 1e-4  # of balanced forward differences, in coordinate units
RESIDUAL_CHANGE = 1e-7  # norm of the residual change of a balanced step: far above rounding, far below curvature


def evaluate(residual: Residual, z: torch.Tensor, max_worlds: int) -> torch.Tensor:
    """Returns residuals [B, N] at coordinates [B, P], in batches of `max_worlds`; inf where a world diverges."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)  # raised once, at the start of the estimate
        warnings.simplefilter("ignore", ContactWarning)
        batches = (_evaluate_batch(residual, batch) for batch in z.split(max_worlds))
        first = next(batches)
        return first if len(z) <= max_worlds else _filled(first, batches, len(z))


def _filled(first: torch.Tensor, batches: Iterator[torch.Tensor], count: int) -> torch.Tensor:
    """Returns batches as one tensor [count, N], without holding all of them twice."""
    result, end = first.new_empty(count, first.shape[1]), len(first)
    result[:end] = first
    del first
    for batch in batches:
        if batch.shape[1] > result.shape[1]:  # all worlds before diverged
            result = result[:, :1].repeat(1, batch.shape[1])
        result[end : end + len(batch)] = batch
        end += len(batch)
    return result


def _evaluate_batch(residual: Residual, z: torch.Tensor) -> torch.Tensor:
    """Evaluates a batch; bisects it to isolate worlds that diverge."""
    try:
        return residual(z)
    except Diverged:
        if len(z) == 1:
            return torch.full((1, 1), torch.inf, dtype=z.dtype)
        return _concatenate([_evaluate_batch(residual, half) for half in z.split(-(-len(z) // 2))])


def _concatenate(batches: list[torch.Tensor]) -> torch.Tensor:
    """Concatenates batches [B, N]; the single column of a diverged world is expanded to N."""
    if len(batches) == 1:
        return batches[0]
    width = max(batch.shape[1] for batch in batches)
    return torch.cat([batch.expand(-1, width) for batch in batches])


BlockResidual = Callable[[torch.Tensor], dict[Any, torch.Tensor]]  # coordinates [B, P] -> differences [B, T, N]


def evaluate_blocks(function: BlockResidual, z: torch.Tensor, max_worlds: int) -> dict[Any, torch.Tensor]:
    """Returns differences [B, T, N] of several blocks at coordinates [B, P]; inf where a world diverges."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StabilityWarning)
        warnings.simplefilter("ignore", ContactWarning)
        parts = [part for batch in z.split(max_worlds) for part in _evaluate_block_batch(function, batch)]
    known = next((part for part in parts if part is not None), None)
    if known is None:
        return function(z[:1])  # raises Diverged
    filled = [part or {key: torch.full_like(value[:1], torch.inf) for key, value in known.items()} for part in parts]
    return {key: torch.cat([part[key] for part in filled]) for key in known}


def _evaluate_block_batch(function: BlockResidual, z: torch.Tensor) -> list[dict[Any, torch.Tensor] | None]:
    """Evaluates a batch; bisects it to isolate worlds that diverge, which give None."""
    try:
        return [function(z)]
    except Diverged:
        if len(z) == 1:
            return [None]
        return [part for half in z.split(-(-len(z) // 2)) for part in _evaluate_block_batch(function, half)]


def jacobian(
    residual: Residual,
    z: torch.Tensor,
    max_worlds: int,
    step: float = CENTRAL_STEP,
    structure: Structure | None = None,
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None,
) -> torch.Tensor:
    """Returns the Jacobians [K, P, N] at coordinates z [K, P], by central differences.

    Where the world on one side diverges or lies beyond a bound [P], the difference is one-sided; where both diverge,
    the column is 0.
    """
    bounds = (torch.full_like(z[0], -torch.inf), torch.full_like(z[0], torch.inf)) if bounds is None else bounds
    if structure is not None:
        return torch.stack([_structured_jacobian(residual, point, max_worlds, step, structure, bounds) for point in z])
    count, width = z.shape
    offsets = step * torch.eye(width, dtype=z.dtype)
    points = torch.stack([z[:, None] + offsets, z[:, None] - offsets]).clamp(*bounds)  # [2, K, P, P]
    r = evaluate(residual, points.reshape(-1, width), max_worlds).view(2, count, width, -1)
    J = (r[0] - r[1]) / _distances(z, step, bounds)[..., None]
    k, p = torch.nonzero(~torch.isfinite(J.sum(-1)), as_tuple=True)
    if len(k):
        here = evaluate(residual, z[k], max_worlds).expand(-1, r.shape[-1])
        sides = torch.stack([(r[0, k, p] - here) / step, (here - r[1, k, p]) / step])
        valid = torch.isfinite(sides.sum(-1, keepdim=True))
        J[k, p] = torch.where(valid[0], sides[0], torch.where(valid[1], sides[1], 0.0))
    return J


def _structured_jacobian(
    residual: Residual,
    z: torch.Tensor,
    max_worlds: int,
    step: float,
    structure: Structure,
    bounds: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """Returns the Jacobian [P, N] at z [P] from one central difference per group of coordinates."""
    offsets = structure.compress(torch.full_like(z, step))
    r = evaluate(residual, torch.cat([z + offsets, z - offsets]).clamp(*bounds), max_worlds)
    half = len(offsets)
    J = structure.expand(torch.nan_to_num(r[:half] - r[half:], nan=0.0, posinf=0.0, neginf=0.0))
    J[:, : len(structure.rows)] /= _distances(z, step, bounds)[:, None]
    return J


def _distances(z: torch.Tensor, step: float, bounds: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Returns the distances [..., P] between the points of central differences that lie within the bounds."""
    return (z + step).clamp(*bounds) - (z - step).clamp(*bounds)


def forward_jacobian(
    residual: Residual,
    z: torch.Tensor,
    r: torch.Tensor,
    steps: torch.Tensor,
    max_worlds: int,
    bounds: tuple[torch.Tensor, torch.Tensor] | None = None,
    structure: Structure | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns Jacobians [K, P, N] by one-sided differences, and whether all columns of each are known, [K].

    Where a world with the shifted coordinate diverges, the difference is taken to the other side; where that one
    diverges too, the column is 0.

    Args:
        residual: Residual function.
        z: Coordinates [K, P].
        r: Residuals at z, [K, N].
        steps: Differences of the coordinates, [K, P].
        max_worlds: Maximum number of worlds in one rollout.
        bounds: Lower and upper bounds of the coordinates, [P] each; differences point inwards.
        structure: Sparsity of the Jacobian; None if residuals may depend on all coordinates.
    """
    if len(z) == 0:
        return r.new_zeros(0), torch.ones(0, dtype=torch.bool)
    if bounds is not None:
        steps = torch.where((z + steps > bounds[1]) & (z - steps >= bounds[0]), -steps, steps)
    if structure is not None:
        pairs = [
            _structured_differences(residual, *point, max_worlds, structure) for point in zip(z, r, steps, strict=True)
        ]
        if all(known for _, known in pairs):  # otherwise coordinates of a group are changed one by one
            return torch.stack([J for J, _ in pairs]), torch.ones(len(z), dtype=torch.bool)
    J = _differences(residual, z, r, steps, max_worlds)
    failed = ~torch.isfinite(J.sum(-1))
    k, p = torch.nonzero(failed, as_tuple=True)
    if len(k):
        points, backward = z[k], -steps[k, p]
        points[torch.arange(len(k)), p] += backward
        shifted = evaluate(residual, points, max_worlds).expand(-1, r.shape[1])
        J[k, p] = (shifted - r[k]) / backward[:, None]
        failed[k, p] = ~torch.isfinite(J[k, p].sum(-1))
        J[failed] = 0.0
    return J, ~failed.any(1)


def _structured_differences(
    residual: Residual, z: torch.Tensor, r: torch.Tensor, steps: torch.Tensor, max_worlds: int, structure: Structure
) -> tuple[torch.Tensor, bool]:
    """Returns a Jacobian [P, N] from one forward difference per group, and whether all columns are known.

    If the worlds of a group diverge, each of its coordinates gets a difference of its own.
    """
    shifts = steps.clone()
    for members in structure.members:  # one size for all trials; the signs may differ
        shifts[members] = steps[members].abs().min() * steps[members].sign()
    shifted = evaluate(residual, z + structure.compress(shifts), max_worlds).expand(-1, len(r))
    change = shifted - r
    known = torch.isfinite(change.sum(-1))
    J = structure.expand(torch.where(known[:, None], change, 0.0))
    count = len(structure.rows)
    J[:, :count] /= shifts[:, None]
    failed = [k for members, ok in zip(structure.members, known.tolist(), strict=True) if not ok for k in members]
    for side in (1.0, -1.0):
        if failed:
            columns = _differences(residual, z[None], r[None], side * shifts[None], max_worlds, failed)[0]
            valid = torch.isfinite(columns.sum(-1))
            J[failed, :count] = torch.where(valid[:, None], columns, 0.0)[:, :count]
            failed = [k for k, ok in zip(failed, valid.tolist(), strict=True) if not ok]
    return J, not failed


def _differences(
    residual: Residual,
    z: torch.Tensor,
    r: torch.Tensor,
    steps: torch.Tensor,
    max_worlds: int,
    chosen: list[int] | None = None,
) -> torch.Tensor:
    """Returns one-sided difference quotients [K, P, N], or of chosen coordinates; not finite where a world diverges."""
    part = slice(None) if chosen is None else chosen
    points = (z[:, None] + torch.diag_embed(steps)[:, part]).flatten(0, 1)
    found = evaluate(residual, points, max_worlds)
    # Several batches are copied to memory of their own, in which the differences can take their place.
    own = len(points) > max_worlds and found.shape[1] == r.shape[1]
    shifted = found.expand(-1, r.shape[1]).view(len(z), -1, r.shape[1])
    change = shifted.sub_(r[:, None]) if own else shifted - r[:, None]
    return change.div_(steps[:, part, None])


def balanced_steps(J: torch.Tensor) -> torch.Tensor:
    """Returns steps [P] that change the residuals by equal amounts, for a Jacobian [P, N].

    The sensitivities of two unknowns can differ by a factor of ten thousand. No single step suits both: the curvature
    along the first would hide the second.
    """
    return (RESIDUAL_CHANGE / torch.linalg.vector_norm(J, dim=-1).clamp_min(1e-300)).clamp(MIN_STEP, MAX_STEP)
