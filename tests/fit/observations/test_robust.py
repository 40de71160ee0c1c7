"""Robust losses: pseudo-residuals and weights belong to the same loss."""

import pytest
import torch
from tests.fit.observations.scenes import motion, pushed_cube

import gradsim as gs
from gradsim.fit.observations.robust import robust_loss

DIFFERENCES = torch.tensor([-40.0, -3.0, -2.0, -0.5, -1e-9, 0.0, 1e-4, 0.7, 1.9, 2.1, 900.0], dtype=torch.float64)


def huber(d: torch.Tensor, k: float) -> torch.Tensor:
    return torch.where(d.abs() <= k, d**2, 2 * k * d.abs() - k**2)


def cauchy(d: torch.Tensor, k: float) -> torch.Tensor:
    return k**2 * torch.log1p((d / k) ** 2)


@pytest.mark.parametrize(("loss", "formula"), [(gs.Huber(2.0), huber), (gs.Cauchy(2.0), cauchy)])
def test_the_square_of_a_pseudo_residual_is_the_loss(loss, formula):
    r = loss.pseudo_residual(DIFFERENCES)
    assert torch.allclose(r**2, formula(DIFFERENCES, 2.0), rtol=1e-12, atol=1e-15)
    assert torch.equal(r.sign(), DIFFERENCES.sign())


@pytest.mark.parametrize("loss", [gs.Huber(2.0), gs.Cauchy(2.0)])
def test_weighted_differences_have_the_gradient_of_the_loss(loss):
    d = DIFFERENCES.clone().requires_grad_()
    (gradient,) = torch.autograd.grad((loss.pseudo_residual(d) ** 2).sum(), d)
    assert torch.allclose(gradient, 2 * loss.weight(DIFFERENCES) * DIFFERENCES, rtol=1e-10, atol=1e-12)
    assert bool((loss.weight(DIFFERENCES) <= 1).all())


@pytest.mark.parametrize("loss", [gs.Huber(2.0), gs.Cauchy(2.0)])
def test_the_derivative_of_a_pseudo_residual_agrees_with_differences(loss):
    d = torch.tensor([-7.0, -1.0, -1e-7, 0.0, 1e-7, 0.3, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(loss.pseudo_residual, d)


def test_weights_multiply_the_loss_not_the_difference():
    """A point with weight 4 counts as four points: the threshold stays in the unit of the observation."""
    scene = pushed_cube()
    trajectory = motion(scene, 2)
    shifted = trajectory["cube"].center_of_mass[:, None] + torch.tensor([0.3, 0.0, 0.0])
    single, heavy = (
        gs.Tracks([gs.Center("cube")], positions=shifted, weights=[weight], robust=gs.Huber(0.1))
        for weight in (1.0, 4.0)
    )
    assert torch.allclose(
        heavy.residual(scene, trajectory, 0), 2 * single.residual(scene, trajectory, 0), rtol=1e-12, atol=0
    )
    assert single.residual(scene, trajectory, 0)[0, 0] == pytest.approx(-((2 * 0.1 * 0.3 - 0.01) ** 0.5))


def test_options_of_robust():
    assert robust_loss(0.3) == gs.Huber(0.3)
    assert robust_loss(None) is None
    for bad in ("huber", True):
        with pytest.raises(gs.InvalidInput, match="robust"):
            robust_loss(bad)
    for bad in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(gs.InvalidInput, match="must be > 0"):
            gs.Cauchy(bad)
