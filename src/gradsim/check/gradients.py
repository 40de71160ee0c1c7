"""Adjoints against central differences, parameter by parameter, in double precision.

A difference at a tiny step agrees with the adjoint even where the gradient is of no use to an optimizer, such as across
an impact whose force jumps. `check_long_gradients` therefore also takes large steps, over thousands of time steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradsim.check.fact import Fact
from gradsim.check.zoo import BOUNCE, CUBE_STEP, PROBLEMS, Problem, Values, cube_scene, cube_values
from gradsim.scene.integrators import Integrator, Midpoint, SymplecticEuler
from gradsim.simulate.simulate import simulate

TOLERANCE = 1e-6
DIRECTIONS = 3
STEPS = (1e-4, 1e-5, 1e-6)  # relative; a difference errs by truncation or by rounding, so the best of several counts

Progress = Callable[[str], None]
Objective = Callable[[Values], torch.Tensor]  # parameters with a batch in front -> a loss a world


def objective(problem: Problem, integrator: Integrator) -> Objective:
    """A fixed random weighting of all states of a problem's rollout, one number a world."""

    def loss(values: Values) -> torch.Tensor:
        trajectory = simulate(
            problem.build(values),
            frames=problem.frames,
            fps=problem.fps,
            substeps=problem.substeps,
            integrator=integrator,
        )
        generator = torch.Generator().manual_seed(0)
        shape = trajectory.vertices.shape[-3:]
        wx, wv = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
        return (trajectory.vertices * wx + 0.1 * trajectory.velocities * wv).sum((-3, -2, -1))

    return loss


def gradients(loss: Objective, values: Values) -> Values:
    """Adjoint gradient of a loss in every parameter."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    loss(leaves).backward()
    missing = [name for name, leaf in leaves.items() if leaf.grad is None]
    if missing:
        raise AssertionError(f"no gradient reaches {', '.join(missing)}")
    return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}


def differences(loss: Objective, values: Values, name: str, directions: torch.Tensor, step: float) -> torch.Tensor:
    """Central differences along directions [D, ...] of one parameter, all in one batched rollout, [D]."""
    count = len(directions)
    moved = torch.cat([values[name] + step * directions, values[name] - step * directions])
    batch = {key: value.expand(2 * count, *value.shape) for key, value in values.items()}
    with torch.no_grad():
        ends = loss({**batch, name: moved})
    return (ends[:count] - ends[count:]) / (2 * step)


def directions_of(value: torch.Tensor, count: int = DIRECTIONS) -> torch.Tensor:
    """Random directions [count, ...] of a parameter's own size."""
    generator = torch.Generator().manual_seed(1)
    scale = value.abs() + 0.1 * value.abs().mean() + (1e-2 if not value.any() else 0.0)
    return torch.randn(count, *value.shape, generator=generator, dtype=value.dtype) * scale


def check_parameter(
    loss: Objective, values: Values, name: str, gradient: torch.Tensor, topic: str, differences: Any = differences
) -> Fact:
    """One parameter's adjoint against differences: worst error over directions, relative to the largest of them."""
    directions = directions_of(values[name])
    adjoint = (directions * gradient).reshape(len(directions), -1).sum(1)
    scale = adjoint.abs().max()
    best: tuple[float, float] | None = None
    for step in STEPS:
        difference = differences(loss, values, name, directions, step)
        error = float((difference - adjoint).abs().max() / scale) if scale > 0 else float("nan")
        if best is None or error < best[0]:
            best = (error, float(difference[0]))
    assert best is not None
    return Fact(topic, name, best[1], float(adjoint[0]), best[0], TOLERANCE)


def check_problem(problem: Problem, integrator: Integrator) -> list[Fact]:
    """Every parameter of a problem."""
    values = problem.values()
    loss = objective(problem, integrator)
    found = gradients(loss, values)
    topic = f"{problem.name}, {type(integrator).__name__}"
    return [check_parameter(loss, values, name, found[name], topic) for name in values]


def check_gradients(progress: Progress = lambda text: None) -> list[Fact]:
    """Every parameter of every problem with both integrators, then the long rollout."""
    facts = []
    for problem in PROBLEMS:
        for integrator in (SymplecticEuler(), Midpoint()):
            progress(f"{problem.name}, {type(integrator).__name__}")
            facts += check_problem(problem, integrator)
    progress(BOUNCE.name)
    facts += check_long_gradients()
    progress("eight cubes bounce and slide")
    facts += check_cube_gradients()
    progress("smoke")
    return facts + smoke_gradients()


def smoke_gradients() -> list[Fact]:
    """Smoke's density, velocity, viscosity and buoyancy over 100 steps, between walls and periodic."""
    from gradsim.check.physics.fluids import smoke_gradients as run

    return run()


def check_cube_gradients() -> list[Fact]:
    """Eight tumbling cubes for 2 s: the median error of d(final position) / d(parameter) against useful differences."""
    values = cube_values()
    frames, fps = 3, 1.0
    direction = torch.tensor([1.0, 0.3, 0.6], dtype=torch.float64)

    def ends(p: Values) -> torch.Tensor:
        substeps = round(1.0 / (fps * CUBE_STEP))
        return (
            simulate(cube_scene(p), frames=frames, fps=fps, substeps=substeps)["cube"].position[..., -1, :] @ direction
        )

    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    adjoints = torch.autograd.grad(ends(leaves).sum(), list(leaves.values()))
    facts = []
    for step in (1e-3, 1e-4):
        for (name, value), adjoint in zip(values.items(), adjoints, strict=True):
            with torch.no_grad():
                up, down = (ends({**values, name: value * (1 + sign * step)}) for sign in (1, -1))
            difference = (up - down) / (2 * step * value)
            errors = (difference - adjoint).abs() / adjoint.abs()
            middle = float(errors.median())
            name = f"median over eight scenes, {name}, step {step:g}"
            facts.append(
                Fact("cubes bounce and slide for 2 s", name, float(difference[0]), float(adjoint[0]), middle, 0.01)
            )
    return facts


def check_long_gradients() -> list[Fact]:
    """A soft ball that bounces and slides for 5,000 steps: differences at useful steps, and a steady direction."""
    values = BOUNCE.values()
    names = list(values)

    def loss(p: Values) -> torch.Tensor:
        ball = simulate(BOUNCE.build(p), frames=BOUNCE.frames, fps=BOUNCE.fps, substeps=BOUNCE.substeps)["ball"]
        return ball.position[..., -1, 0] + 0.5 * ball.position[..., -1, 1] + 0.1 * ball.vertices[..., -1, 0, 2]

    def relative_gradient(p: Values) -> torch.Tensor:
        found = gradients(loss, p)
        return torch.stack([found[name] * p[name] for name in names])

    here = relative_gradient(values)
    facts = []
    topic = f"{BOUNCE.name}, {(BOUNCE.frames - 1) * BOUNCE.substeps} steps"
    for step in (1e-3, 1e-4, 1e-5):
        found = torch.stack([differences(loss, values, n, values[n][None], step)[0] for n in names])
        error = float((found - here).norm() / here.norm())
        facts.append(Fact(topic, f"difference at step {step:g}", float(found.norm()), float(here.norm()), error, 0.01))
    cosines = []
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        shift = torch.randn(len(names), generator=generator, dtype=torch.float64)
        moved = {name: values[name] * (1 + 1e-3 * shift[k]) for k, name in enumerate(names)}
        cosines.append(float(torch.cosine_similarity(relative_gradient(moved), here, dim=0)))
    facts.append(Fact(topic, "cosine under a change of 1e-3", 1.0, min(cosines), 1.0 - min(cosines), 0.01))
    return facts
