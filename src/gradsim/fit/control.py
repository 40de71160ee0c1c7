"""control(): the control that brings a scene to a goal."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from gradsim.compare.distances import Blur, Cumulative, Distance, Moments
from gradsim.fit.checkpoint import checkpoint_file
from gradsim.fit.control_objective import ControlObjective, ControlParameters, Metric
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.goals import Goal, GoalImage
from gradsim.fit.optimize import MOST_STARTS, Optimizer, OptimizeResult, check_optimizer, optimize
from gradsim.fit.optimizers import Adam
from gradsim.fit.plan import Iterate, Plan
from gradsim.fit.policies import Feedback, Policy, module_of
from gradsim.fit.policy_runner import PolicyRunner, checked_controls
from gradsim.scene.arguments import check_function, checked_number, checked_whole
from gradsim.scene.errors import InvalidInput, WrongType
from gradsim.scene.integrators import Integrator
from gradsim.scene.random_seed import checked_seed
from gradsim.scene.scene import Scene
from gradsim.scene.spelling import abbreviate
from gradsim.scene.time import Time

ControlStage = tuple[Distance, Optimizer]  # distance of images, and the optimizer that minimizes it

MAX_GAUSS_NEWTON = 12  # number of unknowns above which the default stages use gradients
COARSE_TO_FINE: tuple[ControlStage, ...] = (
    (Moments(), GaussNewton(iterations=8)),
    (Blur(0.06), GaussNewton(iterations=4)),
    (Blur(0.02), GaussNewton(iterations=4)),
    (Blur(), GaussNewton(iterations=10)),
)
GRADIENT_DESCENT: tuple[ControlStage, ...] = ((Cumulative(), Adam(iterations=40, lr=0.2, final_lr=0.01)),)


def control(
    scene: Scene,
    goal: torch.Tensor | Goal | Sequence[Goal],
    controls: Mapping[str, Policy] | None = None,
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    stages: Sequence[ControlStage] | None = None,
    effort: float = 0.0,
    metric: Metric | None = None,
    starts: int = 1,
    seed: int = 0,
    integrator: Integrator = Time.integrator,
    dtype: torch.dtype = torch.float64,
    memory: float | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Iterate], None] = lambda iterate: None,
) -> Plan:
    """Finds the control that brings a scene to a goal.

    The decision variables are the scene's unknowns, such as an initial velocity or a force, and the weights of the
    policies. Ctrl-C returns the best control so far.

    Example:
        `gs.control(scene, gs.GoalState({"cube.position": (1.0, 0.5, 0.0)}), frames=30)`

    Args:
        scene: Scene, with a camera if the goal is an image.
        goal: Image [H, W, C] of the last frame (C = 1: silhouette, 3: colours, 4: both), a `gs.GoalImage` or
            `gs.GoalState`, or several of these, whose distances are added.
        controls: Policies by the path of the quantity they set, such as `{"gear.actuation": gs.Sinusoids(...)}`; see
            `gs.rollout`. They are not modified: trained copies are in `plan.policies`.
        frames, fps, substeps, integrator, dtype, memory: As for `gs.simulate`.
        stages: Pairs of a distance of images and an optimizer, run in order. If None, up to 12 unknowns use moments,
            blurred images and pixels with `gs.GaussNewton`, more use `gs.Cumulative` with `gs.Adam`: the gradient of
            the pixel difference alone vanishes where silhouettes do not overlap.
        effort: Weight of the mean square of the policy outputs, and of the unknowns in coordinate units.
        metric: Function of a trajectory that is recorded for every iterate, such as the distance from a known position:
            a scalar, [...] for a batch of worlds. It does not affect the search.
        starts: Number of starts: the guesses, and random points within the bounds or about the guesses. All run
            through all stages, and the one with the lowest loss of the last stage is the result.
        seed: Seed of the starts.
        checkpoint: File to which the best point of each start is written after every iteration, one per stage; if it
            exists, the search starts from it.
        progress: Called with every iterate.
    """
    if not isinstance(scene, Scene):
        raise WrongType("scene", abbreviate(scene), "must be a gs.Scene")
    effort = checked_number("effort", effort, low=0.0)
    starts, seed = checked_whole("starts", starts, high=MOST_STARTS), checked_seed(seed)
    check_function("progress", progress, "an iterate")
    if metric is not None:
        check_function("metric", metric, "a trajectory")
    goals = _goals(goal)
    time = Time(frames, checked_number("fps", fps, above=0.0), substeps, integrator)
    runner = PolicyRunner(scene, _copies(checked_controls(controls or {}), dtype))
    parameters = ControlParameters(scene, runner, dtype)
    objective = ControlObjective(
        runner, parameters, goals, time, effort=effort, metric=metric, dtype=dtype, memory=memory
    )
    generator = torch.Generator().manual_seed(seed)
    z = torch.cat([parameters.initial()[None], parameters.sample(starts - 1, generator)])
    if stages is not None:
        _check_stages(stages)
    else:
        stages = COARSE_TO_FINE if parameters.count <= MAX_GAUSS_NEWTON else GRADIENT_DESCENT
    begin = perf_counter()
    history: list[Iterate] = []
    outcome = _run_stages(objective, stages, z, history, checkpoint, progress)
    record = outcome.result.record
    best = objective.evaluate(outcome.best, outcome.best_number, record.loss)
    last = best
    if record.last is not None and not torch.equal(record.last, outcome.best):
        last = objective.evaluate(record.last, outcome.last_number, record.history[-1][1])
    return Plan(
        best=best,
        last=last,
        history=tuple(history),
        status=outcome.result.status,
        advice=outcome.result.advice,
        goals=goals,
        policies={path: _trained(policy, path, best.values) for path, policy in runner.controls.items()},
        time=time,
        seconds=perf_counter() - begin,
    )


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Result of the last stage, with numbers of iterates over all stages."""

    result: OptimizeResult
    best: torch.Tensor  # coordinates [P]
    best_number: int
    last_number: int


def _run_stages(
    objective: ControlObjective,
    stages: Sequence[ControlStage],
    z: torch.Tensor,
    history: list[Iterate],
    checkpoint: str | Path | None,
    progress: Callable[[Iterate], None],
) -> _Outcome:
    """Runs the stages in order, from starts z [K, P]; each continues from the best points of the previous one."""
    begin, outcome = perf_counter(), None
    for stage, (distance, optimizer) in enumerate(stages):
        objective.set_stage(distance, optimizer)
        first = 0 if outcome is None else outcome.last_number + 1

        def callback(
            k: int, points: torch.Tensor, losses: torch.Tensor, stage: int = stage, first: int = first
        ) -> None:
            lowest = int(torch.argmin(torch.nan_to_num(losses, nan=torch.inf)))
            metric = objective.metric_at(points[lowest])
            seconds = perf_counter() - begin
            history.append(Iterate(first + k, stage, float(losses[lowest]), seconds, metric))
            progress(history[-1])

        file = _stage_file(checkpoint, stage)
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # shows each warning once, not once per iterate
            result = optimize(
                objective, z, objective.parameters.bounds(), optimizer, checkpoint=file, callback=callback
            )
        record = result.record
        if result.status == "interrupted" and not record.history:  # before the first iterate of this stage
            if outcome is None:
                raise KeyboardInterrupt
            interrupted = replace(outcome.result, status=result.status, advice=result.advice)
            return replace(outcome, result=interrupted)
        finite = torch.isfinite(record.losses)
        z = record.points[finite] if bool(finite.any()) else record.points
        outcome = _Outcome(result, record.best, first + record.best_iteration, first + len(record.history) - 1)
        if result.status in ("interrupted", "diverged"):
            break
    if outcome is None:
        raise InvalidInput("stages", "none", "must have at least one pair of a distance and an optimizer")
    return outcome


def _goals(goal: Any) -> tuple[Goal, ...]:
    if isinstance(goal, torch.Tensor):
        return (GoalImage(goal),)
    goals = tuple(goal) if isinstance(goal, (list, tuple)) else (goal,)
    if not goals or not all(callable(getattr(one, "residuals", None)) for one in goals):
        raise WrongType("goal", abbreviate(goal), "must be an image [H, W, C], gs.GoalImage, gs.GoalState, or a list")
    return goals


def _check_stages(stages: Any) -> None:
    """Raises unless stages are pairs of a distance and an optimizer."""
    valid = "must be pairs of a distance and an optimizer: [(gs.Moments(), gs.GaussNewton())]"
    if not isinstance(stages, (list, tuple)):
        raise WrongType("stages", abbreviate(stages), valid)
    for stage in stages:
        if (
            not isinstance(stage, (list, tuple))
            or len(stage) != 2
            or not callable(getattr(stage[0], "residuals", None))
        ):
            raise WrongType("stages", abbreviate(stage), valid)
        check_optimizer(stage[1])


def _copies(controls: Mapping[str, Policy], dtype: torch.dtype) -> dict[str, Policy]:
    """Returns copies of the policies in the precision of the simulation, for training."""
    copies: dict[str, Policy] = {}
    for path, policy in controls.items():
        if isinstance(policy, Feedback):
            copies[path] = Feedback(copy.deepcopy(policy.module).to(dtype), policy.observe)
        else:
            copies[path] = copy.deepcopy(policy).to(dtype) if isinstance(policy, torch.nn.Module) else policy
    return copies


def _trained(policy: Policy, path: str, values: Mapping[str, torch.Tensor]) -> torch.nn.Module:
    """Loads the trained weights, by path and name, into the module of a policy."""
    module = module_of(policy)
    weights = {name: values[f"{path}.{name}"] for name, value in module.named_parameters() if value.requires_grad}
    module.load_state_dict(weights, strict=False)
    return module


def _stage_file(checkpoint: str | Path | None, stage: int) -> Path | None:
    if checkpoint is None:
        return None
    file = checkpoint_file(checkpoint)
    return file.with_name(f"{file.stem}-{stage}{file.suffix}")
