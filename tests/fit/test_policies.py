"""Policies: sinusoids by their formula, and feedback."""

import math

import pytest
import torch

import gradsim as gs

TIMES = torch.tensor([0.0, 0.13, 1.7], dtype=torch.float64)


def test_sinusoids_follow_their_formula():
    policy = gs.Sinusoids(5, waves=3, frequency=2.0, amplitude=0.4, seed=7)
    weights = policy.weight.detach()
    found = policy(TIMES).detach()
    for k, t in enumerate(TIMES.tolist()):
        for i in range(5):
            mixed = sum(float(weights[i, j]) * math.sin(2.0 * t + 2 * math.pi * j / 3) for j in range(3))
            assert float(found[k, i]) == pytest.approx(0.4 * math.tanh(mixed), abs=1e-14)


def test_first_weights_are_drawn_within_their_scale_by_seed():
    first, again, other = (gs.Sinusoids(200, waves=4, seed=seed, scale=3.0).weight.detach() for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 1.4 < float(first.abs().max()) <= 1.5


def test_tied_outputs_act_alike():
    policy = gs.Sinusoids(4, waves=2, tied=[1, 0, 1, 2])
    assert policy.weight.shape == (3, 2)
    said = policy(TIMES)
    assert torch.equal(said[:, 0], said[:, 2])
    assert not torch.equal(said[:, 0], said[:, 1])
    (gradient,) = torch.autograd.grad(said[1, 0] + said[1, 2], policy.weight)
    assert torch.equal(gradient[[0, 2]], torch.zeros(2, 2, dtype=torch.float64))
    assert float(gradient[1].abs().min()) > 0.0


@pytest.mark.parametrize("name", ["outputs", "waves", "frequency", "amplitude"])
def test_what_must_be_positive(name):
    with pytest.raises(gs.errors.OutOfRange, match=f"Sinusoids.{name} = 0"):
        gs.Sinusoids(**{"outputs": 3, name: 0})


def test_ties_fit_the_outputs():
    with pytest.raises(gs.errors.WrongShape, match="must be 3 numbers"):
        gs.Sinusoids(3, tied=[0, 1])


def test_feedback_wants_a_module_and_a_function():
    with pytest.raises(gs.errors.WrongType, match=r"torch\.nn\.Module"):
        gs.Feedback(lambda seen: seen, lambda trajectory: trajectory.time)
    with pytest.raises(gs.errors.WrongType, match="function of a trajectory"):
        gs.Feedback(torch.nn.Linear(1, 1), "state")
