"""Native rollout of worlds: one launch for all steps of a graph, one world per thread, or worlds that a team shares.

Each stage samples signals, adds the forces on nodes, on rigid bodies and between them, and updates all parts of the
state. Kernels process a cache line of elements or nodes at a time and have hand-written adjoints
(`native/world_rollout.h`). The data of a world stay in the L1 and L2 caches, and the cost of a launch, that of fifteen
tetrahedra, is paid once. Rigid bodies without coupling to nodes use `rigid_rollout.py`. The portable kernels are the
reference and run on every device; tests compare the two.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import warp as wp

from gradsim.bridge import Table
from gradsim.native import kernel_module
from gradsim.native.structures import Constants
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.implicit_structures import IMPLICIT_DEFINITIONS, IMPLICIT_HEADER, IMPLICIT_SYSTEM
from gradsim.simulate.engine.signals import SignalArrays
from gradsim.simulate.engine.structures import (
    FORCE,
    FORCE_KIND,
    NATIVE_FORCES,
    NODES,
    PAIRS,
    PRESCRIBED_NODES,
    RIGID_BODIES,
    SHARED_DEFINITIONS,
    SIGNAL,
    ForceList,
    Tableau,
    packed,
    table_of,
)
from gradsim.simulate.forces.bending import BENDING
from gradsim.simulate.forces.external import EXTERNAL
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.forces.node_contact import NODE_CONTACT
from gradsim.simulate.forces.springs import SPRINGS
from gradsim.simulate.forces.tetrahedra import TETRAHEDRA
from gradsim.simulate.forces.triangles import TRIANGLES

HEADERS = Path(__file__).parent.parent / "native"
COMMON_FORCES = (EXTERNAL, SPRINGS, TRIANGLES, BENDING, TETRAHEDRA, NODE_CONTACT)  # of most scenes without rigid bodies


@functools.cache
def world_rollout_kernel(real: Any, integrator: Integrator, *, common: bool, adjoint: bool) -> Any:
    """Returns the kernel that takes all steps of a graph, or their adjoint; each has a module of its own.

    Args:
        real: Warp scalar type.
        integrator: The integrator.
        common: Only what `COMMON_FORCES` on nodes need: such a module compiles in a fraction of the time.
        adjoint: Whether the kernel is the adjoint.
    """
    types = types_of(real)
    reals, ints, c, structures = types.reals, types.ints, types.name, wp.array(dtype=wp.uint8, ndim=2)
    tableau, suffix = Tableau(integrator), "_adjoint" if adjoint else ""
    families = COMMON_FORCES if common else NATIVE_FORCES
    if integrator.implicit and not common:
        families = tuple(family for family in NATIVE_FORCES if family.acts_on == ("node",))
    forces = [HEADERS / name for name in dict.fromkeys(str(family.native) for family in families)]
    parts = Constants("world_parts", bodies=int(not common and not integrator.implicit))
    module = kernel_module(
        f"{'node' if common else 'world'}_rollout_{tableau.name}{suffix}",
        real,
        *forces,
        HEADERS / "world_rollout.h",
        *([IMPLICIT_HEADER] if integrator.implicit else []),
        definitions=(
            *SHARED_DEFINITIONS,
            parts,
            ForceList(families),
            tableau,
            *(IMPLICIT_DEFINITIONS if integrator.implicit else ()),
        ),
    )
    arguments = (
        f"nodes.shape[0] ? (const gradsim::Nodes<{c}>*)nodes.data : nullptr,"
        f" rigid.shape[0] ? (const gradsim::RigidBodies<{c}>*)rigid.data : nullptr,"
        f" (const gradsim::ForceArrays<{c}>*)forces.data, (const gradsim::ForceArrays<{c}>*)couplings.data,"
        f" (const gradsim::SignalArrays<{c}>*)signals.data,"
        f" prescribed.shape[0] ? (const gradsim::PrescribedNodes<{c}>*)prescribed.data : nullptr,"
        f" forces.shape[0], couplings.shape[0], signals.shape[0], index,"
        f" gradsim::RolloutClock<{c}>(clock.data, dt.data),"
        f" pairs.shape[0] ? (const gradsim::PairArrays<{c}>*)pairs.data : nullptr, team, {{}}, {{}}"
    )
    system = f", *(const gradsim::ImplicitSystem<{c}>*)system.data" if integrator.implicit else ""
    function = f"{'implicit' if integrator.implicit else 'world'}_rollout{suffix}"
    snippet = (
        "const gradsim::Team team(member, members, worlds, team_state.data);\n"
        "for (int index = team.first_world(thread); index >= 0; index = team.next_world()) {\n"
        f"    gradsim::World<{c}> own = {{{arguments}}};\n"
        f"    gradsim::{function}(own{system}, steps);\n"
        "}"
    )

    @wp.func_native(snippet)
    def rollout_worlds(
        thread: int, steps: int, clock: ints, dt: reals,
        nodes: structures, rigid: structures, forces: structures, couplings: structures, signals: structures,
        pairs: structures, prescribed: structures, system: structures,
        member: int, members: int, worlds: int, team_state: structures,
    ): ...  # fmt: skip

    @wp.kernel(enable_backward=False, module=module)
    def world_rollout(
        steps: int, clock: ints, dt: reals,
        nodes: structures, rigid: structures, forces: structures, couplings: structures, signals: structures,
        pairs: structures, prescribed: structures, system: structures,
        member: int, members: int, worlds: int, team_state: structures,
    ):  # fmt: skip
        rollout_worlds(
            wp.tid(), steps, clock, dt, nodes, rigid, forces, couplings, signals, pairs, prescribed, system,
            member, members, worlds, team_state,
        )  # fmt: skip

    return world_rollout


@dataclass(frozen=True)
class NativeForce:
    """A force family as native kernels read it."""

    family: str
    count: int  # blocks of lanes in one world, or elements for couplings
    constants: tuple[Any, ...]  # index arrays and constants
    parameters: tuple[Table, ...]
    order: tuple[Any, Any] | None = None  # its blocks by subdomain, and the bounds of these; None for one

    def structure(self) -> Any:
        """Returns the native structure."""
        structure = FORCE(kind=FORCE_KIND.index(self.family), count=self.count)
        if self.order is not None:
            structure.order, structure.subdomain_bounds = (array.ptr for array in self.order)
        for k, array in enumerate(self.constants):
            structure.constants[k] = array.ptr
        for k, table in enumerate(self.parameters):
            structure.tables[k] = table_of(table)
        return structure


@dataclass(frozen=True)
class WorldRollout:
    """The arguments of a launch: nodes and coupled rigid bodies of some worlds, and the forces on them."""

    integrator: Integrator
    world_count: int
    blocks: int  # of nodes in a world
    subdomain_bounds: Any  # first block of nodes of each subdomain of a world, and the end
    buffers: dict[str, Any]  # states, forces and adjoints of the nodes
    parameters: Table  # of the nodes
    forces: tuple[NativeForce, ...]
    couplings: tuple[NativeForce, ...]
    signals: tuple[SignalArrays, ...]
    anchors: dict[str, Any] = field(default_factory=dict)  # buffers of sticking friction; empty without
    anchor_blocks: int = 0  # in a world
    prescribed: Any = None  # native structure of the nodes that follow a prescribed motion, and its arrays
    implicit: Any = None  # native structure of the linear systems of an implicit integrator
    history: tuple[Any, ...] = ()  # of x, v and f, and of the anchors
    structures: tuple[Any, ...] = ()  # native structures as Warp arrays
    common: bool = False  # whether the module of `COMMON_FORCES` is enough
    team_state: Any = None  # what the threads that advance the worlds together share
    member: tuple[int, int] = (0, 1)  # number of this thread among them, and how many these are

    def with_history(self, history: Sequence[Any], rigid: Any = None, pairs: Any = None) -> "WorldRollout":
        """Returns a copy with memory for the history.

        Args:
            history: Arrays of x, v and f, [rows, nodes] each, and of the anchors, [steps, anchors].
            rigid: Native structure of the coupled rigid bodies, with their history.
            pairs: Native structure of the contact between them.
        """
        xs, vs, fs, xis = history
        nodes = NODES(
            blocks=self.blocks,
            subdomain_count=self.subdomain_bounds.shape[0] - 1,
            subdomain_bounds=self.subdomain_bounds.ptr,
            row=3 * xs.shape[1],
            count=xs.shape[1],
            **{name: buffer.ptr for name, buffer in self.buffers.items()},
            **{"xs": xs.ptr, "vs": vs.ptr, "fs": fs.ptr},
            anchor_blocks=self.anchor_blocks,
            anchor_row=3 * xis.shape[1],
            xis=xis.ptr,
            **{name: buffer.ptr for name, buffer in self.anchors.items()},
            table=table_of(self.parameters),
        )
        structures = (
            packed([nodes], NODES),
            rigid if rigid is not None else packed([], RIGID_BODIES),
            packed([force.structure() for force in self.forces], FORCE),
            packed([force.structure() for force in self.couplings], FORCE),
            packed([native_signal(signal) for signal in self.signals], SIGNAL),
            pairs if pairs is not None else packed([], PAIRS),
            packed([] if self.prescribed is None else [self.prescribed[0]], PRESCRIBED_NODES),
            packed([], IMPLICIT_SYSTEM) if self.implicit is None else self.implicit,
        )
        known = {family.name for family in COMMON_FORCES}
        common = rigid is None and not self.couplings and all(force.family in known for force in self.forces)
        return replace(self, history=tuple(history), structures=structures, common=common)


def native_signal(signal: SignalArrays) -> Any:
    """Returns the native structure of a signal."""
    value, grad, samples = signal.parameters.value, signal.parameters.grad, signal.samples
    row = signal.row * value.strides[0]
    return SIGNAL(
        value=value.ptr + row,
        grad=grad.ptr + row,
        samples=samples.value.ptr,
        samples_grad=samples.grad.ptr,
        sample_count=signal.sample_count,
        count=signal.element_count,
        first=signal.first,
        stride=signal.stride,
        row=signal.row,
        interpolation=signal.interpolation,
    )


def launch_world_rollout(rollout: WorldRollout, clock: Any, dt: Any, steps: int, *, adjoint: bool) -> None:
    """Advances all worlds by the steps of a graph, or takes their adjoint back over them."""
    kernel = world_rollout_kernel(dt.dtype, rollout.integrator, common=rollout.common, adjoint=adjoint)
    worlds, alone = rollout.world_count, rollout.member[1] == 1
    inputs = [steps, clock, dt, *rollout.structures, *rollout.member, worlds, rollout.team_state]
    wp.launch(kernel, worlds if alone else 1, inputs=inputs, device="cpu")
