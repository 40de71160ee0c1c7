"""Pendula as articulated bodies move as the pendula do."""

import pytest
import torch

import gradsim as gs

OPTIONS = {"frames": 31, "fps": 15.0, "substeps": 32, "integrator": gs.RungeKutta4()}
SIMPLE = {"length": 0.7, "mass": 1.2, "angle": 1.1, "rate": -0.5, "damping": 0.05, "rod_mass": 0.4}
DOUBLE = {
    "lengths": (0.3, 0.25), "masses": (1.0, 0.6), "angles": (1.2, 2.0), "rates": (0.5, -1.0), "damping": (2e-3, 1e-3),
    "rod_masses": (0.3, 0.2), "pivot": (0.1, 0.2, -0.1),
}  # fmt: skip


def motions(body):
    scenes = gs.Scene([body]), gs.Scene([gs.as_articulated(body)])
    return [gs.simulate(scene, **OPTIONS)["bars"] for scene in scenes]


@pytest.mark.parametrize("drag", [0.0, 0.3])
def test_a_simple_pendulum_with_a_heavy_rod(drag):
    own, other = motions(gs.Pendulum("bars", drag=drag, **SIMPLE))
    assert float((own.angle[:, 0] - other.angle("upper")).abs().max()) < 1e-8


@pytest.mark.parametrize("drag", [(0.0, 0.0), (0.2, 0.3)])
def test_a_double_pendulum_with_heavy_rods(drag):
    own, other = motions(gs.DoublePendulum("bars", drag=drag, **DOUBLE))
    assert float((own.angle - other.angles.cumsum(-1)).abs().max()) < 1e-6
    assert float((own.bobs[:, 0] - other.link("lower").position).norm(dim=-1).max()) < 1e-6


def test_gradients_and_batches_pass():
    length = torch.tensor([0.5, 0.7], dtype=torch.float64, requires_grad=True)
    body = gs.as_articulated(gs.Pendulum("bars", length=length, rod_mass=0.4))
    gs.simulate(gs.Scene([body]), frames=5)["bars"].angles.sum().backward()
    assert (length.grad.abs() > 1e-3).all()


def test_unknowns_are_refused_by_name():
    with pytest.raises(gs.InvalidInput, match=r"bars\.length"):
        gs.as_articulated(gs.Pendulum("bars", length=gs.unknown(1.0)))
