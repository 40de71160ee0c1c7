"""Helpers of the physics checks: forces at a state, rollouts with stable steps, equilibria and convergence orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.check.result import CheckResult, expect_close
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.simulate import simulate
from gradsim.simulate.stability import stable_dt

G = 9.81  # [m/s^2]
NO_GRAVITY = (0.0, 0.0, 0.0)
INTEGRATORS: tuple[Integrator, ...] = (SymplecticEuler(), Midpoint())


@dataclass(frozen=True)
class PhysicsCheck:
    """A known solution, and the function that compares the simulation with it."""

    name: str
    run: Callable[[], list[CheckResult]]


def node_masses(scene: Scene) -> torch.Tensor:
    """Returns the masses of all nodes [kg], [B, N]; zero where pinned, since such nodes carry no momentum."""
    inverse = compile_scene(scene).parameters["node"][:, 0]
    return torch.where(inverse > 0.0, 1.0 / inverse, 0.0)


def node_forces(scene: Scene, start: State | None = None) -> torch.Tensor:
    """Returns the forces on all nodes at the start [N], [B, N, 3].

    They follow from the change of velocity in one step of SymplecticEuler, which evaluates the forces at the start.
    """
    dt = stable_dt(scene, SymplecticEuler())
    step = simulate(scene, frames=2, fps=1.0 / dt, substeps=1, start=start, integrator=SymplecticEuler())
    change = step.velocities[..., 1, :, :] - step.velocities[..., 0, :, :]
    return node_masses(scene)[..., None] * change.reshape(-1, *change.shape[-2:]) / dt


def simulate_stable(
    scene: Scene,
    *,
    duration: float,
    frames: int,
    start: State | None = None,
    integrator: Integrator = SymplecticEuler(),
    fraction: float = 0.9,
) -> Trajectory:
    """Simulates `duration` [s] in steps of at most `fraction` of the stable one."""
    fps = (frames - 1) / duration
    substeps = math.ceil(1.0 / (fps * fraction * stable_dt(scene, integrator)))
    return simulate(scene, frames=frames, fps=fps, substeps=substeps, start=start, integrator=integrator)


def relax(scene: Scene, *, period: float, tolerance: float = 1e-12) -> torch.Tensor:
    """Returns the equilibrium positions [m], [N, 3], by dynamic relaxation with kinetic damping.

    The velocities are set to zero at each maximum of the kinetic energy. That removes all energy which the slowest
    mode has released, and needs no damping coefficient.

    Args:
        scene: One world.
        period: Approximate period of the slowest mode [s].
        tolerance: Stops when a maximum is below this fraction of the highest one.
    """
    mass = node_masses(scene)[0]
    state: State | None = None
    highest = 0.0
    for _ in range(1000):
        motion = simulate_stable(scene, duration=period / 4, frames=33, start=state)
        energy = 0.5 * (mass[:, None] * motion.velocities**2).sum((-1, -2))
        decreases = torch.nonzero(energy[1:] < energy[:-1])
        if not len(decreases):
            state = motion.final
            continue
        peak = int(decreases[0])
        state = State(motion.vertices[peak], torch.zeros_like(motion.velocities[peak]))
        highest = max(highest, float(energy[peak]))
        if float(energy[peak]) <= tolerance * highest:
            return motion.vertices[peak]
    raise RuntimeError(f"no equilibrium after 1000 intervals of {period / 4:.3g} s")


def convergence_order(sizes: np.ndarray, errors: np.ndarray) -> float:
    """Returns the least-squares slope of log error over log size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def expect_convergence(
    topic: str, names: list[str], expected: float, got: list[float], *, first: float, last: float
) -> list[CheckResult]:
    """Returns the relative errors on refined meshes or steps.

    The first error must be below `first`, each one below the one before, and the last one below `last`.
    """
    results: list[CheckResult] = []
    bound = first
    for name, value in zip(names, got, strict=True):
        bound = min(bound, last) if len(results) == len(names) - 1 else bound
        results.append(expect_close(topic, name, expected, value, bound))
        bound = results[-1].error
    return results
