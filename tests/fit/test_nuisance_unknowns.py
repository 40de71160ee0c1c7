"""Unknowns that are nuisances: they widen the intervals of the others and are not judged."""

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
