"""Motions that are none of the kinds that physics is estimated from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gradsim.experiments.footage_videos.flights import draw_ball, throw
from gradsim.experiments.footage_videos.hand import Hand, draw_colors
from gradsim.experiments.footage_videos.motion import Motion, Trajectory, View
from gradsim.experiments.footage_videos.shapes import Ball, Box

Array = NDArray[np.float64]
Random = np.random.Generator

DURATION = 2.0  # [s]
LEAVES = 14


def _motion(
    kind: str,
    trajectory: Trajectory,
    shapes: tuple[Ball | Box, ...],
    *,
    values: Mapping[str, float] | None = None,
    floor: float | None = None,
) -> Motion:
    return Motion(kind, values or {}, (), DURATION, trajectory, shapes, floor=floor)


def _waves(random: Random, shape: tuple[int, ...], low: float, high: float) -> tuple[Array, Array]:
    """Returns random rates [rad/s] and phases [rad] of sine waves."""
    return 2 * np.pi * random.uniform(low, high, shape), random.uniform(0, 2 * np.pi, shape)


def no_motion(random: Random, view: View) -> Motion:
    """Returns a scene without bodies."""

    def trajectory(times: Array) -> tuple[Array, Array]:
        return np.zeros((len(times), 0, 3)), np.zeros((len(times), 0))

    return _motion("still", trajectory, ())


def bird(random: Random, view: View) -> Motion:
    """Returns a body that wanders and turns at will."""
    rates, phases = _waves(random, (4, 2), 0.3, 1.6)
    size = view.height * random.uniform(0.05, 0.08)

    def trajectory(times: Array) -> tuple[Array, Array]:
        waves = np.sin(rates * times[:, None, None] + phases).mean(1)
        drift = np.stack([view.width * (times / DURATION - 0.5) * 0.4, 0 * times], -1)
        plane = drift + waves * (0.3 * view.width, 0.45 * view.height)
        return np.concatenate([plane, 0 * plane[:, :1]], 1)[:, None], 0.5 * np.sin(9 * times)[:, None]

    return _motion("bird", trajectory, (Box((1.6 * size, 0.7 * size, 0.5 * size)),))


def balloon(random: Random, view: View) -> Motion:
    """Returns a ball that rises at a nearly constant speed and is blown about."""
    rates, phases = _waves(random, (3,), 0.3, 1.2)
    ball = draw_ball(random, view)

    def trajectory(times: Array) -> tuple[Array, Array]:
        waves = np.sin(rates * times[:, None] + phases)
        y = view.height * (0.75 * times / DURATION - 0.38 + 0.03 * waves[:, 2])
        x = view.width * 0.12 * waves[:, :2].sum(1)
        return np.stack([x, y, 0 * y], -1)[:, None], 0.3 * waves[:, :1]

    return _motion("balloon", trajectory, (Ball(1.6 * ball.diameter, ball.axis),))


def motor_cart(random: Random, view: View) -> Motion:
    """Returns a box on a floor that a motor accelerates, stops and accelerates again."""
    floor = view.height * random.uniform(-0.3, -0.2)
    size = 0.14 * view.height
    speeds = np.cumsum(np.maximum(np.sin(2 * np.pi * 1.1 * np.linspace(0, DURATION, 401)), 0))
    way = np.cumsum(speeds**0.5 * (1 + np.sin(np.linspace(0, 14, 401))))
    way = (way / way[-1] - 0.5) * 0.75 * view.width

    def trajectory(times: Array) -> tuple[Array, Array]:
        x = np.interp(times, np.linspace(0, DURATION, 401), way)
        path = np.stack([x, np.full_like(x, floor + 0.3 * size), 0 * x], -1)
        return path[:, None], np.zeros((len(times), 1))

    return _motion("motor_cart", trajectory, (Box((1.4 * size, 0.6 * size, 0.7 * size)),), floor=floor)


def two_balls(random: Random, view: View) -> Motion:
    """Returns two equal balls that are thrown towards each other."""
    first = throw(random, view)
    ball = first.shapes[0]

    def trajectory(times: Array) -> tuple[Array, Array]:
        positions, angles = first.trajectory(times)
        later, turned = first.trajectory(np.maximum(times - 0.04, 0))
        mirrored = later * (-1, 1, 1) + (0.0, 0.04 * view.height, 1.2 * ball.diameter)
        return np.concatenate([positions, mirrored], 1), np.concatenate([angles, turned], 1)

    return Motion("two_balls", first.values, (), first.duration, trajectory, (ball, ball))


def gesturing_hand(random: Random, view: View) -> Hand:
    """Returns a hand that comes in, waves and leaves."""
    rates, phases = _waves(random, (3, 2), 0.4, 1.5)
    heading = np.array([0.94, 0.34])

    def palm(time: float) -> Array:
        inside = np.sin(np.pi * np.clip(time / DURATION, 0, 1)) ** 0.5
        wave = 0.06 * view.height * np.sin(rates * time + phases).sum(0)
        return np.asarray((1 - inside) * np.array([-0.9 * view.width, -0.3 * view.height]) + wave)

    return Hand(palm, heading, *draw_colors(random))


def foliage(random: Random, view: View) -> Motion:
    """Returns leaves that sway in the wind."""
    places = np.stack(
        [view.width * random.uniform(-0.45, 0.45, LEAVES), view.height * random.uniform(-0.1, 0.4, LEAVES)], -1
    )
    rates, phases = _waves(random, (LEAVES, 2), 0.4, 1.1)

    def trajectory(times: Array) -> tuple[Array, Array]:
        sway = 0.015 * view.height * np.sin(rates * times[:, None, None] + phases)
        plane = places + sway
        return np.concatenate([plane, 0 * plane[..., :1]], -1), 0.4 * np.sin(
            rates[:, 0] * times[:, None] + phases[:, 0]
        )

    sizes = view.height * random.uniform(0.03, 0.07, LEAVES)
    return _motion("foliage", trajectory, tuple(Box((1.8 * s, 0.7 * s, 0.2 * s)) for s in sizes.tolist()))
