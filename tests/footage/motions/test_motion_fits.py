"""Kinds of motion, fitted to paths of other models: with perspective, drag, noise and a hand at the start."""

import math

import numpy as np
import pytest

from gradsim.footage.motions.bounce import NUMBERS, heights, impact_times
from gradsim.footage.motions.path import ImagePath
from gradsim.footage.motions.pendulum import angles
from gradsim.footage.motions.registry import MOTIONS, fit_motions, motion_named
from gradsim.scene.errors import UnknownName

SUBSTEPS = 400  # of the pendulum between two frames
SCALE, WIDTH, HEIGHT = 200.0, 640, 480  # [px/m], [px]


def seen(times, points, *, noise=0.3, seed=0, diameter=14.0):
    """The path of points in metres, y up, in a picture."""
    random = np.random.default_rng(seed)
    pixels = np.stack([WIDTH / 2 + SCALE * points[:, 0], HEIGHT / 2 - SCALE * points[:, 1]], 1)
    pixels = pixels + noise * random.standard_normal(pixels.shape)
    return ImagePath(times, pixels, diameter, np.full(len(times), noise), float(np.ptp(pixels, axis=0).max()))


def dragged(times, velocity, *, drag=0.03, floor=None, restitution=0.7, start=(-1.0, 0.5)):
    """A body with quadratic drag and a floor, by small steps of another integrator."""
    state, now, found = np.array([*start, *velocity], float), 0.0, []
    for t in times:
        while now < t - 1e-12:
            h = min(5e-4, t - now)
            speed = np.hypot(*state[2:])
            acceleration = np.array([0.0, -9.81]) - drag * speed * state[2:]
            state[:2] += h * state[2:] + 0.5 * h * h * acceleration
            state[2:] += h * acceleration
            if floor is not None and state[1] < floor and state[3] < 0:
                state[1], state[3] = 2 * floor - state[1], -restitution * state[3]
            now += h
        found.append(state[:2].copy())
    return np.array(found)


def test_a_throw_with_drag_is_a_flight():
    times = np.arange(24) / 30
    fits = fit_motions(seen(times, dragged(times, (2.0, 3.0))))
    assert fits[0].kind == "flight"
    assert fits[0].explained > 0.99
    assert fits[0].numbers["acceleration_y"] / SCALE == pytest.approx(9.81, rel=0.05)


def test_bounces_with_drag():
    times = np.arange(60) / 30
    fits = fit_motions(seen(times, dragged(times, (0.3, 0.0), floor=-0.6, drag=0.03)))
    assert fits[0].kind == "bounce"
    assert fits[0].numbers["restitution"] == pytest.approx(0.7, abs=0.03)
    assert fits[0].numbers["acceleration_y"] / SCALE == pytest.approx(9.81, rel=0.05)
    assert fits[0].numbers["bounces"] >= 3


def test_a_hand_at_the_start_is_left_out():
    times = np.arange(70) / 30
    moving = dragged(times[:50], (0.3, 0.0), floor=-0.6)
    held = moving[0] + 0.05 * np.stack([np.sin(3 * times[:20]), np.cos(2 * times[:20]) - 1], 1) * times[:20, None]
    fits = fit_motions(seen(times, np.concatenate([held, moving])))
    assert fits[0].kind == "bounce"
    impacts = impact_times(np.array([fits[0].numbers[name] for name in NUMBERS]), 2.0)
    assert fits[0].first > 30  # the fall from .5 to -.6 m takes 14 frames after the 20 of the hand
    assert fits[0].first < 37
    assert len(impacts) >= 2
    assert fits[0].numbers["restitution"] == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("amplitude", [0.15, 0.6])
def test_a_pendulum_of_known_period(amplitude):
    length, times = 0.7, np.arange(75) / 30
    swing, rate, h = amplitude, 0.0, 1 / 30 / SUBSTEPS
    found = []
    for _ in times:
        found.append(swing)
        for _ in range(SUBSTEPS):
            rate += h * (-9.81 / length * math.sin(swing) - 0.05 * rate)
            swing += h * rate
    swing_path = np.array(found)
    points = np.stack([length * np.sin(swing_path), 0.5 - length * np.cos(swing_path)], 1)
    fits = fit_motions(seen(times, points))
    assert fits[0].kind == "pendulum"
    assert 9.81 / fits[0].numbers["rate"] ** 2 == pytest.approx(length, rel=0.01)


def test_a_block_on_an_incline_slides():
    times, angle, friction = np.arange(30) / 30, math.radians(25), 0.2
    acceleration = 9.81 * (math.sin(angle) - friction * math.cos(angle))
    s = 0.1 * times + 0.5 * acceleration * times**2
    points = np.stack([-0.8 + s * math.cos(angle), 0.6 - s * math.sin(angle)], 1)
    fits = fit_motions(seen(times, points))
    assert fits[0].kind == "slide"
    assert fits[0].numbers["angle"] == pytest.approx(angle, abs=0.01)
    assert fits[0].numbers["acceleration"] / SCALE == pytest.approx(acceleration, rel=0.03)


def test_a_mass_on_a_spring_oscillates():
    times = np.arange(90) / 30
    points = np.stack([0 * times, 0.2 * np.exp(-0.3 * times) * np.cos(7.0 * times)], 1)
    fits = fit_motions(seen(times, points))
    assert fits[0].kind == "oscillation"
    assert fits[0].numbers["rate"] == pytest.approx(7.0, rel=0.01)


@pytest.mark.parametrize("seed", range(4))
def test_a_wandering_path_is_no_motion(seed):
    random = np.random.default_rng(seed)
    times = np.arange(80) / 30
    steps = np.cumsum(np.cumsum(random.standard_normal((80, 2)), 0) * 0.004, 0)
    fits = fit_motions(seen(times, steps))
    whole = [fit for fit in fits if fit.last - fit.first + 1 > 60]
    assert all(fit.explained < 0.9 for fit in whole)


def test_impacts_follow_from_closed_form():
    numbers = np.array([0.0, 0.0, 10.0, 0.5, 5.0])  # a fall of 5 in 1 s, then arcs of 1, .5, .25 s
    assert impact_times(numbers, 2.9) == pytest.approx([1.0, 2.0, 2.5, 2.75, 2.875], abs=1e-9)
    assert heights(numbers, np.array([0.5, 1.5, 2.25])) == pytest.approx([1.25, 5 - 1.25, 5 - 0.3125])


def test_a_swing_has_the_period_of_the_elliptic_integral():
    # At 90 degrees the period is 1.180341 times that of small angles.
    period = 2 * math.pi * 1.180341
    swing = angles(np.array([1.0, math.pi / 2, 0.0, 0.0]), np.array([period / 4, period]))
    assert swing == pytest.approx([0.0, math.pi / 2], abs=1e-5)


def test_motions_have_names_and_other_words():
    assert motion_named("toss").name == "flight"
    assert set(MOTIONS) == {"flight", "bounce", "pendulum", "double_pendulum", "slide", "oscillation"}
    with pytest.raises(UnknownName, match="bounce"):
        motion_named("bonce")
    with pytest.raises(UnknownName, match="cloth.* is not prepared from footage: .* gradsim estimate scene.yaml"):
        motion_named("cloth")
