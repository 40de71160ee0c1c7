"""`simulate` computes the trajectory of a scene; one autograd function covers the whole rollout."""

from __future__ import annotations

import functools
import logging
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from gradsim.scene.autograd import once_differentiable
from gradsim.scene.body import Body
from gradsim.scene.errors import ContactWarning, Diverged, InvalidInput, OutOfRange, StabilityWarning, WrongType
from gradsim.scene.integrators import Integrator, Midpoint, Verlet
from gradsim.scene.memory import check_memory
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Smoke
from gradsim.scene.tensors import trajectory_tensors, with_plain_tensors, with_tensors
from gradsim.scene.time import Time, check_integrator
from gradsim.scene.trajectory import BodyMotion, Motions, State, Trajectory
from gradsim.scene.transforms import are_transforms_active
from gradsim.simulate.compile.compiled_scene import CompiledScene, compile_scene
from gradsim.simulate.creeping import warn_of_creep
from gradsim.simulate.engine.engine import Engine, engine_for
from gradsim.simulate.engine.implicit_system import check_implicit
from gradsim.simulate.engine.memory import default_limit
from gradsim.simulate.engine.passes import NonFiniteState
from gradsim.simulate.passing import warn_of_passing
from gradsim.simulate.stability import StableStep, sinking, stable_step
from gradsim.simulate.state.nodes import NODES
from gradsim.simulate.state.registry import STATE_PARTS
from gradsim.simulate.state.smoke import has_smoke_states, smoke_motion, smoke_states

LOG = logging.getLogger("gradsim.simulate")
MAX_STEPS = 10**8  # of a rollout
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
    """Simulates a scene.

    Gradients flow from the trajectory to every tensor in the scene, and to `start`. Inside `torch.func.vmap` the mapped
    dimension is a batch of worlds; `torch.func.grad`, `vjp` and `jacrev` work as well.

    Example:
        `gs.simulate(scene, frames=60, fps=30.0, substeps=64)["cube"].position[-1]`

    Args:
        scene: Bodies, static shapes, forces. Batch dimensions of its tensors are independent worlds.
        frames: Number of states to return, at times i / fps; the first is the initial state.
        fps: Frames per second [1/s].
        substeps: Time steps between two frames; dt = 1 / (fps substeps). Smoke needs few, and an even number.
        integrator: Time integrator. The default is of second order: at equal cost, fitted parameters have a hundred
            times less bias than with `SymplecticEuler()`. `Verlet()`, of second order too, evaluates the forces once
            per step instead of twice, and for bodies of little damping it is stable at larger steps.
        start: State to continue from, such as another trajectory's `.final`; the scene's own initial state if None.
        dtype: torch.float64 or torch.float32; that of the scene's tensors if None, float64 if it has none.
        memory: Limit for what the backward pass stores [bytes]; a quarter of the machine's memory if None. Beyond it
            the backward pass recomputes states.

    Returns:
        The trajectory, vertices [..., frames, V, 3].

    Raises:
        Diverged: A state is not finite; the error has the time, the body and the largest stable step.
    """
    if are_transforms_active():
        options = {"frames": frames, "fps": fps, "substeps": substeps, "integrator": integrator}
        return _simulate_inside_transforms(scene, start, **options, dtype=dtype, memory=memory)
    frames, substeps = _positive_integer("frames", frames), _positive_integer("substeps", substeps)
    fps = _number("fps", fps, "must be a number [1/s]")
    check_integrator("integrator", integrator)
    _check_types(scene, start, dtype)
    time = _time(frames, fps, substeps, integrator)
    compiled = compile_scene(scene, dtype=dtype, start=start)
    if integrator.carries and "joint" in compiled.topology.state_layout:
        kind = f"gs.{type(integrator).__name__}()"
        raise InvalidInput("integrator", kind, "does not advance articulated bodies: use gs.Midpoint()")
    if integrator.implicit:
        check_implicit(compiled.topology, compiled.device)
    limit = _memory_limit(memory)
    check_memory("frames", frames, float(compiled.signature.state_bytes) * frames, "simulate shorter parts")
    states: dict[str, torch.Tensor] = {}
    if compiled.topology.state_layout:
        states |= _mechanical_states(compiled, time, limit)
    for body in scene.bodies:
        if isinstance(body, Smoke):
            states |= smoke_states(body, compiled, start, time, limit)
    times = _times(frames, time.fps, compiled.batcher.begin, compiled.dtype, compiled.device).clone()
    warn_of_passing(scene, compiled, states)
    warn_of_creep(scene, compiled, states, times)
    begin = compiled.batcher.begin
    LOG.debug("simulated %d frames of %d steps, batch %s", frames, substeps, compiled.batch)
    return trajectory_of(scene, compiled, times, states, (begin, begin + (frames - 1) / time.fps))


def _simulate_inside_transforms(scene: Scene, start: State | None, **options: Any) -> Trajectory:
    """As `simulate`, for tensors inside transforms of `torch.func`."""
    _check_types(scene, start, options["dtype"])
    plain, tensors = with_plain_tensors(
        lambda plain, state: simulate(plain, start=state, **options),
        scene,
        start,
        scene.quantities(),
        trajectory_tensors,
    )
    names = [item.name for item in trajectory_tensors(plain)]
    return with_tensors(plain, dict(zip(names, tensors, strict=True)), scene)


def _check_types(scene: Any, start: Any, dtype: Any) -> None:
    if not isinstance(scene, Scene):
        raise WrongType("scene", type(scene).__name__, "must be a gs.Scene")
    if start is not None and not isinstance(start, State):
        raise WrongType("start", type(start).__name__, "must be a gs.State, such as trajectory.final, or None")
    if dtype is not None and not isinstance(dtype, torch.dtype):
        raise WrongType("dtype", repr(dtype), "must be torch.float64, torch.float32 or None")


def initial_trajectory(scene: Scene) -> Trajectory:
    """Returns the initial state of a scene as a trajectory of one frame, without simulating; smoke is left out."""
    compiled = compile_scene(scene)
    states = {
        name: state.reshape(*compiled.batch, *state.shape[1:]).unsqueeze(-3) for name, state in compiled.states.items()
    }
    times = torch.zeros(1, dtype=compiled.dtype, device=compiled.device)
    return trajectory_of(scene, compiled, times, states, (0.0, 0.0))


def trajectory_of(
    scene: Scene,
    compiled: CompiledScene,
    times: torch.Tensor,
    states: dict[str, torch.Tensor],
    span: tuple[float, float],
) -> Trajectory:
    """Returns states at some times as a trajectory; bodies without a state are left out.

    Args:
        scene, compiled: The scene they belong to.
        times: [s], [T].
        states: By the simulator's names, [..., T, count, width].
        span: First and last time of the rollout [s].
    """
    nodes = BodyMotion(*(states[name] for name in NODES.state_names)) if NODES.state_names[0] in states else None
    bodies = [body for body in scene.bodies if not isinstance(body, Smoke) or has_smoke_states(body, states)]
    return Trajectory(times, _motions(bodies, compiled, states), states, nodes, span, scene)


def _motions(bodies: Sequence[Body], compiled: CompiledScene, states: dict[str, torch.Tensor]) -> Motions:
    """Returns the motion of every body, by name."""
    motions: dict[str, Callable[[], Any]] = {}
    for body in bodies:
        if isinstance(body, Smoke):
            motions[body.name] = smoke_motion(body, states)
        else:
            motion = next(part.motion for part in STATE_PARTS if part.motion and isinstance(body, part.owners))
            motions[body.name] = motion(body, compiled, states)
    return Motions(motions)


@functools.lru_cache(maxsize=16)
def _times(frames: int, fps: float, begin: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Returns the times of the frames [s], [T]."""
    with torch.inference_mode(False):  # later calls copy it, possibly outside inference mode
        return torch.from_numpy(begin + np.arange(frames, dtype=str(dtype).removeprefix("torch.")) / fps).to(device)


def _mechanical_states(compiled: CompiledScene, time: Time, limit: float) -> dict[str, torch.Tensor]:
    """Returns the states of nodes, rigid bodies and pendula at the frames, [..., T, count, width]."""
    step = stable_step(compiled, time.integrator)
    _warn(compiled, time, step)
    engine = engine_for(compiled, time.integrator)
    inputs, varying = compiled.inputs, compiled.signature.varying
    job = _Job(engine, compiled.batch, time, compiled.batcher.begin, limit, varying)
    try:
        results = _Rollout.apply(job, inputs, *[inputs[place] for place in varying])
    except NonFiniteState as found:
        raise Diverged(found.body, found.step, found.step * time.dt, found.world, time.dt, step.dt) from None
    return dict(zip(engine.states, results, strict=True))


def _warn(compiled: CompiledScene, time: Time, step: StableStep) -> None:
    """Warns of a time step that is too large and of contacts that are too soft."""
    if time.frames > 1 and time.dt > WARN_ABOVE * step.dt:
        needed = int(time.steps_per_frame * time.dt / step.dt) + 1
        warnings.warn(
            f"dt = {time.dt:.3g} s is above the largest stable dt of about {step.dt:.3g} s ({step.reason} of "
            f"'{step.body}'): use substeps >= {needed}{_other_rule(compiled, time)}",
            StabilityWarning,
            stacklevel=4,
        )
    for body, depth, size in sinking(compiled):
        warnings.warn(
            f"'{body}', {size:.3g} m large, sinks about {depth:.3g} m into what it rests on: "
            f"{depth / (0.005 * size):.0f} times its ke would reduce that to half a hundredth of its size",
            ContactWarning,
            stacklevel=4,
        )


def _other_rule(compiled: CompiledScene, time: Time) -> str:
    """Returns the advice to use `Verlet` if it is stable with the given steps."""
    parts = compiled.topology.state_layout
    if time.integrator.carries or "node" not in parts or "joint" in parts:
        return ""
    dt = stable_step(compiled, Verlet()).dt
    return f", or integrator=gs.Verlet(), stable up to {dt:.3g} s" if time.dt <= dt else ""


def _memory_limit(memory: float | None) -> float:
    if memory is None:
        return float(default_limit())
    limit = _number("memory", memory, "must be a number of bytes, such as 2e9")
    if not limit > 0:
        raise OutOfRange("memory", memory, "must be > 0 [bytes]")
    return limit


def _number(name: str, value: Any, valid: str) -> float:
    """Returns an option as a number; text and truth values are refused."""
    try:
        if not isinstance(value, (str, bytes, bool)):
            return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        pass
    raise WrongType(name, repr(value), valid)


@functools.lru_cache(maxsize=64)
def _time(frames: int, fps: float, substeps: int, integrator: Integrator) -> Time:
    """Returns the frames and steps of a rollout, checked."""
    if not 0.0 < fps < math.inf or not 0.0 < 1.0 / (substeps * fps) < math.inf:
        raise OutOfRange("fps", fps, "must be > 0 and finite, as must be the time step 1 / (fps substeps) [1/s]")
    if frames * substeps > MAX_STEPS:
        remedy = f"{frames} frames of {substeps} substeps are more than {MAX_STEPS} steps: simulate shorter parts"
        raise OutOfRange("substeps", substeps, remedy)
    return Time(frames, fps, substeps, integrator)


def _positive_integer(name: str, value: Any) -> int:
    """Returns an option as an integer, checked to be at least one."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise OutOfRange(name, value, "must be a whole number >= 1")
    return number


class _Job(NamedTuple):
    """The arguments of a rollout."""

    engine: Engine
    batch: tuple[int, ...]
    time: Time
    begin: float  # [s]
    limit: float  # [bytes]
    varying: tuple[int, ...]  # positions of the inputs that may need a gradient


class _Rollout(torch.autograd.Function):
    """A whole rollout as one operation, from initial states and parameters to the states at the frames.

    The inputs are initial states, parameter arrays and signals. Those at the positions `job.varying` are also arguments
    of their own, so that Torch tracks them.
    """

    @staticmethod
    def forward(ctx: Any, job: _Job, inputs: tuple[torch.Tensor, ...], *given: torch.Tensor) -> Any:
        gradient = any(ctx.needs_input_grad)
        plan, owner = job.engine.plan(job.time, job.limit, gradient), object()
        states = job.engine.forward(inputs, job.batch, job.time, plan, job.limit, owner, job.begin)
        if gradient:
            ctx.job, ctx.plan, ctx.owner = job, plan, owner
            ctx.fixed = [*inputs]
            for place in job.varying:  # Torch saves those that may need a gradient
                ctx.fixed[place] = None
            ctx.save_for_backward(*given, *states)
        ctx.set_materialize_grads(False)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        job, saved, inputs = ctx.job, ctx.saved_tensors, list(ctx.fixed)
        for place, tensor in zip(job.varying, saved, strict=False):
            inputs[place] = tensor
        wanted = [place for place, need in zip(job.varying, ctx.needs_input_grad[2:], strict=True) if need]
        states = saved[len(job.varying) :]
        found = job.engine.backward(inputs, states, grads, wanted, job.time, ctx.plan, job.limit, ctx.owner, job.begin)
        gradients = dict(zip(wanted, found, strict=True))
        return None, None, *(gradients.get(place) for place in job.varying)
