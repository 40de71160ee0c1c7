"""The benchmark of the physics: it measures what it says, and its peer simulates the same thing."""

from __future__ import annotations

import dataclasses
import io
import json
import sys
from time import perf_counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from rich.console import Console

import gradsim as gs
from gradsim.bench import physics, timing
from gradsim.bench.newton_peer import NewtonBeam
from gradsim.bench.physics import Beam, bench_physics, table
from gradsim.bench.timing import ROUNDS, WARM, least_times, steady_rounds


@pytest.fixture(scope="module")
def small_bench():
    lines: list[str] = []
    bench = bench_physics((100,), dtypes=("float32",), steps=20, peer=False, seconds=0.05, progress=lines.append)
    return bench, lines


@pytest.fixture(scope="module")
def newton_rollout():
    """A beam without damping, where the two laws agree, with Newton's rollout of it."""
    pytest.importorskip("newton", reason="needs Newton: pip install 'gradsim[bench]'", exc_type=ImportError)
    beam = Beam(physics.CELLS[100], damping=0.0)
    return beam, NewtonBeam(beam, steps=100, weights=beam.weights)


def relative(got, expected):
    return np.abs(got - expected).max() / np.abs(expected).max()


class TestMeasurement:
    def test_numbers_are_positive(self, small_bench):
        (row,) = small_bench[0].rows
        assert (row.tets, row.nodes, row.dtype) == (100, 54, "float32")
        assert min(row.forward, row.both, row.overhead) > 0
        assert (row.paper_forward, row.paper_backward) == (9057, 3721)
        assert row.newton_forward is row.newton_graph_both is row.ratio_both is None

    def test_progress_says_what_is_measured(self, small_bench):
        assert small_bench[1] == ["100 tets, float32"]

    def test_serializes(self, small_bench):
        bench = small_bench[0]
        content = json.loads(json.dumps(bench.as_dict()))
        assert content["rows"][0]["forward"] == bench.rows[0].forward
        assert content["steps"] == 20
        assert content["machine"]["cores"] >= 1
        assert {"python", "torch", "warp-lang", "newton"} <= set(content["machine"]["versions"])

    def test_table_shows_speeds_ratios_and_gaps(self, small_bench):
        row = dataclasses.replace(
            small_bench[0].rows[0], forward=123_456.0, both=50_000.0, newton_graph_forward=61_728.0
        )
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(table(dataclasses.replace(small_bench[0], rows=(row,), note="a note")))
        text = console.export_text()
        for shown in ("123.5 / 50.0", "61.7 / -", "2.00 / -", "9.1 / 3.7", "a note"):
            assert shown in text

    def test_unknown_size_is_named(self):
        with pytest.raises(gs.InvalidInput, match="sizes = 300: must be among 100, 200"):
            bench_physics((300,))

    def test_without_newton_a_note_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "newton", None)
        bench = bench_physics(())
        assert "pip install 'gradsim[bench]'" in str(bench.note)


class TestTiming:
    def test_rivals_take_turns_and_the_least_time_counts(self):
        order: list[str] = []
        times = least_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0.0)
        assert "".join(order) == "a" * WARM + "b" * WARM + "ab" * ROUNDS
        assert all(0 <= time < 0.1 for time in times.values())

    def test_a_round_waits_for_full_speed_and_comes_again_if_it_was_lost(self, monkeypatch):
        looks = iter([False, True, True, False, True, True])  # before the first round twice, then after each, ...
        monkeypatch.setattr(timing, "_reference", lambda: SimpleNamespace(is_fast=lambda: next(looks)))
        assert list(steady_rounds(2, 60.0)) == [0, 1, 1]

    def test_patience_ends(self, monkeypatch):
        monkeypatch.setattr(timing, "_reference", lambda: SimpleNamespace(is_fast=lambda: False))
        start = perf_counter()
        assert list(steady_rounds(3, 0.2)) == [0, 1, 2]
        assert 0.2 <= perf_counter() - start < 5.0

    def test_the_reference_knows_its_best(self):
        reference = timing._Reference()
        assert reference.is_fast()
        reference.least = 1e-9
        assert not reference.is_fast()


class TestBeam:
    @pytest.mark.parametrize("size", physics.SIZES)
    def test_sizes(self, size):
        beam = Beam(physics.CELLS[size])
        assert len(beam.mesh.tets) == size
        assert beam.pinned.sum() == (beam.cells[1] + 1) * (beam.cells[2] + 1)
        assert set(physics.PAPER) == set(physics.SIZES)

    def test_steps_are_stable(self):
        beam = Beam(physics.CELLS[1000])
        assert beam.dt < gs.stable_dt(beam.scene(*beam.lame(torch.float64)))


class TestNewton:
    """Both must simulate the same thing, or a ratio of speeds says nothing."""

    def test_positions_agree(self, newton_rollout):
        beam, newton = newton_rollout
        newton.graph(newton.forward)()
        with torch.no_grad():
            own = beam.simulate(beam.scene(*beam.lame(torch.float32)), 100).numpy()
        # 7e-7 in float32; with damping 1.0 on either side alone it is 6e-3.
        assert relative(newton.final - beam.start, own - beam.start) < 1e-4

    def test_gradients_agree(self, newton_rollout):
        beam, newton = newton_rollout
        replay = newton.graph(newton.both)
        replay()
        replay()  # must not add to the gradients of the first
        mu, lam = (values.requires_grad_() for values in beam.lame(torch.float64))
        (beam.simulate(beam.scene(mu, lam), 100) * torch.as_tensor(beam.weights)).sum().backward()
        for got, own in zip(newton.lame_gradients, (mu.grad, lam.grad), strict=True):
            assert own is not None
            assert relative(got, own.numpy()) < 1e-4
