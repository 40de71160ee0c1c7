"""Search for the minimum of an estimation problem: coarse to fine, with a growing number of frames.

The cost of a video with contacts has many local minima: if the first simulated bounce is late, all later frames are
wrong. The search therefore starts with the first frames and adds more once these are fitted. A weak prior holds
coordinates that the frames so far do not determine. Where the fit stays above the noise, the search resamples the
undetermined coordinates. At the end it restarts beside the minimum to find lower or equally low ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from gradsim.fit.gauss_newton import GaussNewton, Prior, SolverState
from gradsim.fit.jacobians import MAX_DENSE, Adjoint, Differences, chosen_jacobian
from gradsim.fit.least_squares import ROUNDING_COST
from gradsim.fit.level_solver import ACCEPTED_EXCESS, LevelSolver, Report, SearchResult
from gradsim.fit.parameters import SEARCH_TRIALS, representative_trials
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.restarts import restart, same_minimum
from gradsim.fit.stages import STAGE_TOLERANCE, solve_in_stages
from gradsim.fit.subspace import has_whole_jacobian

PRIOR_WEIGHT = 5e-7  # relative to mean squares summed over frames
# Mean squares allowed in excess of the noise floor:
MORE_FRAMES_EXCESS = 1e-6  # of a fit that is continued with more frames
ALL_FRAMES_EXCESS = 3e-5  # of a fit that is continued with all frames, or with finer images
# Schedule:
FIRST_FRAMES = 6  # frames of the first fit
FRAME_INCREMENT = 4
MAX_STAGES = 16  # of a growing number of frames; long recordings grow by more frames at a time
SCAN_POINTS, RESCAN_POINTS = 12, 8  # per coordinate, at the start and when resampling
SAMPLES = 32  # random points when resampling
SAMPLE_STARTS = 4  # of these, points from which the fit is repeated
SAMPLE_DISTANCE = 0.3  # smallest distance between these, in coordinate units
DETERMINED = 0.02  # largest standard deviation of a determined coordinate, in coordinate units
USEFUL_RESAMPLING = 0.8  # largest ratio of mean squares after and before, for which resampling is repeated
UNEXPLAINED_ITERATIONS = 3  # of such a fit at the finest level, which is not restarted either
MANY_ITERATIONS = 8  # of each stage for many unknowns, but the last
ROUGH_INNER_TOLERANCE, ROUGH_COST_TOLERANCE = 0.1, 1e-3  # of these stages


class Search:
    """A search for the minimum of an estimation problem."""

    def __init__(self, problem: EstimationProblem, optimizer: GaussNewton, seed: int, report: Report = lambda *_: None):
        """Args:
        problem: Problem to solve.
        optimizer: Options of the least-squares solver.
        seed: Seed of the random samples.
        report: Called after every iteration.
        """
        self.problem, self.optimizer, self.report = problem, optimizer, report
        self.seed, self.generator = seed, torch.Generator().manual_seed(seed)
        self.bounds = problem.parameters.bounds()
        self.prior = Prior(*problem.parameters.prior(), PRIOR_WEIGHT)
        self.coarse = problem.levels - 1
        self.middle = max(0, problem.levels - 2)
        self.solver = LevelSolver(problem, optimizer, report)
        self.model_error = [0.0] * problem.levels  # mean squares that resampling could not lower
        self.resamples = True  # without known noise, only until resampling stops helping
        self.levels = tuple(dict.fromkeys((self.coarse, self.middle)))
        self.growth = max(FRAME_INCREMENT, problem.frames // MAX_STAGES)  # frames added at a time

    @property
    def best(self) -> SearchResult | None:
        """Best result so far, for a search that is interrupted."""
        return self.solver.best

    def run(self, start: torch.Tensor) -> SearchResult:
        """Searches from a start [P] to a minimum at the finest level."""
        frames = self.problem.frames
        differences = len(set(self.problem.parameters.coordinate_groups))  # rollouts for a Jacobian
        if isinstance(self.optimizer.jacobian, Adjoint) or differences > MAX_DENSE:
            return self._run_many(start)
        if len(self.problem.trials) > SEARCH_TRIALS:
            return self._run_trials(start)
        z = self._scan_first_frames(start)
        z, fitted = self._fit_all_frames(z)
        if not fitted:
            z = self._fit_growing_frames(z)
        z, mean_square = self._fit_without_prior(z)
        accepted = mean_square <= self._threshold(self.middle, ACCEPTED_EXCESS)
        hopeless = self.problem.is_unexplained(z, self.middle)
        iterations = UNEXPLAINED_ITERATIONS if hopeless else self.optimizer.iterations
        coarse = self.solver.solve(z[None], self.middle, frames, iterations, "polish")
        fine = self.solver.solve(coarse.z, 0, frames, iterations, "polish") if self.middle else coarse
        result = SearchResult(fine.z[0], 0.0, accepted, converged=bool(fine.converged[0]))
        if frames > 1 and not hopeless:
            restart(self.solver, result, coarse.z[0], self.middle)
        result.mean_square = float(self.problem.mean_square(result.z[None], 0, frames))
        return result

    def _run_trials(self, start: torch.Tensor) -> SearchResult:
        """Searches with a few of many trials, then solves for all trials from the minima found."""
        parameters = self.problem.parameters
        few = self.problem.subset(representative_trials(parameters))

        def complete(z: torch.Tensor) -> torch.Tensor:
            return parameters.merged(start, few.parameters, z)

        def report(stage: str, z: torch.Tensor, *progress: Any) -> None:
            self.report(f"{len(few.trials)} trials, {stage}", complete(z), *progress)

        optimizer = replace(self.optimizer, tolerance=max(self.optimizer.tolerance, STAGE_TOLERANCE))
        search = Search(few, optimizer, self.seed, report)
        try:
            found = search.run(few.parameters.merged(few.parameters.initial(), parameters, start))
        except KeyboardInterrupt:
            if search.best is not None:
                self.solver.best = replace(search.best, z=complete(search.best.z))
            raise
        results = [self._finish(complete(z), found.accepted) for z in (found.z, *found.alternative_minima)]
        best, *others = sorted(results, key=lambda result: result.mean_square)
        distinct = (other for other in others if not bool(same_minimum(other.z, best.z)))
        equal = (other for other in distinct if self.problem.is_equal_cost(other.mean_square, best.mean_square))
        best.alternative_minima += [other.z for other in equal]
        return best

    def _finish(self, z: torch.Tensor, accepted: bool) -> SearchResult:
        """Solves for all trials from z [P]."""

        def report(stage: str, z: torch.Tensor, mean_square: float, frames: int, level: int) -> None:
            self.solver.best = SearchResult(z.clone(), mean_square, accepted=False)
            self.report(stage, z, mean_square, frames, level)

        state = solve_in_stages(self.problem, z, self.optimizer, report, "all trials")
        square = self.solver.mean_square(state.cost[0], 0, self.problem.frames)
        return SearchResult(state.z[0], square, accepted, bool(state.converged[0]))

    def _run_many(self, start: torch.Tensor) -> SearchResult:
        """Solves for many unknowns with more and more frames, then from coarse to fine images.

        Scans and restarts are left out: they would cost a rollout per unknown.
        """
        total, count, z = self.problem.frames, FIRST_FRAMES, start[None]
        rough = self._rough_optimizer(z)
        while count < total:
            z = self.solver.solve(
                z, self.coarse, count, MANY_ITERATIONS, "growing horizon", prior=self.prior, optimizer=rough
            ).z
            count *= 2
        for level in range(self.coarse, 0, -1):
            z = self.solver.solve(z, level, total, MANY_ITERATIONS, "all frames", prior=self.prior, optimizer=rough).z
        state = self._fit_many(z)
        mean_square = float(self.problem.mean_square(state.z, 0, total))
        accepted = mean_square <= self._threshold(0, ACCEPTED_EXCESS)
        return SearchResult(state.z[0], mean_square, accepted, converged=bool(state.converged[0]))

    def _fit_many(self, z: torch.Tensor) -> SolverState:
        """Fits all frames at the finest level from z [1, P].

        Products with the Jacobian resolve directions with small singular values slowly. What they leave is solved with
        the whole Jacobian, where it is not too large.
        """
        total, iterations = self.problem.frames, self.optimizer.iterations
        if not has_whole_jacobian(self.problem):
            return self.solver.solve(z, 0, total, iterations, "all frames")
        state = self.solver.solve(z, 0, total, min(iterations, MANY_ITERATIONS), "all frames")
        if bool(state.converged[0]):
            return state
        whole = replace(self.optimizer, jacobian=Differences())
        return self.solver.solve(state.z, 0, total, iterations, "whole Jacobian", optimizer=whole)

    def _rough_optimizer(self, z: torch.Tensor) -> GaussNewton:
        """Returns the options of stages whose result is only a start for the next one, from starts z [K, P]."""
        first = min(FIRST_FRAMES, self.problem.frames)
        method = chosen_jacobian(self.optimizer.jacobian, self.problem.residual(self.coarse, first), z)
        if isinstance(method, Adjoint):
            method = replace(method, inner_tolerance=ROUGH_INNER_TOLERANCE, cost_tolerance=ROUGH_COST_TOLERANCE)
        return replace(self.optimizer, jacobian=method)

    def _threshold(self, level: int, excess: float) -> float:
        """Largest mean square of a fit that needs no resampling."""
        known = self.problem.noise_factor * self.model_error[level]
        return max(self.problem.noise_threshold(level, excess), known)

    def _scan_first_frames(self, start: torch.Tensor) -> torch.Tensor:
        """Returns the point with the lowest cost over the first frames, of a scan over each coordinate."""
        frames = min(FIRST_FRAMES + 1, self.problem.frames)
        candidates = torch.cat([start[None], self._scan(start, SCAN_POINTS)])
        square = torch.nan_to_num(self.problem.mean_square(candidates, self.coarse, frames), nan=torch.inf)
        best = int(torch.argmin(square))
        flat = float(square[0] - square[best]) <= ROUNDING_COST
        return start if flat else candidates[best]

    def _scan(self, z: torch.Tensor, count: int) -> torch.Tensor:
        """Returns points that vary each coordinate of z over its plausible range, [G * count, P].

        Coordinates of the same unknown in different trials, one of G groups, vary together.
        """
        center, width = self.prior.center, self.prior.width
        offsets = torch.linspace(-1.0, 1.0, count, dtype=z.dtype)
        points = []
        groups: dict[int, list[int]] = {}
        for k, group in enumerate(self.problem.parameters.coordinate_groups):
            groups.setdefault(group, []).append(k)
        for members in groups.values():
            line = z.repeat(count, 1)
            line[:, members] = center[members] + width[members] * offsets[:, None]
            points.append(line)
        return torch.cat(points).clamp(*self.bounds)

    def _fit_all_frames(self, z: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """Fits all frames at once and returns whether that succeeded, as it does in scenes without contact."""
        frames = self.problem.frames
        points = z[None]
        for level, excess in ((self.coarse, ALL_FRAMES_EXCESS), (self.middle, MORE_FRAMES_EXCESS)):
            state = self.solver.solve(points, level, frames, 10, "all frames")
            if self.solver.mean_square(state.cost[0], level, frames) > self._threshold(level, excess):
                return z, False
            points = state.z
        return points[0], True

    def _fit_growing_frames(self, z: torch.Tensor) -> torch.Tensor:
        """Fits the first frames, then more and more of them; resamples where a fit stays above the noise."""
        total = self.problem.frames
        frames = min(FIRST_FRAMES, total)
        while True:
            for level in self.levels:
                excess = 0.1 * MORE_FRAMES_EXCESS
                limit = self._threshold(level, excess)
                enough = self.problem.from_mean_square(limit, level, frames) if frames == total else 0.0
                stop = lambda z, cost, enough=enough: cost <= enough  # noqa: E731
                state = self.solver.solve(z[None], level, frames, 6, "growing horizon", prior=self.prior, stop=stop)
                z = state.z[0]
            square = self.solver.mean_square(state.cost[0], self.middle, frames)
            if self.resamples and square > self._threshold(self.middle, MORE_FRAMES_EXCESS):
                z = self._resample(z, frames)
                self._record_model_error(z, square, frames)
            if frames == total:
                return z
            frames = min(frames + self.growth, total)
            if frames < total:  # continue with all frames if the current values explain them already
                square = float(self.problem.mean_square(z[None], self.coarse, total))
                if square < self._threshold(self.coarse, ALL_FRAMES_EXCESS):
                    frames = total

    def _record_model_error(self, z: torch.Tensor, before: float, frames: int) -> None:
        """Raises the threshold of later resampling to the mean square at z [P] if resampling did not lower it much.

        A scene that is slightly wrong never fits to the noise; resampling at every stage would take most of the time.
        """
        for level in {self.middle, self.coarse}:
            after = float(self.problem.mean_square(z[None], level, frames))
            if level == self.middle and after < USEFUL_RESAMPLING * before:
                return
            self.model_error[level] = max(self.model_error[level], after)
        self.resamples = self.problem.noise_is_known

    def _resample(self, z: torch.Tensor, frames: int) -> torch.Tensor:
        """Fits again from random points and returns the best fit; coordinates already determined stay near z."""
        J = self.problem.jacobian(z, self.coarse, frames)
        determined = self.problem.standard_deviations(J, self.coarse) < DETERMINED
        samples = self.problem.parameters.sample(SAMPLES, self.generator)
        near = z + 0.02 * torch.randn(samples.shape, generator=self.generator, dtype=z.dtype)
        candidates = torch.cat([torch.where(determined, near, samples), self._scan(z, RESCAN_POINTS)])
        candidates = candidates.clamp(*self.bounds)
        square = self.problem.mean_square(candidates, self.coarse, frames)
        starts: list[torch.Tensor] = []
        for k in torch.argsort(torch.nan_to_num(square, nan=torch.inf)).tolist():
            if all(bool((candidates[k] - other).abs().max() >= SAMPLE_DISTANCE) for other in starts):
                starts.append(candidates[k])
            if len(starts) == SAMPLE_STARTS:
                break
        points = torch.stack([z, *starts])
        for level in self.levels:
            points = self.solver.solve(points, level, frames, 8, "resampling", prior=self.prior).z
        square = self.problem.mean_square(points, self.middle, frames)
        return points[int(torch.argmin(torch.nan_to_num(square, nan=torch.inf)))]

    def _fit_without_prior(self, z: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Fits all frames without the prior; resamples while the fit is above the noise.

        Returns coordinates [P] and the mean square at the middle level.
        """
        frames = self.problem.frames
        state = self.solver.solve(z[None], self.middle, frames, 12, "without prior")
        z, square = state.z[0], self.solver.mean_square(state.cost[0], self.middle, frames)
        for _ in range(3 if self.problem.parameters.count > 1 else 1):
            if not self.resamples or square <= self._threshold(self.middle, ACCEPTED_EXCESS):
                break
            other = self._resample(z, frames)
            state = self.solver.solve(other[None], self.middle, frames, 12, "without prior")
            found = self.solver.mean_square(state.cost[0], self.middle, frames)
            useful = found < USEFUL_RESAMPLING * square
            if found < square:
                z, square = state.z[0], found
            if not useful:
                break
        return z, square
