"""Gradients of all bodies, forces and parameters: `gradsim check gradients`.

A difference with a tiny step agrees with the adjoint even where the gradient is useless to an optimizer, for example
across an impact whose force jumps. `check_long_gradients` and `check_cube_gradients` therefore use large steps too, on
rollouts of thousands of time steps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gradsim.check.gradcheck import Objective, Values, adjoint_gradients, central_differences, check_all_gradients
from gradsim.check.gradient_problems import BOUNCE, CUBE_STEP, PROBLEMS, GradientProblem, cube_scene, cube_values
from gradsim.check.gradient_problems.sticking import (
    TUMBLING_COUNT,
    TUMBLING_PARAMETERS,
    tumbling_pair_scene,
    tumbling_scene,
)
from gradsim.check.pair_gradients import check_pair_gradients
from gradsim.check.physics.fluids import BOUNDARIES, gaussian_density, random_velocity, simulate_smoke
from gradsim.check.result import CheckResult, Progress, no_progress
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.scene.scene import Scene
from gradsim.scene.smoke import Boundary, Smoke
from gradsim.scene.trajectory import Trajectory
from gradsim.simulate.simulate import simulate

INTEGRATORS: tuple[Integrator, ...] = (SymplecticEuler(), Midpoint())
USEFUL_TOLERANCE = 0.01  # of gradients against differences with large steps


def simulate_problem(problem: GradientProblem, values: Values, integrator: Integrator) -> Trajectory:
    """Simulates a problem with these parameters."""
    return simulate(
        problem.build(values),
        frames=problem.frames,
        fps=problem.fps,
        substeps=problem.substeps,
        integrator=integrator,
    )


def objective(problem: GradientProblem, integrator: Integrator) -> Objective:
    """Returns a loss: a fixed random weighting of all states of a problem's rollout."""

    def loss(values: Values) -> torch.Tensor:
        trajectory = simulate_problem(problem, values, integrator)
        generator = torch.Generator().manual_seed(0)
        shape = trajectory.vertices.shape[-3:]
        wx, wv = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        return (trajectory.vertices * wx + 0.1 * trajectory.velocities * wv).sum((-3, -2, -1))

    return loss


def check_problem(problem: GradientProblem, integrator: Integrator) -> list[CheckResult]:
    """Checks every parameter of a problem."""
    topic = f"{problem.name}, {type(integrator).__name__}"
    return check_all_gradients(objective(problem, integrator), problem.values(), topic)


def check_gradients(progress: Progress = no_progress) -> list[CheckResult]:
    """Checks every parameter of every problem with both integrators, then the long rollouts and smoke."""
    results = []
    for problem in PROBLEMS:
        for integrator in INTEGRATORS:
            progress(f"{problem.name}, {type(integrator).__name__}")
            results += check_problem(problem, integrator)
    others: dict[str, Callable[[], list[CheckResult]]] = {
        BOUNCE.name: check_long_gradients,
        "eight cubes bounce and slide": check_cube_gradients,
        "boxes with sticking friction tumble": check_sticking_gradients,
        "bodies collide": check_pair_gradients,
        "smoke": check_smoke_gradients,
    }
    for name, check in others.items():
        progress(name)
        results += check()
    return results


def check_cube_gradients() -> list[CheckResult]:
    """Checks the final positions of eight tumbling cubes after 2 s: the median error against large differences."""
    values = cube_values()
    frames, fps = 3, 1.0
    direction = torch.tensor([1.0, 0.3, 0.6], dtype=torch.float64)

    def final_positions(p: Values) -> torch.Tensor:
        substeps = round(1.0 / (fps * CUBE_STEP))
        motion = simulate(cube_scene(p), frames=frames, fps=fps, substeps=substeps, integrator=SymplecticEuler())
        return motion["cube"].position[..., -1, :] @ direction

    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    adjoints = torch.autograd.grad(final_positions(leaves).sum(), list(leaves.values()))
    topic, results = "cubes bounce and slide for 2 s", []
    for step in (1e-3, 1e-4):
        for (name, value), adjoint in zip(values.items(), adjoints, strict=True):
            with torch.no_grad():
                up, down = (final_positions({**values, name: value * (1 + sign * step)}) for sign in (1, -1))
            difference = (up - down) / (2 * step * value)
            median = float(((difference - adjoint).abs() / adjoint.abs()).median())
            title = f"median over eight scenes, {name}, step {step:g}"
            numbers = (float(difference[0]), float(adjoint[0]), median, USEFUL_TOLERANCE)
            results.append(CheckResult(topic, title, *numbers))
    return results


def check_sticking_gradients() -> list[CheckResult]:
    """Checks sixteen boxes with sticking friction that tumble for 1 s, on the ground and over another box.

    The latter has so many steps that a box moves by about delta / 8 in each, which gradients through edges need.
    """
    on_ground = _check_tumbling("tumbling boxes with sticking friction", tumbling_scene, 4000)
    return [*on_ground, *_check_tumbling("boxes that tumble over a box", tumbling_pair_scene, 16000)]


def _check_tumbling(name: str, scene: Callable[[Values], Scene], steps: int) -> list[CheckResult]:
    """Checks the medians of the gradients' errors over the worlds of a scene of tumbling boxes.

    A difference along a random direction of all parameters is compared with the gradient, relative to its norm.
    """
    random = torch.Generator().manual_seed(5)
    count, names, fps = TUMBLING_COUNT, TUMBLING_PARAMETERS, 8
    direction, shift = (torch.randn(count, len(names), generator=random, dtype=torch.float64) for _ in range(2))

    def moved(amount: torch.Tensor) -> Values:
        return {name: 1.0 + amount[:, k] for k, name in enumerate(names)}

    def loss(p: Values) -> torch.Tensor:
        motion = simulate(scene(p), frames=fps + 1, fps=fps, substeps=steps // fps)["box"]
        weights = torch.tensor([1.0, 0.3, 0.5], dtype=torch.float64)
        return motion.position[..., -1, :] @ weights + 0.1 * motion.rotation[..., -1, 1]

    def gradient(amount: torch.Tensor) -> torch.Tensor:
        leaves = {name: value.requires_grad_() for name, value in moved(amount).items()}
        return torch.stack(torch.autograd.grad(loss(leaves).sum(), list(leaves.values())), -1)

    adjoint = gradient(0.0 * direction)
    slope, norm = (adjoint * direction).sum(-1), adjoint.norm(dim=-1)
    topic, results = f"sixteen {name}", []
    for step, tolerance in ((1e-3, 1e-2), (1e-4, 6e-3), (1e-5, 1e-3)):
        with torch.no_grad():
            difference = (loss(moved(step * direction)) - loss(moved(-step * direction))) / (2 * step)
        median = float(((difference - slope).abs() / norm).median())
        numbers = (float(difference[0]), float(slope[0]), median, tolerance)
        results.append(CheckResult(topic, f"median error, step {step:g}", *numbers))
    cosine = float(torch.cosine_similarity(gradient(1e-3 * shift), adjoint, dim=-1).median())
    title = "median cosine of gradients at parameters 1e-3 apart"
    return [*results, CheckResult(topic, title, 1.0, cosine, 1.0 - cosine, USEFUL_TOLERANCE)]


def check_long_gradients() -> list[CheckResult]:
    """Checks a soft ball that bounces and slides for 5,000 steps, with large differences and nearby parameters."""
    values = BOUNCE.values()
    names = list(values)

    def loss(p: Values) -> torch.Tensor:
        ball = simulate_problem(BOUNCE, p, SymplecticEuler())["ball"]
        return ball.position[..., -1, 0] + 0.5 * ball.position[..., -1, 1] + 0.1 * ball.vertices[..., -1, 0, 2]

    def relative_gradient(p: Values) -> torch.Tensor:
        found = adjoint_gradients(loss, p)
        return torch.stack([found[name] * p[name] for name in names])

    adjoint = relative_gradient(values)
    results = []
    topic = f"{BOUNCE.name}, {(BOUNCE.frames - 1) * BOUNCE.substeps} steps"
    for step in (1e-3, 1e-4, 1e-5):
        found = torch.stack([central_differences(loss, values, n, values[n][None], step)[0] for n in names])
        error = float((found - adjoint).norm() / adjoint.norm())
        numbers = (float(found.norm()), float(adjoint.norm()), error, USEFUL_TOLERANCE)
        results.append(CheckResult(topic, f"difference with step {step:g}", *numbers))
    cosines = []
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        shift = torch.randn(len(names), generator=generator, dtype=torch.float64)
        moved = {name: values[name] * (1 + 1e-3 * shift[k]) for k, name in enumerate(names)}
        cosines.append(float(torch.cosine_similarity(relative_gradient(moved), adjoint, dim=0)))
    name = "cosine of gradients at parameters 1e-3 apart"
    return [*results, CheckResult(topic, name, 1.0, min(cosines), 1.0 - min(cosines), USEFUL_TOLERANCE)]


def check_smoke_gradients() -> list[CheckResult]:
    """Checks the density, velocity, viscosity and buoyancy of smoke over 100 steps, in closed and periodic boxes."""
    size, frames = (16, 20), 5
    values = {
        "density": gaussian_density(size, (0.4, 0.4), 0.15),
        "velocity": random_velocity(size, seed=4, shortest=6.0),
        "viscosity": torch.tensor(1e-3, dtype=torch.float64),
        "buoyancy": torch.tensor(2.0, dtype=torch.float64),
    }
    weights = random_velocity(size, seed=5, shortest=0.0, batch=(2, frames))

    def smoke_objective(boundary: Boundary) -> Objective:
        def loss(p: Values) -> torch.Tensor:
            smoke = Smoke("smoke", size, p["density"], p["velocity"], p["viscosity"], p["buoyancy"], boundary)
            motion = simulate_smoke(smoke, frames=frames, substeps=25)
            density = (motion.densities * weights[0, ..., 0]).sum((-1, -2, -3))
            return density + 0.1 * (motion.velocities * weights[1]).sum((-1, -2, -3, -4))

        return loss

    results = []
    for label, boundary in BOUNDARIES:
        results += check_all_gradients(smoke_objective(boundary), values, f"smoke, {label}")
    return results
