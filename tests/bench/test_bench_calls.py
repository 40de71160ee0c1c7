"""The benchmark of calls: what it counts as overhead."""

from __future__ import annotations

import io
import json

import pytest
import torch
from rich.console import Console

import gradsim as gs
from gradsim.bench import calls
from gradsim.bench.calls import bench_calls, table


@pytest.fixture(scope="module")
def small_bench():
    lines: list[str] = []
    return bench_calls(calls=5, progress=lines.append), lines


def test_costs_are_positive_and_serialize(small_bench):
    bench, lines = small_bench
    assert lines == [*(f"{name}, float64" for name in calls.SCENES), "5 calls of each"]
    for row in bench.rows:
        assert 0 < row.forward.least < row.both.least
        assert 0 < row.kernels_forward < row.kernels_both
    content = json.loads(json.dumps(bench.as_dict()))
    assert content["calls"] == 5
    assert content["rows"][0]["forward"]["median"] == bench.rows[0].forward.median


def test_table_names_the_scenes(small_bench):
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(small_bench[0]))
    text = console.export_text()
    for name in calls.SCENES:
        assert name in text


@pytest.mark.parametrize("name", calls.SCENES)
def test_scenes_are_stable_and_depend_on_their_value(name):
    value = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    scene = calls.SCENES[name](value)
    assert gs.stable_dt(scene) > 1.0 / (calls.FPS * calls.SUBSTEPS)
    states = gs.simulate(scene, frames=calls.FRAMES, fps=calls.FPS, substeps=calls.SUBSTEPS).states
    sum(state[-1].sum() for state in states.values()).backward()
    assert value.grad is not None
    assert value.grad.item() != 0
