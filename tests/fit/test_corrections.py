"""Errors of the scene that are estimated along with the unknowns."""

import pytest
from tests.fit.videos import FPS, MASS, contains, guessed, record, throw, yawed

import gradsim as gs


def test_a_wrong_yaw_is_added_and_the_mass_recovers():
    video = record(yawed(0.5))
    plain, corrected = (gs.estimate(guessed(), video, fps=FPS, corrections=count) for count in (0, 5))
    assert corrected.status == "converged with corrections"
    assert not corrected.certain
    (correction,) = corrected.misfit.corrections
    assert "camera yaw" in correction
    assert "0.5 degrees" in correction
    assert corrected.misfit.ok
    assert contains(corrected)
    errors = [abs(float(fit.values["cube.mass"]) - MASS) for fit in (plain, corrected)]
    assert errors[1] < 0.2 * errors[0]


def test_a_rough_camera_includes_its_yaw():
    right, wrong = (record(scene) for scene in (throw(), yawed(0.5)))
    exact = gs.estimate(guessed(), right, fps=FPS)
    rough = gs.estimate(guessed(), wrong, fps=FPS, roughly=("camera",))
    assert rough.status == "converged"
    assert not rough.misfit.corrections
    assert contains(rough)
    amount, deviation, _ = next(row for path, row in rough.nuisances.items() if "yaw" in path)
    assert abs(amount) == pytest.approx(0.5, abs=4 * deviation)
    assert abs(amount) > 5 * deviation
    widths = [float(fit.standard_deviation[0]) for fit in (exact, rough)]
    assert widths[1] > widths[0]


def test_a_right_scene_is_not_corrected():
    fit = gs.estimate(guessed(), record(throw()), fps=FPS)
    assert fit.misfit.corrections == ()
    assert fit.nuisances == {}


def test_time_steps_are_refined_until_their_error_is_small():
    """Symplectic Euler with one step of dt per frame has an error of g dt / 2 in the velocity: 0.15 m/s."""
    video, euler = record(throw()), gs.SymplecticEuler()
    given = gs.estimate(guessed(), video, fps=FPS, substeps=1, integrator=euler)
    free = gs.estimate(guessed(), video, fps=FPS, integrator=euler)
    assert not given.certain
    assert "1 substeps shift the values" in given.advice
    assert free.trials[0].time.steps_per_frame > 8
    assert free.status == "converged"
    assert contains(free)
