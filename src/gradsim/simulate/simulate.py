"""simulate(): from a scene to its trajectory, with one differentiable function for the whole rollout."""

from __future__ import annotations

import functools
import operator
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import ContactWarning, Diverged, InvalidInput, OutOfRange, StabilityWarning
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.assemble import Assembly, assemble
from gradsim.simulate.engine import Engine, LeftFinite, Schedule, engine_for
from gradsim.simulate.fluids import smoke_states
from gradsim.simulate.memory import default_limit
from gradsim.simulate.motions import motions_of
from gradsim.simulate.stability import sinking, stable_step

WARN_ABOVE = 1.25  # of the estimated stable step


def simulate(
    scene: Scene,
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    integrator: Integrator = SymplecticEuler(),
    start: State | None = None,
    dtype: torch.dtype | None = None,
    memory: float | None = None,
) -> Trajectory:
    """Let a scene move.

    Gradients flow from the trajectory to every tensor the scene was made of, and to `start`.

    Args:
        scene: What there is. Batch dimensions of its tensors are worlds of their own.
        frames: States to return, at times i / fps, the first being the start.
        fps: Frames a second [1/s].
        substeps: Physics steps between two frames; dt = 1 / (fps substeps). Smoke wants few, and an even number.
        integrator: `SymplecticEuler()` or `Midpoint()`.
        start: State to continue from, such as another trajectory's `.final`; the scene's own start if None.
        dtype: torch.float64 or torch.float32; that of the scene's tensors if None, float64 if it has none.
        memory: Limit for what the backward pass keeps [bytes]; a quarter of the machine's if None. Beyond it states
            are computed again instead of kept.

    Returns:
        The trajectory, vertices [..., frames, V, 3].

    Raises:
        Diverged: The rollout left the finite numbers; says when, which body, and the largest stable step.
    """
    frames, substeps = _whole("frames", frames), _whole("substeps", substeps)
    if not fps > 0:
        raise OutOfRange("fps", fps, "must be > 0 [1/s]")
    if not isinstance(integrator, (SymplecticEuler, Midpoint)):
        raise InvalidInput("integrator", integrator, "must be gs.SymplecticEuler() or gs.Midpoint()")
    assembly = assemble(scene, dtype=dtype, start=start)
    schedule = Schedule(frames, substeps, 1.0 / (fps * substeps))
    limit = float(memory) if memory is not None else float(default_limit())
    states: dict[str, torch.Tensor] = {}
    if assembly.topology.parts:
        states |= _mechanics(assembly, schedule, integrator, limit)
    for body in scene.bodies:
        if isinstance(body, Smoke):
            states |= smoke_states(body, assembly, start, frames=frames, dt=schedule.dt, substeps=substeps, limit=limit)
    begin = start.time if start is not None else 0.0
    times = _times(frames, float(fps), begin, assembly.dtype, assembly.device).clone()
    return Trajectory(times, motions_of(scene, assembly, states), states)


@functools.lru_cache(maxsize=16)
def _times(frames: int, fps: float, begin: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Times of the frames [s], [T]."""
    with torch.inference_mode(False):  # others may write to a copy of it
        return torch.from_numpy(begin + np.arange(frames, dtype=str(dtype).removeprefix("torch.")) / fps).to(device)


def _mechanics(assembly: Assembly, schedule: Schedule, integrator: Integrator, limit: float) -> dict[str, torch.Tensor]:
    """States of nodes, rigid bodies and pendula at the frames, [..., T, count, width]."""
    step = stable_step(assembly, integrator)
    if schedule.frames > 1 and schedule.dt > WARN_ABOVE * step.dt:
        needed = int(schedule.substeps * schedule.dt / step.dt) + 1
        warnings.warn(
            f"dt = {schedule.dt:.3g} s is above the largest stable dt of about {step.dt:.3g} s ({step.reason} of "
            f"'{step.body}'): use substeps >= {needed}",
            StabilityWarning,
            stacklevel=3,
        )
    for body, depth, size in sinking(assembly):
        warnings.warn(
            f"'{body}', {size:.3g} m large, sinks about {depth:.3g} m into what it rests on: "
            f"{depth / (0.005 * size):.0f} times its ke would make that half a hundredth of its size",
            ContactWarning,
            stacklevel=3,
        )
    engine = engine_for(assembly, integrator)
    job = _Job(engine, assembly.batch, schedule, limit, rollout_inputs(assembly), assembly.pattern.free)
    try:
        results = _Rollout.apply(job, *(job.inputs[place] for place in job.free))
    except LeftFinite as left:
        raise Diverged(left.body, left.step, left.step * schedule.dt, left.world, schedule.dt, step.dt) from None
    return dict(zip(engine.states, results, strict=True))


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise OutOfRange(name, value, "must be a whole number >= 1")
    return number


def rollout_inputs(assembly: Assembly) -> tuple[torch.Tensor, ...]:
    """What a rollout is a function of, in the order the engine takes it."""
    return *assembly.states.values(), *assembly.tables.values(), *assembly.signals


class _Job(NamedTuple):
    """A rollout to do."""

    engine: Engine
    batch: tuple[int, ...]
    schedule: Schedule
    limit: float  # [bytes]
    inputs: tuple[torch.Tensor, ...]  # all that it is a function of
    free: tuple[int, ...]  # places of those inputs that may ask for a gradient


class _Rollout(torch.autograd.Function):
    """A whole rollout as one operation: start state and parameters in, states at the frames out.

    The inputs in the places `job.free` are given once more, for Torch to see them.
    """

    @staticmethod
    def forward(ctx: Any, job: _Job, *given: torch.Tensor) -> Any:
        ctx.plan = job.engine.plan(job.schedule, job.limit, any(ctx.needs_input_grad))
        ctx.owner = object()
        states = job.engine.forward(job.inputs, job.batch, job.schedule, ctx.plan, job.limit, ctx.owner)
        ctx.job = job._replace(inputs=())  # those that may ask for a gradient are for Torch to keep
        ctx.fixed = [None if place in job.free else tensor for place, tensor in enumerate(job.inputs)]
        ctx.save_for_backward(*given, *states)
        ctx.set_materialize_grads(False)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        job, saved, inputs = ctx.job, ctx.saved_tensors, list(ctx.fixed)
        for place, tensor in zip(job.free, saved, strict=False):
            inputs[place] = tensor
        wanted = [place for place, need in zip(job.free, ctx.needs_input_grad[1:], strict=True) if need]
        states = saved[len(job.free) :]
        found = job.engine.backward(inputs, states, grads, wanted, job.schedule, ctx.plan, job.limit, ctx.owner)
        gradients = dict(zip(wanted, found, strict=True))
        return None, *(gradients.get(place) for place in job.free)
