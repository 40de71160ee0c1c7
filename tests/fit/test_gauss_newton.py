"""Descents on residuals whose minimum is known."""

import pytest
import torch

from gradsim.fit.gauss_newton import GaussNewton, descend
from gradsim.fit.residuals import FIRST_STEP, balanced, slopes

FREE = torch.tensor([-10.0, -10.0], dtype=torch.float64), torch.tensor([10.0, 10.0], dtype=torch.float64)


BEND, WEAK = 0.03, 0.003
MINIMUM = (1.0, BEND)


class Valley:
    """Steep across a parabola and thousands of times less along it: its floor is bent and almost flat."""

    def __init__(self, noise: float = 0.0):
        self.noise, self.worlds = noise, 0

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        self.worlds += len(z)
        x, y = z[:, 0], z[:, 1]
        return torch.stack([10.0 * (y - BEND * x**2), WEAK * (1.0 - x), torch.full_like(x, self.noise)], -1)


def starts(*places: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(places, dtype=torch.float64)


def test_a_bent_valley_costs_few_rollouts():
    valley = Valley()
    done = descend(valley, starts((-1.2, 1.0), (3.0, 0.0)), FREE)
    assert torch.allclose(done.z, starts(MINIMUM, MINIMUM), atol=1e-8)
    assert done.converged.all()
    assert valley.worlds < 80  # one damped step a Jacobian takes more than 1600 from the first start alone


def test_noise_does_not_keep_a_descent_from_ending():
    done = descend(Valley(noise=0.1), starts((-1.2, 1.0)), FREE)
    assert done.converged.all()
    assert torch.allclose(done.z, starts(MINIMUM), atol=1e-2)
    assert float(done.cost[0]) == pytest.approx(0.01, rel=1e-6)


def test_out_of_iterations_is_not_converged():
    done = descend(Valley(), starts((-1.2, 1.0)), FREE, GaussNewton(iterations=1))
    assert not done.converged.any()


def test_a_place_that_looks_steep_without_a_way_down_is_not_converged():
    """The residual falls by its slope, but jumps up beside the place: no trial is better, and that is no minimum."""

    def residual(z: torch.Tensor) -> torch.Tensor:
        return torch.where(z.abs() < 1e-6, 1.0 - z, 5.0)

    limits = FREE[0][:1], FREE[1][:1]
    done = descend(residual, starts((0.0,)), limits)
    assert float(done.z[0, 0]) == 0.0
    assert not done.converged.any()


def test_a_minimum_at_a_bound_is_one():
    """The second coordinate is pressed against its bound; the first comes to the best there is beside it."""
    low, high = FREE[0], torch.tensor([10.0, 0.01], dtype=torch.float64)
    done = descend(Valley(), starts((0.9, 0.01)), (low, high))
    assert done.converged.all()
    assert float(done.z[0, 1]) == 0.01
    assert float(done.z[0, 0]) == pytest.approx((0.01 / BEND) ** 0.5, abs=1e-4)


def test_a_start_rests_where_it_is_told_to():
    valley = Valley()
    near = descend(valley, starts((0.9, 0.9)), FREE, rest=lambda z, cost: (z - 1.0).abs().amax(-1) < 0.2)
    assert near.iterations == 0
    assert near.converged.all()


def test_steps_are_balanced_so_that_weak_slopes_come_out_right():
    place = starts((1.0, 1.0))
    valley = Valley()
    J = slopes(valley, place, valley(place), torch.full_like(place, FIRST_STEP), 64)
    J = slopes(valley, place, valley(place), balanced(J[0])[None], 64)[0]
    exact = torch.tensor([[-20.0 * BEND, -WEAK, 0.0], [10.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(J, exact, rtol=1e-6, atol=1e-7)
    assert float(balanced(J)[0] * J[0].norm()) == pytest.approx(float(balanced(J)[1] * J[1].norm()))
