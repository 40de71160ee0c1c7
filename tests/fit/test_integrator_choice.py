"""The integrator that a fit chooses by itself, from the damping of the scene."""

import pytest
import torch

import gradsim as gs
from gradsim.fit.trials import Trial, make_trial_model, make_trial_models

VIDEO = torch.full((3, 8, 8, 3), 0.5, dtype=torch.float64)


def soft(damping):
    material = gs.NeoHookean(mu=gs.unknown(1000.0, low=200.0, high=4000.0), lam=1000.0, damping=damping)
    return gs.Scene([gs.Soft("beam", gs.meshes.tet_box((0.6, 0.12, 0.12), (5, 1, 1)), density=3.0, material=material)])


def rigid():
    body = gs.Rigid("box", gs.meshes.box(0.2), mass=gs.unknown(1.0, low=0.5, high=2.0), position=(0.0, 0.5, 0.0))
    return gs.Scene([body], gs.Ground(1e4))


def time_of(scene, **options):
    given = {"substeps": None, "integrator": None, **options}
    return make_trial_model(Trial(scene, VIDEO, fps=30.0), name="0", **given).time


@pytest.mark.parametrize(
    ("scene", "expected"),
    [(soft(0.0), gs.Verlet()), (soft(0.5), gs.Verlet()), (soft(20.0), gs.Midpoint()), (rigid(), gs.Midpoint())],
    ids=["undamped", "little damped", "overdamped", "rigid"],
)
def test_bodies_of_nodes_get_the_rule_with_fewer_evaluations(scene, expected):
    chosen = time_of(scene)
    assert chosen.integrator == expected
    other = gs.Midpoint() if expected == gs.Verlet() else gs.Verlet()
    if scene.bodies[0].name == "beam":
        cost = {own: time_of(scene, integrator=own).substeps * own.evaluations for own in (expected, other)}
        assert cost[expected] <= cost[other]


def test_given_steps_keep_the_default_rule():
    assert time_of(soft(0.0), substeps=64).integrator == gs.Time.integrator == gs.Midpoint()


def test_all_trials_of_a_fit_have_one_integrator():
    trials = [Trial(soft(damping), VIDEO, fps=30.0) for damping in (0.0, 20.0)]
    models = make_trial_models(trials, ["a", "b"], substeps=None, integrator=None)
    assert {model.time.integrator for model in models} == {gs.Midpoint()}
