"""The way to the minimum that was found to work: coarse pictures first, few frames first, and doubt.

The cost of a video of contacts has many minima: a first bounce that comes too late hides all that follows. So the fit
starts from the first frames and adds more as they are understood; coordinates that the frames so far do not tell are
held by a weak prior; where the fit stays above the noise, others are drawn; and at the end restarts have to come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch

from gradsim.fit.gauss_newton import ROUNDING, Descent, GaussNewton, Prior, Rest, descend
from gradsim.fit.problem import Problem
from gradsim.fit.residuals import jacobian

PRIOR = 5e-7  # weight, against mean squares summed over frames
CLOSE = 1e-8  # mean square, besides the noise, of a fit that is right
RIVAL = 1.05  # times the lowest cost, of another minimum that explains the video as well
CLEARLY = 1.2  # times the lowest cost, of one that does not, seen at the middle level
SAME = 1e-13  # of one that came back to the same
NEAR = 1e-6  # of one that may go on to more frames
SOON = 3e-5  # of one that may go on to all frames, or finer pictures
FIRST = 6  # frames
GROW = 4
DRAWS = 32
TRIES = 4
APART = 0.3  # coordinates, of tries that are worth taking both
BACK = 1e-3  # coordinates, of restarts that came to the same
RESTARTS = (0.6, 0.8, 1.25, 1.6)  # factors
Told = Callable[[str, torch.Tensor, float, int, int], None]  # stage, coordinates [P], mean square, frames, level


@dataclass(eq=False)
class Found:
    """Where a search ended."""

    z: torch.Tensor  # [P]
    mean_square: float  # at the finest level
    accepted: bool  # at the noise floor
    redraws: int = 0
    converged: bool = False  # at the finest level
    rivals: list[tuple[torch.Tensor, float]] = field(default_factory=list)  # other minima as low, at their level


class Search:
    """One search over a problem; `report` is told of every stage."""

    def __init__(self, problem: Problem, optimizer: GaussNewton, seed: int, report: Told = lambda *_: None):
        self.problem, self.optimizer, self.report = problem, optimizer, report
        self.generator = torch.Generator().manual_seed(seed)
        self.limits = problem.parameters.limits()
        middle, width = problem.parameters.prior()
        self.prior = Prior(middle, width, PRIOR)
        self.coarse = problem.levels - 1
        self.middle = max(0, problem.levels - 2)
        self.redraws = 0
        self.best: Found | None = None  # so far, if interrupted

    def run(self, start: torch.Tensor) -> Found:
        """From a start [P] to the finest level."""
        frames = self.problem.frames
        z = self._first_frames(start)
        z, ahead = self._whole(z)
        if not ahead:
            z = self._growing(z)
        z, square = self._settled(z)
        accepted = square <= self.problem.bar(self.middle, CLOSE)
        rough = self._descend(z[None], self.middle, frames, self.optimizer.iterations, "polish")
        done = self._descend(rough.z, 0, frames, self.optimizer.iterations, "polish") if self.middle else rough
        found = Found(done.z[0], 0.0, accepted, self.redraws, converged=bool(done.converged[0]))
        if self.problem.parameters.count > 1 and frames > 1:
            self._restart(found, rough.z[0])
        found.mean_square = float(self.problem.mean_square(found.z[None], 0, frames))
        return found

    def _descend(
        self,
        z: torch.Tensor,
        level: int,
        frames: int,
        iterations: int,
        stage: str,
        prior: bool = False,
        rest: Rest = lambda z, cost: torch.zeros_like(cost, dtype=torch.bool),
        slope: torch.Tensor | None = None,
    ) -> Descent:
        options = replace(self.optimizer, iterations=iterations, worlds=self.problem.batch(level))

        def told(z: torch.Tensor, cost: torch.Tensor) -> None:
            best = int(torch.argmin(cost))
            square = float(cost[best]) / frames
            self.best = Found(z[best].clone(), square, False, self.redraws)
            self.report(f"{stage}, {frames} frames", z[best], square, frames, level)

        residual, pull = self.problem.residual(level, frames), self.prior if prior else None
        return descend(residual, z, self.limits, options, prior=pull, rest=rest, slope=slope, report=told)

    def _first_frames(self, start: torch.Tensor) -> torch.Tensor:
        """The best of a scan over each coordinate, judged by the first frames."""
        frames = min(FIRST + 1, self.problem.frames)
        candidates = torch.cat([start[None], self._scan(start, 12)])
        square = torch.nan_to_num(self.problem.mean_square(candidates, self.coarse, frames), nan=torch.inf)
        best = int(torch.argmin(square))
        unseen = float(square[0] - square[best]) <= ROUNDING
        return start if unseen else candidates[best]

    def _scan(self, z: torch.Tensor, count: int) -> torch.Tensor:
        """Each coordinate over its range, the others as in z, [P * count, P]."""
        middle, width = self.prior.middle, self.prior.width
        places = torch.linspace(-1.0, 1.0, count, dtype=z.dtype)
        rows = []
        for k in range(len(z)):
            moved = z.repeat(count, 1)
            moved[:, k] = middle[k] + width[k] * places
            rows.append(moved)
        return torch.cat(rows).clamp(*self.limits)

    def _whole(self, z: torch.Tensor) -> tuple[torch.Tensor, bool]:
        """An attempt on all frames at once, which suffices where nothing touches."""
        frames = self.problem.frames
        tried = z[None]
        for level, bar in ((self.coarse, SOON), (self.middle, NEAR)):
            done = self._descend(tried, level, frames, 10, "all at once")
            if float(done.cost[0]) / frames > self.problem.bar(level, bar):
                return z, False
            tried = done.z
        return tried[0], True

    def _growing(self, z: torch.Tensor) -> torch.Tensor:
        """Fit the first frames, then more and more of them."""
        total = self.problem.frames
        frames = min(FIRST, total)
        while True:
            for level in (self.coarse, self.middle):
                near = frames * self.problem.bar(level, 0.1 * NEAR) if frames == total else 0.0
                rest = lambda z, cost, near=near: cost <= near  # noqa: E731
                done = self._descend(z[None], level, frames, 6, "growing", prior=True, rest=rest)
                z = done.z[0]
            if float(done.cost[0]) / frames > self.problem.bar(self.middle, NEAR):
                z = self._redrawn(z, frames)
            if frames == total:
                return z
            frames = min(frames + GROW, total)
            if frames < total:  # if what is known explains the rest already, there is no need to go slowly
                square = float(self.problem.mean_square(z[None], self.coarse, total))
                if square < self.problem.bar(self.coarse, SOON):
                    frames = total

    def _redrawn(self, z: torch.Tensor, frames: int) -> torch.Tensor:
        """The best that descents from other starts come to; what the frames tell already stays near."""
        self.redraws += 1
        known = self.problem.deviations(z, self.coarse, frames) < 0.02
        draws = self.problem.parameters.draw(DRAWS, self.generator)
        near = z + 0.02 * torch.randn(draws.shape, generator=self.generator, dtype=z.dtype)
        candidates = torch.cat([torch.where(known, near, draws), self._scan(z, 8)]).clamp(*self.limits)
        square = self.problem.mean_square(candidates, self.coarse, frames)
        chosen: list[torch.Tensor] = []
        for k in torch.argsort(torch.nan_to_num(square, nan=torch.inf)).tolist():
            if all(bool((candidates[k] - other).abs().max() >= APART) for other in chosen):
                chosen.append(candidates[k])
            if len(chosen) == TRIES:
                break
        tried = torch.stack([z, *chosen])
        for level in (self.coarse, self.middle):
            tried = self._descend(tried, level, frames, 8, "drawn anew", prior=True).z
        square = self.problem.mean_square(tried, self.middle, frames)
        return tried[int(torch.argmin(torch.nan_to_num(square, nan=torch.inf)))]

    def _settled(self, z: torch.Tensor) -> tuple[torch.Tensor, float]:
        """Without the prior, and above the noise floor with other draws."""
        frames, bar = self.problem.frames, self.problem.bar(self.middle, CLOSE)
        done = self._descend(z[None], self.middle, frames, 12, "settling")
        z, square = done.z[0], float(done.cost[0]) / frames
        for _ in range(3 if self.problem.parameters.count > 1 else 1):
            if square <= bar:
                break
            other = self._redrawn(z, frames)
            done = self._descend(other[None], self.middle, frames, 12, "settling")
            if float(done.cost[0]) / frames < square:
                z, square = done.z[0], float(done.cost[0]) / frames
        return z, square

    def _restart(self, found: Found, rough: torch.Tensor) -> None:
        """From beside the answer, along what is told least: lower minima are taken, others as low are noted.

        At the middle level, where the answer is a little elsewhere: at `rough` [P].
        """
        frames = self.problem.frames
        own = float(self.problem.mean_square(rough[None], self.middle, frames))
        slope = jacobian(self.problem.residual(self.middle, frames), rough[None], self.problem.batch(self.middle))[0]
        starts = self._beside(rough, exact=frames * own <= ROUNDING)
        done = self._descend(
            starts, self.middle, frames, 8, "restarts", rest=lambda z, cost: _near(z, rough), slope=slope
        )
        ends = [rough]
        for k in torch.argsort(done.cost).tolist():
            if float(done.cost[k]) > frames * (CLEARLY * own + CLOSE):
                break
            if any(bool(_near(done.z[k], end)) for end in ends):
                continue
            ends.append(done.z[k])
            if self._compared(found, done.z[k]):
                break

    def _beside(self, z: torch.Tensor, exact: bool) -> torch.Tensor:
        """Starts beside an answer z [P]; fewer where it is exact: then none is lower, and others as low are far."""
        weakest = torch.argsort(self.problem.deviations(z, self.middle, self.problem.frames), descending=True)[:2]
        moves = torch.log(torch.tensor(RESTARTS[:: len(RESTARTS) - 1] if exact else RESTARTS, dtype=z.dtype))
        starts = z.repeat(len(weakest) * len(moves), 1)
        for row, (k, move) in enumerate((k, move) for k in weakest for move in moves):
            starts[row, k] += move
        return starts

    def _compared(self, found: Found, z: torch.Tensor) -> bool:
        """Polish another minimum of the middle level, z [P], and take it for the answer or a rival if it is one."""
        frames = self.problem.frames
        done = self._descend(
            z[None], 0, frames, self.optimizer.iterations, "restarts", rest=lambda z, cost: _near(z, found.z)
        )
        z = done.z[0]
        if bool(_near(z, found.z)):
            return False
        now, then = float(done.cost[0]) / frames, float(self.problem.mean_square(found.z[None], 0, frames))
        if now < then * (1 - 1e-6):
            if then < RIVAL * now + SAME:
                found.rivals.append((found.z, then))
            found.z, found.converged = z, bool(done.converged[0])
        elif now < RIVAL * then + SAME:
            found.rivals.append((z, now))
        return True


def _near(z: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Whether places [..., P] are the same."""
    return (z - other).abs().amax(-1) < BACK
