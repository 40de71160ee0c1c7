"""Matrix-free Levenberg-Marquardt iterations, against linear algebra and the dense iteration."""

import pytest
import torch

from gradsim.fit.gauss_newton import GaussNewton, Prior, solve
from gradsim.fit.jacobians import Adjoint, Differences
from gradsim.scene.errors import Diverged

COUNT = 120
FREE = torch.full((COUNT,), -100.0, dtype=torch.float64), torch.full((COUNT,), 100.0, dtype=torch.float64)
EXACT = GaussNewton(jacobian=Adjoint(inner_iterations=200, inner_tolerance=1e-6, cost_tolerance=1e-12))


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Linear:
    """Residuals A z - b with columns of very different size; counts the evaluated worlds."""

    def __init__(self, rows: int = 200):
        self.A = random(rows, COUNT) * torch.logspace(0, -3, COUNT, dtype=torch.float64)
        self.b = self.A @ random(COUNT, seed=1) + 0.01 * random(rows, seed=2)
        self.worlds = 0

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        self.worlds += len(z)
        return z @ self.A.T - self.b


def start(value: float = 0.0) -> torch.Tensor:
    return torch.full((1, COUNT), value, dtype=torch.float64)


def relative_gradient(A: torch.Tensor, b: torch.Tensor, z: torch.Tensor) -> float:
    return float((A.T @ (A @ z - b)).norm() / (A.T @ b).norm())


def test_a_linear_problem():
    problem = Linear()
    state = solve(problem, start(), FREE, EXACT)
    exact = torch.linalg.lstsq(problem.A, problem.b[:, None]).solution[:, 0]
    lowest = float((problem.A @ exact - problem.b).square().sum())
    assert state.converged.all()
    assert float(state.cost[0]) == pytest.approx(lowest, rel=1e-8)
    assert float(((state.z[0] - exact) * problem.A.norm(dim=0)).abs().max()) < 1e-4


def test_a_prior_regularizes_fewer_residuals_than_unknowns():
    problem = Linear(rows=40)
    center, width = random(COUNT, seed=3), 0.2 + random(COUNT, seed=4).abs()
    width[:5] = torch.inf  # no prior: the rows determine these
    prior = Prior(center, width, weight=0.01)
    state = solve(problem, start(), FREE, EXACT, prior=prior)
    normal = problem.A.T @ problem.A + torch.diag(prior.precision)
    moments = torch.where(prior.precision > 0, prior.precision * center, 0.0)
    exact = torch.linalg.solve(normal, problem.A.T @ problem.b + moments)
    assert state.converged.all()
    assert float((state.z[0] - exact).abs().max()) < 1e-3
    assert float(state.prior_cost[0]) == pytest.approx(float(prior.cost(exact)), rel=1e-4)
    assert float(state.cost[0]) == pytest.approx(float(problem(exact[None]).square().sum()), rel=1e-3, abs=1e-9)


def test_bounds():
    """The minimum with bounds has a gradient that points outwards at each active bound, and is zero elsewhere."""
    problem = Linear()
    low, high = torch.full((COUNT,), -0.3, dtype=torch.float64), torch.full((COUNT,), 0.6, dtype=torch.float64)
    options = GaussNewton(iterations=200, jacobian=EXACT.jacobian)
    state = solve(problem, start(), (low, high), options)
    dense = solve(problem, start(), (low, high), GaussNewton(iterations=200, jacobian=Differences()))
    z = state.z[0]
    g = problem.A.T @ (problem.A @ z - problem.b)
    inside = (z > low) & (z < high)
    assert bool(((z >= low) & (z <= high)).all())
    assert 10 < int((~inside).sum()) < COUNT
    scale = float((problem.A.T @ problem.b).abs().max())
    assert float(g[inside].abs().max()) < 1e-3 * scale
    assert bool((g[z == low] >= -1e-3 * scale).all())
    assert bool((g[z == high] <= 1e-3 * scale).all())
    assert float(state.cost[0]) <= float(dense.cost[0]) * 1.01


def nonlinear(z: torch.Tensor) -> torch.Tensor:
    return torch.cat([torch.exp(0.5 * z) - 2.0, 0.3 * (z.roll(1, -1) * z - 1.9), 0.1 * torch.ones_like(z[:, :1])], -1)


def test_a_nonlinear_problem_agrees_with_the_dense_iteration():
    points = torch.cat([start(), start(3.0) + random(1, COUNT)])
    found = solve(nonlinear, points, FREE, EXACT)
    dense = solve(nonlinear, points, FREE, GaussNewton(jacobian=Differences()))
    assert found.converged.all()
    assert torch.allclose(found.cost, dense.cost, rtol=1e-6)
    assert float((found.z - dense.z).abs().max()) < 1e-4


def test_the_cost_of_an_iteration_does_not_grow_with_the_unknowns():
    problem = Linear()
    options = GaussNewton(iterations=1, jacobian=Adjoint(inner_iterations=10))
    solve(problem, start(), FREE, options)
    assert problem.worlds <= 1 + 1 + 2 * 10 + 5  # start, graph, products, dampings


def test_steps_into_worlds_that_diverge_are_shortened():
    def residual(z: torch.Tensor) -> torch.Tensor:
        if bool((z.detach().abs() > 2.2).any()):
            raise Diverged("cube", 30, 0.1, 0, 0.01, 0.02)
        return torch.tanh(0.2 * z) - torch.tanh(
            torch.tensor(0.4, dtype=z.dtype)
        )  # minimum at 2; the first step passes it

    state = solve(residual, start(-2.0), FREE, EXACT)
    assert state.converged.all()
    assert torch.allclose(state.z, start(2.0), atol=1e-6)


def test_a_start_that_diverges_does_not_stop_the_others():
    def residual(z: torch.Tensor) -> torch.Tensor:
        if bool((z.detach()[:, 0] > 50.0).any()):
            raise Diverged("cube", 30, 0.1, 0, 0.01, 0.02)
        return nonlinear(z)

    state = solve(residual, torch.cat([start(60.0), start(1.0)]), FREE, EXACT)
    assert state.diverged.tolist() == [True, False]
    assert state.converged.tolist() == [False, True]
    assert float(state.z[0, 0]) == 60.0


def test_out_of_iterations_is_not_converged():
    options = GaussNewton(iterations=1, jacobian=Adjoint(inner_iterations=3))
    assert not solve(nonlinear, start(5.0), FREE, options).converged.any()
