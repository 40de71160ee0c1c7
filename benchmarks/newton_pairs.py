"""The benchmark's stacked boxes in Newton.

All worlds are parts of one model. As contacts between moving boxes change, every step searches for them; the search is
part of the captured graph and propagates no gradient, so that Newton's gradients take the contact points and normals as
constant. Compiler flags and states are those of `newton_rigid.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from benchmarks.newton_rigid import COMPILER_FLAGS, KERNEL_MODULES
from benchmarks.newton_rollout import NewtonRollout, import_newton, set_compiler_flags
from benchmarks.stacks import Stacks


class NewtonStacks(NewtonRollout):
    """A rollout of the boxes.

    Args:
        stacks: The scene.
        steps: Steps of the rollout.
    """

    def __init__(self, stacks: Stacks, *, steps: int):
        newton = import_newton()
        self._dt = stacks.dt
        self._model = _build_model(newton, stacks)
        set_compiler_flags(KERNEL_MODULES, COMPILER_FLAGS)
        self._pipeline = newton.CollisionPipeline(self._model)
        self._contacts = self._pipeline.contacts()
        self._solver = newton.solvers.SolverSemiImplicit(self._model, angular_damping=0.0)
        self._control = self._model.control()
        self._allocate_states(self._model, steps)
        for state in (self._start, self._states[0]):
            state.body_q.assign(self._model.body_q.numpy())
            velocity = np.zeros((2 * stacks.count, 6), dtype=np.float32)
            velocity[1::2, :3] = stacks.velocity
            state.body_qd.assign(velocity)
        weights = np.zeros((2 * stacks.count, 7), dtype=np.float32)
        weights[1::2, :3] = stacks.weights
        self._weights = wp.array(weights, dtype=wp.transform, device="cpu")

    def _output(self, state: Any) -> Any:
        return state.body_q

    @property
    def final(self) -> np.ndarray:
        """Centres of mass of the upper boxes after `forward()` [m], [B, 3]."""
        return np.asarray(self._final_state.body_q.numpy())[1::2, :3]

    def _step(self, state: Any, next_state: Any) -> None:
        state.clear_forces()
        self._pipeline.collide(state, self._contacts)
        self._solver.step(state, next_state, self._control, self._contacts, self._dt)


def _build_model(newton: Any, stacks: Stacks) -> Any:
    """Returns all worlds: a plane, a box on it, and a box on that one; Newton's contact uses means of parameters."""
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, stacks.gravity, 0.0))
    config = newton.ModelBuilder.ShapeConfig
    for k in range(stacks.count):
        material = config(density=0.0, ke=stacks.ke[k], kd=stacks.kd, kf=stacks.kf, ka=0.0, mu=stacks.mu[k])
        world = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, stacks.gravity, 0.0))
        world.add_ground_plane(cfg=material)
        for size, mass, height in zip(stacks.sizes, (stacks.low_mass, stacks.mass[k]), stacks.heights, strict=True):
            x, y, z = size
            inertia = mass / 12.0 * np.diag([y * y + z * z, x * x + z * z, x * x + y * y])
            pose = wp.transform((0.0, height, 0.0), wp.quat_identity())
            body = world.add_body(xform=pose, mass=float(mass), inertia=wp.mat33(inertia), lock_inertia=True)
            world.add_shape_box(body, hx=x / 2, hy=y / 2, hz=z / 2, cfg=material)
        builder.add_world(world)
    return builder.finalize(device="cpu", requires_grad=True)
