"""Gauss-Newton on residuals whose minimum is known."""

import pytest
import torch

from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.residuals import FORWARD_STEP, balanced_steps, forward_jacobian

BOUNDS = torch.tensor([-10.0, -10.0], dtype=torch.float64), torch.tensor([10.0, 10.0], dtype=torch.float64)


CURVATURE, WEAK = 0.03, 0.003
MINIMUM = (1.0, CURVATURE)


class Valley:
    """A narrow curved valley: steep across a parabola, and thousands of times less so along it."""

    def __init__(self, noise: float = 0.0):
        self.noise, self.worlds = noise, 0

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        self.worlds += len(z)
        x, y = z[:, 0], z[:, 1]
        return torch.stack([10.0 * (y - CURVATURE * x**2), WEAK * (1.0 - x), torch.full_like(x, self.noise)], -1)


def starts(*points: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(points, dtype=torch.float64)


def test_a_curved_valley_costs_few_rollouts():
    valley = Valley()
    state = solve(valley, starts((-1.2, 1.0), (3.0, 0.0)), BOUNDS)
    assert torch.allclose(state.z, starts(MINIMUM, MINIMUM), atol=1e-8)
    assert state.converged.all()
    assert valley.worlds < 80  # one damped step a Jacobian takes more than 1600 from the first start alone


def test_converges_with_noise():
    state = solve(Valley(noise=0.1), starts((-1.2, 1.0)), BOUNDS)
    assert state.converged.all()
    assert torch.allclose(state.z, starts(MINIMUM), atol=1e-2)
    assert float(state.cost[0]) == pytest.approx(0.01, rel=1e-6)


def test_out_of_iterations_is_not_converged():
    state = solve(Valley(), starts((-1.2, 1.0)), BOUNDS, GaussNewton(iterations=1))
    assert not state.converged.any()


def test_a_steep_point_without_descent_is_not_converged():
    """The residual has a gradient but jumps up beside the point: no step is better, yet it is not a minimum."""

    def residual(z: torch.Tensor) -> torch.Tensor:
        return torch.where(z.abs() < 1e-6, 1.0 - z, 5.0)

    bounds = BOUNDS[0][:1], BOUNDS[1][:1]
    state = solve(residual, starts((0.0,)), bounds)
    assert float(state.z[0, 0]) == 0.0
    assert not state.converged.any()


def test_a_minimum_at_a_bound_is_converged():
    """The second coordinate is at its bound; the first minimizes the cost there."""
    low, high = BOUNDS[0], torch.tensor([10.0, 0.01], dtype=torch.float64)
    state = solve(Valley(), starts((0.9, 0.01)), (low, high))
    assert state.converged.all()
    assert float(state.z[0, 1]) == 0.01
    assert float(state.z[0, 0]) == pytest.approx((0.01 / CURVATURE) ** 0.5, abs=1e-4)


def test_stop_criterion():
    valley = Valley()
    near = solve(valley, starts((0.9, 0.9)), BOUNDS, stop=lambda z, cost: (z - 1.0).abs().amax(-1) < 0.2)
    assert near.iterations == 0
    assert near.converged.all()


def test_balanced_steps_resolve_weak_derivatives():
    point = starts((1.0, 1.0))
    valley = Valley()
    J, _ = forward_jacobian(valley, point, valley(point), torch.full_like(point, FORWARD_STEP), 64)
    (J,), _ = forward_jacobian(valley, point, valley(point), balanced_steps(J[0])[None], 64)
    exact = torch.tensor([[-20.0 * CURVATURE, -WEAK, 0.0], [10.0, 0.0, 0.0]], dtype=torch.float64)
    assert torch.allclose(J, exact, rtol=1e-6, atol=1e-7)
    assert float(balanced_steps(J)[0] * J[0].norm()) == pytest.approx(float(balanced_steps(J)[1] * J[1].norm()))


class Noisy:
    """Weakly nonlinear residuals of 20 coordinates whose minimum is far above 0, as for a video with noise."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.matrix = torch.randn(200, 20, generator=generator, dtype=torch.float64)
        self.noise = torch.randn(200, generator=generator, dtype=torch.float64)
        self.batches: list[int] = []

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        self.batches.append(len(z))
        return (z + 0.05 * z**2) @ self.matrix.T + 10.0 * self.noise


def test_many_coordinates_settle_at_the_resolution_with_few_jacobians():
    wide = torch.full((20,), -100.0, dtype=torch.float64), torch.full((20,), 100.0, dtype=torch.float64)
    start = torch.zeros(1, 20, dtype=torch.float64)
    exact, coarse = Noisy(), Noisy()
    reference = solve(exact, start, wide, GaussNewton(tolerance=1e-10))
    found = solve(coarse, start, wide, GaussNewton(tolerance=1e-10), resolution=1e-2)
    assert bool(found.converged[0])
    assert float(found.cost[0] - reference.cost[0]) < 1e-2
    assert coarse.batches.count(20) == 2  # Jacobians
    assert exact.batches.count(20) == 3
