"""Native rollout of worlds: one launch for all steps of a graph, one world per thread.

Signals, forces on nodes, forces on rigid bodies, forces between them and the updates of all parts follow each other,
stage by stage, a cache line of elements or nodes at a time, with hand-written adjoints (`native/world_rollout.h`). A
world's data stay in the near caches meanwhile, and a launch, which costs as much as fifteen tetrahedra, is paid once.
Rigid bodies that no force couples to nodes are left to `rigid_rollout.py`. The portable kernels are the reference and
serve every other device; tests hold the two equal.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import warp as wp

from gradsim.native import kernel_module
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.structures import (
    FORCE,
    FORCE_KIND,
    NATIVE_FORCES,
    NODES,
    RIGID_BODIES,
    SHARED_DEFINITIONS,
    SIGNAL,
    Tableau,
    packed,
    table_of,
)
from gradsim.simulate.forces.family import types_of

HEADERS = Path(__file__).parent.parent / "native"


class WorldRolloutKernels(NamedTuple):
    forward: Any
    adjoint: Any


@functools.cache
def world_rollout_kernels(real: Any, integrator: Integrator) -> WorldRolloutKernels:
    types = types_of(real)
    reals, ints, c, structures = types.reals, types.ints, types.name, wp.array(dtype=wp.uint8, ndim=2)
    tableau = Tableau(integrator)
    forces = [HEADERS / name for name in dict.fromkeys(str(family.native) for family in NATIVE_FORCES)]
    module = kernel_module(
        f"world_rollout_{tableau.name}",
        real,
        *forces,
        HEADERS / "world_rollout.h",
        definitions=(*SHARED_DEFINITIONS, tableau),
    )
    world = (
        f"gradsim::World<{c}> world = {{"
        f"nodes.shape[0] ? (const gradsim::Nodes<{c}>*)nodes.data : nullptr,"
        f" rigid.shape[0] ? (const gradsim::RigidBodies<{c}>*)rigid.data : nullptr,"
        f" (const gradsim::ForceArrays<{c}>*)forces.data, (const gradsim::ForceArrays<{c}>*)couplings.data,"
        f" (const gradsim::SignalArrays<{c}>*)signals.data, forces.shape[0], couplings.shape[0], signals.shape[0],"
        f" thread, clock.data, gradsim::RolloutClock<{c}>(clock.data, dt.data), nullptr, nullptr}};"
    )

    def over_steps(name: str) -> Any:
        @wp.func_native(f"{world} gradsim::{name}(world, steps);")
        def through_steps(
            thread: int, steps: int, clock: ints, dt: reals,
            nodes: structures, rigid: structures, forces: structures, couplings: structures, signals: structures,
        ): ...  # fmt: skip

        def kernel(
            steps: int, clock: ints, dt: reals,
            nodes: structures, rigid: structures, forces: structures, couplings: structures, signals: structures,
        ):  # fmt: skip
            through_steps(wp.tid(), steps, clock, dt, nodes, rigid, forces, couplings, signals)

        return _kernel(kernel, name, module)

    return WorldRolloutKernels(over_steps("world_rollout"), over_steps("world_rollout_adjoint"))


def _kernel(function: Any, name: str, module: Any) -> Any:
    """A kernel under a name of its own, which Warp needs where one function defines several."""
    function.__name__ = function.__qualname__ = name
    return wp.kernel(function, enable_backward=False, module=module)


@dataclass(frozen=True)
class NativeForce:
    """A force family: blocks of lanes, or elements, of one world; arrays fixed by the topology; parameter arrays."""

    family: str
    count: int
    constants: tuple[Any, ...]
    parameters: tuple[Any, ...]

    def structure(self) -> Any:
        structure = FORCE(kind=FORCE_KIND.index(self.family), count=self.count)
        for k, array in enumerate(self.constants):
            structure.constants[k] = array.ptr
        for k, table in enumerate(self.parameters):
            structure.tables[k] = table_of(table)
        return structure


@dataclass(frozen=True)
class WorldRollout:
    """The nodes and coupled rigid bodies of some worlds and the forces on them: all that a launch needs."""

    integrator: Integrator
    world_count: int
    blocks: int  # of nodes in a world
    buffers: dict[str, Any]  # of the nodes
    table: Any  # of the nodes
    forces: tuple[NativeForce, ...]
    couplings: tuple[NativeForce, ...]
    signals: tuple[Any, ...]
    rigid: Any = None  # structure of the coupled rigid bodies
    history: tuple[Any, ...] = ()  # of x, v and f
    structures: tuple[Any, ...] = ()

    def with_history(self, history: Sequence[Any], rigid: Any = None) -> "WorldRollout":
        """The same with memory for its history, x, v and f of [rows, nodes] each, and `rigid` with its own."""
        xs, vs, fs = history
        nodes = NODES(
            blocks=self.blocks,
            row=3 * xs.shape[1],
            count=xs.shape[1],
            **{name: buffer.ptr for name, buffer in self.buffers.items()},
            **{"xs": xs.ptr, "vs": vs.ptr, "fs": fs.ptr},
            table=table_of(self.table),
        )
        structures = (
            packed([nodes], NODES),
            rigid if rigid is not None else packed([], RIGID_BODIES),
            packed([force.structure() for force in self.forces], FORCE),
            packed([force.structure() for force in self.couplings], FORCE),
            packed([_signal(signal) for signal in self.signals], SIGNAL),
        )
        return replace(self, history=tuple(history), structures=structures)


def _signal(signal: Any) -> Any:
    value, grad, samples = signal.table.value, signal.table.grad, signal.samples
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
    )


def launch_world_rollout(rollout: WorldRollout, clock: Any, dt: Any, steps: int, *, adjoint: bool) -> None:
    """Take all worlds through the steps of a graph, or their adjoint back over these."""
    kernels = world_rollout_kernels(dt.dtype, rollout.integrator)
    kernel = kernels.adjoint if adjoint else kernels.forward
    wp.launch(kernel, rollout.world_count, inputs=[steps, clock, dt, *rollout.structures], device="cpu")
