"""The benchmark's arms in Newton: its Featherstone solver in reduced coordinates, all arms in one model.

The whole rollout is one captured graph, in addition to single launches; Warp's Tape differentiates it. Angular damping
of bodies is off, as it is in gradsim. The motions agree to rounding, as a test verifies. Gradients agree over a step or
two; over 100 they are a quarter off, since the solver has one mass matrix, which every step overwrites. They are timed
all the same. Spatial inertias are computed once, outside the timed region, so that the gradients end at these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from benchmarks.arms import Arms
from benchmarks.newton_rollout import NewtonRollout, import_newton


class NewtonArms(NewtonRollout):
    """A rollout of the arms.

    Args:
        arms: The scene.
        steps: Steps of the rollout.
    """

    def __init__(self, arms: Arms, *, steps: int):
        newton = import_newton()
        self._dt, self._shape = arms.dt, arms.angle.shape
        self._model = _build_model(newton, arms)
        self._solver = newton.solvers.SolverFeatherstone(self._model, angular_damping=0.0)
        self._control = self._model.control()
        self._allocate_states(self._model, steps)
        for state in (self._start, self._states[0]):
            state.joint_q.assign(arms.angle.astype(np.float32).ravel())
            state.joint_qd.zero_()
            newton.eval_fk(self._model, state.joint_q, state.joint_qd, state)
        self._weights = wp.array(arms.weights.astype(np.float32).ravel(), dtype=wp.float32, device="cpu")

    def _output(self, state: Any) -> Any:
        return state.joint_q

    @property
    def final(self) -> np.ndarray:
        """Angles after `forward()` [rad], [B, J]."""
        return np.asarray(self._final_state.joint_q.numpy()).reshape(self._shape)

    @property
    def angle_gradients(self) -> np.ndarray:
        """Gradients of the initial angles after `forward_backward()`, [B, J]."""
        return np.asarray(self._states[0].joint_q.grad.numpy()).reshape(self._shape)

    def _step(self, state: Any, next_state: Any) -> None:
        state.clear_forces()
        self._solver.step(state, next_state, self._control, None, self._dt)


def _build_model(newton: Any, arms: Arms) -> Any:
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, arms.gravity, 0.0))
    center = wp.vec3(0.0, -arms.length / 2, 0.0)
    for world in range(arms.count):
        joints, parent = [], -1
        for k in range(arms.joints):
            inertia = wp.mat33((arms.mass[world, k] * arms.inertia).astype(np.float32))
            link = builder.add_link(com=center, inertia=inertia, mass=float(arms.mass[world, k]), lock_inertia=True)
            place = wp.transform((0.0, -arms.length if k else 0.0, 0.0), wp.quat_identity())
            joints.append(
                builder.add_joint_revolute(
                    parent, link, parent_xform=place, axis=wp.vec3(*arms.axis(k)), damping=arms.damping, armature=0.0
                )
            )
            parent = link
        builder.add_articulation(joints)
    return builder.finalize(device="cpu", requires_grad=True)
