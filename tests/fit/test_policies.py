"""Policies: formula and weights of sinusoids, and invalid input."""

import math

import pytest
import torch

import gradsim as gs

TIMES = torch.tensor([0.0, 0.13, 1.7], dtype=torch.float64)


def test_sinusoids_follow_their_formula():
    policy = gs.Sinusoids(5, waves=3, frequency=2.0, amplitude=0.4, seed=7)
    weights = policy.weight.detach()
    outputs = policy(TIMES).detach()
    for k, t in enumerate(TIMES.tolist()):
        for i in range(5):
            combination = sum(float(weights[i, j]) * math.sin(2.0 * t + 2 * math.pi * j / 3) for j in range(3))
            assert float(outputs[k, i]) == pytest.approx(0.4 * math.tanh(combination), abs=1e-14)


def test_initial_weights_depend_on_seed_and_scale():
    first, again, other = (gs.Sinusoids(200, waves=4, seed=seed, scale=3.0).weight.detach() for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 1.4 < float(first.abs().max()) <= 1.5


def test_tied_outputs_are_equal():
    policy = gs.Sinusoids(4, waves=2, tied=[1, 0, 1, 2])
    assert policy.weight.shape == (3, 2)
    outputs = policy(TIMES)
    assert torch.equal(outputs[:, 0], outputs[:, 2])
    assert not torch.equal(outputs[:, 0], outputs[:, 1])
    (gradient,) = torch.autograd.grad(outputs[1, 0] + outputs[1, 2], policy.weight)
    assert torch.equal(gradient[[0, 2]], torch.zeros(2, 2, dtype=torch.float64))
    assert float(gradient[1].abs().min()) > 0.0


@pytest.mark.parametrize("name", ["outputs", "waves", "frequency", "amplitude"])
def test_arguments_must_be_positive(name):
    with pytest.raises(gs.errors.OutOfRange, match=f"Sinusoids.{name} = 0"):
        gs.Sinusoids(**{"outputs": 3, name: 0})


def test_tied_must_match_the_outputs():
    with pytest.raises(gs.errors.WrongShape, match="must be 3 row indices"):
        gs.Sinusoids(3, tied=[0, 1])


def test_feedback_needs_a_module_and_a_function():
    with pytest.raises(gs.errors.WrongType, match=r"torch\.nn\.Module"):
        gs.Feedback(lambda observation: observation, lambda trajectory: trajectory.time)
    with pytest.raises(gs.errors.WrongType, match="function of a trajectory"):
        gs.Feedback(torch.nn.Linear(1, 1), "state")
