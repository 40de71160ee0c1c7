"""The benchmark of cloth: it measures what it says, and its peer has the same elements."""

from __future__ import annotations

import dataclasses
import io
import json

import numpy as np
import pytest
import torch
from rich.console import Console

import gradsim as gs
from gradsim.bench import cloth
from gradsim.bench.cloth import Sheet, bench_cloth, table
from gradsim.bench.newton_cloth import NewtonSheet


@pytest.fixture(scope="module")
def small_bench():
    return bench_cloth((128,), steps=10, peer=False, seconds=0.05)


def test_numbers_are_positive_and_serialize(small_bench):
    (row,) = small_bench.rows
    assert (row.triangles, row.nodes, row.dtype) == (128, 81, "float32")
    assert min(row.forward, row.both) > 0
    content = json.loads(json.dumps(small_bench.as_dict()))
    assert content["rows"][0]["both"] == row.both


def test_table_shows_speeds_and_ratios(small_bench):
    row = dataclasses.replace(small_bench.rows[0], forward=123_456.0, both=50_000.0, newton_graph_both=10_000.0)
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(dataclasses.replace(small_bench, rows=(row,), note="a note")))
    text = console.export_text()
    for shown in ("123.5 / 50.0", "- / 10.0", "- / 5.00", "a note"):
        assert shown in text


def test_unknown_size_is_named():
    with pytest.raises(gs.InvalidInput, match="sizes = 300: must be among 128, 512, 1922"):
        bench_cloth((300,))


@pytest.mark.parametrize("size", cloth.SIZES)
def test_steps_are_stable(size):
    sheet = Sheet(cloth.CELLS[size])
    assert len(sheet.mesh.faces) == size
    assert sheet.dt < gs.stable_dt(sheet.scene(sheet.unknowns(torch.float64)))


class TestNewton:
    """Both must simulate the same thing, or a ratio of speeds says nothing."""

    @pytest.fixture(autouse=True)
    def newton(self):
        pytest.importorskip("newton", reason="needs Newton: pip install 'gradsim[bench]'", exc_type=ImportError)

    def test_small_strains_of_the_membrane_agree(self):
        sheet = Sheet(8, damping=0.0, stiffness=1e-9, bending_damping=1e-12, noise=1e-3)
        newton = NewtonSheet(sheet, steps=20)
        newton.graph(newton.forward)()
        with torch.no_grad():
            own = sheet.simulate(sheet.scene(sheet.unknowns(torch.float32)), 20).numpy()
        difference = np.abs((newton.final - sheet.start) - (own - sheet.start)).max()
        assert difference < 2e-3 * np.abs(own - sheet.start).max()  # 3e-4; without the shear's factor 0.2

    def test_gradients_reach_membrane_and_bending(self):
        newton = NewtonSheet(Sheet(8), steps=10)
        newton.graph(newton.both)()
        materials, bending = newton.gradients
        assert (materials[:, :2] != 0).mean() > 0.9  # not where all nodes are held
        assert (bending[:, 0] != 0).mean() > 0.9
