"""The timing harness: order of the calls, and waiting for the machine's full speed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from benchmarks import timing
from benchmarks.timing import ROUNDS, WARMUP_RUNS, SpeedProbe, forward_backward_calls, minimum_times, steady_rounds


def set_probe(monkeypatch, is_fast):
    monkeypatch.setattr(timing, "_speed_probe", lambda: SimpleNamespace(is_fast=is_fast))


class FakeClock:
    """A clock that only advances in sleep()."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr(timing, "perf_counter", lambda: self.now)
        monkeypatch.setattr(timing, "sleep", self.sleep)

    def sleep(self, seconds):
        self.now += seconds


def test_calls_are_interleaved_after_the_warm_up():
    order: list[str] = []
    times = minimum_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0)
    assert "".join(order) == "a" * WARMUP_RUNS + "b" * WARMUP_RUNS + "ab" * ROUNDS
    assert set(times) == {"a", "b"}


def test_the_minimum_of_the_runs_is_returned(monkeypatch):
    clock, durations = FakeClock(monkeypatch), iter([9.0] * WARMUP_RUNS + [5.0, 3.0, 4.0, 7.0, 6.0])
    assert minimum_times({"a": lambda: clock.sleep(next(durations))}, seconds=0.0) == {"a": 3.0}


def test_a_round_waits_for_full_speed_and_is_repeated_if_it_dropped(monkeypatch):
    answers = iter([False, True, True, False, True, True])  # two before the first round, then one after each round
    FakeClock(monkeypatch)
    set_probe(monkeypatch, lambda: next(answers))
    assert list(steady_rounds(2, 60.0)) == [0, 1, 1]


def test_waiting_ends(monkeypatch):
    clock = FakeClock(monkeypatch)
    set_probe(monkeypatch, lambda: False)
    assert list(steady_rounds(3, 0.2)) == [0, 1, 2]
    assert clock.now == pytest.approx(0.2, abs=0.11)


def test_the_probe_compares_with_its_minimum():
    probe = SpeedProbe()
    assert probe.is_fast()
    probe.minimum = 1e-9
    assert not probe.is_fast()


def test_backward_computes_the_gradients_of_the_weighted_output():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    calls = forward_backward_calls(lambda: x**2, [x], torch.tensor([3.0, 5.0]))
    calls["forward"]()
    assert x.grad is None
    for _ in range(2):  # the second call does not add to the gradient of the first
        calls["forward_backward"]()
        assert x.grad.tolist() == [6.0, 20.0]
