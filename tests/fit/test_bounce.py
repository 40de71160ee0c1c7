"""Restitution and drag estimated from motions in closed form, which the simulator did not produce."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs

F64 = torch.float64


def ideal_bounce(times, height, restitution):
    """Returns the heights of a point that is dropped and bounces in no time [m]."""
    heights, landing = [], math.sqrt(2 * height / 9.81)
    for t in times:
        start, speed, at = -landing, 9.81 * landing, landing
        while t > at:
            speed *= restitution
            start, at = at, at + 2 * speed / 9.81
        heights.append(speed * (t - start) - 4.905 * (t - start) ** 2)
    return np.array(heights)


def measured(y):
    position = np.stack([np.zeros_like(y), y, np.zeros_like(y)], -1)
    noise = np.random.default_rng(4).normal(scale=1e-3, size=position.shape)
    return gs.States({"ball.position": position + noise}, noise=1e-3)


def test_restitution_of_an_ideal_bounce():
    times, radius = np.arange(50) / 50, 0.05
    states = measured(radius + ideal_bounce(times, 0.6, 0.72))
    ball = gs.Ball("ball", radius=radius, mass=0.1, position=(0.0, gs.unknown(0.63, low=0.5, high=0.8), 0.0))
    ground = gs.Ground(ke=2e6, restitution=gs.unknown(0.5, low=0.2, high=1.0), mu=0.0)
    fit = gs.estimate(gs.Scene([ball], ground), states, fps=50.0, substeps=800)
    assert fit.values["ground.restitution"] == pytest.approx(0.72, abs=0.01)
    assert fit.values["ball.position[1]"] == pytest.approx(0.65, abs=2e-3)


def test_quadratic_drag_of_a_fall():
    times, mass, drag = np.arange(40) / 30, 0.003, 5e-4
    limit = math.sqrt(mass * 9.81 / drag)
    states = measured(-(limit**2) / 9.81 * np.log(np.cosh(9.81 * times / limit)))
    ball = gs.Ball("ball", radius=0.02, mass=mass, drag=gs.Drag(quadratic=gs.unknown(1e-4, low=0.0, high=1e-2)))
    fit = gs.estimate(gs.Scene([ball]), states, fps=30.0, substeps=8)
    assert fit.values["ball.drag.quadratic"] == pytest.approx(drag, rel=0.01)
