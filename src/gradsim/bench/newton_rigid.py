"""The same cubes in Newton, the physics engine on Warp: https://github.com/newton-physics/newton.

All worlds are bodies of one model without joints, and a step is two kernels, contact and bodies, that Warp's Tape
differentiates. The configuration is the fastest found that leaves its results as they are: eight contacts a cube made
once, outside the clock, as Newton's own differentiable example does with a plane (its search for contacts keeps four
corners of a box and passes no gradient on); no more threads than contacts; two states in turn where no gradient is
asked for; Warp's thresholds of inlining with LLVM's own depth of vectorization (2 % faster than Warp's at 1,024 worlds;
LLVM's own thresholds are a third slower); and, beside plain launches, the whole rollout as one graph.

Where they differ: Newton damps on the way in only, has no depth over which force and damping set in, and caps friction
at mu f_n |u| / huber(u), u being the slip velocity. Without damping and that depth, and below the cap, the two agree to
rounding, gradients too; a test holds them to it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim.bench.newton_peer import NewtonRollout, import_newton

if TYPE_CHECKING:
    from gradsim.bench.rigid import Cubes

COMPILER_FLAGS = "-march=native -mllvm=-inline-threshold=9000 -mllvm=-inline-cold-callsite-threshold=3000"
KERNEL_MODULES = ("newton._src.solvers.semi_implicit.kernels_contact", "newton._src.solvers.solver")


class NewtonCubes(NewtonRollout):
    """The cubes' rollout: `forward()` leaves their places in `final`, `both()` also gradients; `graph` records either.

    Args:
        cubes: What to simulate.
        steps: Steps of the rollout.
    """

    def __init__(self, cubes: Cubes, *, steps: int):
        newton = import_newton()
        self._steps, self._dt = steps, cubes.dt
        self._model = _model(newton, cubes)
        for module in KERNEL_MODULES:
            wp.set_module_options({"cpu_compiler_flags": COMPILER_FLAGS}, module=importlib.import_module(module))
        self._contacts = _contacts(newton, cubes)
        self._solver = newton.solvers.SolverSemiImplicit(self._model, angular_damping=0.0)
        self._control = self._model.control()
        self._start = self._model.state(requires_grad=False)
        self._turns = [self._model.state(requires_grad=False) for _ in range(2)]
        self._states = [self._model.state(requires_grad=True) for _ in range(steps + 1)]
        for state in (self._start, self._states[0]):
            state.body_q.assign(np.concatenate([cubes.position, cubes.rotation], 1).astype(np.float32))
            state.body_qd.assign(np.concatenate([cubes.velocity, cubes.spin], 1).astype(np.float32))
        weights = np.concatenate([cubes.weights, np.zeros((cubes.count, 4))], 1)
        self._weights = wp.array(weights.astype(np.float32), dtype=wp.transform, device="cpu")
        self._tape = wp.Tape()

    def _output(self, state: Any) -> Any:
        return state.body_q

    @property
    def final(self) -> np.ndarray:
        """Centres after `forward()` [m], [B, 3]."""
        return np.asarray(self._turns[self._steps % 2].body_q.numpy())[:, :3]

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """Gradients after `both()` by parameter: mass, ke, mu [B], velocity [B, 3]."""
        model = self._model
        mass, moment = model.body_mass.numpy(), model.body_inertia.numpy()[:, 0, 0]  # both go with the mass
        of_moment, of_inverse = (
            np.trace(a.grad.numpy(), 0, 1, 2) for a in (model.body_inertia, model.body_inv_inertia)
        )
        return {
            "mass": -model.body_inv_mass.grad.numpy() / mass**2 + (of_moment * moment - of_inverse / moment) / mass,
            "ke": 2.0 * model.shape_material_ke.grad.numpy()[1:],
            "mu": 2.0 * model.shape_material_mu.grad.numpy()[1:],
            "velocity": self._states[0].body_qd.grad.numpy()[:, :3],
        }

    def _step(self, here: Any, there: Any) -> None:
        here.clear_forces()
        self._solver.step(here, there, self._control, self._contacts, self._dt)


def _model(newton: Any, cubes: Cubes) -> Any:
    """All cubes in one world, which do not meet. A contact takes the mean of its shapes' parameters: the plane has none
    and the cubes twice their own."""
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


def _contacts(newton: Any, cubes: Cubes) -> Any:
    """Every corner of every cube against the plane, shape 0, which passes through the origin."""
    count = 8 * cubes.count
    contacts = newton.Contacts(count, 0, device="cpu")
    contacts.rigid_contact_count.fill_(count)
    contacts.rigid_contact_shape0.assign(np.repeat(np.arange(1, cubes.count + 1), 8))
    contacts.rigid_contact_shape1.fill_(0)
    contacts.rigid_contact_point0.assign(np.tile(cubes.mesh.vertices, (cubes.count, 1)))
    contacts.rigid_contact_normal.fill_(wp.vec3(0.0, -1.0, 0.0))
    return contacts
