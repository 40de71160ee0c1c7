"""Every parameter's adjoint against central differences, and the gradients of long, bouncing rollouts."""

import dataclasses

import numpy as np
import pytest
import torch

from gradsim.check.gradients import (
    check_cube_gradients,
    check_long_gradients,
    check_parameter,
    check_problem,
    differences,
    gradients,
    objective,
    smoke_gradients,
)
from gradsim.check.zoo import BOUNCE, PROBLEMS
from gradsim.scene.bodies import Springs
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.scene.materials import Ground
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate


@pytest.mark.parametrize("integrator", [SymplecticEuler(), Midpoint()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_adjoint_agrees_with_differences(problem, integrator):
    missed = [fact for fact in check_problem(problem, integrator) if not fact.ok]
    assert not missed


def test_a_wrong_gradient_is_noticed():
    problem = PROBLEMS[0]
    loss, values = objective(problem, SymplecticEuler()), problem.values()
    gradient = gradients(loss, values)["mu"]
    assert not check_parameter(loss, values, "mu", gradient * (1 + 1e-5), "wrong").ok


def contact_history(problem, frames_per_second):
    """Depth and slip speed of the touching nodes over a problem's time, [T, N] each."""
    values, end = problem.values(), (problem.frames - 1) / problem.fps
    frames = round(end * frames_per_second) + 1
    substeps = round(problem.fps * problem.substeps / frames_per_second)
    motion = simulate(problem.build(values), frames=frames, fps=frames_per_second, substeps=substeps)
    normal = values["normal"] / values["normal"].norm()
    depth = values["offset"] - motion.vertices @ normal
    slip = motion.velocities - (motion.velocities @ normal)[..., None] * normal
    return depth, slip.norm(dim=-1) * (depth > 0)


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if "hits" in p.name], ids=lambda p: p.name)
def test_problems_that_hit_the_ground_do(problem):
    depth, _ = contact_history(problem, problem.fps)
    assert depth[0].max() < 0.0
    assert depth.max() > 0.002


def test_the_problem_that_sticks_and_slips_does():
    _, speed = contact_history(next(p for p in PROBLEMS if "slips" in p.name), 500.0)
    assert speed[:4].max() < 0.01
    assert speed[-1].max() > 0.2


def test_long_rollout_gives_gradients_an_optimizer_can_use():
    missed = [fact for fact in check_long_gradients() if not fact.ok]
    assert not missed


def test_smoke_agrees_with_differences():
    missed = [fact for fact in smoke_gradients() if not fact.ok]
    assert not missed


def test_tumbling_cubes_give_gradients_an_optimizer_can_use():
    missed = [fact for fact in check_cube_gradients() if not fact.ok]
    assert not missed


def test_printed_contact_law_misses_the_moment_of_impact():
    """The reason for delta: with the jump of the printed law the adjoint and useful differences disagree."""
    impact = next(p for p in PROBLEMS if p.name == "soft body hits the ground")
    values = {**impact.values(), "kd": torch.tensor(20.0, dtype=torch.float64)}

    def error(delta: float) -> float:
        here = {**values, "delta": torch.tensor(delta, dtype=torch.float64)}
        loss = objective(dataclasses.replace(impact, frames=9), SymplecticEuler())
        down = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
        adjoint = float(gradients(loss, here)["velocity"][1])
        return abs(float(differences(loss, here, "velocity", down, 1e-2)[0]) - adjoint) / abs(adjoint)

    assert error(0.0) > 0.1
    assert error(0.004) < 0.05


@pytest.mark.parametrize("kd", [5.0, 20.0])
def test_a_bounce_is_smooth_from_touch_down_to_release(kd):
    """Gradients of a bounce vary smoothly with the height it fell from: neighbours differ by little."""
    heights = torch.linspace(0.98, 1.02, 41, dtype=torch.float64, requires_grad=True)
    start = torch.stack([torch.zeros_like(heights), heights, torch.zeros_like(heights)], -1)[:, None]
    mass = Springs("mass", start, np.zeros((0, 2)))
    scene = Scene([mass], Ground(ke=5e3, kd=kd, delta=0.02))
    end = simulate(scene, frames=2, fps=1.0 / 0.9, substeps=3600).vertices[:, -1, 0, 1]
    (slopes,) = torch.autograd.grad(end.sum(), heights)
    secants = (end[2:] - end[:-2]) / (heights[2:] - heights[:-2])
    assert (slopes[1:-1] - secants).abs().max() < 0.03 * slopes.abs().mean()  # a corner at release makes this 0.2


def test_bounce_touches_twice_and_slides():
    ball = simulate(BOUNCE.build(BOUNCE.values()), frames=BOUNCE.frames, fps=BOUNCE.fps, substeps=BOUNCE.substeps)[
        "ball"
    ]
    touching = ball.vertices[..., 1].amin(-1) < 0
    assert int((touching[1:] & ~touching[:-1]).sum()) == 2
    assert ball.position[-1, 0] > 1.0
