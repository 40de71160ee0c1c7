"""Points and weights of tracks that come from footage."""

import math

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.fit.footage_trial import named_point, weights_from_deviations
from gradsim.scene.errors import InvalidInput, OutOfRange, WrongShape


def test_points_have_names():
    assert named_point("ball.center") == gs.Center("ball")
    assert named_point("cube.vertex3") == gs.Vertex("cube", 3)
    assert named_point("arm.bob1") == gs.Bob("arm", 1)
    with pytest.raises(InvalidInput, match=r"cube\.vertex3"):
        named_point("cube.corner")


def test_the_better_coordinate_has_a_weight_of_one():
    deviations = np.array([[[10.0, 0.5]], [[10.0, 0.5]], [[10.0, 1.0]]])  # [T, K, 2]
    weights = weights_from_deviations(deviations)
    assert weights[:, 0, 1] == pytest.approx([1.0, 1.0, 0.25])
    assert weights[:, 0, 0] == pytest.approx(0.0025)
    assert weights_from_deviations(np.array([[1.0], [np.nan], [2.0]])).ravel() == pytest.approx([2.25, 0.0, 0.5625])


def test_the_bob_of_a_pendulum_moves_on_a_circle():
    scene = gs.Scene([gs.Pendulum("arm", length=0.7, angle=0.4, pivot=(0.1, 0.2, 0.0))])
    motion = gs.simulate(scene, frames=5, fps=20, substeps=64)
    bob = gs.Bob("arm").positions(scene, motion)
    assert (bob - torch.tensor([0.1, 0.2, 0.0], dtype=torch.float64)).norm(dim=-1).tolist() == pytest.approx([0.7] * 5)
    assert bob[0].tolist() == pytest.approx([0.1 + 0.7 * math.sin(0.4), 0.2 - 0.7 * math.cos(0.4), 0.0])
    with pytest.raises(OutOfRange, match="1 bobs"):
        gs.Bob("arm", 1).positions(scene, motion)


def test_weights_of_coordinates_select_what_is_compared():
    """A horizontal motion that the scene lacks does not matter if it has no weight."""
    times = torch.arange(10, dtype=torch.float64) / 20
    positions = torch.stack([torch.sin(9 * times), 2 * times - 4.905 * times**2, 0 * times], -1)[:, None]
    weights = torch.ones_like(positions)
    weights[..., 0] = 0.0
    ball = gs.Ball("ball", radius=0.1, mass=1.0, velocity=(0.0, 2.0, 0.0))
    scene = gs.Scene([ball], gravity=(0.0, gs.unknown(-8.0, low=-20.0, high=-2.0), 0.0))
    tracks = gs.Tracks([gs.Center("ball")], positions=positions, weights=weights, noise=1e-3)
    assert float(gs.estimate(scene, tracks, fps=20).values["scene.gravity[1]"]) == pytest.approx(-9.81, rel=1e-3)
    with pytest.raises(WrongShape, match="one per coordinate"):
        gs.Tracks([gs.Center("ball")], positions=positions, weights=weights[..., :2], noise=1e-3)
