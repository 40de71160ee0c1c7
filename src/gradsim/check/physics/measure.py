"""What the checks share: how a check is named, forces at a state, and bodies brought to rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from gradsim.check.fact import Fact, relative
from gradsim.scene.integrators import Integrator, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.trajectory import State, Trajectory
from gradsim.simulate.compile.compiled_scene import compile_scene
from gradsim.simulate.simulate import simulate
from gradsim.simulate.stability import stable_dt

STILL = (0.0, 0.0, 0.0)  # no gravity


@dataclass(frozen=True)
class Check:
    """A known answer, and the function that measures how near the simulation comes to it."""

    name: str
    run: Callable[[], list[Fact]]


def node_masses(scene: Scene) -> torch.Tensor:
    """Masses of all nodes [kg], [B, N]; zero where pinned, since such nodes carry no momentum."""
    inverse = compile_scene(scene).parameters["node"][:, 0]
    return torch.where(inverse > 0.0, 1.0 / inverse, 0.0)


def forces(scene: Scene, start: State | None = None) -> torch.Tensor:
    """Forces on all nodes at the start [N], [B, N, 3], from their velocities after one step."""
    integrator = SymplecticEuler()
    dt = stable_dt(scene, integrator)
    step = simulate(scene, frames=2, fps=1.0 / dt, substeps=1, start=start, integrator=integrator)
    change = step.velocities[..., 1, :, :] - step.velocities[..., 0, :, :]
    return node_masses(scene)[..., None] * change.reshape(-1, *change.shape[-2:]) / dt


def roll(
    scene: Scene,
    *,
    duration: float,
    frames: int,
    start: State | None = None,
    integrator: Integrator = SymplecticEuler(),
    share: float = 0.9,
) -> Trajectory:
    """Simulate `duration` [s] in steps of at most `share` of the stable one."""
    fps = (frames - 1) / duration
    substeps = math.ceil(1.0 / (fps * share * stable_dt(scene, integrator)))
    return simulate(scene, frames=frames, fps=fps, substeps=substeps, start=start, integrator=integrator)


def relax(scene: Scene, *, period: float, left: float = 1e-12) -> torch.Tensor:
    """Positions at rest [m], [N, 3], by kinetic damping: a body stops whenever its kinetic energy has a maximum.

    That takes out all the energy the slowest mode has released, and needs no damping coefficient.

    Args:
        scene: One world.
        period: About that of the slowest mode [s].
        left: Stop when a maximum is below this part of the highest one before it.
    """
    mass = node_masses(scene)[0]
    state: State | None = None
    highest = 0.0
    for _ in range(1000):
        motion = roll(scene, duration=period / 4, frames=33, start=state)
        energy = 0.5 * (mass[:, None] * motion.velocities**2).sum((-1, -2))
        falls = torch.nonzero(energy[1:] < energy[:-1])
        if not len(falls):
            state = motion.final
            continue
        peak = int(falls[0])
        state = State(motion.vertices[peak], torch.zeros_like(motion.velocities[peak]))
        highest = max(highest, float(energy[peak]))
        if float(energy[peak]) <= left * highest:
            return motion.vertices[peak]
    raise RuntimeError(f"no rest after 1000 stretches of {period / 4:.3g} s")


def fitted_order(sizes: np.ndarray, errors: np.ndarray) -> float:
    """Least-squares slope of log error over log size."""
    return float(np.polyfit(np.log(sizes), np.log(errors), 1)[0])


def shrinking(
    topic: str, names: list[str], expected: float, got: list[float], *, first: float, last: float
) -> list[Fact]:
    """Relative errors of ever finer meshes: below `first`, each below the one before, and in the end below `last`."""
    facts: list[Fact] = []
    bound = first
    for name, value in zip(names, got, strict=True):
        bound = min(bound, last) if len(facts) == len(names) - 1 else bound
        facts.append(relative(topic, name, expected, value, bound))
        bound = facts[-1].error
    return facts
