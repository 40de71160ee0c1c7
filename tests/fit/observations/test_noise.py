"""Noise measured in a video: unbiased, with rounding, saturation and moving objects."""

import pytest
import torch
from tests.fit.observations.scenes import motion, noise, pushed_cube

import gradsim as gs
from gradsim.fit.noise import noise_level, series_noise
from gradsim.fit.observations.noise import video_noise


def still(frames: int = 20, size: int = 48, low: float = 0.2, high: float = 0.8, seed: int = 1) -> torch.Tensor:
    """A static video of random colours, [T, H, W, 3]."""
    image = torch.rand(size, size, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return (low + (high - low) * image).expand(frames, -1, -1, -1).clone()


@pytest.mark.parametrize("sd", [1e-4, 0.01, 0.05])
@pytest.mark.parametrize("frames", [3, 20])
def test_white_noise_is_measured_without_bias(sd, frames):
    video = still(frames)
    measured = [video_noise(video + noise(video.shape, sd, seed), None, None) for seed in range(4)]
    assert sum(measured) / 4 == pytest.approx(sd, rel=0.01)


def test_a_moving_object_does_not_count_as_noise():
    scene = pushed_cube()
    video = gs.render(scene, motion(scene, 16, 20.0), (64, 64))
    estimates = [video_noise(video + noise(video.shape, 0.01, seed), None, None) for seed in range(4)]
    assert sum(estimates) / 4 == pytest.approx(0.01, rel=0.01)


@pytest.mark.parametrize("sd", [0.0005, 0.002, 0.01])
def test_rounding_to_8_bits_is_part_of_the_noise(sd):
    video = still(30)
    rounded = ((video + noise(video.shape, sd)) * 255).round() / 255
    exact = float((rounded - video).square().mean().sqrt())
    assert video_noise(rounded, None, None) == pytest.approx(exact, rel=0.05)


def test_saturated_pixels_are_left_out():
    video = still(20, low=-0.5, high=1.5)
    clipped = (video + noise(video.shape, 0.02)).clamp(0.0, 1.0)
    assert video_noise(clipped, None, None) == pytest.approx(0.02, rel=0.02)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.0), (-0.005, 0.01), (1.0, 1.0), (0.0, 1.0)])
@pytest.mark.parametrize("rounded", [False, True])
def test_noise_that_is_cut_off_everywhere_is_measured(low, high, rounded):
    generator = torch.Generator().manual_seed(3)
    level = low + (high - low) * torch.rand(48, 48, 3, generator=generator, dtype=torch.float64)
    video = (level.round() if high - low == 1.0 else level).expand(30, -1, -1, -1).clone()
    for k in range(30):
        video[k, 20:28, k : k + 8] = torch.tensor([0.8, 0.4, 0.3], dtype=torch.float64)  # something that moves
    video = (video + noise(video.shape, 0.01)).clamp(0.0, 1.0)
    measured = video_noise((video * 255).round() / 255 if rounded else video, None, None)
    assert measured == pytest.approx(0.01, rel=0.05)


def test_objects_in_front_of_a_black_background_are_no_noise():
    video = torch.zeros(30, 48, 48, 3, dtype=torch.float64)
    for k in range(30):
        video[k, 10:30, k : k + 18] = torch.tensor([0.8, 0.4, 0.3], dtype=torch.float64)
        video[k, 34:46, abs(15 - 2 * (k % 15)) : 30 + abs(15 - 2 * (k % 15))] = 0.5  # back and forth
    assert not video_noise(video, None, None)


def test_noise_below_the_steps_of_a_black_background_is_not_measured():
    video = noise((30, 48, 48, 3), 0.002).clamp(0.0, 1.0)
    assert video_noise((video * 255).round() / 255, None, None) is None


def test_a_video_that_is_saturated_or_moves_everywhere_has_no_measured_noise():
    assert video_noise(torch.ones(10, 16, 16, 3, dtype=torch.float64), None, None) is None
    assert video_noise(still(2), None, None) is None


def test_channels_scale_the_noise():
    video = still(20)
    observation = gs.Pixels(video + noise(video.shape, 0.01), channels=[[0.299, 0.587, 0.114]])
    assert observation.estimated_noise() == pytest.approx(0.01 * (0.299**2 + 0.587**2 + 0.114**2) ** 0.5, rel=0.02)


def test_masked_pixels_and_excluded_frames_do_not_contribute():
    video = still(20)
    video += noise(video.shape, 0.01)
    video[:, :24] += noise((20, 24, 48, 3), 0.2, seed=5)
    video[7] += noise((48, 48, 3), 0.3, seed=6)
    mask = torch.ones(48, 48)
    mask[:24] = 0.0
    observation = gs.Pixels(video, mask=mask, frames=[k for k in range(20) if k != 7])
    assert observation.estimated_noise() == pytest.approx(0.01, rel=0.03)
    video[3, 40:] = torch.nan
    assert gs.Pixels(video, mask=mask, frames=range(8, 20)).estimated_noise() == pytest.approx(0.01, rel=0.05)


def test_white_noise_of_a_smooth_series_is_measured_by_third_differences():
    t = torch.linspace(0.0, 2.0, 200, dtype=torch.float64)
    series = torch.stack([3 * t**2, torch.sin(2 * t), 5 * t], 1).repeat(1, 20)
    assert series_noise(series + noise(series.shape, 0.003)) == pytest.approx(0.003, rel=0.05)
    gaps = series + noise(series.shape, 0.003)
    gaps[::7] = torch.nan
    assert series_noise(gaps) == pytest.approx(0.003, rel=0.05)


def test_noise_of_depth_images_does_not_depend_on_the_unit_of_length():
    depth = 5.0 + 0.1 * still()[..., 0]
    depth = depth + noise(depth.shape, 0.02)
    for scale in (1.0, 0.01):
        level = noise_level(gs.Depth(scale * depth))
        assert level.source == "residuals"
        assert float(level.sigma) == pytest.approx(scale * 0.02, rel=0.05)


def test_given_noise_has_precedence():
    level = noise_level(gs.Pixels(still(), noise=0.03))
    assert float(level.sigma) == 0.03
    assert level.source == "given"
