"""Which priors an interval comes from: against closed forms, and against refits with other priors."""

import dataclasses
import json

import pytest
import torch
from tests.fit.paths import FPS, dropped_ball, projected_path

import gradsim as gs
from gradsim.fit.contributions import MODEL_ERROR, OBSERVATIONS, OTHERS, RANGES, notable_priors, variance_contributions

F64 = torch.float64
NONE = float("inf")


def linear(prior_sd, ranges=100.0, information=None):
    """Contributions of a linear problem in three coordinates a, b, c, without model errors."""
    H = (
        torch.tensor([[4.0, 3.0, 0.0], [3.0, 4.0, 1.0], [0.0, 1.0, 2.0]], dtype=F64)
        if information is None
        else information
    )
    prior, widths = torch.tensor(prior_sd, dtype=F64), torch.full((3,), ranges, dtype=F64)
    P = torch.diag(torch.where(torch.isfinite(prior), prior, widths) ** -2)
    V = torch.linalg.inv(H + P)
    return V, variance_contributions("abc", V, prior, widths, torch.diagonal(V))


def test_one_scale_that_only_a_prior_determines():
    """x is measured in units of s: y = x + s with unit noise. Then var x = 1 + sd^2, of which sd^2 is the prior's."""
    H = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=F64)
    _, found = linear((NONE, 2.0, NONE), ranges=1e5, information=H)
    assert found["a"]["b"] == pytest.approx(4 / 5, rel=1e-6)
    assert found["a"][OBSERVATIONS] == pytest.approx(1 / 5, rel=1e-6)
    assert found["b"]["b"] == pytest.approx(1.0, rel=1e-6)
    assert found["c"][OBSERVATIONS] == pytest.approx(1.0, rel=1e-6)


def test_shares_sum_to_one_and_say_what_a_tighter_prior_gains():
    sds = (0.5, 0.7, NONE)
    V, found = linear(sds)
    for own in found.values():
        assert sum(own.values()) == pytest.approx(1.0, abs=1e-12)
    step = 1e-5
    for j, name in enumerate("ab"):
        tighter = list(sds)
        tighter[j] *= 1 - step / 2  # its variance by 1 - step
        W, _ = linear(tighter)
        gained = (1 - torch.diagonal(W) / torch.diagonal(V)) / step
        for i, unknown in enumerate("abc"):
            assert found[unknown].get(name, 0.0) == pytest.approx(float(gained[i]), abs=1e-2)


def test_what_nothing_determines_comes_from_its_range():
    H = torch.diag(torch.tensor([1.0, 0.0, 1.0], dtype=F64))
    _, found = linear((NONE, NONE, NONE), ranges=3.0, information=H)
    assert found["b"] == {RANGES: pytest.approx(1.0)}


def test_model_errors_and_small_priors():
    V = torch.eye(4, dtype=F64)
    V[0] = torch.tensor([1.0, 0.05, 0.05, 0.6], dtype=F64)
    found = variance_contributions(
        "abcd", V, torch.tensor([NONE, 1.0, 1.0, 1.0], dtype=F64), torch.full((4,), 1e3), V[0] * 2
    )
    assert found["a"][MODEL_ERROR] == pytest.approx(0.5)
    assert found["a"][OTHERS] == pytest.approx(0.0025)
    assert found["a"]["d"] == pytest.approx(0.18)


def test_a_line_for_each_value_that_depends_on_one_prior():
    found = {
        "scene.gravity[1]": {"camera.eye[2]": 0.62, OBSERVATIONS: 0.38},
        "ball.mass": {"ball.mass": 0.9, OBSERVATIONS: 0.1},
        "ground.mu": {"camera.eye[2]": 0.3, OBSERVATIONS: 0.7},
        "ball.size": {MODEL_ERROR: 0.9, "ground.mu": 0.1},
    }
    assert notable_priors(found) == [
        "62 % of the variance of scene.gravity[1] comes from the prior of camera.eye[2]",
        "90 % of the variance of ball.mass comes from its own prior",
    ]


def measured(sd):
    """Gravity from the path of a ball in the image, through a camera whose distance is known to `sd` [m]."""
    scene = dropped_ball(
        gravity=(0.0, gs.unknown(-9.0, low=-20.0, high=-1.0), 0.0),
        eye=(0.0, 0.0, gs.unknown(4.0, prior=gs.Normal(4.0, sd))),
    )
    pixels = projected_path(noise=0.3, seed=0)
    tracks = gs.Tracks([gs.Center("ball")], pixels, (480, 640), noise=0.3)
    return gs.estimate(gs.Trial(scene, tracks, fps=FPS), corrections=0)


def test_gravity_from_a_path_in_the_image_hangs_on_the_distance_of_the_camera(tmp_path):
    wide, tight = measured(0.2), measured(0.15)
    own = wide.contributions["scene.gravity[1]"]
    assert own["camera.eye[2]"] > 0.9
    assert sum(own.values()) == pytest.approx(1.0, abs=1e-9)
    index = wide.parameters.names.index("scene.gravity[1]")
    variances = [float(fit.standard_deviation[index]) ** 2 for fit in (wide, tight)]
    assert 1 - variances[1] / variances[0] == pytest.approx(own["camera.eye[2]"] * (1 - 0.75**2), rel=0.02)
    assert "of the variance of scene.gravity[1] comes from the prior of camera.eye[2]" in str(wide)
    wide.save(tmp_path / "fit.json")
    assert json.loads((tmp_path / "fit.json").read_text())["contributions"]["scene.gravity[1]"] == own
    page = gs.write_report(wide, tmp_path)
    assert "comes from the prior of camera.eye[2]." in page.read_text()
    known = dataclasses.replace(wide, contributions={})
    assert "comes from" not in str(known)
