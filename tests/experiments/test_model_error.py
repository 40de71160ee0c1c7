"""Model errors: each changes the recorded video, and fits of small videos are judged as the claims say."""

from dataclasses import replace

import pytest
import torch

from gradsim.experiments.experiment import run_experiment
from gradsim.experiments.model_error import experiment as model_error
from gradsim.experiments.model_error import recording
from gradsim.experiments.model_error.errors import ERRORS, NONSENSE, RIGHT_MODEL, WRONG, ModelError
from gradsim.experiments.model_error.scenes import FAMILIES, Family
from gradsim.fit.simulation import simulate_over
from gradsim.render.mitsuba import Mitsuba
from gradsim.render.render import render
from gradsim.scene.time import Time
from gradsim.video.video import Video

SMALL = {family.name: replace(family, frames=18, substeps=64) for family in FAMILIES}
CASES = [(SMALL[name], error) for error in ERRORS for name in error.families]
YAW = "camera yaw 0.5 degrees"
NOTABLE = 0.01  # change of some pixel: the noise of the experiment


@pytest.fixture(autouse=True)
def _small_images(monkeypatch):
    monkeypatch.setattr(recording, "SIZE", 24)


def record(family: Family, error: ModelError, like: ModelError) -> torch.Tensor:
    """Returns the video [T, H, W, 3] of an error without noise, compressed like that of `like`."""
    without_noise = replace(error.recording, noise=0.0, codec=like.recording.codec)
    video = without_noise.record(family, error.scene(family.true_scene(0)), [0])
    return video.frames if isinstance(video, Video) else video


@pytest.mark.parametrize(("family", "error"), CASES, ids=[f"{family.name}-{error.name}" for family, error in CASES])
def test_each_error_changes_the_video(family, error):
    if isinstance(error.recording.renderer, Mitsuba):
        pytest.importorskip("mitsuba", reason="the path tracer needs the extra mitsuba")
    wrong, right = record(family, error, error), record(family, RIGHT_MODEL, error)
    assert wrong.shape == right.shape == (family.frames, 24, 24, 3)
    assert float((wrong - right).abs().max()) > NOTABLE


def test_errors_are_of_many_kinds():
    assert len({error.name for error in ERRORS}) == len(ERRORS)
    assert sum(error.kind == WRONG for error in ERRORS) >= 30
    assert sum(error.kind == NONSENSE for error in ERRORS) >= 5
    assert sum(error.held_out for error in ERRORS) >= 5


@pytest.mark.parametrize("family", SMALL.values(), ids=SMALL)
def test_guesses_differ_from_the_truth_and_the_rest_does_not(family):
    true, guess = family.true_scene(3), family.guessed_scene(3)
    truth = family.draw_truth(3)
    assert set(guess.unknowns) == set(truth)
    assert not true.unknowns
    filled = guess.with_values(truth)
    motion = [simulate_over(scene, Time(4, 30.0, 32)) for scene in (true, filled)]
    images = [render(scene, trajectory, (24, 24)) for scene, trajectory in zip((true, filled), motion, strict=True)]
    torch.testing.assert_close(*images, rtol=0, atol=1e-12)


def test_a_small_table(tmp_path):
    """Rows of a right and a wrong model, computed once."""
    family = replace(SMALL["rigid"], frames=20)
    named = {error.name: error for error in (*ERRORS, RIGHT_MODEL)}
    cases = [model_error.case(family, named[name], 0, model_error.EXACT) for name in ("none", YAW)]
    table, file = replace(model_error.experiment(quick=True, right=0), cases=tuple(cases)), tmp_path / "rows.json"
    right, wrong = run_experiment(table, file)
    assert right["certain"] == "yes"
    assert right["worst"] < 1.5  # half widths, of the worst of three values
    assert wrong["certain"] == "no"
    assert wrong["honest"] == "yes"
    assert "camera yaw" in wrong["cause"]
    assert len(model_error.claims([right, wrong])) == 4
    saved = replace(table, cases=tuple(replace(case, run=None) for case in cases))
    assert [row["status"] for row in run_experiment(saved, file)] == [right["status"], wrong["status"]]


def test_claims_fail_where_a_wrong_answer_is_certain():
    row = {"kind": WRONG, "mode": "exact", "held out": False, "certain": "yes", "named": False, "errors": {"mass": 3.0}}
    (claim,) = model_error.claims([row])
    assert not claim.ok
    (claim,) = model_error.claims([{**row, "certain": "no", "named": True}])
    assert claim.ok
    (claim,) = model_error.claims([{**row, "kind": NONSENSE, "any identifiable": True}])
    assert not claim.ok


def test_quick_and_held_out_forms():
    full, quick, held_out = (model_error.experiment(**options) for options in ({}, {"quick": True}, {"held_out": True}))
    assert len(quick.cases) < 0.2 * len(full.cases)
    keys = [{case.key for case in form.cases} for form in (full, quick, held_out)]
    assert len(keys[0]) == len(full.cases)
    assert not keys[0] & keys[2]
