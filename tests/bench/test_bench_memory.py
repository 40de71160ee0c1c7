"""The benchmark of memory: what it counts is what a process grows by."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from gradsim.bench.memory import bench_memory, report


@pytest.fixture(scope="module")
def bench():
    return bench_memory(steps=(1500,), limits=(None, 10e6), chain=False)


def in_blocks(nodes):
    """Nodes of a world with those that fill its last block of lanes."""
    return -(-nodes // 8) * 8


def test_a_step_keeps_position_velocity_and_force_of_nodes_and_the_state_of_bodies(bench):
    kept = {row.scene: row for row in bench.kept}
    assert kept["beam of 1,000 tets"].step_bytes == in_blocks(9 * 6 * 6) * 9 * 8
    assert kept["beam of 1,000 tets"].element_bytes == pytest.approx(23.6, abs=0.05)
    assert kept["sheet of 512 triangles"].step_bytes == in_blocks(17 * 17) * 9 * 8
    assert kept["64 cube(s)"].element_bytes == kept["five contact parameters"].element_bytes == 13 * 8


def test_a_process_grows_by_its_history_or_by_the_limit(bench):
    free, limited = bench.peaks
    assert free.history == limited.history == 1500 * in_blocks(9 * 6 * 6) * 9 * 8  # 35 MB
    assert free.history < free.grown < free.history + 15e6
    assert 5e6 < limited.grown < 10e6 + 15e6


def test_is_told_and_serializes(bench):
    content = json.loads(json.dumps(bench.as_dict()))
    assert content["kept"][0]["element_bytes"] == pytest.approx(in_blocks(6 * 3 * 3) * 0.72)
    assert [peak["limit"] for peak in content["peaks"]] == [None, 10e6]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(report(bench))
    text = console.export_text()
    for part in ("beam of 1,000 tets", "23,616", "23.6", "default", "10 MB", "35.4"):
        assert part in text
