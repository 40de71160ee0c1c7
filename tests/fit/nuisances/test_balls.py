"""Nuisances of balls and of contact with restitution."""

import pytest
import torch

import gradsim as gs
from gradsim.fit.nuisances.catalogue import nuisances

F64 = torch.float64


def scene():
    ball = gs.Ball("ball", radius=0.1, mass=0.5, position=(0.0, 0.5, 0.0))
    return gs.Scene([ball], gs.Ground(restitution=0.6, mu=0.3))


def test_a_ball_has_a_scale_and_its_ground_a_restitution():
    found = {nuisance.path: nuisance for nuisance in nuisances(scene(), fps=30.0)}
    assert "ball.scale" in found
    assert not [path for path in found if "aspect" in path or path == "ground.kd"]
    amounts = torch.tensor([-1.0, 0.0, 1.0], dtype=F64)
    radius = found["ball.scale"].scene(scene(), amounts)["ball"].radius
    assert radius.tolist() == pytest.approx([0.1 * 0.99005, 0.1, 0.1 * 1.01005], rel=1e-4)
    restitution = found["ground.restitution"].scene(scene(), amounts).ground.restitution
    assert (restitution / (1 - restitution)).log().tolist() == pytest.approx([-1.0 + 0.405465, 0.405465, 1.405465])
    slope = found["ground.restitution_slope"].scene(scene(), 0.1 * amounts).ground.restitution_slope
    assert slope.tolist() == pytest.approx([-0.1, 0.0, 0.1])
