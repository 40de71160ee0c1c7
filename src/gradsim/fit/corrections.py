"""Analysis of an estimate: accuracy of the time step, errors of the scene, misfit and uncertainty.

Errors of the scene that are declared as rough are estimated along with the unknowns, with their priors. If the scene
does not explain the observations, the error that would explain most of the residual is added and the fit repeated, up
to a few times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from gradsim.fit.codec_noise import with_codec_noise
from gradsim.fit.coordinates import ScaledUnknown
from gradsim.fit.dense_steps import solve_finite
from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.jacobians import Adjoint
from gradsim.fit.linearization import linearize, residual_jacobian
from gradsim.fit.linearized import Columns, Linearization
from gradsim.fit.misfit import MAX_SCORE, Misfit, measure_misfit
from gradsim.fit.noise import NoiseLevel
from gradsim.fit.nuisance_scores import (
    candidate_nuisances,
    linearize_nuisances,
    nuisance_coordinate,
    scored_nuisances,
)
from gradsim.fit.nuisances.nuisance import Nuisance, chosen
from gradsim.fit.parameters import SEARCH_TRIALS
from gradsim.fit.prior_conflicts import prior_conflicts
from gradsim.fit.problem import NEGLIGIBLE_CHI2, EstimationProblem
from gradsim.fit.residuals import evaluate
from gradsim.fit.scatter import Scatter, trial_scatter
from gradsim.fit.search import UNEXPLAINED_ITERATIONS
from gradsim.fit.stages import ROUGH_TOLERANCE
from gradsim.fit.subsamples import group_scatter
from gradsim.fit.systematic_errors import covariance, step_shifts, systematic_covariance
from gradsim.fit.trials import MAX_SUBSTEPS
from gradsim.fit.uncertainty import Uncertainty, estimate_uncertainty
from gradsim.scene.errors import Diverged, InvalidInput

STEP_BIAS = 0.2  # largest error of the time step, in standard deviations of the estimate
MAX_REFINEMENTS = 3
NOTABLE_BIAS = 1.0  # error of given time steps that is reported, in standard deviations
PER_TRIAL = ("start", "delay", "time")  # groups of nuisances that differ between trials
NOISE_CHANGE = 0.2  # relative change of the noise after which a fit of several kinds of observations is repeated
POLISH_ITERATIONS, POLISH_TOLERANCE = 15, 1e-7
POLISHED_CHI2 = 1e-3  # decrease of chi^2 below which it ends, where the noise limits the accuracy
LAST_DIGITS = 1e-20  # cost of a search that ended at rounding errors
MIN_PROSPECT = 0.5  # fraction of what is left that further corrections, each like the first, must explain


@dataclass(frozen=True, eq=False)
class Analysis:
    """An estimate with its uncertainty and misfit."""

    problem: EstimationProblem  # with the nuisances that were estimated
    z: torch.Tensor  # [P]
    uncertainty: Uncertainty
    misfit: Misfit
    polished: bool | None = None  # whether the last fit converged; None if it was not repeated
    advice: str = ""
    scatter: dict[str, Scatter] = field(default_factory=dict)  # of unknowns that vary between trials, by path

    def nuisance_table(self, z: torch.Tensor, deviation: torch.Tensor) -> dict[str, tuple[float, float, str]]:
        """Returns value, standard deviation and unit of each estimated nuisance, by path."""
        units = {n.path: n for trial in self.problem.trials for n in trial.nuisances}
        table = {}
        for unknown, part in self.problem.parameters.items():
            nuisance = units.get(unknown.path.split("@")[0])
            if unknown.nuisance:
                value, low, high = (float(unknown.to_value(z[part] + side * deviation[part])) for side in (0, -1, 1))
                table[unknown.path] = (value, abs(high - low) / 2, unknown.unit)
            elif nuisance is not None and unknown.path in self.problem.nuisance_paths:
                amount, sd = (float(x[part][0]) * nuisance.sd for x in (z, deviation))
                table[unknown.path] = (amount, sd, nuisance.unit)
        return table


def with_nuisances(problem: EstimationProblem, groups: Sequence[str]) -> EstimationProblem:
    """Returns the problem with the nuisances of some groups as further unknowns."""
    if not groups:
        return problem
    z = problem.parameters.initial()
    candidates = [candidate_nuisances(problem, z, k) for k in range(len(problem.trials))]
    for word in groups:
        if not any(chosen(own, [word]) for own in candidates):
            raise InvalidInput("roughly", repr(word), "the observations depend on nothing of this kind that is known")
    added = [chosen(own, groups) for own in candidates]
    return _add(problem, [tuple(nuisance for nuisance in own if nuisance.batched) for own in added])


def _add(problem: EstimationProblem, added: list[tuple[Nuisance, ...]]) -> EstimationProblem:
    """Returns the problem with nuisances of each trial added as coordinates; groups in `PER_TRIAL` for each trial."""
    single = len(problem.trials) == 1
    extra: dict[str, ScaledUnknown] = {}
    trials = []
    for k, (trial, own) in enumerate(zip(problem.trials, added, strict=True)):
        trials.append(replace(trial, nuisances=(*trial.nuisances, *own)))
        for nuisance in own:
            shared = single or nuisance.group not in PER_TRIAL
            path = nuisance.path if shared else f"{nuisance.path}@{trial.name}"
            if path not in extra:
                extra[path] = nuisance_coordinate(path, nuisance, None if shared else k)
    parameters = problem.parameters.extended(list(extra.values()))
    return replace(problem, parameters=parameters, trials=tuple(trials), noise=dict(problem.noise))


def analyse(
    problem: EstimationProblem,
    z: torch.Tensor,
    optimizer: GaussNewton,
    *,
    corrections: int,
    free_substeps: bool = False,
    full: bool = True,
    report: Any,
) -> Analysis:
    """Completes an estimate at coordinates z [P].

    Args:
        problem: Problem, with nuisances for what is known only roughly.
        z: Minimum of the problem with fixed amounts of the nuisances.
        optimizer: Options of the least-squares solver.
        corrections: Largest number of errors of the scene to add.
        free_substeps: Whether the number of time steps may be increased for accuracy.
        full: Whether further fits are made: of rough quantities, and of groups of trials for the intervals.
        report: Called after every iteration of a further fit.
    """
    polished: bool | None = None
    problem, columns = with_codec_noise(problem, z)
    if problem.nuisance_paths and full:
        iterations = UNEXPLAINED_ITERATIONS if problem.is_unexplained(z) else POLISH_ITERATIONS
        columns = None  # those at the new z are others
        z, polished = polish(problem, z, optimizer, report, "rough quantities", iterations=iterations)
    advice = ""
    check_steps = bool(corrections or free_substeps) and problem.total_chi2(z) > MAX_SCORE
    lin = _linearize(problem, z, steps=check_steps, columns=columns)
    problem, z, lin, refitted = _with_residual_noise(problem, z, lin, optimizer, report)
    polished = polished if refitted is None else refitted
    for _ in range(MAX_REFINEMENTS if check_steps else 0):
        factor, bias = _step_factor(problem, lin)
        if factor == 1:
            break
        if not free_substeps:
            if bias > NOTABLE_BIAS:
                substeps = problem.trials[0].time.steps_per_frame
                advice = f"{substeps} substeps shift the values by {bias:.1f} standard deviations: use substeps=None"
            break
        problem = problem.with_substeps(factor)
        z, polished = polish(
            problem, z, optimizer, report, "smaller time step", jacobian=residual_jacobian(lin, problem)
        )
        lin = _linearize(problem, z, steps=True, columns=lin.columns)
    problem, z, lin, misfit, refitted = _correct(problem, z, lin, optimizer, corrections, report)
    polished = polished if refitted is None else refitted
    z = _last_digits(problem, z, lin) if full else z
    exact = problem.noise_is_known and misfit.chi2 <= misfit.chi2_limit
    groups = None if exact or not full else group_scatter(problem, z, optimizer, report)
    uncertainty = estimate_uncertainty(problem, lin, groups, systematic_covariance(problem, lin) if full else None)
    misfit = replace(misfit, holdout=uncertainty.holdout, conflicts=prior_conflicts(problem, z))
    scatter = trial_scatter(problem.parameters, z, uncertainty.standard_deviation)
    return Analysis(problem, z, uncertainty, misfit, polished, advice, scatter)


def polish(
    problem: EstimationProblem,
    z: torch.Tensor,
    optimizer: GaussNewton,
    report: Any,
    stage: str,
    *,
    iterations: int = POLISH_ITERATIONS,
    jacobian: torch.Tensor | None = None,
    from_residuals: bool = False,
) -> tuple[torch.Tensor, bool]:
    """Minimizes the cost at the finest level from z [P], with all priors; `jacobian` [P, N] is one near z if known.

    With `from_residuals`, noise that was taken from residuals limits the accuracy; see `EstimationProblem.resolution`.
    """
    rough = len(problem.trials) > SEARCH_TRIALS and not problem.noise_is_known
    tolerance = ROUGH_TOLERANCE if rough else POLISH_TOLERANCE
    options = replace(optimizer, iterations=iterations, tolerance=tolerance, max_worlds=problem.batch_size(0))
    frames = problem.frames

    def callback(points: torch.Tensor, cost: torch.Tensor) -> None:
        mean_square = float(problem.to_mean_square(cost[0], 0, frames))
        report(f"{stage}, {frames} frames", points[0], mean_square, frames, 0)

    extra: dict[str, Any] = {"prior": problem.prior(0), "structure": problem.structure(), "callback": callback}
    if not isinstance(optimizer.jacobian, Adjoint):
        extra["jacobian"] = jacobian
    extra["resolution"] = POLISHED_CHI2 / NEGLIGIBLE_CHI2 * problem.resolution(0, from_residuals=from_residuals)
    state = solve(problem.residual(), z[None], problem.parameters.bounds(), options, **extra)
    return state.z[0], bool(state.converged[0])


def _with_residual_noise(
    problem: EstimationProblem, z: torch.Tensor, lin: Linearization, optimizer: GaussNewton, report: Any
) -> tuple[EstimationProblem, torch.Tensor, Linearization, bool | None]:
    """Sets the noise that neither was given nor can be measured to that of the residuals, by kind of entry."""
    unknown = [block for block in lin.blocks if problem.noise[block.key].source == "residuals"]
    if not unknown:
        return problem, z, lin, None
    sums: dict[tuple[str, str], list[float]] = {}
    for block in unknown:
        observation = problem.observation(block.key)
        weights = torch.ones_like(block.difference) if block.weights is None else block.weights
        for label, index in observation.groups():
            d, w = block.difference[:, index], weights.expand(block.difference.shape)[:, index]
            total = sums.setdefault((type(observation).__name__, label), [0.0, 0.0])
            total[0] += float((w * d.square()).sum())
            total[1] += float((w > 0).sum())
    noise, largest = dict(problem.noise), 0.0
    for block in unknown:
        observation = problem.observation(block.key)
        sigma = problem.noise[block.key].sigma.expand(block.difference.shape[-1]).clone()
        old = sigma.clone()
        for label, index in observation.groups():
            square, count = sums[type(observation).__name__, label]
            sigma[index] = max(math.sqrt(square / max(count, 1.0)), 1e-9 * float(old[index].mean()))
        ratio = sigma / old
        largest = max(largest, float((ratio / ratio.mean()).log().abs().max()))
        noise[block.key] = NoiseLevel(sigma, "residuals")
    updated = replace(problem, noise=noise)
    kinds = len(sums) + len(lin.blocks) - len(unknown)
    has_prior = problem.prior(0) is not None
    if (kinds > 1 and largest > NOISE_CHANGE) or has_prior:
        z, converged = polish(updated, z, optimizer, report, "noise from residuals", from_residuals=True)
        return updated, z, _linearize(updated, z, steps=True), converged
    return updated, z, _linearize(updated, z, steps=True, columns=lin.columns), None


def _linearize(
    problem: EstimationProblem, z: torch.Tensor, *, steps: bool, columns: Columns | None = None
) -> Linearization:
    """Linearizes a problem, with the effect of a smaller time step if requested and stable."""
    return linearize(problem, z, finer=problem.with_substeps(2) if steps else None, columns=columns)


def _step_factor(problem: EstimationProblem, lin: Linearization) -> tuple[int, float]:
    """Returns the factor of the time steps needed for accuracy, and the present error in standard deviations."""
    change = lin.step_gradient
    if change is None or not bool(torch.isfinite(change).all()):
        return 1, math.nan
    substeps = max(trial.time.steps_per_frame for trial in problem.trials)
    order = min(trial.time.integrator.order for trial in problem.trials)
    error = step_shifts(problem, lin, change).abs() / torch.diagonal(covariance(problem, lin)).sqrt()
    bias = float(error.max()) / math.sqrt(problem.noise_correlation)
    if not bias > STEP_BIAS or substeps >= MAX_SUBSTEPS:
        return 1, bias
    factor = 2 ** math.ceil(math.log2((bias / STEP_BIAS) ** (1 / order)))
    return int(max(2, min(factor, 8, MAX_SUBSTEPS // substeps))), bias


def _correct(
    problem: EstimationProblem,
    z: torch.Tensor,
    lin: Linearization,
    optimizer: GaussNewton,
    corrections: int,
    report: Any,
) -> tuple[EstimationProblem, torch.Tensor, Linearization, Misfit, bool | None]:
    """Measures the misfit, and adds the most likely errors of the scene while there is one."""
    names: list[str] = []
    converged: bool | None = None
    while True:
        candidates = scored_nuisances(problem, z) if lin.total_chi2 > MAX_SCORE else ([], [])  # no score exceeds chi^2
        scored = linearize_nuisances(problem, lin, candidates) if candidates[0] else None
        misfit = measure_misfit(problem, lin, candidates[0], scored=scored, holdout=math.nan, corrections=tuple(names))
        usable = {nuisance.path for nuisance in candidates[0] if nuisance.batched}
        likely = misfit.causes[0] if misfit.causes else None
        # A less likely cause in place of one that cannot be estimated would only hide it.
        if likely is None or likely.path not in usable or likely.score <= MAX_SCORE:
            return problem, z, lin, misfit, converged
        left = corrections - len(names)
        if misfit.ok or misfit.nonsense or left <= 0 or (misfit.large and left * likely.share < MIN_PROSPECT):
            return problem, z, lin, misfit, converged
        added = [tuple(n for n in own if n.path == likely.path) for own in candidates[1]]
        problem = _add(problem, added)
        start = torch.cat([z, z.new_full((problem.parameters.count - len(z),), likely.amount)])
        try:
            z, converged = polish(problem, start, optimizer, report, f"correction {likely.path}")
        except Diverged:
            return problem, start, lin, misfit, converged
        amount = float(problem.parameters.values(z)[_first_path(problem, likely.path)])
        nuisance = next(n for own in added for n in own)
        names.append(nuisance.describe(amount))
        problem, columns = with_codec_noise(problem, z)
        lin = linearize(problem, z, columns=columns)


def _last_digits(problem: EstimationProblem, z: torch.Tensor, lin: Linearization) -> torch.Tensor:
    """Takes a last Gauss-Newton step from z [P], at which `lin` is the linearization, if only rounding is left.

    A search ends where the cost consists of rounding errors. Coordinates that hardly change the images are then known
    to fewer digits than the residuals determine.
    """
    J = residual_jacobian(lin, problem) if problem.is_exact else None
    if J is None or problem.prior(0) is not None:
        return z
    residual = problem.residual()
    r = evaluate(residual, z[None], 1)[0]
    if not 0.0 < float(r @ r) <= LAST_DIGITS:
        return z
    trial = z - solve_finite((J @ J.T)[None], (J @ r)[None])[0]
    low, high = problem.parameters.bounds()
    if bool(((trial < low) | (trial > high)).any()):
        return z
    new = evaluate(residual, trial[None], 1)[0]
    return trial if float(new @ new) < float(r @ r) else z


def _first_path(problem: EstimationProblem, path: str) -> str:
    return next(u.path for u in problem.parameters.unknowns if u.path.split("@")[0] == path)
