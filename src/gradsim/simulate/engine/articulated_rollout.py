"""Native rollout of articulated bodies: one launch for all steps of a graph, one thread for the joints of a world.

The lanes of a vector hold the same joint of several worlds; a single world is advanced in scalars
(`native/articulated_rollout.h`). The history has the state at the start of every step. The portable kernels are the
reference and run on every device. Articulated bodies with links in contact advance together with the rigid bodies of
their world (`native/linked_rollout.h`).
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.native.loading import load_on_cpu
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.rigid_rollout import RigidRollout
from gradsim.simulate.engine.structures import JOINTS, SHARED_DEFINITIONS, Tableau, packed
from gradsim.simulate.engine.world_rollout import HEADERS
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels.articulated import KINDS

STATE = 7  # scalars of a joint: coordinates and rates
WRENCH = 6  # of a link in contact: force and torque


@functools.cache
def articulated_rollout_kernel(real: Any, integrator: Integrator, lanes: int, linked: bool, adjoint: bool) -> Any:
    """Returns the kernel that takes all steps of a graph, or their adjoint; each has a module of its own.

    Args:
        real: Warp scalar type.
        integrator: The integrator.
        lanes: Worlds per thread.
        linked: Whether links are in contact.
        adjoint: Whether the kernel is the adjoint.
    """
    types = types_of(real)
    reals, ints, structures, c = types.reals, types.ints, wp.array(dtype=wp.uint8, ndim=2), types.name
    tableau, suffix = Tableau(integrator), "_adjoint" if adjoint else ""
    name = "linked_rollout" if linked else "articulated_rollout"
    stem = f"{name}_{tableau.name}_{'one' if lanes == 1 else 'worlds'}{suffix}"
    definitions = (*SHARED_DEFINITIONS, KINDS, JOINTS, tableau)
    module = kernel_module(stem, real, HEADERS / f"{name}.h", definitions=definitions)
    number = c if lanes == 1 else f"gradsim::Lanes<{c}>"
    arguments = f"thread, steps, clock.data, dt.data, *(const gradsim::Joints<{c}>*)joints.data"
    if linked:
        arguments += f", *(const gradsim::RigidBodies<{c}>*)bodies.data"
        arguments += f", pairs.shape[0] ? (const gradsim::PairArrays<{c}>*)pairs.data : nullptr"

    @wp.func_native(f"gradsim::{name}{suffix}<{c}, {number}>({arguments});")
    def rollout_joints(
        thread: int, steps: int, clock: ints, dt: reals, joints: structures, bodies: structures, pairs: structures
    ): ...

    @wp.kernel(enable_backward=False, module=module)
    def articulated_rollout(
        steps: int, clock: ints, dt: reals, joints: structures, bodies: structures, pairs: structures
    ):
        rollout_joints(wp.tid(), steps, clock, dt, joints, bodies, pairs)

    return articulated_rollout


@dataclass(frozen=True)
class ArticulatedRollout:
    """The arguments of a launch: the joints of some worlds."""

    integrator: Integrator
    threads: int  # blocks of worlds
    lanes: int  # worlds per thread
    fields: dict[str, Any]  # of the native structure except for the history
    arrays: tuple[Any, ...]  # that the structure points into, kept alive here
    structures: Any = None  # the native structure as a Warp array

    @property
    def is_linked(self) -> bool:
        """Whether links are in contact, and rigid bodies advance together with the joints."""
        return bool(self.fields["link_count"])

    @property
    def row_size(self) -> int:
        """Scalars of history per step."""
        wrenches = WRENCH * len(self.integrator.stages) * self.fields["link_count"]
        return int(self.threads * self.lanes * (self.fields["joint_count"] * STATE + wrenches))

    def with_history(self, history: Any) -> "ArticulatedRollout":
        """Returns a copy with memory for the history, an array [threads, steps, row * lanes]."""
        structure = JOINTS(**self.fields, history=history.ptr, step_count=history.shape[1])
        return replace(self, arrays=(*self.arrays, history), structures=packed([structure], JOINTS))


def launch_articulated_rollout(
    rollout: ArticulatedRollout, rigid: RigidRollout | None, clock: Any, dt: Any, steps: int, *, adjoint: bool
) -> None:
    """Advances all joints by the steps of a graph, or takes their adjoint back over them; also `rigid` if linked."""
    linked = rigid is not None and rollout.is_linked
    kernel = articulated_rollout_kernel(dt.dtype, rollout.integrator, rollout.lanes, linked, adjoint)
    others = (rigid.structures, rigid.pairs.structure) if rigid is not None and linked else (rollout.structures,) * 2
    load_on_cpu(kernel.module)
    wp.launch(kernel, rollout.threads, inputs=[steps, clock, dt, rollout.structures, *others], device="cpu")
