"""How forces on rigid bodies are launched: contact of their points with static shapes, and known pushes."""

from dataclasses import dataclass
from typing import Any

import warp as wp

from gradsim.simulate.kernels.rigid import rigid_kernels


@dataclass(frozen=True)
class RigidForce:
    """One kind of force on rigid bodies; the bodies' own table is always its last parameter."""

    stem: str  # "contact" or "push"
    threads: int
    constants: tuple[Any, ...]
    parameters: tuple[Any, ...]  # tables


def _arguments(force: RigidForce, system: Any, step: int) -> list[Any]:
    clock = [system.clock, step, system.dt] if force.stem == "push" else []
    tables = [p.value for p in force.parameters] + [system.rigid.table.value]
    return [*clock, *force.constants, *tables, *system.rigid.states]


def add_rigid_forces(force: RigidForce, system: Any, step: int) -> None:
    kernel = getattr(rigid_kernels(system.dt.dtype), force.stem)
    inputs = _arguments(force, system, step)
    wp.launch(kernel, force.threads, inputs=inputs, outputs=[*system.rigid.forces], device=system.dt.device)


def add_rigid_force_adjoints(force: RigidForce, system: Any, step: int) -> None:
    rigid = system.rigid
    kernel = getattr(rigid_kernels(system.dt.dtype), f"{force.stem}_adjoint")
    inputs = [*_arguments(force, system, step), *rigid.forces_adj]
    outputs = [*(p.grad for p in force.parameters), rigid.table.grad, *rigid.states_adj]
    wp.launch(kernel, force.threads, inputs=inputs, outputs=outputs, device=system.dt.device)
