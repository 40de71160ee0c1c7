"""The closed-loop walker: its initial policy, and gradients that reach every weight through the rollout."""

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


def test_the_untrained_policy_is_the_gait_for_every_observation(short):
    policy = closed_loop.untrained_policy(3)
    time = torch.tensor([0.3])
    phase = torch.tensor([torch.sin(walker.FREQUENCY * time), torch.cos(walker.FREQUENCY * time)])
    gait = walker.policy(3)(time.double())[0]
    for remaining in (-1.0, 2.0):
        observation = torch.cat([torch.tensor([remaining, 0.1]), phase])
        torch.testing.assert_close(policy(observation).double(), gait, rtol=0.0, atol=1e-6)


def test_training_changes_every_weight_and_is_deterministic(short):
    first = {name: value.detach().clone() for name, value in closed_loop.untrained_policy(0).named_parameters()}
    losses: list[float] = []
    policy = closed_loop.train(0, lambda iteration, loss: losses.append(loss))
    again = closed_loop.train(0)
    assert len(losses) == 2
    for (name, value), other in zip(policy.named_parameters(), again.parameters(), strict=True):
        assert not torch.equal(value, first[name]), name
        assert torch.equal(value, other)


def test_test_goals_are_not_used_in_training(short):
    displacements, goals = closed_loop.evaluate(closed_loop.untrained_policy(0))
    assert displacements.shape == goals.shape == (closed_loop.TEST_GOALS,)
    training = closed_loop.draw_goals(1000, torch.Generator().manual_seed(0))
    assert not set(goals.tolist()) & set(training.tolist())
    assert closed_loop.NEAREST <= float(goals.min()) < float(goals.max()) <= closed_loop.FARTHEST


def test_success_rate_counts_goals_reached_within_10_percent():
    goals = torch.tensor([1.0, 1.0, 0.5, 0.5])
    assert closed_loop.success_rate(torch.tensor([1.09, 0.85, 0.46, 0.54]), goals) == pytest.approx(0.75)
