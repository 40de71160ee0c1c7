"""Errors that a scene may have, as further directions of a linearized estimation problem."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from gradsim.fit.coarse_problem import coarse_problem
from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.linearization import differences, direction_columns, linearize
from gradsim.fit.linearized import Columns, Linearization
from gradsim.fit.nuisances.catalogue import nuisances
from gradsim.fit.nuisances.nuisance import Nuisance, batches
from gradsim.fit.observations.images import ImageObservation
from gradsim.fit.observations.tracks import Tracks
from gradsim.fit.parameters import representative_trials
from gradsim.fit.problem import EstimationProblem

MAX_SCORED_UNKNOWNS = 200  # estimates with more unknowns are not scored for errors of the scene


def nuisance_coordinate(path: str, nuisance: Nuisance, trial: int | None) -> ScaledUnknown:
    """Returns the amount of a nuisance as an unknown; one coordinate unit is its standard deviation."""
    zero, infinite = torch.zeros((), dtype=torch.float64), torch.tensor(math.inf, dtype=torch.float64)
    return ScaledUnknown(
        path,
        nuisance.unit,
        (),
        "linear",
        zero,
        -infinite,
        infinite,
        step=nuisance.sd,
        prior_mean=torch.zeros(1, dtype=torch.float64),
        prior_sd=torch.ones(1, dtype=torch.float64),
        trial=trial,
    )


def candidate_nuisances(problem: EstimationProblem, z: torch.Tensor, k: int) -> tuple[Nuisance, ...]:
    """Returns the nuisances of a trial's scene at coordinates z that are not estimated yet."""
    trial = problem.trials[k]
    values = problem.parameters.model_values(problem.parameters.values(z), k)
    with torch.no_grad():
        scene, trajectory = trial.simulate(values)
    known = {nuisance.path for nuisance in trial.nuisances}
    excluded = frozenset(trial.scene.unknowns) | set(trial.sampling.unknown)
    found = nuisances(scene, trajectory, fps=trial.time.fps, excluded=excluded)
    images = any(isinstance(observation, ImageObservation) for observation in trial.observations)
    projected = images or any(isinstance(item, Tracks) and item.size is not None for item in trial.observations)
    hidden = [] if images else ["light", "color"]
    hidden += [] if projected else ["camera"]
    visible = [n for n in found if n.path not in known and n.group not in hidden]
    return tuple(n for n in visible if images or (n.image is None and n.time != "exposure"))


def scored_nuisances(problem: EstimationProblem, z: torch.Tensor) -> tuple[list[Nuisance], list[tuple[Nuisance, ...]]]:
    """Returns the nuisances of all trials to be scored, by path, and those of each trial."""
    if problem.parameters.count > MAX_SCORED_UNKNOWNS:
        return [], []
    own = [candidate_nuisances(problem, z, k) for k in range(len(problem.trials))]
    by_path: dict[str, Nuisance] = {}
    for candidates in own:
        for nuisance in candidates:
            by_path.setdefault(nuisance.path, nuisance)
    return list(by_path.values()), own


def linearize_nuisances(
    problem: EstimationProblem,
    lin: Linearization,
    candidates: tuple[list[Nuisance], list[tuple[Nuisance, ...]]],
) -> Linearization:
    """Linearizes a problem, or some of its trials if there are many, with the scored nuisances."""
    coarse, numbers = coarse_problem(problem), representative_trials(problem.parameters)
    if len(numbers) == len(problem.trials):
        return _linearize_with(coarse, lin.z, candidates, lin.columns if coarse is problem else None)
    part = coarse.subset(numbers)
    own = part.parameters.merged(part.parameters.initial(), problem.parameters, lin.z)
    return _linearize_with(part, own, (candidates[0], [candidates[1][k] for k in numbers]), None)


def _linearize_with(
    problem: EstimationProblem,
    z: torch.Tensor,
    candidates: tuple[list[Nuisance], list[tuple[Nuisance, ...]]],
    columns: Columns | None,
) -> Linearization:
    """Linearizes a problem with the scored nuisances as further directions, common to all trials.

    The Jacobian `columns` at z is computed if it is None.
    """
    listed, own = candidates
    center = differences(problem, z[None])
    found: dict[str, dict[tuple[int, int], torch.Tensor]] = {}
    for group in batches(listed):
        paths = {nuisance.path for nuisance in group}
        trials = tuple(
            replace(trial, nuisances=(*trial.nuisances, *(n for n in extra if n.path in paths)))
            for trial, extra in zip(problem.trials, own, strict=True)
        )
        parameters = problem.parameters.extended([nuisance_coordinate(n.path, n, None) for n in group])
        extended = replace(problem, parameters=parameters, trials=trials, noise=dict(problem.noise))
        full = torch.cat([z, z.new_zeros(len(group))])
        steps = torch.tensor([nuisance.step / nuisance.sd for nuisance in group], dtype=z.dtype)
        offsets = torch.cat([z.new_zeros(len(group), len(z)), torch.diag(steps)], 1)
        separate = not all(nuisance.batched for nuisance in group)
        derivatives = direction_columns(extended, full, offsets, steps, center, separate=separate)
        for row, nuisance in enumerate(group):
            found[nuisance.path] = {key: derivatives[key][row] for key in problem.blocks}
    nuisance_columns = {key: [found[n.path][key] for n in listed] for key in problem.blocks}
    return linearize(problem, z, nuisances=nuisance_columns, columns=columns, shifts=False)
