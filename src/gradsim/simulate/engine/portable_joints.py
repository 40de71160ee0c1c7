"""Launches of the portable kernels of articulated bodies: accelerations of joints, and links in contact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import warp as wp

from gradsim.bridge import Table
from gradsim.simulate.forces.family import ForceKernels
from gradsim.simulate.state.kernels.prescribed import PrescribedKernels

if TYPE_CHECKING:
    from gradsim.simulate.engine.launch import PortableSystem


@dataclass(frozen=True)
class PortableLinks:
    """Links in contact, which are rigid bodies that follow the joints."""

    kernels: PrescribedKernels
    count: int  # of a world
    joints: Any  # that carry the links
    bodies: Any  # that the links are
    scratch: Any
    parameters: Table


@dataclass(frozen=True)
class PortableDynamics:
    """The forward dynamics of all articulated bodies."""

    kernels: ForceKernels
    worlds: int
    tree: tuple[Any, ...]  # joints of a world, their kinds and parents
    bodies: Any  # rigid body that each joint's link is in contact, -1 for none
    scratch: Any
    no_forces: tuple[Any, ...]  # an empty array, and one of two dimensions
    links: PortableLinks | None = None


def add_accelerations(system: PortableSystem) -> None:
    """Adds the accelerations of all joints under the forces on their links."""
    if (own := system.dynamics) is None:
        return
    joints, rigid = system.part_arrays["joint"], system.part_arrays.get("rigid")
    forces = rigid.forces if rigid is not None else own.no_forces[:1] * 2
    inputs = [*own.tree, own.bodies, own.scratch, joints.parameters.value, *joints.states, *forces]
    outputs = list(joints.forces)
    wp.launch(own.kernels.force, own.worlds, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def add_acceleration_adjoints(system: PortableSystem, row: int) -> None:
    """Adds what follows from the adjoints of the joints' accelerations, at row `row` of the graph's history."""
    if (own := system.dynamics) is None:
        return
    joints, rigid = system.part_arrays["joint"], system.part_arrays.get("rigid")
    history = rigid.history[-2:] if rigid is not None else own.no_forces[1:] * 2
    forces_adj = rigid.forces_adj if rigid is not None else own.no_forces[:1] * 2
    fixed = [*own.tree, own.bodies, own.scratch, joints.parameters.value]
    inputs = [*fixed, *joints.states, system.clock.counts, row, *history, *joints.forces_adj]
    outputs = [joints.parameters.grad, *joints.states_adj, *forces_adj]
    wp.launch(own.kernels.adjoint, own.worlds, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def _link_inputs(own: PortableDynamics, links: PortableLinks, system: PortableSystem) -> list[Any]:
    joints = system.part_arrays["joint"]
    fixed = [*own.tree, links.count, links.joints, links.bodies, links.scratch]
    return [*fixed, links.parameters.value, joints.parameters.value, *joints.states]


def set_links(system: PortableSystem) -> None:
    """Sets links in contact to the poses and velocities that follow from the joints."""
    own = system.dynamics
    if own is None or own.links is None:
        return
    inputs, outputs = _link_inputs(own, own.links, system), list(system.part_arrays["rigid"].states)
    wp.launch(own.links.kernels.set, own.worlds, inputs=inputs, outputs=outputs, device=system.clock.dt.device)


def set_links_adjoint(system: PortableSystem) -> None:
    """Moves the adjoints of links in contact to the joints."""
    own = system.dynamics
    if own is None or own.links is None:
        return
    joints, rigid, links = system.part_arrays["joint"], system.part_arrays["rigid"], own.links
    outputs = [links.parameters.grad, joints.parameters.grad, *joints.states_adj, *rigid.states_adj]
    inputs = _link_inputs(own, links, system)
    wp.launch(links.kernels.adjoint, own.worlds, inputs=inputs, outputs=outputs, device=system.clock.dt.device)
