"""Errors of compressed videos: simulated ones have the size of the real ones, and fits are judged by them."""

import pytest
import torch
from tests.fit.videos import FPS, contains, guessed, record, throw, yawed

import gradsim as gs
from gradsim.fit.codec_noise import DRAWS, is_compressed, with_codec_noise
from gradsim.fit.linearization import differences
from gradsim.fit.parameters import Parameters
from gradsim.fit.problem import EstimationProblem
from gradsim.fit.trials import make_trial_model


def compressed(folder, scene, **options) -> gs.Video:
    """Returns an H.264 video of a scene; its noise is from before the compression."""
    gs.save_video(folder / "video.mp4", record(scene, **options).clamp(0.0, 1.0), FPS, quality=18)
    return gs.load_video(folder / "video.mp4")


def problem(video, **options) -> EstimationProblem:
    trial = gs.Trial(guessed(), video, fps=None if isinstance(video, gs.Video) else FPS)
    model = make_trial_model(trial, name="0", substeps=32, integrator=gs.Midpoint(), options=options)
    return EstimationProblem(Parameters(model.scene), (model,))


def coordinates(estimation: EstimationProblem) -> torch.Tensor:
    """Coordinates of the true mass."""
    z = estimation.parameters.initial()
    (guess,) = estimation.parameters.values(z).values()
    return z + torch.log(torch.tensor(2.0, dtype=z.dtype) / guess)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02])
def test_simulated_errors_are_as_large_as_the_real_ones(tmp_path, noise):
    plain = problem(compressed(tmp_path, throw(), noise=noise))
    z = coordinates(plain)
    (value,) = plain.parameters.values(z).values()
    assert float(value) == pytest.approx(2.0, rel=1e-6)
    simulated, _ = with_codec_noise(plain, z)
    real = float(differences(plain, z[None])[0, 0].square().mean().sqrt())
    level = simulated.noise[0, 0]
    assert level.source == "codec"
    assert float(level.sigma) == pytest.approx(real, rel=0.2)
    assert simulated.codec_errors[0, 0].shape == (DRAWS, 12, simulated.entries((0, 0), 0))


def test_videos_without_compression_keep_their_noise():
    plain = problem(record(throw()))
    assert not is_compressed(plain, (0, 0))
    assert with_codec_noise(plain, plain.parameters.initial()) == (plain, None)


def test_given_noise_is_not_replaced(tmp_path):
    video = compressed(tmp_path, throw())
    assert is_compressed(problem(video), (0, 0))
    given = problem(video, noise=0.02)
    assert not is_compressed(given, (0, 0))
    assert with_codec_noise(given, given.parameters.initial()) == (given, None)


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_right_scene_explains_its_compressed_video(tmp_path, noise):
    fit = gs.estimate(guessed(), compressed(tmp_path, throw(), noise=noise), bootstrap=False)
    assert fit.status == "converged", fit.advice
    assert fit.certain
    assert contains(fit)


def test_a_wrong_scene_does_not_explain_its_compressed_video(tmp_path):
    """A yaw is among the causes; in front of a plain background it looks much like a shifted start."""
    fit = gs.estimate(guessed(), compressed(tmp_path, yawed(1.0)), bootstrap=False, corrections=0)
    assert fit.status == "does not explain the video"
    assert all(item.level != "identifiable" for item in fit.identifiability.values())
    assert any("camera yaw" in cause.description for cause in fit.misfit.causes)
