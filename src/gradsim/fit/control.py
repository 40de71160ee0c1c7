"""control(): from a picture of a goal to the control that reaches it."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from gradsim.compare.distances import Blur, Cumulative, Distance, Moments
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.goals import Goal, GoalImage
from gradsim.fit.minimize import descended
from gradsim.fit.minimum_norm import MinimumNorm
from gradsim.fit.optimizers import Adam, Descending
from gradsim.fit.parameters import Coordinate, Parameters
from gradsim.fit.plan import Iterate, Plan, Reached
from gradsim.fit.policies import Feedback, Policy, module_of
from gradsim.fit.rollout import Drive, Driver, Rhythm
from gradsim.scene.errors import InvalidInput, OutOfRange
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import Trajectory

FEW = 12  # unknowns that Gauss and Newton's method takes on
Optimizer = Descending | GaussNewton | MinimumNorm
Stage = tuple[Distance, Optimizer]  # how pictures are compared, and how the difference is made small

LADDER: tuple[Stage, ...] = (
    (Moments(), GaussNewton(iterations=8)),
    (Blur(0.06), GaussNewton(iterations=4)),
    (Blur(0.02), GaussNewton(iterations=4)),
    (Blur(), GaussNewton(iterations=10)),
)
DESCENT: tuple[Stage, ...] = ((Cumulative(), Adam(iterations=40, rate=0.2, last_rate=0.01)),)


def control(
    scene: Scene,
    goal: torch.Tensor | Goal | Sequence[Goal],
    controls: Mapping[str, Policy] | None = None,
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    stages: Sequence[Stage] | None = None,
    effort: float = 0.0,
    watch: Callable[[Trajectory], torch.Tensor] | None = None,
    starts: int = 1,
    seed: int = 0,
    integrator: Integrator = SymplecticEuler(),
    dtype: torch.dtype = torch.float64,
    memory: float | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Iterate], None] = lambda iterate: None,
) -> Plan:
    """Find the control that brings a scene to a goal.

    What may be chosen are the scene's unknowns (a start velocity, a force) and the weights of policies. Ctrl-C returns
    the best so far.

    Args:
        scene: What there is, with a camera if the goal is a picture.
        goal: A picture [H, W, C] to be seen in the last frame (C = 1: silhouette, 3: colours, 4: both), a
            `gs.GoalImage` or `gs.GoalState`, or several of these.
        controls: Policies by the path of what they set, such as `{"gear.actuation": gs.Sinusoids(...)}`; see
            `gs.rollout`. They are not changed: trained copies are in `plan.policies`.
        frames, fps, substeps, integrator, dtype, memory: As for `gs.simulate`.
        stages: Pairs of a distance of pictures and an optimizer, one after another. If None, for a few unknowns
            moments, blurred pictures and pixels with `gs.GaussNewton`, otherwise `gs.Cumulative` with `gs.Adam`: the
            difference of pixels alone does not pull across empty space.
        effort: Weight of the mean square of what the policies say, and of unknowns in natural units.
        watch: A number of a motion, [...] for worlds, that is recorded for every iterate, such as its distance from a
            place that is known; it has no part in the search.
        starts: Of the first stage: the given start, and others drawn about it or within bounds. The best goes on.
        seed: Of the starts.
        checkpoint: File to keep the best in, after every iteration; if it exists the search goes on from there.
        progress: Told of every iterate.
    """
    goals = _goals(goal)
    if effort < 0.0:
        raise OutOfRange("effort", effort, "must be >= 0")
    driver = Driver(scene, _copies(controls or {}, dtype))
    parameters = Decisions(scene, driver, dtype)
    ladder = tuple(stages) if stages is not None else (LADDER if parameters.count <= FEW else DESCENT)
    rhythm = Rhythm(fps, substeps, integrator, dtype, memory)
    search = _Search(driver, parameters, goals, rhythm, frames, effort, watch)
    z = torch.cat([parameters.start()[None], parameters.draw(starts - 1, torch.Generator().manual_seed(seed))])
    begin, number = time.perf_counter(), 0
    history: list[Iterate] = []
    for stage, (distance, optimizer) in enumerate(ladder):
        search.start(distance, optimizer)

        def told(k: int, places: torch.Tensor, losses: torch.Tensor, stage: int = stage, first: int = number) -> None:
            lowest = int(torch.argmin(torch.nan_to_num(losses, nan=torch.inf)))
            watched = search.watched(places[lowest])
            seconds = time.perf_counter() - begin
            history.append(Iterate(first + k, stage, float(losses[lowest]), seconds, watched))
            progress(history[-1])

        kept = _stage_file(checkpoint, stage)
        limits = parameters.limits()
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # one of a kind, not one an iterate
            sought = descended(search.objective, z, limits, optimizer, checkpoint=kept, told=told)
        if sought.status == "interrupted" and not sought.record.history:  # before it had an iterate
            if not history:
                raise KeyboardInterrupt
            break
        record = sought.record
        z = record.places[record.start][None]
        best, last = number + record.improved, number + len(record.history) - 1
        number += len(record.history)
        if sought.status in ("interrupted", "diverged"):
            break
    reached = search.reached(z[0], best, record.best)
    end = record.last if record.last is not None else z[0]
    final = reached if torch.equal(end, z[0]) else search.reached(end, last, record.history[-1][1])
    policies = {path: _trained(policy, path, reached.values) for path, policy in driver.controls.items()}
    seconds = time.perf_counter() - begin
    return Plan(reached, final, tuple(history), sought.status, sought.advice, goals, policies, rhythm, frames, seconds)


class Decisions(Parameters):
    """What may be chosen: the scene's unknowns and the weights of policies, one after another."""

    def __init__(self, scene: Scene, driver: Driver, dtype: torch.dtype):
        weights = [_free(path, weight.detach().to(dtype)) for path, weight in driver.weights.items()]
        if not scene.unknowns and not weights:
            raise InvalidInput(
                "controls",
                "none",
                "give policies by path, or mark what may be chosen in the scene with gs.unknown(...)",
            )
        super().__init__(scene, dtype=dtype, besides=weights)


def _free(path: str, guess: torch.Tensor) -> Coordinate:
    """Weights without bounds, whose natural unit is one."""
    endless = torch.full_like(guess, torch.inf)
    return Coordinate(path, "1", tuple(guess.shape), "linear", guess, -endless, endless, natural=1.0)


class _Search:
    """The objective of one stage after another."""

    def __init__(
        self,
        driver: Driver,
        parameters: Decisions,
        goals: tuple[Goal, ...],
        rhythm: Rhythm,
        frames: int,
        effort: float,
        watch: Callable[[Trajectory], torch.Tensor] | None,
    ):
        self.driver, self.parameters, self.goals, self.rhythm = driver, parameters, goals, rhythm
        self.frames, self.effort, self.watch = frames, effort, watch
        self.distance: Distance = Cumulative()
        self.squares = False  # whether the optimizer wants residuals
        self.seen: dict[bytes, float] = {}  # what was watched, by place

    def start(self, distance: Distance, optimizer: Optimizer) -> None:
        self.distance, self.squares = distance, isinstance(optimizer, (GaussNewton, MinimumNorm))
        if self.effort > 0.0 and isinstance(optimizer, MinimumNorm):
            raise InvalidInput("effort", self.effort, "MinimumNorm takes small steps as it is: leave effort at 0")

    def moved(self, z: torch.Tensor) -> Drive:
        """How the scene moves at coordinates [P] or [K, P]."""
        values = self.parameters.values(z)
        scene = self.parameters.fill(z)
        if not self.driver.controls:
            return Drive(scene, self.rhythm.simulate(scene, self.frames), {})
        weights = {path: values[path] for path in self.driver.weights}
        return self.driver.run(scene, self.rhythm, self.frames, weights=weights)

    def objective(self, z: torch.Tensor) -> torch.Tensor:
        """Losses [K] or residuals [K, N]."""
        count = len(z)
        drive = self.moved(z[0] if count == 1 else z)
        if self.watch is not None:
            noted = self.watch(drive.trajectory).detach().reshape(-1)
            for row, value in zip(z.detach(), noted, strict=True):
                self.seen[row.numpy().tobytes()] = float(value)
        found = [goal.residuals(drive.scene, drive.trajectory, self.distance) for goal in self.goals]
        rows = [r.reshape(count, -1) for r in found]
        if self.effort > 0.0:
            rows += self._efforts(drive, z)
        r = torch.cat(rows, 1)
        return r if self.squares else (r * r).sum(1)

    def _efforts(self, drive: Drive, z: torch.Tensor) -> list[torch.Tensor]:
        said = [signal.reshape(len(z), -1) for signal in drive.signals.values()]
        own = [z[:, span] for c, span in self.parameters.pairs() if c.natural is None]
        return [u * (self.effort / u.shape[1]) ** 0.5 for u in (*said, *own) if u.numel()]

    def watched(self, z: torch.Tensor) -> float | None:
        """What `watch` makes of a place [P]."""
        if self.watch is None:
            return None
        key = z.numpy().tobytes()
        if key not in self.seen:
            with torch.no_grad():
                self.seen[key] = float(self.watch(self.moved(z).trajectory))
        return self.seen[key]

    def reached(self, z: torch.Tensor, number: int, loss: float) -> Reached:
        with torch.no_grad():
            drive = self.moved(z)
        values = {path: value.detach() for path, value in self.parameters.values(z).items()}
        return Reached(number, loss, values, drive.signals, drive.scene, drive.trajectory, self.watched(z))


def _goals(goal: Any) -> tuple[Goal, ...]:
    if isinstance(goal, torch.Tensor):
        return (GoalImage(goal),)
    return tuple(goal) if isinstance(goal, (list, tuple)) else (goal,)


def _copies(controls: Mapping[str, Policy], dtype: torch.dtype) -> dict[str, Policy]:
    """Policies of our own to train, in the precision of the motion."""
    found: dict[str, Policy] = {}
    for path, policy in controls.items():
        if isinstance(policy, Feedback):
            found[path] = Feedback(copy.deepcopy(policy.module).to(dtype), policy.sees)
        else:
            found[path] = copy.deepcopy(policy).to(dtype) if isinstance(policy, torch.nn.Module) else policy
    return found


def _trained(policy: Policy, path: str, values: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    module = module_of(policy)
    mine = {name: values[f"{path}.{name}"] for name, value in module.named_parameters() if value.requires_grad}
    module.load_state_dict(mine, strict=False)
    return module


def _stage_file(checkpoint: str | Path | None, stage: int) -> Path | None:
    if checkpoint is None:
        return None
    file = Path(checkpoint)
    return file.with_name(f"{file.stem}-{stage}{file.suffix}")
