"""Pixels: differences, weights, frames, missing pixels, channels, brightness, cameras."""

import pytest
import torch
from tests.fit.observations.scenes import FRAMES, SIDE_CAMERA, SIZE, UNKNOWN_MASS, motion, noise, pushed_cube

import gradsim as gs

SCENE = pushed_cube()


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


@pytest.fixture(scope="module")
def video(trajectory) -> torch.Tensor:
    return gs.render(SCENE, trajectory, SIZE)


def test_levels_and_shapes(video, trajectory):
    observation = gs.Pixels(video)
    assert (observation.frames, observation.levels) == (FRAMES, 2)
    assert [observation.entries(level) for level in range(2)] == [16 * 16 * 3, 32 * 32 * 3]
    for level in range(2):
        difference = observation.difference(SCENE, trajectory, level)
        assert difference.shape == (FRAMES, observation.entries(level))
    assert float(difference.abs().max()) < 1e-12
    assert observation.difference(SCENE, trajectory[:4], 1).shape == (4, 32 * 32 * 3)


def test_differences_are_rendered_minus_observed_in_a_batch(video, trajectory):
    scenes = pushed_cube(mass=torch.tensor([3.7, 2.0], dtype=torch.float64))
    moved = motion(scenes)
    difference = gs.Pixels(video).difference(scenes, moved, 1)
    assert difference.shape == (2, FRAMES, 32 * 32 * 3)
    assert torch.allclose(difference, (gs.render(scenes, moved, SIZE) - video).flatten(-3), atol=1e-12)


def test_missing_pixels_are_neither_compared_nor_propagated(video, trajectory):
    damaged = video.clone()
    damaged[3, 5:20, 6:11, 0] = torch.nan  # one missing channel makes the pixel missing
    observation = gs.Pixels(damaged)
    for level in range(2):
        difference, weights = observation.difference(SCENE, trajectory, level), observation.weights(level)
        assert bool(torch.isfinite(difference).all())
        assert bool((difference[weights == 0] == 0).all())
    finest = observation.weights(1).view(FRAMES, *SIZE, 3)
    assert float(finest[3, 5:20, 6:11].sum()) == 0
    assert float(finest.sum()) == (FRAMES * 32 * 32 - 15 * 5) * 3
    assert float(observation.residual(SCENE, trajectory, 1).abs().max()) < 1e-12
    coarse = observation.weights(0).view(FRAMES, 16, 16, 3)
    assert float(coarse[3, 2, 3, 0]) == pytest.approx(0.5)  # the lower half of this block of 2 x 2 is missing


def test_masks_of_one_and_of_all_frames_weight_the_squares(video, trajectory):
    shifted = video + 0.1
    mask = torch.zeros(SIZE)
    mask[:4] = 2.0
    for weights in (mask, mask.expand(FRAMES, *SIZE)):
        residual = gs.Pixels(shifted, mask=weights).residual(SCENE, trajectory, 1)
        assert float(residual.square().sum()) == pytest.approx(2.0 * 0.01 * FRAMES * 4 * 32 * 3)


def test_frames_exclude_the_others(video, trajectory):
    observation = gs.Pixels(video + 0.1, frames=[2, 5])
    residual = observation.residual(SCENE, trajectory, 1)
    used = residual.abs().sum(-1) > 0
    assert used.nonzero()[:, 0].tolist() == [2, 5]
    assert observation.residual(SCENE, trajectory[:4], 1).shape[0] == 4


def test_channels_are_a_linear_map(video, trajectory):
    luma = gs.Pixels(video + torch.tensor([0.1, 0.2, 0.3]), channels=[[0.299, 0.587, 0.114]])
    difference = luma.difference(SCENE, trajectory, 1)
    assert difference.shape == (FRAMES, 32 * 32)
    assert torch.allclose(difference, torch.tensor(-(0.0299 + 0.1174 + 0.0342), dtype=torch.float64))


def test_brightness_factors_remove_flicker(video, trajectory):
    flicker = video * torch.linspace(0.5, 1.4, FRAMES, dtype=torch.float64)[:, None, None, None]
    flicker[:, :, :4] = torch.nan
    assert float(gs.Pixels(flicker).residual(SCENE, trajectory, 1).abs().max()) > 0.1
    assert float(gs.Pixels(flicker, brightness=True).residual(SCENE, trajectory, 1).abs().max()) < 1e-12


def test_samples_average_the_exposure_and_adjust_maps_the_colours(video, trajectory):
    pairs = gs.Pixels(video.unflatten(0, (-1, 2)).mean(1))
    assert float(pairs.difference(SCENE, trajectory, 1, samples=2).abs().max()) < 1e-12
    doubled = gs.Pixels(2 * video)
    assert float(doubled.difference(SCENE, trajectory, 1, adjust=lambda x: 2 * x).abs().max()) < 1e-12


def test_its_own_camera_has_precedence(trajectory):
    side = gs.render(pushed_cube(camera=SIDE_CAMERA), trajectory, SIZE)
    assert float(gs.Pixels(side, camera=SIDE_CAMERA).difference(SCENE, trajectory, 1).abs().max()) < 1e-12
    assert float(gs.Pixels(side).difference(SCENE, trajectory, 1).abs().max()) > 0.1


def test_an_unknown_in_the_camera_of_an_observation_is_refused(video):
    camera = gs.Camera(eye=(0.0, 0.0, 5.0), target=(0.0, 0.0, 0.0), fov=gs.unknown(40.0, low=30.0, high=50.0))
    with pytest.raises(gs.InvalidInput, match="camera.fov.*camera of the scene"):
        gs.Pixels(video, camera=camera)


def test_gradient_of_the_residual_with_respect_to_the_motion(video):
    def residual(velocity):
        scene = pushed_cube(velocity=velocity)
        moved = gs.simulate(scene, frames=4, fps=10, substeps=2)
        return gs.Pixels(video + 0.3, robust=gs.Cauchy(0.1)).residual(scene, moved, 0).square().sum()

    start = torch.tensor([1.31, 0.77, -0.21], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(residual, start, eps=1e-6, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("camera", [None, SIDE_CAMERA])
def test_mass_from_two_cameras_of_one_trial(trajectory, camera):
    """Two cameras in one trial; the second may carry its own pose and time offset."""
    front = gs.render(SCENE, trajectory, SIZE)
    fine = motion(SCENE, 2 * FRAMES, 20.0)
    seen = pushed_cube(camera=SIDE_CAMERA) if camera else SCENE
    late = gs.render(seen, fine, SIZE, frames=slice(1, None, 2))  # half a frame later
    observations = [
        gs.Pixels(front + noise(front.shape, 0.01)),
        gs.Pixels(late + noise(late.shape, 0.01, 1), camera=camera, offset=0.05),
    ]
    fit = gs.estimate(gs.Trial(pushed_cube(mass=UNKNOWN_MASS), observations, fps=10.0))
    low, high = fit.intervals["cube.mass"]
    assert fit.status == "converged", fit.advice
    assert low < 3.7 < high
    assert high - low < 0.06


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"video": torch.zeros(3, 8, 8)}, r"\[T, H, W, 3\]"),
        ({"video": torch.zeros(3, 8, 8, 4)}, r"\[T, H, W, 3\]"),
        ({"video": torch.zeros(0, 8, 8, 3)}, r"\[T, H, W, 3\]"),
        ({"video": torch.full((2, 8, 8, 3), torch.inf)}, "infinite"),
        ({"video": "video.mp4"}, "array of numbers"),
        ({"mask": torch.ones(3, 3)}, "mask"),
        ({"mask": -torch.ones(8, 8)}, "mask"),
        ({"mask": torch.full((8, 8), torch.nan)}, "mask"),
        ({"channels": [1.0, 2.0, 3.0]}, "channels"),
        ({"brightness": 1.0}, "brightness"),
        ({"renderer": gs.Mitsuba()}, "renderer"),
        ({"noise": 0.0}, "noise"),
        ({"noise": "low"}, "noise"),
        ({"robust": -1.0}, "robust"),
        ({"frames": [2]}, "frames"),
        ({"frames": []}, "frames"),
        ({"frames": 1}, "frames"),
        ({"frames": [0.5]}, "frames"),
        ({"camera": "front"}, "camera"),
        ({"offset": "late"}, "offset"),
        ({"offset": gs.unknown((0.0, 0.0))}, "offset"),
        ({"background": 3.0}, "background.*does not apply to gs.Pixels"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.Pixels(**{"video": torch.zeros(2, 8, 8, 3), **arguments})


def test_observations_are_immutable(video):
    observation = gs.Pixels(video, noise=0.01)
    with pytest.raises(AttributeError, match="replaced"):
        observation.noise = 0.02
    other = observation.replaced(noise=0.02, frames=[1, 2])
    assert (observation.noise, other.noise, other.included) == (0.01, 0.02, (1, 2))
