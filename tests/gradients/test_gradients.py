"""Every parameter's adjoint against central differences, and the gradients of long, bouncing rollouts."""

import dataclasses

import pytest
import torch

from gradsim.check.gradients import (
    check_long_gradients,
    check_parameter,
    check_problem,
    differences,
    gradients,
    objective,
)
from gradsim.check.zoo import BOUNCE, PROBLEMS
from gradsim.scene.integrators import Midpoint, SymplecticEuler
from gradsim.simulate.rollout import simulate


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


def test_bounce_touches_twice_and_slides():
    ball = simulate(BOUNCE.build(BOUNCE.values()), frames=BOUNCE.frames, fps=BOUNCE.fps, substeps=BOUNCE.substeps)[
        "ball"
    ]
    touching = ball.vertices[..., 1].amin(-1) < 0
    assert int((touching[1:] & ~touching[:-1]).sum()) == 2
    assert ball.position[-1, 0] > 1.0
