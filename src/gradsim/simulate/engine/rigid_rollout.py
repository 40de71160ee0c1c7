"""Native rollout of rigid bodies without coupling to nodes: one launch for all steps of a graph.

A thread advances one body with its state in registers (`native/rigid_rollout.h`) and writes the history, one row per
evaluation of the forces and one at the end. Where bodies touch each other, a thread advances all bodies of a world
(`native/pair_rollout.h`). The lanes of a vector hold the same body of several worlds, or several
contact points of one body if there is a single world. The portable kernels are the reference and run on every device.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.loading import load_on_cpu
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.pair_arrays import PairArrays
from gradsim.simulate.engine.structures import RIGID_BODIES, SHARED_DEFINITIONS, SIZES, Tableau, packed
from gradsim.simulate.engine.world_rollout import HEADERS
from gradsim.simulate.forces.family import types_of


@functools.cache
def rigid_rollout_kernel(real: Any, integrator: Integrator, lanes: int, paired: bool, adjoint: bool) -> Any:
    """Returns the kernel that takes all steps of a graph, or their adjoint; each has a module of its own.

    Args:
        real: Warp scalar type.
        integrator: The integrator.
        lanes: Worlds per thread.
        paired: Whether bodies touch each other, so that a thread advances all bodies of a world.
        adjoint: Whether the kernel is the adjoint.
    """
    types = types_of(real)
    reals, ints, structures, c = types.reals, types.ints, wp.array(dtype=wp.uint8, ndim=2), types.name
    tableau, suffix = Tableau(integrator), "_adjoint" if adjoint else ""
    name = "pair_rollout" if paired else "rigid_rollout"
    stem = f"{name}_{tableau.name}_{'points' if lanes == 1 else 'worlds'}{suffix}"
    module = kernel_module(stem, real, HEADERS / f"{name}.h", definitions=(*SHARED_DEFINITIONS, tableau))
    number = c if lanes == 1 else f"gradsim::Lanes<{c}>"
    arguments = f"thread, steps, clock.data, dt.data, *(const gradsim::RigidBodies<{c}>*)bodies.data"
    arguments += f", *(const gradsim::PairArrays<{c}>*)pairs.data" if paired else ""

    @wp.func_native(f"gradsim::{name}{suffix}<{c}, {number}>({arguments});")
    def rollout_body(thread: int, steps: int, clock: ints, dt: reals, bodies: structures, pairs: structures): ...

    @wp.kernel(enable_backward=False, module=module)
    def rigid_rollout(steps: int, clock: ints, dt: reals, bodies: structures, pairs: structures):
        rollout_body(wp.tid(), steps, clock, dt, bodies, pairs)

    return rigid_rollout


@dataclass(frozen=True)
class RigidRollout:
    """The arguments of a launch: the rigid bodies of some worlds."""

    integrator: Integrator
    threads: int  # bodies times blocks of worlds
    lanes: int  # worlds per thread
    fields: dict[str, Any]  # of the native structure except for the history
    arrays: tuple[Any, ...]  # that the structure points into, kept alive here
    pairs: PairArrays
    group: int  # bodies that a thread advances together
    anchor_row: int = 0  # scalars of a row of anchors, for a block of worlds
    structures: Any = None  # the native structure as a Warp array

    @property
    def world_blocks(self) -> int:
        """Blocks of worlds in lanes."""
        return int(self.threads // self.fields["body_count"])

    @property
    def row_size(self) -> int:
        """Scalars of history per evaluation of the forces."""
        return self.threads * SIZES.rigid_state * self.lanes

    def with_history(self, history: Any, anchors: Any, pair_anchors: Any) -> "RigidRollout":
        """Returns a copy with memory for the history.

        Args:
            history: Array [threads, rows, state * lanes].
            anchors: Array [blocks of worlds, steps + 1, anchor_row].
            pair_anchors: The same of anchors between bodies, with the `anchor_row` of the pairs.
        """
        structure = RIGID_BODIES(
            **self.fields,
            history=history.ptr,
            row_count=history.shape[1],
            anchors=anchors.ptr,
            anchor_rows=anchors.shape[1],
        )
        arrays = (*self.arrays, history, anchors)
        pairs = self.pairs.with_history(pair_anchors)
        return replace(self, arrays=arrays, pairs=pairs, structures=packed([structure], RIGID_BODIES))


def launch_rigid_rollout(rollout: RigidRollout, clock: Any, dt: Any, steps: int, *, adjoint: bool) -> None:
    """Advances all rigid bodies by the steps of a graph, or takes their adjoint back over them."""
    kernel = rigid_rollout_kernel(dt.dtype, rollout.integrator, rollout.lanes, rollout.group > 1, adjoint)
    inputs = [steps, clock, dt, rollout.structures, rollout.pairs.structure]
    load_on_cpu(kernel.module)
    wp.launch(kernel, rollout.threads // rollout.group, inputs=inputs, device="cpu")
