"""Time steps and their adjoints. A portable step samples signals, adds forces and updates states, stage by stage."""

from __future__ import annotations

from dataclasses import dataclass

from gradsim.simulate.engine.articulated_rollout import ArticulatedRollout, launch_articulated_rollout
from gradsim.simulate.engine.launch import (
    PartArrays,
    PortableSystem,
    add_force_adjoints,
    add_forces,
    roll_out,
    set_prescribed,
    set_prescribed_adjoint,
    update,
    update_adjoint,
)
from gradsim.simulate.engine.portable_joints import (
    add_acceleration_adjoints,
    add_accelerations,
    set_links,
    set_links_adjoint,
)
from gradsim.simulate.engine.rigid_rollout import RigidRollout, launch_rigid_rollout
from gradsim.simulate.engine.signals import add_signal_adjoints, sample_signals
from gradsim.simulate.engine.world_rollout import WorldRollout, launch_world_rollout


@dataclass(frozen=True)
class System:
    """All that a step of a shard needs: native rollouts, and portable kernels for all other parts of the state."""

    portable: PortableSystem
    rigid_rollout: RigidRollout | None = None
    world_rollout: WorldRollout | None = None  # of nodes, and of rigid bodies that forces couple to them
    articulated_rollout: ArticulatedRollout | None = None
    coupled: bool = False  # whether the rigid bodies are part of the world rollout


def take_steps(system: System, count: int, starts_frame: bool = True) -> None:
    """Advances the state by the `count` steps of a graph, whose first may be that of a frame."""
    _roll_out_native(system, count, adjoint=False)
    portable = system.portable
    for part in portable.part_arrays.values():
        if part.whole_steps:
            roll_out(part, portable, count, adjoint=False)
    for step in range(count if _stepped(portable) else 0):
        take_step(portable, step, starts_frame and step == 0)
    if portable.sets_states:
        sample_signals(portable.signals, portable.clock.counts, portable.clock.dt, count - 1, 1.0)
        set_prescribed(portable)
        set_links(portable)


def take_steps_adjoint(system: System, count: int, starts_frame: bool = True) -> None:
    """Takes the adjoint from the end of a graph's steps to their start, which may be that of a frame."""
    _roll_out_native(system, count, adjoint=True)
    portable = system.portable
    for part in portable.part_arrays.values():
        if part.whole_steps:
            roll_out(part, portable, count, adjoint=True)
    if portable.sets_states:
        sample_signals(portable.signals, portable.clock.counts, portable.clock.dt, count - 1, 1.0)
        set_links_adjoint(portable)
        set_prescribed_adjoint(portable)
        add_signal_adjoints(portable.signals, portable.clock.counts, portable.clock.dt, count - 1, 1.0)
    for step in reversed(range(count if _stepped(portable) else 0)):
        take_step_adjoint(portable, step, starts_frame and step == 0)


def _roll_out_native(system: System, count: int, *, adjoint: bool) -> None:
    clock = system.portable.clock
    joints = system.articulated_rollout
    linked = joints is not None and joints.is_linked
    if system.rigid_rollout is not None and not system.coupled and not linked:
        launch_rigid_rollout(system.rigid_rollout, clock.counts, clock.dt, count, adjoint=adjoint)
    if system.world_rollout is not None:
        launch_world_rollout(system.world_rollout, clock.counts, clock.dt, count, adjoint=adjoint)
    if joints is not None:
        launch_articulated_rollout(joints, system.rigid_rollout, clock.counts, clock.dt, count, adjoint=adjoint)


def _stepped(system: PortableSystem) -> list[PartArrays]:
    """Returns the parts that advance stage by stage."""
    return [part for part in system.part_arrays.values() if not part.whole_steps]


def _evaluates(system: PortableSystem, stage: int, starts_frame: bool) -> bool:
    """Returns whether the forces are evaluated at a stage, or carried from the step before."""
    return not system.integrator.carries or stage > 0 or starts_frame


def take_step(system: PortableSystem, step: int, starts_frame: bool) -> None:
    """Advances the state by step number `step` of a graph."""
    times = system.integrator.stage_times
    for stage, time in enumerate(times):
        if _evaluates(system, stage, starts_frame):
            sample_signals(system.signals, system.clock.counts, system.clock.dt, step, time)
            set_prescribed(system)
            set_links(system)
            for force in system.forces:
                add_forces(force, system, step, stage)
            add_accelerations(system)
        for part in _stepped(system):
            update(part, system, stage, len(times) * step + stage)


def take_step_adjoint(system: PortableSystem, step: int, starts_frame: bool) -> None:
    """Takes the adjoint from the end of a step to its start."""
    times = system.integrator.stage_times
    for stage, time in reversed(list(enumerate(times))):
        for part in _stepped(system):
            update_adjoint(part, system, stage, len(times) * step + stage)
        if not _evaluates(system, stage, starts_frame):
            continue
        sample_signals(system.signals, system.clock.counts, system.clock.dt, step, time)
        add_acceleration_adjoints(system, len(times) * step + stage)
        for force in system.forces:
            add_force_adjoints(force, system, step, stage)
        set_links_adjoint(system)
        set_prescribed_adjoint(system)
        add_signal_adjoints(system.signals, system.clock.counts, system.clock.dt, step, time)
