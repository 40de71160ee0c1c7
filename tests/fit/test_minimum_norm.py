"""MinimumNorm: few residuals, many unknowns."""

import itertools

import pytest
import torch

import gradsim as gs


def iterates(optimizer, residual, z):
    return [(step.z[0], float(step.losses)) for step in optimizer.iterate(residual, z)]


def test_a_linear_problem_is_solved_by_one_step_of_minimum_norm():
    generator = torch.Generator().manual_seed(3)
    rows = torch.randn(3, 40, generator=generator, dtype=torch.float64)
    target = torch.randn(3, generator=generator, dtype=torch.float64)
    start = torch.randn(1, 40, generator=generator, dtype=torch.float64)
    (_, first), (point, last) = iterates(gs.MinimumNorm(iterations=1), lambda z: z @ rows.T - target, start)
    assert first > 1.0
    assert last < 1e-14 * first
    nearest = start[0] + torch.linalg.pinv(rows) @ (target - rows @ start[0])
    torch.testing.assert_close(point, nearest, rtol=0.0, atol=1e-7)


def test_a_nonlinear_problem_is_solved_in_a_few_steps():
    def residual(z):
        return torch.stack([z.square().mean(1) - 2.0, torch.sin(z).sum(1) - 3.0], 1)

    start = torch.linspace(-0.5, 1.0, 20, dtype=torch.float64)[None]
    costs = [cost for _, cost in iterates(gs.MinimumNorm(iterations=6), residual, start)]
    assert costs[-1] < 1e-10 * costs[0]


def test_step_length_is_limited():
    steps = iterates(gs.MinimumNorm(iterations=2, max_step=0.1), lambda z: z.sum(1, keepdim=True) - 100.0, _zero())
    for (before, _), (after, _) in itertools.pairwise(steps):
        assert float((after - before).square().mean().sqrt()) == pytest.approx(0.1, rel=1e-9)


def test_all_starts_are_continued_the_best_first_and_those_that_diverge_are_left_out():
    starts = torch.tensor([[5.0, 5.0], [1.0, 2.0], [90.0, -3.0]], dtype=torch.float64)

    def residual(z):
        return torch.where(z[:, :1] > 50.0, torch.inf, z.sum(1, keepdim=True) - 4.0)

    steps = list(gs.MinimumNorm(iterations=1, max_step=9.0).iterate(residual, starts))
    assert len(steps) == 4
    assert torch.equal(steps[1].z[0], starts[0])
    assert float(steps[1].losses[1]) < 1e-20
    assert float(steps[-1].losses[0]) < 1e-20
    assert not torch.isfinite(steps[-1].losses[2])
    assert torch.equal(steps[-1].z[2], starts[2])


def test_a_step_length_that_diverges_is_rejected():
    def residual(z):  # a long step diverges
        r = z.sum(1, keepdim=True) - 1.0
        return torch.where(z[:, :1].abs() > 0.2, torch.inf, r)

    (_, first), (point, last) = iterates(gs.MinimumNorm(iterations=1), residual, _zero())
    assert 0.0 < float(point[0]) <= 0.2
    assert last < first


def test_a_constant_residual_leaves_the_point_unchanged():
    points = [point for point, _ in iterates(gs.MinimumNorm(iterations=2), lambda z: 0.0 * z[:, :1] + 1.0, _zero())]
    assert all(torch.equal(point, points[0]) for point in points)


def test_too_many_residuals():
    with pytest.raises(gs.InvalidInput, match=r"65 residuals: must be at most 64.*gs\.Moments"):
        list(gs.MinimumNorm().iterate(lambda z: z.repeat(1, 13), torch.zeros(1, 5, dtype=torch.float64)))


def test_use_in_minimize():
    scene = gs.Scene([gs.Rigid("ball", gs.meshes.icosphere(0.2, 1), mass=1.0, velocity=gs.unknown((1.0, 1.0, 0.5)))])

    def position_error(scene):
        return gs.simulate(scene, frames=2, fps=2, substeps=8)["ball"].position[..., -1, :2] - torch.tensor([0.4, 0.9])

    best = gs.minimize(position_error, scene, gs.MinimumNorm(iterations=2, max_step=10.0))
    assert best.loss < 1e-12
    assert float(best.values["ball.velocity"][2]) == pytest.approx(0.5)  # does not affect the loss


def _zero() -> torch.Tensor:
    return torch.zeros(1, 4, dtype=torch.float64)
