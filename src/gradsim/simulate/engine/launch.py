"""Launching of portable kernels: one argument order for every force and every update."""

from dataclasses import dataclass, field
from typing import Any

import warp as wp

from gradsim.scene.integrators import Integrator
from gradsim.simulate.forces.family import ForceFamily, ForceKernels
from gradsim.simulate.state.kernels import UpdateKernels


@dataclass(frozen=True)
class PartArrays:
    """The arrays of a part of the state, of one shard of the worlds."""

    count: int
    table: Any  # its parameters
    kernels: UpdateKernels
    states: tuple[Any, ...]
    states_adj: tuple[Any, ...]
    forces: tuple[Any, ...]
    forces_adj: tuple[Any, ...]
    history: tuple[Any, ...]  # of states and forces, [rows, count]
    start_adj: tuple[Any, ...]  # adjoints of the state at the start of a step
    stage_adj: tuple[Any, ...]  # adjoints of velocities and accelerations of the stages, [stages, count]
    constants: tuple[Any, ...] = ()  # arrays of the part that its kernels read
    whole_steps: bool = False  # whether its kernels take all steps of a graph


@dataclass(frozen=True)
class PortableForce:
    """A force family over all worlds: its kernels, how many threads they take, and what they read."""

    family: ForceFamily
    kernels: ForceKernels
    threads: int
    arrays: tuple[Any, ...]  # fixed by the topology
    parameters: tuple[Any, ...]  # tables with .value and .grad, [parameters, elements]


@dataclass(frozen=True)
class Clock:
    """Arrays that Python sets before a graph is replayed: step, history row, steps, keep; and [dt, begin]."""

    counts: Any
    dt: Any


@dataclass(frozen=True)
class PortableSystem:
    """All arrays that a portable step reads and writes."""

    clock: Clock
    integrator: Integrator
    weights: Any  # of the integrator's stages, [stages, 2 stages + 1]
    parts: dict[str, PartArrays] = field(default_factory=dict)
    forces: tuple[PortableForce, ...] = ()
    signals: tuple[Any, ...] = ()


def _force_inputs(force: PortableForce, system: PortableSystem, step: int, stage: float) -> tuple[list[Any], list[Any]]:
    """Inputs of a force kernel and their adjoints: None for those without."""
    parts = [system.parts[name] for name in force.family.acts_on]
    tables = [*force.parameters, *(system.parts["rigid"].table for name in force.family.acts_on if name == "rigid")]
    clock = [system.clock.counts, step, system.clock.dt.dtype(stage), system.clock.dt] if force.family.timed else []
    fixed = [*clock, *force.arrays]
    values = [*(table.value for table in tables), *(array for part in parts for array in part.states)]
    grads = [*(table.grad for table in tables), *(array for part in parts for array in part.states_adj)]
    return [*fixed, *values], [*([None] * len(fixed)), *grads]


def add_forces(force: PortableForce, system: PortableSystem, step: int, stage: float) -> None:
    """Add the forces of a family at the present state, `stage` (0 to 1) into the step."""
    inputs, _ = _force_inputs(force, system, step, stage)
    outputs = [array for name in force.family.acts_on for array in system.parts[name].forces]
    wp.launch(force.kernels.force, force.threads, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def add_force_adjoints(force: PortableForce, system: PortableSystem, step: int, stage: float) -> None:
    """Add the adjoints of state and parameters, from the adjoint of the forces."""
    inputs, adjoints = _force_inputs(force, system, step, stage)
    parts, device = [system.parts[name] for name in force.family.acts_on], system.clock.dt.device
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


def update(part: PartArrays, system: PortableSystem, stage: int, row: int) -> None:
    """Advance a part from a stage to the next, recording row `row` of the graph's history."""
    inputs = _update_inputs(part, system, stage, row)
    outputs = [*part.history, *part.states, *part.forces]
    wp.launch(part.kernels.update, part.count, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def update_adjoint(part: PartArrays, system: PortableSystem, stage: int, row: int) -> None:
    """Take the adjoint of a part from the state after a stage to the forces and the state at it."""
    inputs = [*_update_inputs(part, system, stage, row), *part.history]
    outputs = [*part.states, *part.states_adj, *part.forces_adj, part.table.grad, *part.start_adj, *part.stage_adj]
    wp.launch(part.kernels.adjoint, part.count, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def _update_inputs(part: PartArrays, system: PortableSystem, stage: int, row: int) -> list[Any]:
    stages = len(system.integrator.stages)
    return [system.clock.counts, row, stage, stages, system.weights, system.clock.dt, part.table.value]


def roll_out(part: PartArrays, system: PortableSystem, steps: int, *, adjoint: bool) -> None:
    """Take a part that advances on its own through all steps of a graph, or its adjoint back over them."""
    clock, device = system.clock, system.clock.dt.device
    inputs = [steps, system.integrator.evaluations, clock.counts, clock.dt, *part.constants, part.table.value]
    if adjoint:
        outputs = [*part.states_adj, part.table.grad]
        wp.launch(part.kernels.adjoint, part.count, inputs=[*inputs, *part.history], outputs=outputs, device=device)
    else:
        wp.launch(part.kernels.update, part.count, inputs=inputs, outputs=[*part.history, *part.states], device=device)
