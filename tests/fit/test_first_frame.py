"""Errors of the scene that the first frame shows before the search."""

from dataclasses import replace

import pytest
import torch
from tests.fit.videos import FPS, contains, guessed, record, throw

import gradsim as gs
from gradsim.fit.corrections import with_nuisances
from gradsim.fit.first_frame import nuisances_of_first_frame, with_fixed_nuisances
from gradsim.fit.gauss_newton import GaussNewton
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import make_trial_model

LIGHTS = (gs.AmbientLight(0.3), gs.DirectionalLight((-0.4, -1.0, -0.6), 0.5))
DARK = (gs.AmbientLight(0.3), gs.DirectionalLight((-0.4, -1.0, -0.6), 0.35))


def lit(scene: gs.Scene, lights) -> gs.Scene:
    return replace(scene, lights=lights)


def problem_of(scene: gs.Scene, video: torch.Tensor) -> EstimationProblem:
    trial = gs.Trial(scene, gs.Pixels(video), fps=FPS)
    model = make_trial_model(trial, name="0", substeps=16, integrator=gs.Midpoint())
    return EstimationProblem(Parameters(model.scene), (model,))


def test_a_dark_light_is_seen_in_the_first_frame():
    video = record(lit(throw(), DARK), noise=0.005)
    problem = problem_of(lit(guessed(), LIGHTS), video)
    rough = with_nuisances(problem, ["light"])
    amounts = nuisances_of_first_frame(problem, rough, GaussNewton())
    changed = with_fixed_nuisances(problem, rough, amounts)
    before, after = (float(p.mean_square(p.parameters.initial()[None], 0, 1)) for p in (problem, changed))
    assert changed.parameters.count == problem.parameters.count
    assert after < 1.2 * 0.005**2 < 0.25 * before


def test_a_first_frame_that_depends_on_the_unknowns_is_not_used():
    scene = guessed()
    cube = replace(scene["cube"], position=(gs.unknown(-0.5, low=-2.0, high=2.0), 0.0, 0.0))
    moved = lit(replace(scene, bodies=[cube]), LIGHTS)
    problem = problem_of(moved, record(lit(throw(), DARK)))
    rough = with_nuisances(problem, ["light"])
    assert not nuisances_of_first_frame(problem, rough, GaussNewton()).any()


@pytest.mark.parametrize("lights", [LIGHTS, DARK])
def test_a_rough_light_does_not_bias_the_mass(lights):
    fit = gs.estimate(lit(guessed(), LIGHTS), record(lit(throw(), lights)), fps=FPS, roughly=["light"])
    assert fit.status == "converged"
    assert contains(fit)
