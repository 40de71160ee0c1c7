"""The report says first whether the scene explains the observations, then why, and where the intervals come from."""

import math
from dataclasses import replace

import pytest
import torch
from tests.report.browser import CHROMIUM, NO_CHROMIUM, open_page

import gradsim as gs
from gradsim.report.fit_page import write_report
from gradsim.report.misfit_charts import misfit_charts, prior_rows
from gradsim.report.misfit_text import holdout_text, interval_sources, misfit_tests
from gradsim.report.summary_text import fit_summary

CAMERA = gs.Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=40)
YAWED = replace(CAMERA, target=(5 * math.tan(math.radians(0.5)), 0.0, 0.0))
TIME = {"frames": 12, "fps": 20, "substeps": 32, "integrator": gs.RungeKutta4()}  # of recorded motions


def thrown(mass=3.7, velocity=(1.0, 1.5, 0.0), camera=CAMERA) -> gs.Scene:
    push = gs.Push(impulse=(4.0, 0.0, -1.0), point=(0.0, 0.1, 0.0), start=0.1)
    place = {"position": (-0.8, -0.3, 0.0), "velocity": velocity}
    cube = gs.Rigid("cube", gs.meshes.box(0.7), mass=mass, pushes=[push], **place)
    return gs.Scene([cube], camera=camera, background=(0.85, 0.9, 0.95))


def record(scene, seed=0) -> torch.Tensor:
    video = gs.render(scene, gs.simulate(scene, **TIME), (32, 32))
    return video + 0.01 * torch.randn(video.shape, generator=torch.Generator().manual_seed(seed), dtype=video.dtype)


def guessed(**options) -> gs.Scene:
    return thrown(gs.unknown(5.0, low=1.0, high=20.0, **options), gs.unknown((0.8, 1.2, 0.1), low=-4.0, high=4.0))


@pytest.fixture(scope="module")
def corrected():
    return gs.estimate(guessed(), record(thrown(camera=YAWED)), fps=20)


@pytest.fixture(scope="module")
def uncorrected():
    return gs.estimate(guessed(), record(thrown(camera=YAWED)), fps=20, corrections=0)


@pytest.fixture(scope="module")
def unrelated():
    ball = gs.Rigid("ball", gs.meshes.icosphere(0.3, 2), mass=1.0, position=(0.9, 0.8, 0.0), velocity=(-2.0, 0.5, 0.0))
    return gs.estimate(guessed(), record(gs.Scene([ball], camera=CAMERA, background=(0.85, 0.9, 0.95))), fps=20)


@pytest.fixture(scope="module")
def several():
    """Six throws with masses of their own; in one of them the cube was touched."""
    generator, trials = torch.Generator().manual_seed(3), []
    for k in range(6):
        mass = 3.7 * math.exp(0.08 * float(torch.randn((), generator=generator)))
        motion = gs.simulate(thrown(mass, (1.0 + 0.1 * k, 1.5, 0.0)), **TIME)["cube"].position
        observed = motion + 0.002 * torch.randn(12, 3, generator=generator, dtype=torch.float64)
        observed[8:, 0] += 0.3 * (k == 4)
        unknowns = gs.unknown(5.0, 1.0, 20.0, varies=True), gs.unknown((1.0, 1.4, 0.1), -4.0, 4.0, per_trial=True)
        states = gs.States({"cube.position": observed}, robust=gs.Cauchy(0.01))
        trials.append(gs.Trial(thrown(*unknowns), states, fps=20, name=f"throw {k}"))
    return gs.estimate(trials)


def test_a_correction_is_reported_first(corrected, tmp_path):
    assert corrected.status == "converged with corrections"
    assert str(corrected).startswith("converged with corrections: the scene explains the video only with a camera yaw")
    tone, head, text = fit_summary(corrected)
    assert (tone, head) == ("caution", "The scene explains the observation only after a correction.")
    assert "a camera yaw of 0.5 degrees" in text
    page = write_report(corrected, tmp_path).read_text()
    assert page.index("a camera yaw of 0.5 degrees") < page.index("Estimated values")
    assert "Estimated corrections of the scene" in page
    (row,) = prior_rows(corrected)
    assert row.name == "camera.yaw"
    assert row.prior == pytest.approx((-0.98, 0.98), abs=0.01)  # a standard deviation of half a degree
    assert row.posterior[0] < 0.5 < row.posterior[1]
    assert "camera.yaw [degree]" in page


def test_the_fitted_video_contains_the_corrections(corrected):
    """Without the yaw, the difference has the outline of the cube and is amplified less."""
    from gradsim.report.comparison import comparison_video

    trial = corrected.trials[0]
    with_yaw = comparison_video(trial, corrected.trial_values(0))
    without = comparison_video(trial, corrected.values)
    gains = [int(comparison.labels[2].split()[-1]) for comparison in (with_yaw, without)]
    assert gains[0] > gains[1]
    assert with_yaw.strip_labels == ("frame 0", "frame 2", "frame 4", "frame 7", "frame 9", "frame 11")


def test_a_misfit_names_its_likely_cause_first(uncorrected, tmp_path):
    assert str(uncorrected).startswith("does not explain the video: the residual is")
    tone, head, text = fit_summary(uncorrected)
    assert (tone, head) == ("bad", "The scene does not explain the observation.")
    assert "Likely cause: a camera yaw of 0.4" in text
    assert "may be wrong by more than their intervals" in text
    page = write_report(uncorrected, tmp_path).read_text()
    assert page.index("Likely cause: a camera yaw") < page.index("Estimated values")
    assert "Likely errors of the scene, each alone" in page
    assert "independent noise only" in page
    failed = [test.name for test in misfit_tests(uncorrected.misfit) if test.passed is False]
    assert failed[:2] == ["mean squared residual over noise variance", "the same where something moves"]


def test_a_video_of_something_else_has_no_likely_cause(unrelated, tmp_path):
    assert unrelated.misfit.nonsense
    assert "check that the scene is the recorded one" in unrelated.advice
    assert "would explain" not in unrelated.advice
    _, _, text = fit_summary(unrelated)
    assert text.endswith("The values below have no meaning.")
    page = write_report(unrelated, tmp_path).read_text()
    assert "Likely errors of the scene" not in page
    assert "First and last frames" not in page
    assert not any(item.level == "identifiable" for item in unrelated.identifiability.values())


def test_trials_have_a_table_with_outliers_and_scatter(several, tmp_path):
    page = write_report(several, tmp_path).read_text()
    assert list(several.outliers) == ["throw 4"]
    assert "outlier: " in page
    assert "cube.mass varies between trials: mean" in page
    assert "mean over trials" in page
    for k in range(6):
        assert f"throw {k}" in page
    assert "cube.velocity[2] [m/s]" in page
    values = page[page.index("Estimated values") : page.index("Does the scene explain")]
    assert "cube.mass@throw 0" not in values
    titles = [title for title, _ in misfit_charts(several)]
    assert titles[-1] == "Fitted minus observed position [m], throw 0"
    assert "The noise of observations without a given noise is taken from their residuals" in page
    assert several.misfit.noise == 0.0  # of videos; there are none


def test_intervals_name_their_sources(several, corrected):
    assert interval_sources(corrected) == [
        "Independent noise of the observations.",
        "Priors of unknowns, and of errors of the scene that are estimated along with them.",
    ]
    assert any("Differences between trials" in text for text in interval_sources(several))
    assert len(interval_sources(several)) == len(several.interval_method.split(", "))


def test_disagreement_of_first_and_last_frames_is_explained(corrected):
    assert "the two parts agree" in holdout_text(corrected)
    worse = replace(corrected, misfit=replace(corrected.misfit, holdout=4.0))
    assert "at most 4 standard deviations" in holdout_text(worse)
    assert "widened" in holdout_text(worse)
    assert holdout_text(replace(corrected, misfit=replace(corrected.misfit, holdout=math.nan))) == ""


def test_a_prior_is_compared_with_its_posterior():
    fit = gs.estimate(guessed(prior=gs.LogNormal(4.0, 0.2)), record(thrown(camera=YAWED)), fps=20, roughly=["camera"])
    rows = {row.name: row for row in prior_rows(fit)}
    assert rows["cube.mass"].prior == pytest.approx((4.0 * math.exp(-0.392), 4.0 * math.exp(0.392)), rel=1e-3)
    assert rows["cube.mass"].sd < 0.05
    assert rows["camera.shift.forward"].sd > 0.8  # the video hardly shows it
    assert len(rows) == 10  # the mass, seven errors of the camera, two of the direction of gravity


@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("width", [400, 1400])
def test_page_in_a_browser(corrected, tmp_path, width):
    open_page(write_report(corrected, tmp_path), tmp_path, width)
