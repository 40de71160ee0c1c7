"""Products with the Jacobian of residuals, against dense matrices, and through the renderer and the physics."""

import pytest
import torch
from tests.fit.cloth import cloth_problem

import gradsim as gs
from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.jacobians import MAX_DENSE, Adjoint, Differences, JacobianProducts, chosen_jacobian
from gradsim.fit.residuals import jacobian
from gradsim.scene.errors import BrokenGradient, Diverged, InvalidInput, WrongType


def curved(z: torch.Tensor) -> torch.Tensor:
    """Residuals [B, 3 P] of coordinates [B, P], different for each coordinate and coupled."""
    k = torch.arange(z.shape[-1], dtype=z.dtype) + 1
    return torch.cat([torch.sin(k * z), z * z.flip(-1), torch.exp(0.3 * z.cumsum(-1))], -1)


def point(count: int = 7) -> torch.Tensor:
    return 0.3 * torch.randn(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_products_equal_those_of_the_dense_jacobian():
    z = point()
    products = JacobianProducts(curved, z)
    J = torch.autograd.functional.jacobian(lambda x: curved(x[None])[0], z)
    generator = torch.Generator().manual_seed(1)
    v = torch.randn(7, generator=generator, dtype=torch.float64)
    u = torch.randn(21, generator=generator, dtype=torch.float64)
    assert torch.equal(products.r, curved(z[None])[0])
    assert torch.allclose(products.forward(v), J @ v, rtol=1e-7, atol=1e-8)
    assert torch.allclose(products.forward(1e6 * v), 1e6 * J @ v, rtol=1e-7, atol=1e-2)
    assert torch.allclose(products.backward(u), J.T @ u, rtol=1e-12)
    assert float(products.forward(torch.zeros(7, dtype=torch.float64)).abs().max()) == 0.0


def diverging(limit: float, both: bool = False):
    """Residuals whose worlds diverge beyond a limit of the first coordinate, or everywhere but at 0."""

    def residual(z: torch.Tensor) -> torch.Tensor:
        bad = z.detach()[:, 0].abs() > 0 if both else z.detach()[:, 0] > limit
        if bool(bad.any()):
            raise Diverged("cube", 30, 0.1, 0, 0.01, 0.02)
        return curved(z)

    return residual


def test_a_product_is_one_sided_beside_a_point_that_diverges():
    z = torch.zeros(7, dtype=torch.float64)
    v = torch.ones(7, dtype=torch.float64)
    exact = JacobianProducts(curved, z).forward(v)
    assert torch.allclose(JacobianProducts(diverging(0.0), z).forward(v), exact, rtol=1e-3, atol=1e-3)
    assert torch.allclose(JacobianProducts(diverging(0.0), z).forward(-v), -exact, rtol=1e-3, atol=1e-3)
    assert torch.isnan(JacobianProducts(diverging(0.0, both=True), z).forward(v)).all()


def test_a_backward_pass_that_diverges_gives_nan():
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.clone()

        @staticmethod
        def backward(ctx, gradient):
            raise BrokenGradient("cube.mass", "NaN", "use smaller time steps")

    products = JacobianProducts(lambda z: Broken.apply(z), point())
    assert torch.isnan(products.backward(torch.ones(7, dtype=torch.float64))).all()


def test_residuals_without_a_graph_are_refused():
    with pytest.raises(InvalidInput, match="use gs.Differences"):
        JacobianProducts(lambda z: z.detach(), point())


def test_the_automatic_choice():
    many, few = torch.zeros(1, MAX_DENSE + 1, dtype=torch.float64), torch.zeros(1, 3, dtype=torch.float64)
    assert chosen_jacobian(None, curved, few) == Differences()
    assert chosen_jacobian(None, curved, many) == Adjoint()
    assert chosen_jacobian(None, lambda z: z.detach(), many) == Differences()
    assert chosen_jacobian(None, diverging(-1.0), many) == Differences()
    assert chosen_jacobian(Adjoint(inner_iterations=3), curved, few) == Adjoint(inner_iterations=3)
    assert chosen_jacobian(Differences(), curved, many) == Differences()


def test_a_jacobian_is_one_of_the_known_kinds():
    with pytest.raises(WrongType, match="gs.Differences"):
        gs.GaussNewton(jacobian="adjoint")
    J = torch.zeros(7, 21, dtype=torch.float64)
    bounds = torch.full((7,), -9.0, dtype=torch.float64), torch.full((7,), 9.0, dtype=torch.float64)
    with pytest.raises(InvalidInput, match="no use for a matrix"):
        solve(curved, point()[None], bounds, GaussNewton(jacobian=Adjoint()), jacobian=J)


@pytest.mark.parametrize("kind", ["video", "states"])
def test_products_through_the_renderer_and_the_physics(kind):
    problem = cloth_problem(kind)
    residual, z = problem.residual(), 0.2 * point(27)
    products = JacobianProducts(residual, z)
    J = jacobian(residual, z[None], 16)[0].T  # [N, P], by central differences
    generator = torch.Generator().manual_seed(2)
    v = torch.randn(27, generator=generator, dtype=torch.float64)
    u = torch.randn(len(J), generator=generator, dtype=torch.float64)
    assert float((products.forward(v) - J @ v).norm() / (J @ v).norm()) < 1e-5
    assert float((products.backward(u) - J.T @ u).norm() / (J.T @ u).norm()) < 1e-5
    assert float(J.norm(dim=0).min()) > 0  # every velocity is visible


@pytest.mark.parametrize("kind", ["video", "states"])
def test_both_jacobians_lead_to_the_same_minimum(kind):
    problem = cloth_problem(kind)
    start, bounds = problem.parameters.initial()[None], problem.parameters.bounds()
    found = []
    for method in (Differences(), Adjoint(inner_tolerance=1e-3, cost_tolerance=1e-10)):
        options = GaussNewton(iterations=25, jacobian=method)
        state = solve(problem.residual(), start, bounds, options, prior=problem.prior(0))
        assert state.converged.all()
        found.append(state.z[0])
    assert float((found[0] - start[0]).abs().max()) > 0.3
    assert float((found[0] - found[1]).abs().max()) < 1e-3
