"""simulate(): from a scene to its trajectory, with one autograd function for the whole rollout."""

from __future__ import annotations

import functools
import operator
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.scene.autograd import once_differentiable
from gradsim.scene.errors import ContactWarning, Diverged, OutOfRange, StabilityWarning
from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.time import Time, check_integrator
from gradsim.scene.trajectory import BodyMotion, Motions, State, Trajectory
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.engine.engine import Engine, LeftFinite, engine_for
from gradsim.simulate.engine.memory import default_limit
from gradsim.simulate.stability import sinking, stable_step
from gradsim.simulate.state.nodes import NODES
from gradsim.simulate.state.registry import STATE_PARTS
from gradsim.simulate.state.smoke import smoke_motion, smoke_states

WARN_ABOVE = 1.25  # of the estimated stable step


def simulate(
    scene: Scene,
    *,
    frames: int,
    fps: float = 30.0,
    substeps: int = 32,
    integrator: Integrator = Midpoint(),
    start: State | None = None,
    dtype: torch.dtype | None = None,
    memory: float | None = None,
) -> Trajectory:
    """Simulate a scene.

    Gradients flow from the trajectory to every tensor in the scene, and to `start`.

    Args:
        scene: Bodies, static shapes, forces. Batch dimensions of its tensors are independent worlds.
        frames: Number of states to return, at times i / fps; the first is the initial state.
        fps: Frames per second [1/s].
        substeps: Time steps between two frames; dt = 1 / (fps substeps). Smoke needs few, and an even number.
        integrator: Time integrator. The default is second order, the one `estimate` uses: at equal cost the parameters
            that a fit recovers have a hundred times less bias than with `SymplecticEuler()`. That one is stable at
            larger steps for stiff bodies without damping, and takes one evaluation of the forces a step instead of two.
        start: State to continue from, such as another trajectory's `.final`; the scene's own initial state if None.
        dtype: torch.float64 or torch.float32; that of the scene's tensors if None, float64 if it has none.
        memory: Limit for what the backward pass stores [bytes]; a quarter of the machine's memory if None. Beyond it
            states are recomputed.

    Returns:
        The trajectory, vertices [..., frames, V, 3].

    Raises:
        Diverged: The rollout reached a number that is not finite; says when, which body, and the largest stable step.
    """
    frames, substeps = _whole("frames", frames), _whole("substeps", substeps)
    if not fps > 0:
        raise OutOfRange("fps", fps, "must be > 0 [1/s]")
    check_integrator("integrator", integrator)
    compiled = compile_scene(scene, dtype=dtype, start=start)
    time = Time(frames, float(fps), substeps, integrator)
    limit = float(memory) if memory is not None else float(default_limit())
    states: dict[str, torch.Tensor] = {}
    if compiled.topology.state_layout:
        states |= _mechanics(compiled, time, limit)
    for body in scene.bodies:
        if isinstance(body, Smoke):
            states |= smoke_states(body, compiled, start, time, limit)
    times = _times(frames, time.fps, compiled.batcher.begin, compiled.dtype, compiled.device).clone()
    nodes = BodyMotion(*(states[name] for name in NODES.state_names)) if NODES.state_names[0] in states else None
    return Trajectory(times, _motions(scene, compiled, states), states, nodes)


def _motions(scene: Scene, compiled: CompiledScene, states: dict[str, torch.Tensor]) -> Motions:
    """The motion of every body, by name."""
    motions = {}
    for body in scene.bodies:
        part = next((part for part in STATE_PARTS if isinstance(body, part.owners)), None)
        motions[body.name] = smoke_motion(body, states) if part is None else part.motion(body, compiled, states)
    return Motions(motions)


@functools.lru_cache(maxsize=16)
def _times(frames: int, fps: float, begin: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Times of the frames [s], [T]."""
    with torch.inference_mode(False):  # others may write to a copy of it
        return torch.from_numpy(begin + np.arange(frames, dtype=str(dtype).removeprefix("torch.")) / fps).to(device)


def _mechanics(compiled: CompiledScene, time: Time, limit: float) -> dict[str, torch.Tensor]:
    """States of nodes, rigid bodies and pendula at the frames, [..., T, count, width]."""
    step = stable_step(compiled, time.integrator)
    if time.frames > 1 and time.dt > WARN_ABOVE * step.dt:
        needed = int(time.steps_per_frame * time.dt / step.dt) + 1
        warnings.warn(
            f"dt = {time.dt:.3g} s is above the largest stable dt of about {step.dt:.3g} s ({step.reason} of "
            f"'{step.body}'): use substeps >= {needed}",
            StabilityWarning,
            stacklevel=3,
        )
    for body, depth, size in sinking(compiled):
        warnings.warn(
            f"'{body}', {size:.3g} m large, sinks about {depth:.3g} m into what it rests on: "
            f"{depth / (0.005 * size):.0f} times its ke would reduce that to half a hundredth of its size",
            ContactWarning,
            stacklevel=3,
        )
    engine = engine_for(compiled, time.integrator)
    job = _Job(engine, compiled.batch, time, compiled.batcher.begin, limit, compiled.inputs, compiled.signature.varying)
    try:
        results = _Rollout.apply(job, *(job.inputs[place] for place in job.varying))
    except LeftFinite as left:
        raise Diverged(left.body, left.step, left.step * time.dt, left.world, time.dt, step.dt) from None
    return dict(zip(engine.states, results, strict=True))


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise OutOfRange(name, value, "must be a whole number >= 1")
    return number


class _Job(NamedTuple):
    """A rollout to compute."""

    engine: Engine
    batch: tuple[int, ...]
    time: Time
    begin: float  # [s]
    limit: float  # [bytes]
    inputs: tuple[torch.Tensor, ...]  # everything it is a function of
    varying: tuple[int, ...]  # positions of those inputs that may need a gradient


class _Rollout(torch.autograd.Function):
    """A whole rollout as one operation: initial state and parameters in, states at the frames out.

    The inputs at the positions `job.varying` are passed once more, for Torch to track them.
    """

    @staticmethod
    def forward(ctx: Any, job: _Job, *given: torch.Tensor) -> Any:
        ctx.plan = job.engine.plan(job.time, job.limit, any(ctx.needs_input_grad))
        ctx.owner = object()
        states = job.engine.forward(job.inputs, job.batch, job.time, ctx.plan, job.limit, ctx.owner, job.begin)
        ctx.job = job._replace(inputs=())  # Torch stores those that may need a gradient
        ctx.fixed = [None if place in job.varying else tensor for place, tensor in enumerate(job.inputs)]
        ctx.save_for_backward(*given, *states)
        ctx.set_materialize_grads(False)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        job, saved, inputs = ctx.job, ctx.saved_tensors, list(ctx.fixed)
        for place, tensor in zip(job.varying, saved, strict=False):
            inputs[place] = tensor
        wanted = [place for place, need in zip(job.varying, ctx.needs_input_grad[1:], strict=True) if need]
        states = saved[len(job.varying) :]
        found = job.engine.backward(inputs, states, grads, wanted, job.time, ctx.plan, job.limit, ctx.owner, job.begin)
        gradients = dict(zip(wanted, found, strict=True))
        return None, *(gradients.get(place) for place in job.varying)
