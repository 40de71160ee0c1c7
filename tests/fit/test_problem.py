"""Costs of an estimation problem in units of its noise."""

import pytest
import torch
from tests.fit.videos import FPS, guessed, record, throw

import gradsim as gs
from gradsim.fit.gauss_newton import GaussNewton, solve
from gradsim.fit.linearization import linearize, residual_jacobian
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import NEGLIGIBLE_CHI2, EstimationProblem
from gradsim.fit.residuals import jacobian
from gradsim.fit.trials import make_trial_model


def problem(observation) -> EstimationProblem:
    trial = gs.Trial(guessed(), observation, fps=FPS)
    model = make_trial_model(trial, name="0", substeps=16, integrator=gs.Midpoint())
    return EstimationProblem(Parameters(model.scene), (model,))


@pytest.fixture(scope="module")
def noisy() -> EstimationProblem:
    return problem(gs.Pixels(record(throw())))


def test_resolution_is_a_decrease_of_chi2(noisy):
    """chi^2 as computed from the noise and the plain differences, without the scale of the cost."""
    z = noisy.parameters.initial()
    cost = float(noisy.residual(0)(z[None]).square().sum())
    lin = linearize(noisy, z)
    chi2 = lin.chi2 * float(lin.blocks[0].counts.sum())
    assert noisy.resolution(0) / cost == pytest.approx(NEGLIGIBLE_CHI2 / chi2, rel=1e-9)


def test_a_search_that_ends_at_the_resolution_is_accurate(noisy):
    bounds, start = noisy.parameters.bounds(), noisy.parameters.initial()[None]
    exact = solve(noisy.residual(), start, bounds, GaussNewton(iterations=50, tolerance=1e-12))
    found = solve(noisy.residual(), start, bounds, GaussNewton(iterations=50), resolution=noisy.resolution(0))
    assert bool(found.converged[0])
    deviation = float(linearize(noisy, exact.z[0]).information()[0, 0]) ** -0.5
    assert abs(float(found.z[0, 0] - exact.z[0, 0])) < 0.05 * deviation


def test_noise_that_is_unknown_or_negligible_does_not_limit_the_accuracy():
    motion = gs.simulate(throw(), frames=6, fps=FPS, substeps=16)
    assert problem(gs.States({"cube.position": motion["cube"].position})).resolution(0) == 0.0
    assert problem(gs.Pixels(record(throw(), noise=0.0))).resolution(0) == 0.0
    assert problem(gs.States({"cube.position": motion["cube"].position}, noise=0.01)).resolution(0) > 0.0


def test_the_jacobian_of_a_linearization_is_that_of_the_residual():
    video = record(throw())
    mask = torch.rand(video.shape[1:3], generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weighted = problem(gs.Pixels(video, mask=mask))
    z = weighted.parameters.initial()
    given = residual_jacobian(linearize(weighted, z), weighted)
    expected = jacobian(weighted.residual(), z[None], 4)[0]
    assert torch.allclose(given, expected, atol=1e-3 * float(expected.abs().max()))  # corners of edges in the image
    robust = problem(gs.Pixels(video, robust=0.1))
    assert residual_jacobian(linearize(robust, z), robust) is None
