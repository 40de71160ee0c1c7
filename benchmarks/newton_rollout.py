"""Rollouts of Newton, the physics engine on Warp: https://github.com/newton-physics/newton.

Newton's semi-implicit solver launches the same two kinds of kernel a step as gradsim, elements then nodes, and Warp's
Tape differentiates them. The configuration is the fastest one found that does not change its results: no surface
triangles, no contact search, two alternating states where no gradient is needed, LLVM's default vectorization depth
instead of Warp's (20 % faster forward and 13 % with gradients at 1,000 tetrahedra), and the whole rollout as one
captured graph, in addition to single launches.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from benchmarks.scenes import ElasticScene
from benchmarks.timing import Call
from gradsim import bridge
from gradsim.scene.errors import MissingExtra

COMPILER_FLAGS = "-march=native"
KERNEL_MODULES = ("newton._src.solvers.semi_implicit.kernels_particle", "newton._src.solvers.solver")


def import_newton() -> Any:
    """Returns the package.

    Raises:
        MissingExtra: Newton is not installed.
    """
    bridge.initialize()
    try:
        return importlib.import_module("newton")
    except ImportError:
        raise MissingExtra("the comparison with Newton", "bench") from None


def set_compiler_flags(modules: tuple[str, ...], flags: str) -> None:
    """Sets the compiler flags of Newton's kernel modules."""
    for module in modules:
        wp.set_module_options({"cpu_compiler_flags": flags}, module=importlib.import_module(module))


class NewtonRollout(ABC):
    """A rollout with and without gradients, by single launches or as a captured graph.

    The rollout without gradients alternates between two states; the one with gradients keeps a state for every step.
    """

    _steps: int
    _start: Any
    _alternating_states: list[Any]
    _states: list[Any]
    _weights: Any
    _tape: Any

    @abstractmethod
    def _step(self, state: Any, next_state: Any) -> None:
        """Computes `next_state` from `state`."""

    @abstractmethod
    def _output(self, state: Any) -> Any:
        """Returns the array that the loss weighs."""

    @property
    def _final_state(self) -> Any:
        """The state after `forward()`."""
        return self._alternating_states[self._steps % 2]

    def _allocate_states(self, model: Any, steps: int) -> None:
        self._steps = steps
        self._start = model.state(requires_grad=False)
        self._alternating_states = [model.state(requires_grad=False) for _ in range(2)]
        self._states = [model.state(requires_grad=True) for _ in range(steps + 1)]
        self._tape = wp.Tape()

    def forward(self) -> None:
        """Runs the rollout without gradients."""
        state, next_state = self._alternating_states
        state.assign(self._start)
        for _ in range(self._steps):
            self._step(state, next_state)
            state, next_state = next_state, state

    def forward_backward(self) -> None:
        """Runs the rollout and computes the gradients of the parameters and of the initial state."""
        self._tape.zero()
        self._tape = wp.Tape()
        with self._tape:
            for state, next_state in zip(self._states[:-1], self._states[1:], strict=True):
                self._step(state, next_state)
        self._tape.backward(grads={self._output(self._states[-1]): self._weights})

    def capture(self, call: Callable[[], None]) -> Callable[[], None]:
        """Returns the replay of `call` as a captured graph, without Python between its launches."""
        call()  # compiles, and creates the tape that the captured call clears
        with wp.ScopedCapture(device="cpu") as capture:
            call()
        return lambda: wp.capture_launch(capture.graph)

    def calls(self) -> dict[str, Call]:
        """Returns the calls to time: both rollouts, by single launches and as graphs."""
        return {
            "newton_forward": self.forward,
            "newton_forward_backward": self.forward_backward,
            "newton_graph_forward": self.capture(self.forward),
            "newton_graph_forward_backward": self.capture(self.forward_backward),
        }


class NewtonParticles(NewtonRollout):
    """A rollout of a particle model.

    Args:
        model: Newton's model.
        scene: Its initial state, time step and weights in the loss.
        steps: Steps of the rollout.
    """

    def __init__(self, model: Any, scene: ElasticScene, *, steps: int):
        newton = import_newton()
        self._dt, self._model = scene.dt, model
        set_compiler_flags(KERNEL_MODULES, COMPILER_FLAGS)
        self._solver = newton.solvers.SolverSemiImplicit(model, enable_tri_contact=False)
        self._control = model.control()
        self._allocate_states(model, steps)
        for state in (self._start, self._states[0]):
            state.particle_q.assign(scene.start.astype(np.float32))
            state.particle_qd.assign(scene.velocity.astype(np.float32))
        self._weights = wp.array(scene.weights.astype(np.float32), dtype=wp.vec3, device="cpu")

    def _output(self, state: Any) -> Any:
        return state.particle_q

    @property
    def final(self) -> np.ndarray:
        """Positions after `forward()` [m], [N, 3]."""
        return np.asarray(self._final_state.particle_q.numpy())

    def _step(self, state: Any, next_state: Any) -> None:
        state.clear_forces()
        self._solver.step(state, next_state, self._control, None, self._dt)


def node_masses(element_masses: np.ndarray, elements: np.ndarray, pinned: np.ndarray) -> np.ndarray:
    """Returns the lumped masses of the nodes [kg], [N]; zero for pinned nodes, which Newton does not move.

    Args:
        element_masses: [kg], [E].
        elements: Nodes of each element, [E, K].
        pinned: Whether a node is fixed, [N].
    """
    corners = elements.shape[1]
    masses = np.bincount(elements.ravel(), weights=np.repeat(element_masses / corners, corners), minlength=len(pinned))
    masses[pinned] = 0.0
    return masses
