"""Native rollout of articulated bodies: one launch for all steps of a graph, one thread for the joints of a world.

The lanes of a vector hold the same joint of several worlds; a single world is advanced in scalars
(`native/articulated_rollout.h`). The history has the state at the start of every step. The portable kernels are the
reference and run on every device.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import warp as wp

from gradsim.native import kernel_module
from gradsim.scene.integrators import Integrator
from gradsim.simulate.engine.structures import JOINTS, SHARED_DEFINITIONS, Tableau, packed
from gradsim.simulate.engine.world_rollout import HEADERS
from gradsim.simulate.forces.family import types_of
from gradsim.simulate.state.kernels.articulated import KINDS

STATE = 7  # scalars of a joint: coordinates and rates


@functools.cache
def articulated_rollout_kernel(real: Any, integrator: Integrator, lanes: int, adjoint: bool) -> Any:
    """Returns the kernel that takes all steps of a graph with `lanes` worlds per thread, or their adjoint.

    Each has a module of its own.
    """
    types = types_of(real)
    reals, ints, structures, c = types.reals, types.ints, wp.array(dtype=wp.uint8, ndim=2), types.name
    tableau, suffix = Tableau(integrator), "_adjoint" if adjoint else ""
    stem = f"articulated_rollout_{tableau.name}_{'one' if lanes == 1 else 'worlds'}{suffix}"
    definitions = (*SHARED_DEFINITIONS, KINDS, JOINTS, tableau)
    module = kernel_module(stem, real, HEADERS / "articulated_rollout.h", definitions=definitions)
    number = c if lanes == 1 else f"gradsim::Lanes<{c}>"
    arguments = f"thread, steps, clock.data, dt.data, *(const gradsim::Joints<{c}>*)joints.data"

    @wp.func_native(f"gradsim::articulated_rollout{suffix}<{c}, {number}>({arguments});")
    def rollout_joints(thread: int, steps: int, clock: ints, dt: reals, joints: structures): ...

    @wp.kernel(enable_backward=False, module=module)
    def articulated_rollout(steps: int, clock: ints, dt: reals, joints: structures):
        rollout_joints(wp.tid(), steps, clock, dt, joints)

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
    def row_size(self) -> int:
        """Scalars of history per step."""
        return int(self.threads * self.lanes * self.fields["joint_count"] * STATE)

    def with_history(self, history: Any) -> "ArticulatedRollout":
        """Returns a copy with memory for the history, an array [threads, steps, joints, state, lanes]."""
        structure = JOINTS(**self.fields, history=history.ptr, step_count=history.shape[1])
        return replace(self, arrays=(*self.arrays, history), structures=packed([structure], JOINTS))


def launch_articulated_rollout(rollout: ArticulatedRollout, clock: Any, dt: Any, steps: int, *, adjoint: bool) -> None:
    """Advances all joints by the steps of a graph, or takes their adjoint back over them."""
    kernel = articulated_rollout_kernel(dt.dtype, rollout.integrator, rollout.lanes, adjoint)
    wp.launch(kernel, rollout.threads, inputs=[steps, clock, dt, rollout.structures], device="cpu")
