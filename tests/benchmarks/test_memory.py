"""The memory benchmark: bytes stored for a step, and growth of a process."""

from __future__ import annotations

import pytest

from benchmarks.memory import measure_memory


@pytest.fixture(scope="module")
def results():
    return measure_memory(steps=(1500,), limits=(None, 10e6), chain=False)


def padded(nodes):
    """Number of nodes of a world, rounded up to whole blocks of SIMD lanes."""
    return -(-nodes // 8) * 8


def test_a_step_stores_position_velocity_and_force_of_nodes_and_the_state_of_rigid_bodies(results):
    memory = {row.scene: row for row in results.step_memory}
    assert memory["beam of 1,000 tets"].step_bytes == padded(9 * 6 * 6) * 9 * 8
    assert memory["beam of 1,000 tets"].element_bytes == pytest.approx(23.6, abs=0.05)
    assert memory["sheet of 512 triangles"].step_bytes == padded(17 * 17) * 9 * 8
    assert memory["64 cube(s)"].element_bytes == memory["five contact parameters"].element_bytes == 13 * 8


def test_a_process_grows_by_its_history_or_by_the_limit(results):
    free, limited = results.process_growth
    assert free.history == limited.history == 1500 * padded(9 * 6 * 6) * 9 * 8  # 35 MB
    assert free.history < free.growth < free.history + 15e6
    assert 5e6 < limited.growth < 10e6 + 15e6
