"""Launches of portable kernels, with one argument order for all forces and one for all updates."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from gradsim.bridge import Table
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.portable_joints import PortableDynamics
from gradsim.simulate.engine.signals import SignalArrays
from gradsim.simulate.forces.family import ForceFamily, ForceKernels
from gradsim.simulate.state.kernels import UpdateKernels
from gradsim.simulate.state.kernels.prescribed import PrescribedKernels


@dataclass(frozen=True)
class PartArrays:
    """The arrays of one part of the state, for the worlds of a shard."""

    count: int
    parameters: Table
    kernels: UpdateKernels
    states: tuple[Any, ...]
    states_adj: tuple[Any, ...]
    forces: tuple[Any, ...]
    forces_adj: tuple[Any, ...]
    history: tuple[Any, ...]  # of states and forces, [rows, count]
    start_adj: tuple[Any, ...]  # adjoints of the state at the start of a step
    stage_adj: tuple[Any, ...]  # adjoints of velocities and accelerations of the stages, [stages, count]
    constants: tuple[Any, ...] = ()  # further arrays that its kernels read
    whole_steps: bool = False  # whether one launch takes all steps of a graph


@dataclass(frozen=True)
class PortableForce:
    """A force family in all worlds: its kernels, their threads and the arrays they read."""

    family: ForceFamily
    kernels: ForceKernels
    threads: int
    arrays: tuple[Any, ...]  # fixed by the topology
    parameters: tuple[Table, ...]


@dataclass(frozen=True)
class RolloutClock:
    """Arrays that Python sets before a graph is replayed."""

    counts: Any  # as `clock` of the portable updates
    dt: Any  # time step and start time [s], `Integrator.force_slope`, whether the force is carried


@dataclass(frozen=True)
class PrescribedState:
    """Elements of a part of the state that follow a prescribed motion."""

    part: str
    kernels: PrescribedKernels
    threads: int
    elements: Any  # index of each in its part
    parameters: Table


@dataclass(frozen=True)
class PortableSystem:
    """All that a portable step reads and writes."""

    clock: RolloutClock
    integrator: Integrator
    weights: Any  # as from `stage_weights`
    part_arrays: dict[str, PartArrays] = field(default_factory=dict)
    forces: tuple[PortableForce, ...] = ()
    signals: tuple[SignalArrays, ...] = ()
    prescribed: tuple[PrescribedState, ...] = ()
    no_anchors: PartArrays | None = None  # empty arrays, for scenes without sticking friction
    dynamics: PortableDynamics | None = None  # of joints

    @property
    def sets_states(self) -> bool:
        """Whether some states follow from a prescribed motion or from joints."""
        return bool(self.prescribed) or (self.dynamics is not None and self.dynamics.links is not None)


def stage_weights(integrator: Integrator) -> np.ndarray:
    """Returns the weights of every stage, [stages, 2 stages + 3].

    Columns: accelerations, velocities, the new velocity, the prediction, and whether the position is held.
    """
    count = len(integrator.stages)
    weights = np.zeros((count, 2 * count + 3))
    for row, stage in zip(weights, integrator.stages, strict=True):
        row[: len(stage.acceleration)] = stage.acceleration
        row[count : count + len(stage.velocity)] = stage.velocity
        row[2 * count :] = stage.new_velocity, stage.prediction, stage.holds_position
    return weights


def _arrays_of_parts(force: PortableForce, system: PortableSystem) -> list[PartArrays]:
    """Returns the parts of the state whose arrays a force kernel reads and writes."""
    parts = [system.part_arrays[name] for name in force.family.acts_on]
    if force.family.anchors is not None:
        anchors = system.part_arrays.get(force.family.anchors, system.no_anchors)
        parts += [anchors] if anchors is not None else []
    return parts


def _clock(force: PortableForce, system: PortableSystem, step: int, stage: int) -> list[Any]:
    """Returns the arguments of a force kernel that depend on the step and the stage."""
    integrator, dt = system.integrator, system.clock.dt
    if force.family.anchors is not None:
        return [dt.dtype(integrator.anchor_times[stage]), int(stage == integrator.anchor_stage), dt]
    if force.family.timed:
        return [system.clock.counts, step, dt.dtype(integrator.stage_times[stage]), dt]
    return []


def _force_inputs(force: PortableForce, system: PortableSystem, step: int, stage: int) -> tuple[list[Any], list[Any]]:
    """Returns the inputs of a force kernel and their adjoints; None for inputs without."""
    parts = _arrays_of_parts(force, system)
    parameters = [*force.parameters]
    if "rigid" in force.family.acts_on:
        parameters.append(system.part_arrays["rigid"].parameters)
    fixed = [*_clock(force, system, step, stage), *force.arrays]
    values = [*(table.value for table in parameters), *(array for part in parts for array in part.states)]
    grads = [*(table.grad for table in parameters), *(array for part in parts for array in part.states_adj)]
    return [*fixed, *values], [*([None] * len(fixed)), *grads]


def add_forces(force: PortableForce, system: PortableSystem, step: int, stage: int) -> None:
    """Adds the forces of a family at the present state, at a stage of step number `step` of a graph."""
    inputs, _ = _force_inputs(force, system, step, stage)
    outputs = [array for part in _arrays_of_parts(force, system) for array in part.forces]
    wp.launch(force.kernels.force, force.threads, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def add_force_adjoints(force: PortableForce, system: PortableSystem, step: int, stage: int) -> None:
    """Adds to the adjoints of states and parameters what follows from the adjoint of the forces."""
    inputs, adjoints = _force_inputs(force, system, step, stage)
    parts, device = _arrays_of_parts(force, system), system.clock.dt.device
    forces_adj = [array for part in parts for array in part.forces_adj]
    if force.kernels.adjoint is not None:
        outputs = [adjoint for adjoint in adjoints if adjoint is not None]
        wp.launch(force.kernels.adjoint, force.threads, inputs=[*inputs, *forces_adj], outputs=outputs, device=device)
    else:
        wp.launch(
            force.kernels.force,
            force.threads,
            inputs=inputs,
            outputs=[array for part in parts for array in part.forces],
            adj_inputs=adjoints,
            adj_outputs=forces_adj,
            adjoint=True,
            device=device,
        )


def set_prescribed(system: PortableSystem) -> None:
    """Sets states to the present values of their prescribed motions."""
    for own in system.prescribed:
        part = system.part_arrays[own.part]
        inputs = [own.elements, own.parameters.value, part.parameters.value]
        wp.launch(own.kernels.set, own.threads, inputs=inputs, outputs=list(part.states), device=system.clock.dt.device)


def set_prescribed_adjoint(system: PortableSystem) -> None:
    """Moves the adjoints of prescribed states to the parameters of their motions."""
    for own in system.prescribed:
        part = system.part_arrays[own.part]
        inputs = [own.elements, own.parameters.value, part.parameters.value]
        outputs = [own.parameters.grad, part.parameters.grad, *part.states_adj]
        wp.launch(own.kernels.adjoint, own.threads, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def update(part: PartArrays, system: PortableSystem, stage: int, row: int) -> None:
    """Advances a part of the state by one stage and writes row `row` of the graph's history."""
    inputs = _update_inputs(part, system, stage, row)
    outputs = [*part.history, *part.states, *part.forces]
    wp.launch(part.kernels.update, part.count, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def update_adjoint(part: PartArrays, system: PortableSystem, stage: int, row: int) -> None:
    """Takes the adjoint of a part from the state after a stage to the state and the forces before it."""
    inputs = [*_update_inputs(part, system, stage, row), *part.history]
    outputs = [*part.states, *part.states_adj, *part.forces_adj, part.parameters.grad, *part.start_adj, *part.stage_adj]
    wp.launch(part.kernels.adjoint, part.count, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def _update_inputs(part: PartArrays, system: PortableSystem, stage: int, row: int) -> list[Any]:
    stages = len(system.integrator.stages)
    return [system.clock.counts, row, stage, stages, system.weights, system.clock.dt, part.parameters.value]


def roll_out(part: PartArrays, system: PortableSystem, steps: int, *, adjoint: bool) -> None:
    """Advances a part by all steps of a graph in one launch, or takes its adjoint back over them."""
    clock, device = system.clock, system.clock.dt.device
    inputs = [steps, len(system.integrator.stages), clock.counts, clock.dt, *part.constants, part.parameters.value]
    if adjoint:
        outputs = [*part.states_adj, part.parameters.grad]
        wp.launch(part.kernels.adjoint, part.count, inputs=[*inputs, *part.history], outputs=outputs, device=device)
    else:
        wp.launch(part.kernels.update, part.count, inputs=inputs, outputs=[*part.history, *part.states], device=device)
