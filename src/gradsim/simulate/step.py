"""One time step, and the same step backwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.simulate.kernels.external import Signal, add_signal_adjoints, sample_signals
from gradsim.simulate.kernels.force import Force, add_force_adjoints, add_forces
from gradsim.simulate.kernels.integrate import (
    integrate_kernels,
    launch_pendula,
    launch_pendula_adjoint,
    launch_update,
    launch_update_adjoint,
)
from gradsim.simulate.kernels.march import March, launch_march, launch_march_adjoint
from gradsim.simulate.kernels.node_march import NodeMarch, launch_node_march, launch_node_march_adjoint
from gradsim.simulate.kernels.pendulum import pendulum_kernels
from gradsim.simulate.kernels.rigid import rigid_kernels
from gradsim.simulate.kernels.touch import RigidForce, add_rigid_force_adjoints, add_rigid_forces


@dataclass(frozen=True)
class System:
    """All arrays a step reads and writes, of one share of the worlds.

    A part's arrays are named after its states and forces: x, its adjoint x_adj, that adjoint at the end of a midpoint
    step x_end, and the history xs [rows, count]. Its parameters are `table`.
    """

    forces: tuple[Force, ...]  # on nodes, in the order of the physics: springs, membranes, bending, solids, contact
    rigid_forces: tuple[RigidForce, ...]  # contact, pushes
    signals: tuple[Signal, ...]
    dt: Any  # [s], [1]
    clock: Any  # [step, history row, steps of the rollout, whether to keep the history]
    node: Any = None
    rigid: Any = None
    pendulum: Any = None
    march: March | None = None  # takes the place of `rigid` and its forces on the CPU
    node_march: NodeMarch | None = None  # takes the place of `node`, its forces and the signals on the CPU

    @property
    def steps_apart(self) -> bool:
        """Whether anything moves step by step."""
        return any(part is not None for part in (self.node, self.rigid, self.pendulum))


def take_steps(system: System, integrator: Integrator, count: int) -> None:
    """Advance the state by the `count` steps of a graph."""
    if system.march is not None:
        launch_march(system.march, system, count)
    if system.node_march is not None:
        launch_node_march(system.node_march, system, count)
    for step in range(count if system.steps_apart else 0):  # no part meets another
        take_step(system, integrator, step)


def take_steps_adjoint(system: System, integrator: Integrator, count: int) -> None:
    """Bring the adjoint from the end of a graph's steps to their start."""
    if system.march is not None:
        launch_march_adjoint(system.march, system, count)
    if system.node_march is not None:
        launch_node_march_adjoint(system.node_march, system, count)
    for step in reversed(range(count if system.steps_apart else 0)):
        take_step_adjoint(system, integrator, step)


def take_step(system: System, integrator: Integrator, step: int) -> None:
    """Advance the state by one step, the `step`-th of a graph."""
    if isinstance(integrator, Midpoint):
        evaluate(system, step, 0.0)
        update(system, "half", 2 * step)
        evaluate(system, step, 0.5)
        update(system, "full", 2 * step + 1)
    else:
        evaluate(system, step, 0.0)
        update(system, "euler", step)
    if system.pendulum is not None:
        launch_pendula(pendulum_kernels(system.dt.dtype).step, system, step * integrator.evaluations)


def take_step_adjoint(system: System, integrator: Integrator, step: int) -> None:
    """Bring the adjoint from the end of a step to its start."""
    if system.pendulum is not None:
        launch_pendula_adjoint(pendulum_kernels(system.dt.dtype).step_adjoint, system, step * integrator.evaluations)
    if isinstance(integrator, Midpoint):
        update_adjoint(system, "full_adjoint", 2 * step + 1)
        evaluate_adjoint(system, step, 0.5)
        update_adjoint(system, "half_adjoint", 2 * step)
        evaluate_adjoint(system, step, 0.0)
    else:
        update_adjoint(system, "euler_adjoint", step)
        evaluate_adjoint(system, step, 0.0)


def evaluate(system: System, step: int, stage: float) -> None:
    """All forces at the present state, `stage` (0 to 1) into the step."""
    sample_signals(system.signals, system.clock, step, stage)
    for force in system.forces:
        add_forces(force, system.node.x, system.node.v, system.node.f)
    for rigid_force in system.rigid_forces:
        add_rigid_forces(rigid_force, system, step)


def evaluate_adjoint(system: System, step: int, stage: float) -> None:
    """From the adjoint of the forces to those of state and parameters."""
    sample_signals(system.signals, system.clock, step, stage)
    node = system.node
    for force in system.forces:
        add_force_adjoints(force, node.x, node.v, node.f, node.f_adj, node.x_adj, node.v_adj)
    for rigid_force in system.rigid_forces:
        add_rigid_force_adjoints(rigid_force, system, step)
    add_signal_adjoints(system.signals, system.clock, step, stage)


def update(system: System, name: str, row: int) -> None:
    """Move nodes and rigid bodies on by the forces gathered."""
    for kernels, part in _moving(system):
        launch_update(getattr(kernels, name), system, part, row)


def update_adjoint(system: System, name: str, row: int) -> None:
    for kernels, part in _moving(system):
        ends = () if name == "euler_adjoint" else part.ends
        launch_update_adjoint(getattr(kernels, name), system, part, row, ends)


def _moving(system: System) -> Iterator[tuple[Any, Any]]:
    """What forces move, nodes and rigid bodies, each with the kernels that move it."""
    if system.node is not None:
        yield integrate_kernels(system.dt.dtype), system.node
    if system.rigid is not None:
        yield rigid_kernels(system.dt.dtype), system.rigid
