"""The walker that sees: what it says at first, and that gradients reach all of it through the loop."""

import pytest
import torch

from gradsim.experiments.control import closed_loop, walker


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(walker, "FRAMES", 31)
    monkeypatch.setattr(walker, "ITERATIONS", 0)
    monkeypatch.setattr(closed_loop, "FRAMES", 16)
    monkeypatch.setattr(closed_loop, "BATCH", 2)
    monkeypatch.setattr(closed_loop, "ITERATIONS", 2)


def test_an_untrained_walk_is_the_gait_whatever_is_seen(short):
    policy = closed_loop.untrained(3)
    time = torch.tensor([0.3])
    clock = torch.tensor([torch.sin(walker.FREQUENCY * time), torch.cos(walker.FREQUENCY * time)])
    gait = walker.policy(3)(time.double())[0]
    for left in (-1.0, 2.0):
        seen = torch.cat([torch.tensor([left, 0.1]), clock])
        torch.testing.assert_close(policy(seen).double(), gait, rtol=0.0, atol=1e-6)


def test_training_moves_every_weight_and_repeats_itself(short):
    first = {name: value.detach().clone() for name, value in closed_loop.untrained(0).named_parameters()}
    losses: list[float] = []
    policy = closed_loop.train(0, lambda iteration, loss: losses.append(loss))
    again = closed_loop.train(0)
    assert len(losses) == 2
    for (name, value), other in zip(policy.named_parameters(), again.parameters(), strict=True):
        assert not torch.equal(value, first[name]), name
        assert torch.equal(value, other)


def test_goals_of_the_test_are_not_those_of_the_training(short):
    displacements, goals = closed_loop.test(closed_loop.untrained(0))
    assert displacements.shape == goals.shape == (closed_loop.UNSEEN,)
    trained = closed_loop.drawn(1000, torch.Generator().manual_seed(0))
    assert not set(goals.tolist()) & set(trained.tolist())
    assert closed_loop.NEAREST <= float(goals.min()) < float(goals.max()) <= closed_loop.FARTHEST


def test_reached_counts_goals_met_within_a_tenth():
    goals = torch.tensor([1.0, 1.0, 0.5, 0.5])
    assert closed_loop.reached(torch.tensor([1.09, 0.85, 0.46, 0.54]), goals) == pytest.approx(0.75)
