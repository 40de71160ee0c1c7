"""Unknowns that are nuisances: they widen the intervals of the others and are not judged."""

import math

import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import InvalidInput

TIMES = torch.arange(12, dtype=torch.float64) / 20


def fall(gravity, offset):
    body = gs.Ball("ball", radius=0.1, mass=1.0, position=(0.0, offset, 0.0), velocity=(0.0, 2.0, 0.0))
    return gs.Scene([body], gravity=(0.0, gravity, 0.0))


def measured():
    """Heights in closed form, with noise."""
    noise = 0.01 * torch.randn(12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    heights = 0.05 + 2.0 * TIMES - 0.5 * 9.81 * TIMES**2 + noise
    return gs.Tracks(
        [gs.Center("ball")], positions=torch.stack([0 * TIMES, heights, 0 * TIMES], -1)[:, None], noise=0.01
    )


def estimated(offset):
    return gs.estimate(fall(gs.unknown(-8.0, low=-20.0, high=-2.0), offset), measured(), fps=20)


def test_a_nuisance_is_estimated_but_not_judged():
    fit = estimated(gs.unknown(0.0, prior=gs.Normal(0.0, 0.1), nuisance=True))
    assert list(fit.values) == ["scene.gravity[1]"]
    assert list(fit.identifiability) == ["scene.gravity[1]"]
    value, deviation, unit = fit.nuisances["ball.position[1]"]
    assert abs(value - 0.05) < 4 * deviation < 0.1
    assert unit == "m"
    assert fit.certain
    low, high = fit.intervals["scene.gravity[1]"]
    assert low < -9.81 < high
    known_low, known_high = estimated(0.05).intervals["scene.gravity[1]"]
    assert high - low > 1.1 * (known_high - known_low)


def test_a_nuisance_needs_a_prior_and_is_one_number():
    with pytest.raises(InvalidInput, match="needs prior"):
        gs.unknown(0.0, nuisance=True)
    with pytest.raises(InvalidInput, match="single number"):
        gs.unknown((0.0, 1.0), prior=gs.Normal(0.0, 1.0), nuisance=True)


def test_a_nuisance_far_from_its_prior_is_reported():
    """The ball starts 0.05 m higher than a prior of 0.01 m allows: gravity is not certain then."""
    fit = estimated(gs.unknown(0.0, prior=gs.Normal(0.0, 0.01), nuisance=True))
    assert not fit.certain
    assert fit.misfit.conflicts[0].startswith("ball.position[1] differs from its prior by ")
    assert fit.misfit.conflicts[0] in fit.advice


def test_a_loss_too_small_to_see_is_no_contradiction():
    drag = gs.Drag(linear=gs.unknown(5.0, prior=gs.LogNormal(5.0, 0.3), nuisance=True))
    speed = gs.unknown(1.5, low=0.0, high=5.0)
    body = gs.Ball("ball", radius=0.1, mass=1.0, position=(0.0, 0.05, 0.0), velocity=(0.0, speed, 0.0), drag=drag)
    fit = gs.estimate(gs.Scene([body], gravity=(0.0, -9.81, 0.0)), measured(), fps=20)
    assert fit.nuisances["ball.drag.linear"][0] < 5.0 * math.exp(-3 * 0.3)
    assert not fit.misfit.conflicts
