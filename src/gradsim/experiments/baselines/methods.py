"""Methods that estimate a mass, ours among them: each is a function from a problem to an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import record
from gradsim.experiments.baselines.problem import DENSITY, SIDE, MassProblem, training_masses
from gradsim.experiments.baselines.reinforce import reinforce
from gradsim.experiments.protocol import fit_video
from gradsim.fit.observations.states import States
from gradsim.scene.errors import MissingExtra

POPULATION, EVALUATIONS = 6, 300  # of CMA-ES
SPREAD = 0.5  # initial standard deviation of CMA-ES, of the logarithm of the density


@dataclass(frozen=True)
class Estimate:
    """An estimated mass."""

    mass: float  # [kg]
    truth: float  # of the same engine as the observation [kg]
    simulations: int | None = None  # None where the search does not count them


Method = Callable[[MassProblem], Estimate]


def average(problem: MassProblem) -> Estimate:
    """The mean of the training split."""
    return Estimate(float(np.mean(training_masses(0))), problem.mass, 0)


def random(problem: MassProblem) -> Estimate:
    """The mass of a random video of the data set."""
    rng = np.random.default_rng([problem.seed, 2])
    return Estimate(float(rng.choice(training_masses(0))), problem.mass, 0)


def gradsim(problem: MassProblem) -> Estimate:
    """Our method: Gauss-Newton on the pixels."""
    return _fitted(problem, problem.video)


def diff_physics(problem: MassProblem) -> Estimate:
    """Our engine without the renderer: Gauss-Newton on the 3D states."""
    return _fitted(problem, problem.states)


def _fitted(problem: MassProblem, observation: torch.Tensor | States) -> Estimate:
    time = problem.sample.time
    options: dict[str, Any] = {
        "fps": time.fps,
        "substeps": time.substeps,
        "integrator": time.integrator,
        "bootstrap": False,
    }
    fit = fit_video(problem.scene, observation, lambda text: None, **options)
    return Estimate(float(fit.values[DENSITY]) * problem.volume, problem.mass)


def cma_es(problem: MassProblem) -> Estimate:
    """CMA-ES on the mean squared difference of the pixels, without gradients.

    The package does not optimize a single number, so a second coordinate, which the loss ignores, is added.
    """
    try:
        import cma
    except ImportError as error:
        raise MissingExtra("CMA-ES", "paper") from error
    low, high = (math.log(bound) for bound in problem.bounds)
    options = {
        "bounds": [[low, -1.0], [high, 1.0]],
        "popsize": POPULATION,
        "maxfevals": EVALUATIONS,
        "seed": problem.seed + 1,
        "tolx": 1e-11,
        "tolfun": 1e-20,
        "tolfunhist": 1e-22,
        "verbose": -9,
        "verb_log": 0,
    }
    search = cma.CMAEvolutionStrategy([math.log(problem.guess), 0.0], SPREAD, options)
    while not search.stop():
        points = search.ask()
        search.tell(points, _pixel_losses(problem, [math.exp(point[0]) for point in points]))
    return Estimate(math.exp(search.result.xbest[0]) * problem.volume, problem.mass, int(search.result.evaluations))


def _pixel_losses(problem: MassProblem, densities: list[float]) -> list[float]:
    """Returns the mean squared difference between the video and that of each density, simulated as one batch."""
    scene = problem.scene.with_values({DENSITY: torch.tensor(densities, dtype=torch.float64)})
    with torch.no_grad():
        _, (videos,) = record(scene, problem.sample.time, SIDE)
        return (videos - problem.video).square().flatten(1).mean(1).tolist()


def pybullet_reinforce(problem: MassProblem) -> Estimate:
    """REINFORCE through PyBullet, with a true video of PyBullet's own."""
    mass, truth, simulations = reinforce(problem)
    return Estimate(mass, truth, simulations)


METHODS: dict[str, Method] = {
    "average": average,
    "random": random,
    "pybullet": pybullet_reinforce,
    "cma-es": cma_es,
    "diffphysics": diff_physics,
    "gradsim": gradsim,
}
PAPER = {  # mean absolute [kg] and relative error of Table 1
    "average": (0.2022, 0.1031),
    "random": (0.2653, 0.1344),
    "pybullet": (0.0928, 0.3668),
    "diffphysics": (1.35e-9, 5.17e-9),
    "gradsim": (2.36e-5, 9.01e-5),
}
