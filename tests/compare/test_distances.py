"""Distances of images: known residuals, gradients, batches and invalid input."""

import math

import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import OutOfRange, WrongShape

DISTANCES = [
    gs.Cumulative(),
    gs.Cumulative(normalize=True),
    gs.Moments(),
    gs.Moments(size=0.0, second_moments=True),
    gs.Blur(),
    gs.Blur(0.2),
]


def noise(*shape, seed=0):
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def box(left, top, width=3, height=2, *, size=(16, 24)):
    image = torch.zeros(1, *size, 1, dtype=torch.float64)
    image[:, top : top + height, left : left + width] = 1
    return image


def cost(distance, a, b):
    r = distance.residuals(a, b)
    return (r * r).sum(-1)


@pytest.mark.parametrize("distance", DISTANCES, ids=str)
def test_distance_to_itself_is_zero(distance):
    a = noise(2, 5, 6, 3)
    assert float(distance.residuals(a, a).abs().max()) == 0.0


@pytest.mark.parametrize("distance", DISTANCES, ids=str)
def test_batch_of_worlds(distance):
    a, b = noise(4, 2, 5, 6, 3), noise(2, 5, 6, 3, seed=1)
    together = distance.residuals(a, b)
    assert together.ndim == 2
    alone = torch.stack([distance.residuals(world, b) for world in a])
    torch.testing.assert_close(together, alone, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(distance.residuals(gs.Video(a[0]), gs.Video(b)), alone[0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("distance", DISTANCES, ids=str)
def test_gradients_agree_with_finite_differences(distance):
    a, b = noise(1, 4, 5, 2).requires_grad_(), noise(1, 4, 5, 2, seed=1)
    assert torch.autograd.gradcheck(lambda x: distance.residuals(x, b), a)


@pytest.mark.parametrize("distance", DISTANCES, ids=str)
def test_images_of_different_size(distance):
    with pytest.raises(WrongShape, match="width 6 and 5"):
        distance.residuals(noise(1, 4, 6, 1), noise(1, 4, 5, 1))


def test_cumulative_of_shifted_columns():
    """A full column shifted by k of W columns: the sums differ by 1/W in k columns; the rows are equal."""
    a, b = box(3, 0, width=1, height=16), box(8, 0, width=1, height=16)
    expected = 5 * (1 / 24) ** 2 / 24  # mean over the columns
    assert float(cost(gs.Cumulative(), a, b)) == pytest.approx(expected, rel=1e-12)
    normalized = 5 / 24
    assert float(cost(gs.Cumulative(normalize=True), a, b)) == pytest.approx(normalized, rel=1e-12)


@pytest.mark.parametrize("distance", [gs.Cumulative(normalize=True), gs.Moments(size=0.0)], ids=str)
def test_normalized_distances_do_not_depend_on_brightness(distance):
    a, b = box(3, 4), box(14, 9)
    torch.testing.assert_close(distance.residuals(0.3 * a, b), distance.residuals(a, 0.7 * b), rtol=1e-12, atol=1e-15)
    assert float(cost(distance, 0.3 * a, a)) < 1e-25
    assert float(cost(gs.Cumulative(), 0.3 * a, a)) > 1e-6


@pytest.mark.parametrize("distance", [gs.Cumulative(), gs.Moments()], ids=str)
def test_gradient_without_overlap_where_pixels_have_none(distance):
    goal = box(18, 7)
    costs = [float(cost(distance, box(left, 7), goal)) for left in range(0, 18, 3)]
    assert costs == sorted(costs, reverse=True)
    assert len({round(float(cost(gs.Blur(), box(left, 7), goal)), 12) for left in range(0, 15, 3)}) == 1


def test_moments_of_boxes():
    """In units of the height: centroid, root of the area, standard deviations; the covariance of a box is zero."""
    wide, high = 6, 4
    r = gs.Moments(second_moments=True).residuals(box(5, 3, wide, high), box(2, 1, 2, 2))
    widths = [math.sqrt((n * n - 1) / 12) for n in (wide, high, 2, 2)]  # of n pixels in a row
    expected = [3 + 2.0, 2 + 1.0, math.sqrt(wide * high) - 2.0, widths[0] - widths[2], widths[1] - widths[3], 0.0]
    torch.testing.assert_close(r * 16, torch.tensor(expected, dtype=r.dtype), rtol=0, atol=2e-3)
    assert gs.Moments(size=2.0).residuals(box(5, 3, wide, high), box(2, 1, 2, 2))[2] == pytest.approx(2 * float(r[2]))


def test_covariance_distinguishes_rising_and_falling_lines():
    line = torch.eye(8, dtype=torch.float64)[None, ..., None]
    r = gs.Moments(size=0.0, second_moments=True).residuals(line, line.flip(-2))
    assert float(r[:4].abs().max()) < 1e-12
    assert float(r[4] * 8) == pytest.approx(2 * math.sqrt((64 - 1) / 12), rel=1e-4)


def test_moments_of_an_empty_image_are_finite():
    empty = torch.zeros(1, 8, 8, 4, dtype=torch.float64)
    assert bool(torch.isfinite(gs.Moments(second_moments=True).residuals(empty, noise(1, 8, 8, 4))).all())
    assert bool(torch.isfinite(gs.Cumulative(normalize=True).residuals(empty, noise(1, 8, 8, 4))).all())


def test_without_blur_the_cost_is_the_mean_squared_difference():
    a, b = noise(2, 5, 6, 3), noise(2, 5, 6, 3, seed=1)
    assert float(cost(gs.Blur(), a, b)) == pytest.approx(float(gs.mse(a, b)), rel=1e-13)


def test_a_blurred_point_is_a_gaussian():
    point, empty = torch.zeros(1, 65, 65, 1, dtype=torch.float64), torch.zeros(1, 65, 65, 1, dtype=torch.float64)
    point[0, 32, 32] = 1
    sigma = 4 / 65
    r = gs.Blur(sigma).residuals(point, empty).view(65, 65) * 65
    assert float(r.sum()) == pytest.approx(1.0, rel=1e-9)  # the blur conserves the sum
    assert float(r[32, 32]) == pytest.approx(1 / (2 * math.pi * 16), rel=1e-12)
    assert float(r[32, 36] / r[32, 32]) == pytest.approx(math.exp(-0.5), rel=1e-12)


@pytest.mark.parametrize("sigma", [-0.1, math.nan])
def test_invalid_blur(sigma):
    with pytest.raises(OutOfRange, match="Blur.sigma"):
        gs.Blur(sigma)
