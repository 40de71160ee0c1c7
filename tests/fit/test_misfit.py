"""Whether a scene explains a video: right scenes, slightly wrong ones, and videos of something else."""

import dataclasses
import math
import re

import pytest
import torch
from tests.fit.videos import FPS, FRAMES, SIZE, contains, guessed, record, throw, yawed

import gradsim as gs
from gradsim.fit.misfit import Misfit


def white_noise(video: torch.Tensor) -> torch.Tensor:
    return torch.rand(video.shape, generator=torch.Generator().manual_seed(2), dtype=video.dtype)


def still(video: torch.Tensor) -> torch.Tensor:
    """Repeats the first frame, each time with noise of its own."""
    noise = torch.randn(video.shape, generator=torch.Generator().manual_seed(3), dtype=video.dtype)
    return video[:1] + 0.01 * noise


@pytest.mark.parametrize("seed", [0, 1])
def test_a_right_scene_explains_the_video(seed):
    fit = gs.estimate(guessed(), record(throw(), seed=seed), fps=FPS)
    assert fit.certain, (fit.status, fit.advice)
    assert fit.misfit.ok
    assert fit.misfit.chi2 == pytest.approx(1.0, abs=5 * math.sqrt(2 / (FRAMES * SIZE * SIZE * 3)) + 0.01)
    assert fit.misfit.explained > 0.99
    assert fit.misfit.overlap > 0.9
    assert contains(fit)


@pytest.mark.parametrize("edit", [white_noise, still, lambda video: video.flip(0)], ids=["noise", "still", "reversed"])
def test_videos_of_something_else_are_refused(edit):
    fit = gs.estimate(guessed(), edit(record(throw())), fps=FPS)
    assert fit.status == "does not explain the video"
    assert fit.misfit.nonsense
    assert fit.misfit.reasons
    assert all(item.level == "not identifiable" for item in fit.identifiability.values())
    assert not fit.certain


def test_a_yaw_of_the_camera_is_named():
    """Amount and share are of first order: edges move by 0.4 pixels, which is not small."""
    fit = gs.estimate(guessed(), record(yawed(0.5)), fps=FPS, corrections=0)
    assert fit.status == "does not explain the video"
    assert not fit.certain
    cause = fit.misfit.causes[0]
    assert "camera yaw" in cause.description
    assert float(re.search(r"of -?([\d.]+) degrees", cause.description)[1]) == pytest.approx(0.5, abs=0.1)
    assert cause.share > 0.7
    assert cause.score > 10 * fit.misfit.score_limit
    assert cause.description in fit.advice


def test_missing_measures_are_no_reasons():
    """NaN stands for what observations without images do not have."""
    unknown = Misfit(1.0, math.nan, math.nan, math.nan, math.nan)
    assert unknown.ok
    assert not unknown.nonsense
    assert unknown.as_dict()["explained"] is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"chi2": 1.2}, "times the noise"),
        ({"moving_chi2": 1.5}, "where something moves"),
        ({"explained": 0.8}, "explains 80 %"),
        ({"overlap": 0.4}, "overlap by 40 %"),
        ({"noise": 0.3}, "mostly noise"),
    ],
)
def test_each_measure_gives_its_reason(change, reason):
    right = Misfit(1.0, 1.0, 1.0, 1.0, 1.0)
    assert right.ok
    (found,) = dataclasses.replace(right, **change).reasons
    assert reason in found
