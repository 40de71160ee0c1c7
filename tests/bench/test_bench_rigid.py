"""The benchmark of rigid cubes: it measures what it says, and its peer simulates the same thing."""

from __future__ import annotations

import dataclasses
import io
import json
import sys

import numpy as np
import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import gradsim as gs
from gradsim.bench import rigid
from gradsim.bench.newton_rigid import NewtonCubes
from gradsim.bench.rigid import BATCHES, Cubes, bench_rigid, table
from gradsim.bench.timing import least_times
from gradsim.cli import app


@pytest.fixture(scope="module")
def small_bench():
    lines: list[str] = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        bench = bench_rigid((3,), steps=10, peer=False, seconds=0.02, progress=lines.append)
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    return bench, lines, after


def relative(got, expected):
    return np.abs(got - expected).max() / np.abs(expected).max()


def needs_newton():
    pytest.importorskip("newton", reason="needs Newton: pip install 'gradsim[bench]'", exc_type=ImportError)


class TestMeasurement:
    def test_numbers_are_positive_on_one_thread_and_on_all(self, small_bench):
        assert [(row.worlds, row.dtype, row.threads) for row in small_bench[0].rows] == [
            (3, "float32", 1),
            (3, "float32", 2),
        ]
        for row in small_bench[0].rows:
            assert min(row.forward, row.both, row.call_forward, row.call_both) > 0
            assert row.newton_forward is row.newton_graph_both is row.ratio_both is None

    def test_leaves_the_threads_as_they_were(self, small_bench):
        assert small_bench[2] == 2

    def test_progress_says_what_is_measured(self, small_bench):
        assert small_bench[1] == ["3 cubes, float32"]

    def test_serializes(self, small_bench):
        bench = small_bench[0]
        content = json.loads(json.dumps(bench.as_dict()))
        assert [row["both"] for row in content["rows"]] == [row.both for row in bench.rows]
        assert content["steps"] == 10
        assert {"python", "torch", "warp-lang", "newton"} <= set(content["machine"]["versions"])

    def test_table_shows_speeds_ratios_and_gaps(self, small_bench):
        row = dataclasses.replace(
            small_bench[0].rows[0], forward=123_456.0, both=50_000.0, newton_graph_forward=61_728.0, call_both=2e-3
        )
        console = Console(width=120, record=True, file=io.StringIO())
        console.print(table(dataclasses.replace(small_bench[0], rows=(row,), note="a note")))
        text = console.export_text()
        for shown in ("123.5 / 50.0", "61.7 / -", "2.00 / -", "/ 2.00", "rollouts of 10 steps", "a note"):
            assert shown in text

    def test_an_empty_batch_is_named(self):
        with pytest.raises(gs.InvalidInput, match="batches = 0: a batch needs at least one world"):
            bench_rigid((0,))

    def test_without_newton_a_note_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "newton", None)
        assert "pip install 'gradsim[bench]'" in str(bench_rigid(()).note)

    def test_command_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr(rigid, "least_times", lambda calls, seconds: least_times(calls, seconds=0.0))
        file = tmp_path / "bench.json"
        run = ["bench", "physics", "--only", "rigid", "--batch", "1", "--steps", "2", "--no-peer", "--json", str(file)]
        result = CliRunner().invoke(app, run)
        assert result.exit_code == 0, result.output
        assert "eight contacts" in result.output
        content = json.loads(file.read_text())
        assert set(content) == {"rigid"}
        assert content["rigid"]["rows"][0]["worlds"] == 1


class TestCubes:
    def test_lowest_corner_starts_a_centimetre_above_the_plane(self):
        cubes = Cubes(5)
        scene = cubes.scene(cubes.unknowns(torch.float64))
        corners = gs.simulate(scene, frames=1)["cube"].vertices[:, 0]
        assert np.allclose(corners[..., 1].amin(-1), 0.01, atol=1e-12)
        assert corners.shape == (5, 8, 3)

    def test_steps_are_stable(self):
        cubes = Cubes(max(BATCHES))
        assert cubes.dt < gs.stable_dt(cubes.scene(cubes.unknowns(torch.float64)))

    def test_worlds_differ_and_larger_batches_begin_like_smaller_ones(self):
        few, many = Cubes(4), Cubes(64)
        assert np.array_equal(many.ke[:4], few.ke)
        assert len(np.unique(many.ke)) == 64


class TestNewton:
    """Both must simulate the same thing, or a ratio of speeds says nothing."""

    def test_positions_and_gradients_agree_where_the_laws_do(self):
        needs_newton()
        cubes = Cubes(16, kd=0.0, kf=5.0, mu_range=(1e6, 1e6), delta=0.0)
        newton = NewtonCubes(cubes, steps=60)
        newton.graph(newton.forward)()
        replay = newton.graph(newton.both)
        replay()
        replay()  # must not add to the gradients of the first
        unknowns = {name: values.requires_grad_() for name, values in cubes.unknowns(torch.float64).items()}
        final = cubes.simulate(cubes.scene(unknowns), 60)
        (final * torch.as_tensor(cubes.weights)).sum().backward()
        moved = final.detach().numpy() - cubes.position
        assert relative(newton.final - cubes.position, moved) < 1e-5  # 2e-6 in float32
        for name in ("mass", "ke", "velocity"):
            own = unknowns[name].grad
            assert own is not None
            assert relative(newton.gradients[name], own.numpy()) < 5e-4, name  # 7e-5 in float32
        assert not newton.gradients["mu"].any()

    def test_the_measured_cubes_move_alike(self):
        needs_newton()
        cubes = Cubes(64)
        newton = NewtonCubes(cubes, steps=60)
        newton.forward()
        own = cubes.simulate(cubes.scene(cubes.unknowns(torch.float32)), 60).numpy()
        apart = np.linalg.norm(newton.final - own, axis=1).mean()
        moved = np.linalg.norm(own - cubes.position, axis=1).mean()
        assert apart / moved < 0.12  # 0.08; without friction on either side 0.27
