"""Requirements: which sizes have them, when they are met, and the notes where a peer is missing."""

from __future__ import annotations

import dataclasses
import json
import math
import sys

import numpy as np
import pytest

import gradsim as gs
from benchmarks import beams, cloth, rigid, worlds
from benchmarks.beams import PAPER, BeamResults, BeamRow, measure_beams
from benchmarks.calls import CallResults, CallRow, Overhead
from benchmarks.calls import requirements as call_requirements
from benchmarks.cloth import measure_cloth
from benchmarks.implicit import ImplicitResults, VibrationRow, damped_cosine
from benchmarks.implicit import section as implicit_section
from benchmarks.newton_speeds import newton_requirements
from benchmarks.rigid import measure_rigid
from benchmarks.timing import this_machine
from benchmarks.worlds import Times, WorldsResults, WorldsRow

MACHINE = this_machine()


def beam_row(tets, ratio_forward, ratio_forward_backward, dtype="float32"):
    return BeamRow(
        forward=1e5 * ratio_forward,
        forward_backward=1e5 * ratio_forward_backward,
        newton_forward=None,
        newton_forward_backward=None,
        newton_graph_forward=1e5 if dtype == "float32" else None,
        newton_graph_forward_backward=1e5 if dtype == "float32" else None,
        tets=tets,
        nodes=tets,
        dtype=dtype,
        paper_forward=PAPER[tets][0],
        paper_backward=PAPER[tets][1],
        overhead=1e-3,
    )


def test_beams_have_required_ratios_at_four_sizes():
    rows = tuple(beam_row(tets, 3.1, 4.5, dtype) for tets in beams.SIZES for dtype in ("float32", "float64"))
    *newton, precision, paper = beams.requirements(BeamResults(rows, None, MACHINE))
    assert [requirement.met for requirement in newton] == [True, True, False, True, False, True, False, True]
    assert precision.met
    assert paper.met


@pytest.mark.parametrize(("size", "least"), [(100, 4.0), (1000, 5.0)])
def test_a_ratio_is_met_from_its_required_value_on(size, least):
    (exact, _) = newton_requirements("tets", [("some", size, beam_row(size, 3.0, least))])
    (below, _) = newton_requirements("tets", [("some", size, beam_row(size, 3.0, least - 0.01))])
    assert exact.met
    assert not below.met


def test_without_newton_there_is_no_required_ratio():
    row = dataclasses.replace(beam_row(100, 3.0, 4.0), newton_graph_forward=None, newton_graph_forward_backward=None)
    assert not newton_requirements("tets", [("some", 100, row)])


def test_only_the_speed_up_of_batches_that_can_be_divided_is_required():
    fast = WorldsRow("fast", "float64", 5, 16, Times(1.8, 3.6), Times(1.0, 2.0), Times(1.8, 4.0), True)
    slow = dataclasses.replace(fast, scene="slow", two=Times(1.0, 2.4), equal=False)
    single = dataclasses.replace(fast, scene="single", shares=1, two=Times(1.8, 3.6))
    found = worlds.requirements(WorldsResults((fast, slow, single), MACHINE))
    assert [requirement.met for requirement in found] == [True, False, False]
    assert fast.speedup == Times(1.8, 1.8)
    assert fast.process_speedup == Times(2.0, 1.8)


@pytest.mark.parametrize(("milliseconds", "met"), [(0.3, True), (0.31, False)])
def test_the_median_overhead_of_the_slowest_scene_is_required(milliseconds, met):
    fast = CallRow("fast", "float64", Overhead(1e-4, 1e-4), Overhead(1.0, 1.0), 1e-3, 1e-3)
    slow = dataclasses.replace(fast, scene="slow", forward=Overhead(milliseconds / 1e3, 1e-4))
    (requirement,) = call_requirements(CallResults((fast, slow), 10, MACHINE))
    assert requirement.met == met


@pytest.mark.parametrize("measure", [measure_beams, measure_cloth, measure_rigid])
def test_the_note_names_the_extra_of_a_missing_newton(measure, monkeypatch):
    monkeypatch.setitem(sys.modules, "newton", None)
    assert "pip install 'gradsim[bench]'" in str(measure(()).note)


@pytest.mark.parametrize(
    ("measure", "size", "message"),
    [
        (beams.measure_beams, 300, "sizes = 300: must be among 100, 200"),
        (cloth.measure_cloth, 300, "sizes = 300: must be among 128, 512, 1922"),
        (rigid.measure_rigid, 0, "batches = 0: a batch needs at least one world"),
    ],
)
def test_an_unknown_size_is_an_error(measure, size, message):
    with pytest.raises(gs.InvalidInput, match=message):
        measure((size,))


def test_a_measured_vibration_can_be_written_as_json():
    times = np.arange(121) / 120
    frequency, rate = damped_cosine(times, np.exp(-0.5 * times) * np.cos(20.0 * times) + 0.1, 21.0)
    assert math.isclose(frequency, 20.0, rel_tol=1e-8)
    assert math.isclose(rate, 0.5, rel_tol=1e-8)
    row = VibrationRow(240, (frequency / 20.01) ** 2 - 1.0, rate / frequency, 0.025)
    section = implicit_section(ImplicitResults((), (row,), MACHINE))
    assert json.loads(json.dumps(section.as_dict()))["requirements"][0]["met"] is True
