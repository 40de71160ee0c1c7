"""One time step, and the same step backwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradsim.scene.integrators import Integrator, Midpoint
from gradsim.simulate.kernels.external import Signal, add_signal_adjoints, sample_signals
from gradsim.simulate.kernels.force import Force, add_force_adjoints, add_forces
from gradsim.simulate.kernels.integrate import integrate_kernels, launch_update, launch_update_adjoint


@dataclass(frozen=True)
class System:
    """All arrays a step reads and writes, of one share of the worlds."""

    forces: tuple[Force, ...]  # in the order of the physics: springs, membranes, bending, solids, contact
    signals: tuple[Signal, ...]
    node: Any  # table: inverse mass and gravity
    dt: Any  # [s], [1]
    clock: Any  # [step, history row, steps of the rollout]
    x: Any
    v: Any
    f: Any
    x_adj: Any
    v_adj: Any
    f_adj: Any
    x_end: Any  # adjoint at the end of a midpoint step
    v_end: Any
    xs: Any  # history, [rows, nodes]
    vs: Any
    fs: Any


def take_step(system: System, integrator: Integrator, step: int) -> None:
    """Advance the state by one step, the `step`-th of a graph."""
    update = integrate_kernels(system.dt.dtype)
    if isinstance(integrator, Midpoint):
        evaluate(system, step, 0.0)
        launch_update(update.half, system, 2 * step)
        evaluate(system, step, 0.5)
        launch_update(update.full, system, 2 * step + 1)
    else:
        evaluate(system, step, 0.0)
        launch_update(update.euler, system, step)


def take_step_adjoint(system: System, integrator: Integrator, step: int) -> None:
    """Bring the adjoint from the end of a step to its start."""
    update = integrate_kernels(system.dt.dtype)
    if isinstance(integrator, Midpoint):
        launch_update_adjoint(update.full_adjoint, system, 2 * step + 1, system.x_end, system.v_end)
        evaluate_adjoint(system, step, 0.5)
        launch_update_adjoint(update.half_adjoint, system, 2 * step, system.x_end, system.v_end)
        evaluate_adjoint(system, step, 0.0)
    else:
        launch_update_adjoint(update.euler_adjoint, system, step)
        evaluate_adjoint(system, step, 0.0)


def evaluate(system: System, step: int, stage: float) -> None:
    """All forces at the present state, `stage` (0 to 1) into the step."""
    sample_signals(system.signals, system.clock, step, stage)
    for force in system.forces:
        add_forces(force, system.x, system.v, system.f)


def evaluate_adjoint(system: System, step: int, stage: float) -> None:
    """From the adjoint of the forces to those of state and parameters."""
    sample_signals(system.signals, system.clock, step, stage)
    for force in system.forces:
        add_force_adjoints(force, system.x, system.v, system.f, system.f_adj, system.x_adj, system.v_adj)
    add_signal_adjoints(system.signals, system.clock, step, stage)
