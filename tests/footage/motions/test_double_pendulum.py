"""The fit of a double pendulum to the paths of two bobs, against a formulation with tensions."""

import math

import numpy as np
import pytest
from tests.footage.double_pendula import GRAVITY, double_pendulum

from gradsim.footage.motions.double_pendulum import bobs, fit_double_pendulum
from gradsim.footage.motions.path import ImagePath
from gradsim.footage.motions.registry import fit_motions

SCALE, PIVOT = 250.0, (320.0, 60.0)


def pair_path(times, positions, noise=0.2, seed=0):
    """The path of the lower and the upper bob in a picture."""
    pixels = np.array(PIVOT) + SCALE * positions[:, ::-1] * (1, -1)
    pixels = pixels.reshape(len(times), 4) + noise * np.random.default_rng(seed).standard_normal((len(times), 4))
    return ImagePath(times, pixels, 20.0, np.full(len(times), noise), float(np.ptp(pixels, axis=0).max()))


@pytest.mark.parametrize(
    ("lengths", "angles", "ratio"),
    [((0.35, 0.3), (0.4, 0.7), 0.7), ((0.3, 0.38), (0.8, -0.6), 1.5), ((0.4, 0.25), (-0.3, 0.3), 1.0)],
)
def test_lengths_gravity_and_masses_are_found(lengths, angles, ratio):
    times = np.arange(75) / 30
    fit = fit_double_pendulum(pair_path(times, double_pendulum(times, lengths, angles, ratio)))
    assert (fit.first, fit.last) == (0, 74)
    assert fit.explained > 0.995
    assert fit.numbers["gravity"] / SCALE == pytest.approx(GRAVITY, rel=0.03)
    assert fit.numbers["length_1"] / SCALE == pytest.approx(lengths[0], rel=0.03)
    assert fit.numbers["length_2"] / SCALE == pytest.approx(lengths[1], rel=0.03)
    assert math.exp(fit.numbers["log_ratio"]) == pytest.approx(ratio, rel=0.1)


def test_several_sets_of_numbers_move_like_each_alone():
    numbers = np.array([320, 60, 90, 80, 0.4, 0.7, 0.0, 0.1, 2400, 0.3, 0.05, -1.5, -0.9])
    other = numbers * 1.02
    times = np.array([-0.1, 0.0, 0.4, 1.0])
    both = bobs(np.stack([numbers, other]), times)
    assert both[0] == pytest.approx(bobs(numbers, times), abs=0.01)
    assert both[1] == pytest.approx(bobs(other, times), abs=0.01)


def test_two_independent_pendula_are_none():
    times = np.arange(75) / 30
    swings = [0.4 * np.cos(5.0 * times), 0.5 * np.cos(3.1 * times + 1)]
    points = np.stack([np.stack([0.3 * k + 0.3 * np.sin(a), -0.4 * np.cos(a)], 1) for k, a in enumerate(swings)], 1)
    fits = fit_motions(pair_path(times, points))
    assert not fits or fits[0].explained < 0.9 or fits[0].last - fits[0].first < 40
