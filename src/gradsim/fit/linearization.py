"""Linearization of an estimation problem: differences at an estimate and their derivatives, as Gram matrices."""

from __future__ import annotations

from typing import Any

import torch

from gradsim.fit.image_shifts import shift_columns
from gradsim.fit.linearized import MIN_EVIDENCE, Block, Columns, Linearization
from gradsim.fit.observations.base import Observation
from gradsim.fit.observations.images import ImageObservation
from gradsim.fit.observations.robust import RobustLoss
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.residuals import evaluate_blocks
from gradsim.fit.subspace import informed_basis
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

# Of a one-sided difference, in coordinate units: the curvature of the images over it must not look like information on
# a direction that the images do not depend on.
STEP = 1e-6
SINGLE_PRECISION_SIZE = 40_000_000  # numbers above which columns are stored in single precision
MAX_ENTRIES = 512  # entries of a frame for which the Jacobian itself is kept


def linearize(
    problem: EstimationProblem,
    z: torch.Tensor,
    *,
    nuisances: Columns | None = None,
    finer: EstimationProblem | None = None,
    columns: Columns | None = None,
    shifts: bool = True,
) -> Linearization:
    """Linearizes a problem at coordinates z [P].

    Args:
        problem: Problem.
        z: Coordinates.
        nuisances: Derivatives with respect to nuisances that are not estimated, from `direction_columns`.
        finer: The same problem with smaller time steps, whose effect is measured.
        columns: The Jacobian at z if it is known, from `Linearization.columns`.
        shifts: Whether columns of apparent shifts are needed, for model errors in time. They are left out where the
            residual is too small for any such error.
    """
    basis = informed_basis(problem, z)
    groups = list(_color_groups(problem)) if basis is None else [[k] for k in range(basis.shape[1])]
    center = differences(problem, z[None])
    if columns is None:
        columns = direction_columns(problem, z, *_steps(z, groups, basis), center)
    shared: list[int | None] = [None] * len(groups)
    owners = problem.parameters.coordinate_trials if basis is None else shared
    # The log likelihood of the residual cannot increase by more than half of its chi^2.
    shifts = shifts and _total_chi2(problem, center) > 2 * MIN_EVIDENCE
    filled = _filled_scenes(problem, z) if shifts else []
    changes: dict[tuple[int, int], torch.Tensor | None] = dict.fromkeys(problem.blocks)
    if finer is not None:
        changes |= {key: (value - center[key])[0] for key, value in differences(finer, z[None]).items()}
    blocks = []
    for key in problem.blocks:
        extra = [] if nuisances is None else nuisances[key]
        images = shifts and isinstance(problem.observation(key), ImageObservation)
        shifted = shift_columns(problem.trials[key[0]], key[1], filled[key[0]]) if images else []
        parts = (columns[key], shifted, extra)
        blocks.append(_block(problem, key, center[key][0], parts, (groups, owners), changes[key]))
    size = sum(column.numel() for own in columns.values() for column in own)
    return Linearization(z, blocks, basis, columns if size <= SINGLE_PRECISION_SIZE else None)


def _steps(z: torch.Tensor, groups: list[list[int]], basis: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns finite differences [C, P] of groups of coordinates, or of a basis, and their lengths [C]."""
    if basis is not None:
        lengths = torch.linalg.vector_norm(basis, dim=0)
        return STEP * (basis / lengths).T, STEP / lengths
    offsets = torch.zeros(len(groups), len(z), dtype=z.dtype)
    for row, members in enumerate(groups):
        offsets[row, members] = STEP
    return offsets, torch.full((len(groups),), STEP, dtype=z.dtype)


def residual_jacobian(lin: Linearization, problem: EstimationProblem) -> torch.Tensor | None:
    """Returns the derivatives [P, N] of the residual at the finest level for a single trial; None if it is not kept.

    A robust loss changes the residual, so that its derivatives are other ones.
    """
    robust = any(problem.observation(key).robust is not None for key in problem.blocks)
    if lin.columns is None or lin.basis is not None or robust or len(problem.trials) > 1:
        return None
    scale, parts = problem.unit_scale(0), []
    for block in lin.blocks:
        factor = scale / block.sigma if block.weights is None else block.weights.sqrt() * (scale / block.sigma)
        parts.append(torch.stack([(column * factor).flatten() for column in lin.columns[block.key]]))
    return torch.cat(parts, 1)


def direction_columns(
    problem: EstimationProblem,
    z: torch.Tensor,
    offsets: torch.Tensor,
    sizes: torch.Tensor,
    center: dict[tuple[int, int], torch.Tensor],
    *,
    separate: bool = False,
) -> Columns:
    """Returns derivatives of all differences along directions, by one-sided finite differences.

    Statistics need a few digits of them, which one side has, and some nuisances have only one.

    Args:
        problem: Problem.
        z: Coordinates [P].
        offsets: Finite differences of the coordinates, [C, P].
        sizes: Their lengths, by which the change is divided, [C].
        center: Differences at z, from `differences`.
        separate: Whether each point is evaluated alone, because worlds of a batch cannot differ along the directions.
    """
    columns: Columns = {key: [] for key in problem.blocks}
    kind = {key: _precision(problem, key, len(offsets)) for key in problem.blocks}
    batch = 1 if separate else problem.batch_size(0)
    for chunk, size in zip(offsets.split(batch), sizes.split(batch), strict=True):
        ahead = differences(problem, z + chunk)
        for key in problem.blocks:
            quotient = (ahead[key] - center[key]).div_(size[:, None, None])
            columns[key] += list(quotient.nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0).to(kind[key]))
    return columns


def _precision(problem: EstimationProblem, key: tuple[int, int], count: int) -> torch.dtype:
    """Precision in which `count` columns of a block are stored."""
    size = count * problem.trials[key[0]].frames * problem.entries(key, 0)
    return torch.float32 if size > SINGLE_PRECISION_SIZE else torch.float64


def _color_groups(problem: EstimationProblem) -> list[list[int]]:
    """Returns groups of coordinates that one difference changes: those of the same unknown in different trials."""
    found: dict[int, list[int]] = {}
    for k, group in enumerate(problem.parameters.coordinate_groups):
        found.setdefault(group, []).append(k)
    return list(found.values())


def differences(problem: EstimationProblem, z: torch.Tensor) -> dict[tuple[int, int], torch.Tensor]:
    """Returns the plain differences [B, T, N] of all blocks at coordinates [B, P]; inf where a world diverges."""

    def function(z: torch.Tensor) -> dict[tuple[int, int], torch.Tensor]:
        values = problem.parameters.values(z)
        own = [problem.parameters.model_values(values, k) for k in range(len(problem.trials))]
        found: dict[tuple[int, int], torch.Tensor] = {}
        for group in problem.groups:
            simulated = group.simulate([own[k] for k in group.numbers], problem.frames)
            for k, (scene, trajectory) in zip(group.numbers, simulated, strict=True):
                for i in range(len(problem.trials[k].observations)):
                    difference = problem.trials[k].difference(scene, trajectory, own[k], i, 0)
                    found[k, i] = difference.expand(len(z), *difference.shape[-2:])
        return found

    return evaluate_blocks(function, z, problem.batch_size(0))


def _filled_scenes(problem: EstimationProblem, z: torch.Tensor) -> list[tuple[Scene, Trajectory, Any]]:
    """Returns the filled scene, its simulated frames and its values for each trial."""
    values = problem.parameters.values(z[None])
    filled = []
    with torch.no_grad():
        for k, trial in enumerate(problem.trials):
            own = problem.parameters.model_values(values, k)
            if any(isinstance(observation, ImageObservation) for observation in trial.observations):
                scene = trial.fill(own)
                filled.append((scene, trial.simulate_grid(scene), own))
            else:
                filled.append((trial.scene, None, own))  # type: ignore[arg-type]
    return filled


def _total_chi2(problem: EstimationProblem, center: dict[tuple[int, int], torch.Tensor]) -> float:
    """Returns the sum of squared differences [1, T, N] over the variance of the noise, with their weights."""
    total = 0.0
    for key, value in center.items():
        square = (value[0] / problem.noise[key].floored).square()
        weights = _effective_weights(problem.observation(key), value[0])
        total += float((square if weights is None else square * weights).sum())
    return total


def _block(
    problem: EstimationProblem,
    key: tuple[int, int],
    center: torch.Tensor,
    parts: tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]],
    coordinate_groups: tuple[list[list[int]], list[int | None]],
    change: torch.Tensor | None,
) -> Block:
    """Returns a block from columns [T, N] of coordinates, apparent shifts and nuisances."""
    observation = problem.observation(key)
    columns, shifts, nuisances = parts
    groups, owners = coordinate_groups  # and the trial of each coordinate
    coordinates, chosen = [], []
    for members, column in zip(groups, columns, strict=True):
        for k in members:
            if owners[k] is None or owners[k] == key[0]:
                coordinates.append(k)
                chosen.append(column)
    weights = _effective_weights(observation, center)
    sigma = problem.noise[key].floored
    scale = 1.0 / sigma if weights is None else weights.sqrt() / sigma
    stack = [center, *chosen, *shifts, *nuisances, *([] if change is None else [change])]
    full = center.shape[-1]
    kept = len(chosen) + len(shifts) + len(nuisances)
    gram, jacobians = _frame_products(stack, scale, kept if full <= MAX_ENTRIES else 0)
    refined = None
    if change is not None:
        refined = gram[:, 1 : 1 + len(chosen), -1].sum(0)
        gram = gram[:, :-1, :-1].clone()
    counts = torch.full((len(center),), float(full), dtype=torch.float64)
    if weights is not None:
        counts = (weights.expand(center.shape) > 0).sum(-1).to(torch.float64)
    entries = torch.stack(jacobians, 1) if jacobians else None
    nuisance_entries = None if entries is None else entries[len(chosen) + len(shifts) :]
    entries = None if entries is None else entries[: len(chosen)]
    errors = problem.codec_errors.get(key)
    products = None if errors is None else _error_products(stack, errors, scale)
    return Block(
        key=key,
        coordinates=coordinates,
        nuisances=len(nuisances),
        shifts=len(shifts),
        gram=gram,
        counts=counts,
        difference=center,
        weights=weights,
        sigma=sigma,
        entries=entries,
        nuisance_entries=nuisance_entries,
        image=isinstance(observation, ImageObservation),
        free_noise=problem.noise[key].source == "residuals",
        refined=refined,
        codec_errors=errors,
        codec_products=products,
        drift=observation.drift,
    )


def _error_products(columns: list[torch.Tensor], errors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Returns the products [Q, K] of columns [T, N] with errors [K, T, N], all times `scale`."""
    weighted = (errors * scale.square()).flatten(1)
    return torch.stack([weighted @ column.flatten().to(weighted) for column in columns])


def _frame_products(
    columns: list[torch.Tensor], scale: torch.Tensor, kept: int
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Returns Gram matrices [T, Q, Q] of columns [T, N] times `scale`, and for each frame the first `kept` after the
    residual, [kept, N].

    Frames are scaled one by one: all of them would need several times the memory of the columns.
    """
    scales = scale.expand(columns[0].shape)
    grams, jacobians = [], []
    for t in range(len(columns[0])):
        matrix = torch.stack([column[t] for column in columns]).to(torch.float64) * scales[t]
        grams.append(matrix @ matrix.T)
        if kept:
            jacobians.append(matrix[1 : 1 + kept])
    return torch.stack(grams), jacobians


def _effective_weights(observation: Observation, difference: torch.Tensor) -> torch.Tensor | None:
    """Returns the weights of squared differences [T, N], with those of the robust loss; None if all are 1."""
    weights = observation.weights(observation.levels - 1)
    if observation.robust is None:
        return weights
    if isinstance(observation.robust, RobustLoss):
        own = observation.robust.weight(difference)
    else:
        own = torch.ones_like(difference)
        for name, index in observation.groups():
            if (loss := observation.robust.get(name)) is not None:
                own[..., index] = loss.weight(difference[..., index])
    return own if weights is None else own * weights
