"""Gradients of every parameter against central differences, and gradients of long rollouts with contact."""

import dataclasses

import numpy as np
import pytest
import torch

from gradsim.check.gradcheck import adjoint_gradients, central_differences, check_gradient
from gradsim.check.gradient_problems import BOUNCE, PROBLEMS
from gradsim.check.gradients import (
    INTEGRATORS,
    check_cube_gradients,
    check_long_gradients,
    check_problem,
    check_smoke_gradients,
    check_sticking_gradients,
    objective,
    simulate_problem,
)
from gradsim.scene.bodies import Springs
from gradsim.scene.integrators import SymplecticEuler
from gradsim.scene.materials import Ground
from gradsim.scene.scene import Scene
from gradsim.simulate.simulate import simulate


@pytest.mark.parametrize("integrator", INTEGRATORS, ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
def test_adjoint_agrees_with_differences(problem, integrator):
    missed = [result for result in check_problem(problem, integrator) if not result.ok]
    assert not missed


def test_a_wrong_gradient_is_detected():
    problem = PROBLEMS[0]
    loss, values = objective(problem, SymplecticEuler()), problem.values()
    gradient = adjoint_gradients(loss, values)["mu"]
    assert not check_gradient(loss, values, "mu", gradient * (1 + 1e-5), "wrong").ok


def contact_history(problem, frames_per_second):
    """Depth and slip speed of the nodes in contact over a problem's duration, [T, N] each."""
    values, end = problem.values(), (problem.frames - 1) / problem.fps
    frames = round(end * frames_per_second) + 1
    substeps = round(problem.fps * problem.substeps / frames_per_second)
    times = {"frames": frames, "fps": frames_per_second, "substeps": substeps}
    motion = simulate(problem.build(values), **times, integrator=SymplecticEuler())
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


def test_a_long_rollout_has_gradients_that_an_optimizer_can_use():
    missed = [result for result in check_long_gradients() if not result.ok]
    assert not missed


def test_smoke_agrees_with_differences():
    missed = [result for result in check_smoke_gradients() if not result.ok]
    assert not missed


def test_tumbling_cubes_have_gradients_that_an_optimizer_can_use():
    missed = [result for result in check_cube_gradients() if not result.ok]
    assert not missed


def test_gradients_of_sticking_friction_are_useful():
    """Sixteen boxes that tumble, stick and slide for 4,000 steps."""
    missed = [result for result in check_sticking_gradients() if not result.ok]
    assert not missed


def test_the_contact_law_without_delta_has_no_gradient_of_the_time_of_impact():
    """The reason for delta: the force of the paper's law jumps, and the adjoint disagrees with large differences."""
    impact = next(p for p in PROBLEMS if p.name == "soft body hits the ground")
    values = {**impact.values(), "kd": torch.tensor(20.0, dtype=torch.float64)}

    def error(delta: float) -> float:
        changed = {**values, "delta": torch.tensor(delta, dtype=torch.float64)}
        loss = objective(dataclasses.replace(impact, frames=9), SymplecticEuler())
        down = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
        adjoint = float(adjoint_gradients(loss, changed)["velocity"][1])
        return abs(float(central_differences(loss, changed, "velocity", down, 1e-2)[0]) - adjoint) / abs(adjoint)

    assert error(0.0) > 0.1
    assert error(0.004) < 0.05


@pytest.mark.parametrize("kd", [5.0, 20.0])
def test_a_bounce_is_a_smooth_function_of_its_initial_height(kd):
    """The derivative of the final height agrees with differences at all heights."""
    heights = torch.linspace(0.98, 1.02, 41, dtype=torch.float64, requires_grad=True)
    start = torch.stack([torch.zeros_like(heights), heights, torch.zeros_like(heights)], -1)[:, None]
    mass = Springs("mass", start, np.zeros((0, 2)))
    scene = Scene([mass], Ground(ke=5e3, kd=kd, delta=0.02))
    motion = simulate(scene, frames=2, fps=1.0 / 0.9, substeps=3600, integrator=SymplecticEuler())
    end = motion.vertices[:, -1, 0, 1]
    (adjoints,) = torch.autograd.grad(end.sum(), heights)
    differences = (end[2:] - end[:-2]) / (heights[2:] - heights[:-2])
    # 0.2 with a corner of the force at the end of contact
    assert (adjoints[1:-1] - differences).abs().max() < 0.03 * adjoints.abs().mean()


def test_the_long_rollout_has_two_contacts_and_slides():
    ball = simulate_problem(BOUNCE, BOUNCE.values(), SymplecticEuler())["ball"]
    in_contact = ball.vertices[..., 1].amin(-1) < 0
    assert int((in_contact[1:] & ~in_contact[:-1]).sum()) == 2
    assert ball.position[-1, 0] > 1.0
