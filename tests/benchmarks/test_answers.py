"""The benchmark of whole estimates: its measurement in a new process, its peers and its requirements."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.answer_peers import ask_peer
from benchmarks.answers import AnswerResults, measure_answers, requirements, section
from benchmarks.questions import QUESTIONS


@pytest.fixture(scope="module")
def results() -> AnswerResults:
    return measure_answers(only="four tracks", peers=False)


def test_an_answer_has_its_cost_and_its_accuracy(results):
    (row,) = results.rows
    assert min(row.first, row.again, row.cpu) > 0.0
    assert 1e6 < row.memory < 2e9
    assert row.error is not None
    assert row.error < 0.02
    assert row.offset is not None
    assert row.offset < 2.5  # standard deviations: 5
    assert 0.0 < row.half_width < 0.05
    assert "certain" in row.status


def test_a_slow_or_large_answer_misses_its_requirement(results):
    (row,) = results.rows
    slow = dataclasses.replace(row, max_seconds=row.again / 2)
    assert [r.met for r in requirements(dataclasses.replace(results, rows=(slow,)))] == [False, True]
    large = dataclasses.replace(row, max_seconds=2 * row.again, memory=7e8)
    assert [r.met for r in requirements(dataclasses.replace(results, rows=(large,)))] == [True, False]


def test_questions_about_real_recordings_need_a_folder(results):
    left_out = measure_answers(only="real", peers=False).left_out
    assert left_out == tuple(name for name, question in QUESTIONS.items() if question.needs_data)
    assert not results.left_out


def test_a_peer_stops_when_it_is_as_accurate_as_the_interval(results):
    row = ask_peer("length of a pendulum, noisy 64 px", "Adam on the adjoint", 0.3)
    assert 0.1 < row.error <= 0.3  # from an error of 0.4, in steps of 5 %
    assert row.simulations < 10
    shown = section(dataclasses.replace(results, peers=(dataclasses.replace(row, question=results.rows[0].question),)))
    assert shown.as_dict()["peers"][0]["simulations"] == row.simulations
