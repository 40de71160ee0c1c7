"""Masks: coverage, missing pixels, options that do not apply."""

import pytest
import torch
from tests.fit.observations.scenes import FRAMES, SIDE_CAMERA, SIZE, UNKNOWN_MASS, motion, noise, pushed_cube

import gradsim as gs

SCENE = pushed_cube()


@pytest.fixture(scope="module")
def trajectory() -> gs.Trajectory:
    return motion(SCENE)


@pytest.fixture(scope="module")
def coverage(trajectory) -> torch.Tensor:
    return gs.render(SCENE, trajectory, SIZE, alpha=True)[..., 3]


def test_differences_are_those_of_the_coverage(coverage, trajectory):
    observation = gs.Masks(coverage)
    assert (observation.unit, observation.entries(1), observation.levels) == ("1", 32 * 32, 2)
    assert float(observation.difference(SCENE, trajectory, 1).abs().max()) < 1e-12
    inverted = gs.Masks(1 - coverage).difference(SCENE, trajectory, 1)
    assert torch.allclose(inverted, (2 * coverage - 1).flatten(1), atol=1e-12)


def test_booleans_are_masks(coverage, trajectory):
    difference = gs.Masks(coverage > 0.5).difference(SCENE, trajectory, 1)
    assert float(difference.abs().max()) <= 0.5


def test_unknown_pixels_are_left_out(coverage, trajectory):
    occluded = coverage.clone()
    occluded[:, 10:20] = torch.nan
    observation = gs.Masks(occluded, mask=2 * torch.ones(SIZE))
    assert float(observation.residual(SCENE, trajectory, 1).abs().max()) < 1e-12
    assert float(observation.weights(1).sum()) == 2 * FRAMES * 22 * 32


def test_gradient_with_respect_to_the_motion(coverage):
    def residual(velocity):
        scene = pushed_cube(velocity=velocity)
        moved = gs.simulate(scene, frames=4, fps=10, substeps=2)
        return gs.Masks(1 - coverage).residual(scene, moved, 0).square().sum()

    start = torch.tensor([1.31, 0.77, -0.21], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(residual, start, eps=1e-6, rtol=1e-4, atol=1e-6)


def test_mass_from_noisy_masks_with_an_occluder(coverage):
    occluded = (coverage + noise(coverage.shape, 0.02)).clamp(0.0, 1.0)
    occluded[:, :, 18:22] = 1.0  # a post in front of the cube that the scene does not have
    scene = pushed_cube(mass=UNKNOWN_MASS)
    mask = torch.ones(SIZE)
    mask[:, 18:22] = 0.0
    fit = gs.estimate(scene, gs.Masks(occluded, mask=mask), fps=10.0)
    assert float(fit.values["cube.mass"]) == pytest.approx(3.7, rel=0.02)
    unmasked = gs.estimate(scene, gs.Masks(occluded), fps=10.0, corrections=0)
    assert abs(float(unmasked.values["cube.mass"]) - 3.7) > 3 * abs(float(fit.values["cube.mass"]) - 3.7)


def test_its_own_camera_has_precedence(trajectory):
    side = gs.render(pushed_cube(camera=SIDE_CAMERA), trajectory, SIZE, alpha=True)[..., 3]
    assert float(gs.Masks(side, camera=SIDE_CAMERA).difference(SCENE, trajectory, 1).abs().max()) < 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"masks": torch.zeros(2, 8, 8, 3)}, r"\[T, H, W\]"),
        ({"masks": torch.full((2, 8, 8), 255.0)}, "0 to 1"),
        ({"channels": [[1.0, 0.0, 0.0]]}, "channels.*does not apply to gs.Masks"),
        ({"brightness": True}, "brightness.*does not apply to gs.Masks"),
        ({"weights": [1.0]}, "weights.*does not apply to gs.Masks"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(gs.InvalidInput, match=message):
        gs.Masks(**{"masks": torch.zeros(2, 8, 8), **arguments})


def test_a_map_of_colours_does_not_apply(coverage, trajectory):
    with pytest.raises(gs.InvalidInput, match="adjust"):
        gs.Masks(coverage).difference(SCENE, trajectory, 1, adjust=lambda x: x)
