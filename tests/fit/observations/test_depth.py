"""Depth: comparison with and without a background, silhouettes, missing pixels, gradients, estimates."""

import pytest
import torch
from tests.fit.observations.scenes import FRAMES, SIDE_CAMERA, SIZE, motion, noise, pushed_cube

import gradsim as gs

SCENE = pushed_cube()
WALL = 6.5  # depth of the background [m]


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


def measured(scene: gs.Scene, trajectory: gs.Trajectory, wall=None) -> torch.Tensor:
    """Depth images of a camera that averages over its pixels, NaN where nothing is in range."""
    video, depth = gs.render(scene, trajectory, SIZE, alpha=True, depth=True)
    coverage = video[..., 3]
    if wall is None:
        return torch.where(torch.isinf(depth), torch.nan, depth)
    return torch.where(torch.isinf(depth), wall, coverage * depth.nan_to_num(posinf=0.0) + (1 - coverage) * wall)


def moved_cube(distance: float) -> tuple[gs.Scene, gs.Trajectory]:
    """The cube farther from the camera."""
    scene = pushed_cube(position=(-0.9, -0.3, -distance))
    return scene, motion(scene)


@pytest.mark.parametrize("wall", [None, WALL, torch.linspace(6.0, 7.0, 32)[:, None].expand(SIZE).double()])
def test_the_right_motion_has_no_difference(trajectory, wall):
    observation = gs.Depth(measured(SCENE, trajectory, wall), background=wall)
    assert (observation.unit, observation.levels) == ("m", 2)
    assert observation.difference(SCENE, trajectory, 1).shape == (FRAMES, 32 * 32)
    assert float(observation.difference(SCENE, trajectory, 1).abs().max()) < 1e-12


def test_a_cube_farther_away_has_larger_depths(trajectory):
    observation = gs.Depth(measured(SCENE, trajectory))
    difference = observation.difference(*moved_cube(0.2), 1)
    present = observation.weights(1) > 0
    assert float(difference[present].median()) == pytest.approx(0.2, abs=0.03)
    assert bool((difference[~present] == 0).all())


def test_a_missing_surface_counts_as_the_gap(trajectory):
    """Without it, a body that leaves the image would explain all measurements."""
    observation = gs.Depth(measured(SCENE, trajectory), gap=0.3)
    away = pushed_cube(position=(30.0, 0.0, 0.0))
    difference = observation.difference(away, motion(away), 1)
    present = observation.weights(1) > 0
    assert torch.allclose(difference[present], torch.tensor(0.3, dtype=torch.float64))
    assert bool((difference[~present] == 0).all())


def test_the_gap_is_a_tenth_of_the_measured_depth_by_default(trajectory):
    depth = measured(SCENE, trajectory)
    assert gs.Depth(depth).gap == pytest.approx(0.1 * float(depth.nanmedian()))


def test_a_background_known_in_part(trajectory):
    wall = torch.full(SIZE, WALL, dtype=torch.float64)
    wall[:, :16] = torch.nan
    depth = measured(SCENE, trajectory, WALL)
    depth[..., :16] = measured(SCENE, trajectory)[..., :16]
    observation = gs.Depth(depth, background=wall)
    assert float(observation.difference(SCENE, trajectory, 1).abs().max()) < 1e-12
    away = pushed_cube(position=(30.0, 0.0, 0.0))
    difference = observation.difference(away, motion(away), 1).view(FRAMES, *SIZE)
    assert torch.allclose(difference[..., 16:], WALL - depth[..., 16:])


def test_missing_pixels_frames_and_weights(trajectory):
    depth = measured(SCENE, trajectory, WALL)
    depth[:, 8:24:2, 8:24:3] = torch.nan
    observation = gs.Depth(depth + 0.1, background=WALL, mask=4 * torch.ones(SIZE), frames=[1, 3])
    residual = observation.residual(SCENE, trajectory, 1)
    present = ~torch.isnan(depth[1]).flatten()
    assert torch.allclose(residual[1, present], torch.tensor(-0.2, dtype=torch.float64))
    assert float(residual[1, ~present].abs().max()) == 0
    assert float(residual[[0, 2, 4]].abs().max()) == 0
    assert bool(torch.isfinite(observation.residual(SCENE, trajectory, 0)).all())


def test_its_own_camera_has_precedence(trajectory):
    side = measured(pushed_cube(camera=SIDE_CAMERA), trajectory)
    assert float(gs.Depth(side, camera=SIDE_CAMERA).difference(SCENE, trajectory, 1).abs().max()) < 1e-12


@pytest.mark.parametrize("wall", [None, WALL])
def test_gradient_with_respect_to_the_motion(trajectory, wall):
    """Silhouettes are included: they move over the pixels with the velocity."""
    observation = gs.Depth(measured(SCENE, trajectory, wall), background=wall, robust=gs.Cauchy(0.2))

    def residual(velocity):
        scene = pushed_cube(velocity=velocity)
        moved = gs.simulate(scene, frames=4, fps=10, substeps=2)
        return observation.residual(scene, moved, 1).square().sum()

    start = torch.tensor([1.13, 0.97, -0.11], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(residual, start, eps=1e-6, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("wall", [None, WALL])
@pytest.mark.parametrize("given", [0.01, None])
def test_mass_and_velocity_from_noisy_depth_images(trajectory, wall, given):
    depth = measured(SCENE, trajectory, wall)
    observation = gs.Depth(depth + noise(depth.shape, 0.01), background=wall, noise=given)
    along, depthwise = gs.unknown(1.0, low=0.0, high=3.0), gs.unknown(0.0, low=-2.0, high=2.0)
    scene = pushed_cube(gs.unknown(5.0, low=1.0, high=20.0), (along, 0.8, depthwise))
    fit = gs.estimate(scene, observation, fps=10.0)
    assert fit.status == "converged", fit.advice
    assert fit.certain
    assert fit.noise == pytest.approx(0.01, rel=0.1)
    for path, truth in {"cube.mass": 3.7, "cube.velocity[0]": 1.4, "cube.velocity[2]": -0.3}.items():
        low, high = (float(end) for end in fit.intervals[path])
        assert abs(float(fit.values[path]) - truth) < 0.75 * (high - low), path  # three standard deviations
        assert high - low < 0.03, path


def test_depth_images_with_outliers(trajectory):
    depth = measured(SCENE, trajectory, WALL)
    depth = depth + noise(depth.shape, 0.01)
    depth[:, 6:12, 6:12] = 1.5  # a hand in front of the camera
    scene = pushed_cube(gs.unknown(5.0, low=1.0, high=20.0))
    errors = []
    for robust in (None, gs.Cauchy(0.03)):
        observation = gs.Depth(depth, background=WALL, noise=0.01, robust=robust)
        fit = gs.estimate(scene, observation, fps=10.0, corrections=0)
        errors.append(abs(float(fit.values["cube.mass"]) - 3.7))
    assert errors[1] < 0.02
    assert errors[1] < errors[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"depth": torch.ones(2, 8, 8, 1)}, r"\[T, H, W\]"),
        ({"depth": torch.zeros(2, 8, 8)}, "NaN"),
        ({"depth": torch.full((2, 8, 8), torch.inf)}, "NaN"),
        ({"background": torch.ones(3, 3)}, "background"),
        ({"background": -1.0}, "background"),
        ({"gap": 0.0}, "gap"),
        ({"gap": [1.0, 2.0]}, "gap"),
        ({"gap": torch.nan}, "gap"),
        ({"brightness": True}, "brightness.*does not apply to gs.Depth"),
        ({"renderer": "exact"}, "renderer"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.Depth(**{"depth": torch.ones(2, 8, 8), **arguments})


def test_an_observation_without_any_measurement_has_weights_zero():
    observation = gs.Depth(torch.full((2, 16, 16), torch.nan))
    assert float(observation.weights(0).sum()) == 0
