"""The same beam in Newton, the physics engine on Warp: https://github.com/newton-physics/newton.

Its solver launches the same two kinds of kernel a step, elements then nodes, and Warp's Tape differentiates them. The
configuration is the fastest found that leaves its results as they are: no surface triangles, no search for contacts,
two states in turn where no gradient is asked for, LLVM's own depth of vectorization instead of Warp's default (20 %
faster forward and 13 % with gradients at 1,000 tets), and, beside plain launches, the whole rollout as one graph.

One difference stays: Newton damps the rate of F, gradsim that of the strain, which takes a fifth more time a force.
Without damping the two agree to rounding, gradients too; a test holds them to it.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from gradsim import bridge
from gradsim.scene.errors import MissingExtra

if TYPE_CHECKING:
    from gradsim.bench.physics import Beam

COMPILER_FLAGS = "-march=native"
KERNEL_MODULES = ("newton._src.solvers.semi_implicit.kernels_particle", "newton._src.solvers.solver")


def import_newton() -> Any:
    """The package.

    Raises:
        MissingExtra: It is not installed.
    """
    bridge.initialize()
    try:
        return importlib.import_module("newton")
    except ImportError:
        raise MissingExtra("the comparison with Newton", "bench") from None


class NewtonRollout(ABC):
    """A rollout of Newton's, alone and with gradients, by plain launches or as a recorded graph.

    Two states that take turns serve the rollout alone; gradients need a state for every step.
    """

    _steps: int
    _start: Any
    _turns: list[Any]
    _states: list[Any]
    _weights: Any
    _tape: Any

    @abstractmethod
    def _step(self, here: Any, there: Any) -> None:
        """One step from a state to another."""

    @abstractmethod
    def _output(self, state: Any) -> Any:
        """What the loss weighs."""

    def forward(self) -> None:
        """The rollout alone."""
        here, there = self._turns
        here.assign(self._start)
        for _ in range(self._steps):
            self._step(here, there)
            here, there = there, here

    def both(self) -> None:
        """The rollout and the gradients of its parameters and the start state."""
        self._tape.zero()
        self._tape = wp.Tape()
        with self._tape:
            for here, there in zip(self._states[:-1], self._states[1:], strict=True):
                self._step(here, there)
        self._tape.backward(grads={self._output(self._states[-1]): self._weights})

    def graph(self, call: Callable[[], None]) -> Callable[[], None]:
        """`call` recorded, to be replayed without Python between its launches."""
        call()  # compiles and fills the tape that a second call clears
        with wp.ScopedCapture(device="cpu") as capture:
            call()
        return lambda: wp.capture_launch(capture.graph)

    def calls(self) -> dict[str, Callable[[], object]]:
        """All that is timed: `forward` and `both`, launched one by one and as graphs."""
        return {
            "newton_forward": self.forward,
            "newton_both": self.both,
            "newton_graph_forward": self.graph(self.forward),
            "newton_graph_both": self.graph(self.both),
        }


class NewtonParticles(NewtonRollout):
    """A rollout of a model of particles: `forward()` leaves positions in `final`, `both()` also gradients.

    Args:
        model: What to simulate, as Newton knows it.
        problem: Where it starts, [N, 3] each, and its time step.
        steps: Steps of the rollout.
        weights: Gradient of the loss in the final positions, [N, 3].
    """

    def __init__(self, model: Any, problem: Any, *, steps: int, weights: np.ndarray):
        newton = import_newton()
        self._steps, self._dt, self._model = steps, problem.dt, model
        for module in KERNEL_MODULES:
            wp.set_module_options({"cpu_compiler_flags": COMPILER_FLAGS}, module=importlib.import_module(module))
        self._solver = newton.solvers.SolverSemiImplicit(model, enable_tri_contact=False)
        self._control = model.control()
        self._start = model.state(requires_grad=False)
        self._turns = [model.state(requires_grad=False) for _ in range(2)]
        self._states = [model.state(requires_grad=True) for _ in range(steps + 1)]
        for state in (self._start, self._states[0]):
            state.particle_q.assign(problem.start.astype(np.float32))
            state.particle_qd.assign(problem.velocity.astype(np.float32))
        self._weights = wp.array(weights.astype(np.float32), dtype=wp.vec3, device="cpu")
        self._tape = wp.Tape()

    def _output(self, state: Any) -> Any:
        return state.particle_q

    @property
    def final(self) -> np.ndarray:
        """Positions after `forward()` [m], [N, 3]."""
        return np.asarray(self._turns[self._steps % 2].particle_q.numpy())

    def _step(self, here: Any, there: Any) -> None:
        here.clear_forces()
        self._solver.step(here, there, self._control, None, self._dt)


class NewtonBeam(NewtonParticles):
    """A beam's rollout; `graph` records `forward` or `both`.

    Args:
        beam: What to simulate.
        steps: Steps of the rollout.
        weights: Gradient of the loss in the final positions, [N, 3].
    """

    def __init__(self, beam: Beam, *, steps: int, weights: np.ndarray):
        super().__init__(_model(import_newton(), beam), beam, steps=steps, weights=weights)

    @property
    def lame_gradients(self) -> tuple[np.ndarray, np.ndarray]:
        """Gradients of mu and lam after `both()`, [T] each."""
        gradients = self._model.tet_materials.grad.numpy()
        return gradients[:, 0], gradients[:, 1]


def _model(newton: Any, beam: Beam) -> Any:
    """The beam as Newton's model: particles, of which those without mass stay where they are, and tetrahedra."""
    builder = newton.ModelBuilder(gravity=(0.0, beam.gravity, 0.0))
    corners = np.repeat(beam.density * beam.mesh.volumes / 4.0, 4)
    masses = np.bincount(beam.mesh.tets.ravel(), weights=corners)
    masses[beam.pinned] = 0.0
    for point, mass in zip(beam.mesh.vertices.tolist(), masses.tolist(), strict=True):
        builder.add_particle(tuple(point), (0.0, 0.0, 0.0), mass)
    for tet in beam.mesh.tets.tolist():
        builder.add_tetrahedron(*tet, k_mu=beam.mu, k_lambda=beam.lam, k_damp=beam.damping)
    model = builder.finalize(device="cpu", requires_grad=True)
    model.particle_grid = None  # no contacts between particles
    return model
