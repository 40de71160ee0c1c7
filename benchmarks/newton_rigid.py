"""The benchmark's cubes in Newton.

All worlds are bodies of one model without joints. A step is two kernels, contact and bodies, that Warp's Tape
differentiates. The configuration is the fastest one found that does not change its results: eight contacts a cube are
created once, outside the timed region, as Newton's own differentiable example does with a plane (its contact search
keeps four corners of a box and propagates no gradient); no more threads than contacts; two alternating states where no
gradient is needed; Warp's inlining thresholds with LLVM's default vectorization depth (2 % faster than Warp's at 1,024
worlds; LLVM's default thresholds are a third slower); and the whole rollout as one captured graph, in addition to
single launches.

The contact laws differ: Newton damps only while the bodies approach, has no depth `delta` over which force and damping
set in, and limits friction to mu f_n |u| / huber(u), where u is the slip velocity. Without damping and that depth, and
below the friction limit, the motions and gradients agree to rounding, as a test verifies.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import warp as wp

from benchmarks.newton_rollout import NewtonRollout, import_newton, set_compiler_flags
from benchmarks.scenes import Cubes

COMPILER_FLAGS = "-march=native -mllvm=-inline-threshold=9000 -mllvm=-inline-cold-callsite-threshold=3000"
KERNEL_MODULES = ("newton._src.solvers.semi_implicit.kernels_contact", "newton._src.solvers.solver")


class NewtonCubes(NewtonRollout):
    """A rollout of the cubes.

    Args:
        cubes: The scene.
        steps: Steps of the rollout.
    """

    def __init__(self, cubes: Cubes, *, steps: int):
        newton = import_newton()
        self._dt = cubes.dt
        self._model = _build_model(newton, cubes)
        set_compiler_flags(KERNEL_MODULES, COMPILER_FLAGS)
        self._contacts = _build_contacts(newton, cubes)
        self._solver = newton.solvers.SolverSemiImplicit(self._model, angular_damping=0.0)
        self._control = self._model.control()
        self._allocate_states(self._model, steps)
        for state in (self._start, self._states[0]):
            state.body_q.assign(np.concatenate([cubes.position, cubes.rotation], 1).astype(np.float32))
            state.body_qd.assign(np.concatenate([cubes.velocity, cubes.angular_velocity], 1).astype(np.float32))
        weights = np.concatenate([cubes.weights, np.zeros((cubes.count, 4))], 1)
        self._weights = wp.array(weights.astype(np.float32), dtype=wp.transform, device="cpu")

    def _output(self, state: Any) -> Any:
        return state.body_q

    @property
    def final(self) -> np.ndarray:
        """Centres of mass after `forward()` [m], [B, 3]."""
        return np.asarray(self._final_state.body_q.numpy())[:, :3]

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Gradients after `forward_backward()` by parameter: mass, ke, mu [B], velocity [B, 3]."""
        model = self._model
        # Inertia is proportional to mass, so the gradient of the mass includes those of the inertia and its inverse.
        mass, inertia = model.body_mass.numpy(), model.body_inertia.numpy()[:, 0, 0]
        inertia_grad, inverse_grad = (
            np.trace(a.grad.numpy(), 0, 1, 2) for a in (model.body_inertia, model.body_inv_inertia)
        )
        inertia_part = (inertia_grad * inertia - inverse_grad / inertia) / mass
        return {
            "mass": -model.body_inv_mass.grad.numpy() / mass**2 + inertia_part,
            "ke": 2.0 * model.shape_material_ke.grad.numpy()[1:],
            "mu": 2.0 * model.shape_material_mu.grad.numpy()[1:],
            "velocity": self._states[0].body_qd.grad.numpy()[:, :3],
        }

    def _step(self, state: Any, next_state: Any) -> None:
        state.clear_forces()
        self._solver.step(state, next_state, self._control, self._contacts, self._dt)


def _build_model(newton: Any, cubes: Cubes) -> Any:
    """Returns all cubes in one world, without contact between them.

    Newton's contact uses the mean of the two shapes' parameters: the plane's are zero and the cubes' are doubled.
    """
    builder = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=(0.0, cubes.gravity, 0.0))
    config = newton.ModelBuilder.ShapeConfig
    builder.add_ground_plane(cfg=config(ke=0.0, kd=0.0, kf=0.0, ka=0.0, mu=0.0))
    half = cubes.edge / 2
    for mass, ke, mu in zip(cubes.mass.tolist(), cubes.ke.tolist(), cubes.mu.tolist(), strict=True):
        inertia = mass * cubes.edge**2 / 6
        body = builder.add_link(mass=mass, inertia=wp.mat33(np.eye(3) * inertia), lock_inertia=True)
        material = config(density=0.0, ke=2 * ke, kd=2 * cubes.kd, kf=2 * cubes.kf, ka=0.0, mu=2 * mu)
        builder.add_shape_box(body, hx=half, hy=half, hz=half, cfg=material)
    return builder.finalize(device="cpu", requires_grad=True)


def _build_contacts(newton: Any, cubes: Cubes) -> Any:
    """Returns contacts of every corner of every cube with the plane, shape 0, through the origin."""
    count = 8 * cubes.count
    contacts = newton.Contacts(count, 0, device="cpu")
    contacts.rigid_contact_count.fill_(count)
    contacts.rigid_contact_shape0.assign(np.repeat(np.arange(1, cubes.count + 1), 8))
    contacts.rigid_contact_shape1.fill_(0)
    contacts.rigid_contact_point0.assign(np.tile(cubes.mesh.vertices, (cubes.count, 1)))
    contacts.rigid_contact_normal.fill_(wp.vec3(0.0, -1.0, 0.0))
    return contacts
