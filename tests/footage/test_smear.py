"""A smeared disc: its image is the mean over the exposure, and a fit finds it again in spite of noise and a shadow."""

import numpy as np
import pytest

from gradsim.footage.disc_fits import DiscFit, DiscPrior, DiscProblem, fit_disc_masks
from gradsim.footage.smear import disc_image

SIZE = (60, 80)
FREE = np.array([1e3, 1e3, 1e3, 10.0, 10.0, 0.05])


def fit_disc(alpha, usable, prior, softness=0.7) -> DiscFit:
    return fit_disc_masks([DiscProblem(alpha, usable, prior)], softness=softness)[0]


def supersampled(parameters, times=81, samples=4):
    """The mean over the exposure of a disc, with samples x samples points in each pixel."""
    x, y, radius, *smear, level = parameters
    points = (np.arange(samples) + 0.5) / samples
    rows = (np.arange(SIZE[0])[:, None] + points).ravel()
    columns = (np.arange(SIZE[1])[:, None] + points).ravel()
    phases = (np.arange(times) + 0.5) / times - 0.5
    fine = np.mean([np.hypot(columns - x - smear[0] * p, rows[:, None] - y - smear[1] * p) < radius for p in phases], 0)
    return level * fine.reshape(SIZE[0], samples, SIZE[1], samples).mean((1, 3))


@pytest.mark.parametrize("smear", [(0.0, 0.0), (12.0, 0.0), (7.0, 16.0), (-3.0, 2.0)])
def test_the_image_is_the_mean_over_the_exposure(smear):
    parameters = np.array([38.3, 29.6, 11.4, *smear, 0.9])
    image = disc_image(SIZE, parameters, 0.0)
    assert np.abs(image - supersampled(parameters)).max() < 0.12  # a pixel is a square, not a line along the motion
    assert np.abs(image - supersampled(parameters)).mean() < 0.003
    assert image.sum() == pytest.approx(0.9 * np.pi * 11.4**2, rel=0.002)


@pytest.mark.parametrize("smear", [(0.5, 0.0), (12.0, 0.0), (7.0, 16.0)])
def test_a_fit_finds_the_disc(smear):
    random = np.random.default_rng(0)
    truth = np.array([38.3, 29.6, 11.4, *smear, 1.0])
    start = truth + np.array([1.5, -1.0, 1.0, 2.0, 2.0, 0.0])
    fit = fit_disc(
        supersampled(truth) + 0.03 * random.standard_normal(SIZE),
        np.ones(SIZE, bool),
        DiscPrior(start, FREE),
        softness=0.0,
    )
    assert np.abs(fit.center - truth[:2]).max() < 0.05
    assert fit.diameter == pytest.approx(2 * 11.4, abs=0.1)
    assert np.linalg.norm(fit.smear) == pytest.approx(np.linalg.norm(smear), abs=1.5 if smear[0] < 1 else 0.3)
    assert fit.overlap > 0.85


def test_a_shadow_at_one_side_moves_the_centre_little():
    truth = np.array([38.0, 26.0, 12.0, 0.0, 6.0, 1.0])
    alpha = supersampled(truth)
    alpha[38:42, 28:50] = np.maximum(alpha[38:42, 28:50], 0.5)
    weights = alpha.sum()
    centroid = (alpha.sum(1) @ (np.arange(SIZE[0]) + 0.5)) / weights
    fit = fit_disc(alpha, np.ones(SIZE, bool), DiscPrior(truth + 0.5, FREE), softness=0.0)
    assert centroid - truth[1] > 0.5
    assert abs(fit.center[1] - truth[1]) < 0.3


def test_a_square_is_no_disc():
    square = np.zeros(SIZE)
    square[15:45, 25:55] = 1.0
    fit = fit_disc(square, np.ones(SIZE, bool), DiscPrior(np.array([40, 30, 16, 0, 0, 1.0]), FREE * [1, 1, 1, 0, 0, 1]))
    assert fit.overlap < 0.86


def test_standard_deviations_cover_the_errors():
    """Noise that is correlated over two pixels, as compression leaves it."""
    random = np.random.default_rng(1)
    truth = np.array([38.3, 29.6, 11.4, 7.0, 3.0, 1.0])
    exact, scores = supersampled(truth), []
    for _ in range(30):
        noise = np.repeat(np.repeat(random.standard_normal((30, 40)), 2, 0), 2, 1)
        fit = fit_disc(exact + 0.04 * noise, np.ones(SIZE, bool), DiscPrior(truth, FREE), softness=0.0)
        scores.append((fit.parameters - truth)[:3] / fit.deviations[:3])
    assert 0.5 < np.std(scores) < 1.3
