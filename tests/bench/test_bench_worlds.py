"""The benchmark of threads: what it holds against what, and what it says of a batch that cannot be cut."""

from __future__ import annotations

import dataclasses
import io
import json

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from gradsim.bench import worlds
from gradsim.bench.timing import least_times
from gradsim.bench.worlds import SCENES, Times, bars, bench_worlds, table
from gradsim.cli import app


@pytest.fixture(scope="module")
def small_bench():
    lines: list[str] = []
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        bench = bench_worlds(("beam of 1,000 tets",), dtypes=("float64",), steps=5, seconds=0.0, progress=lines.append)
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    return bench, lines, after


def shown(bench):
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(table(bench))
    return console.export_text()


def test_measures_one_thread_two_threads_and_two_processes(small_bench):
    bench, lines, after = small_bench
    (row,) = bench.rows
    assert (row.scene, row.dtype, row.steps, row.shares) == ("beam of 1,000 tets", "float64", 5, 16)
    assert all(min(time.forward, time.both) > 0 for time in (row.one, row.two, row.beside))
    assert row.equal
    assert lines == ["16 worlds of a beam of 1,000 tets, float64"]
    assert after == 3


def test_serializes(small_bench):
    (row,) = small_bench[0].rows
    content = json.loads(json.dumps(small_bench[0].as_dict()))
    assert content["worlds"] == 16
    assert content["rows"][0]["speedup"]["both"] == row.one.both / row.two.both
    assert content["rows"][0]["ceiling"]["forward"] == 2 * row.one.forward / row.beside.forward


def test_bars_ask_for_the_speed_up_of_what_can_be_cut(small_bench):
    (row,) = small_bench[0].rows
    fast = dataclasses.replace(row, one=Times(1.8, 3.6), two=Times(1.0, 2.0), beside=Times(1.8, 4.0))
    slow = dataclasses.replace(fast, scene="slow", two=Times(1.0, 2.4), equal=False)
    whole = dataclasses.replace(fast, scene="whole", shares=1, two=Times(1.8, 3.6))
    bench = dataclasses.replace(small_bench[0], rows=(fast, slow, whole))
    met, missed, equal = bars(bench)
    assert met.met
    assert met.got == "1.80, and two processes 1.80"
    assert not missed.met
    assert missed.got == "1.50, and two processes 1.80"
    assert not equal.met
    assert equal.got == "2 of 3 are"
    text = shown(bench)
    for part in (
        "1800.0 / 3600.0",
        "1.80 / 1.50",
        "2.00 / 1.80",
        "NO",
        "of a whole in float64 fill one block of lanes",
    ):
        assert part in text


@pytest.mark.parametrize(("dtype", "shares"), [(torch.float32, 1), (torch.float64, 2)], ids=str)
def test_cubes_fill_blocks_of_lanes(dtype, shares):
    assert SCENES["cube on a plane"](dtype).shares == shares


@pytest.mark.parametrize("scene", SCENES)
def test_worlds_differ_and_gradients_reach_them(scene):
    end, *gradients = SCENES[scene](torch.float64).results(480)
    assert len(end) == worlds.WORLDS
    assert (end[1:] != end[:-1]).flatten(1).any(1).all()
    for gradient in gradients:
        assert gradient.reshape(worlds.WORLDS, -1).any(1).all()


def test_command_line(tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "least_times", lambda calls, seconds: least_times(calls, seconds=0.0))
    file = tmp_path / "bench.json"
    result = CliRunner().invoke(app, ["bench", "physics", "--only", "worlds", "--steps", "2", "--json", str(file)])
    assert result.exit_code == 0, result.output
    assert "two processes" in result.output
    assert "met: worlds: states and gradients on two threads are bitwise equal; 6 of 6 are" in result.output
    assert len(json.loads(file.read_text())["worlds"]["rows"]) == 6
