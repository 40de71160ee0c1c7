"""Methods that estimate the parameters of a body, ours among them: each is a function from a problem to an estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from gradsim.datasets.recording import record
from gradsim.experiments.baselines.learning import Training, predict
from gradsim.experiments.baselines.mujoco_sysid import mujoco_sysid
from gradsim.experiments.baselines.problem import ALL, PATHS, SIDE, Problem, training_values
from gradsim.experiments.baselines.reinforce import reinforce
from gradsim.experiments.protocol import fit_video
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.observations.states import States
from gradsim.fit.result import Fit
from gradsim.scene.errors import MissingExtra

MORE_ITERATIONS = 100  # of a fit that has not converged
POPULATION, EVALUATIONS = 6, 300  # of CMA-ES
SPREAD = 0.5  # its initial standard deviation, of the logarithms of the parameters
LEARNED = ("convlstm", "efficientnet")  # methods that are trained before


@dataclass(frozen=True)
class Estimate:
    """Estimated parameters.

    Attributes:
        values: By name, the mass in kg.
        simulations: Number of simulations; None where the search does not count them.
        fit: Of gradsim: what it says about its own answer.
    """

    values: Mapping[str, float]
    simulations: int | None = None
    fit: Fit | None = None


Method = Callable[[Problem], Estimate]


def average(problem: Problem) -> Estimate:
    """The means of the training split."""
    return Estimate(dict(zip(ALL, training_values(0).mean(0).tolist(), strict=True)), 0)


def random(problem: Problem) -> Estimate:
    """The values of a random video of the data set."""
    rng = np.random.default_rng([problem.seed, 2])
    return Estimate(dict(zip(ALL, rng.choice(training_values(0)).tolist(), strict=True)), 0)


def gradsim(problem: Problem) -> Estimate:
    """Our method: Gauss-Newton on the pixels."""
    return _fitted(problem, problem.video)


def diff_physics(problem: Problem) -> Estimate:
    """Our engine without the renderer: Gauss-Newton on the 3D states."""
    return _fitted(problem, problem.states)


def _fitted(problem: Problem, observation: torch.Tensor | States) -> Estimate:
    """Estimates the unknowns; with more iterations if the fit advises that."""
    time = problem.sample.time
    options: dict[str, Any] = {
        "fps": time.fps,
        "substeps": time.substeps,
        "integrator": time.integrator,
        "bootstrap": False,
        "seed": problem.seed,
    }
    fit = fit_video(problem.scene, observation, lambda text: None, **options)
    if fit.status == "not converged":
        longer = GaussNewton(iterations=MORE_ITERATIONS)
        fit = fit_video(problem.scene, observation, lambda text: None, optimizer=longer, **options)
    return Estimate(_named(problem, {path: float(value) for path, value in fit.values.items()}), fit=fit)


def _named(problem: Problem, parameters: Mapping[str, float]) -> dict[str, float]:
    """Returns parameters of the scene by their names in the tables."""
    return {name: problem.value(name, parameters[PATHS[name]]) for name in problem.asked}


def cma_es(problem: Problem) -> Estimate:
    """CMA-ES on the mean squared difference of the pixels, without gradients.

    The package does not optimize a single number, so a further coordinate, which the loss ignores, is added.
    """
    try:
        import cma
    except ImportError as error:
        raise MissingExtra("CMA-ES", "paper") from error
    paths = list(problem.bounds)
    low, high = ([math.log(problem.bounds[path][end]) for path in paths] for end in (0, 1))
    options = {
        "bounds": [[*low, -1.0], [*high, 1.0]],
        "popsize": POPULATION,
        "maxfevals": EVALUATIONS,
        "seed": problem.seed + 1,
        "tolx": 1e-11,
        "tolfun": 1e-20,
        "tolfunhist": 1e-22,
        "verbose": -9,
        "verb_log": 0,
    }
    search = cma.CMAEvolutionStrategy([*(math.log(problem.guess[path]) for path in paths), 0.0], SPREAD, options)
    while not search.stop():
        points = search.ask()
        search.tell(points, _pixel_losses(problem, paths, np.exp(np.array(points)[:, :-1])))
    best = dict(zip(paths, np.exp(search.result.xbest[:-1]).tolist(), strict=True))
    return Estimate(_named(problem, best), int(search.result.evaluations))


def _pixel_losses(problem: Problem, paths: list[str], values: np.ndarray) -> list[float]:
    """Returns the mean squared difference between the video and those of some parameters [N, P], as one batch."""
    scene = problem.scene.with_values({path: torch.tensor(values[:, k]) for k, path in enumerate(paths)})
    with torch.no_grad():
        _, (videos,) = record(scene, problem.sample.time, SIDE)
        return (videos - problem.video).square().flatten(1).mean(1).tolist()


def pybullet_reinforce(problem: Problem) -> Estimate:
    """REINFORCE through PyBullet, with a true video of PyBullet's own."""
    mass, simulations = reinforce(problem)
    return Estimate({"mass": mass}, simulations)


def mujoco_states(problem: Problem) -> Estimate:
    """MuJoCo's system identification on the 3D states of the flight."""
    mass, simulations = mujoco_sysid(problem)
    return Estimate({"mass": mass}, simulations)


def _learned(network: str, training: Training, problem: Problem) -> Estimate:
    return Estimate(dict(zip(ALL, predict(network, training, problem.small_video), strict=True)), 0)


def methods(training: Training) -> dict[str, Method]:
    """Returns all methods by name.

    Args:
        training: Of the networks, which `learning.train` must have trained.
    """
    return {
        "average": average,
        "random": random,
        "convlstm": partial(_learned, "convlstm", training),
        "efficientnet": partial(_learned, "efficientnet", training),
        "pybullet": pybullet_reinforce,
        "mujoco": mujoco_states,
        "cma-es": cma_es,
        "diffphysics": diff_physics,
        "gradsim": gradsim,
    }
