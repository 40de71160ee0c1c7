"""Nothing that was fast has become slow, by ratios to references in the same run."""

import pytest

from gradsim.bench import quick


@pytest.fixture(scope="module")
def bench():
    return quick.bench_quick(seconds=0.3)


def test_native_kernels_and_renderers_are_well_ahead_of_plain_ones(bench):
    slow = [f"{r.what}: {r.ratio:.1f} times {r.reference}, at least {r.least:g}" for r in bench.ratios if not r.met]
    assert not slow


def test_what_is_measured_is_told(bench):
    assert [ratio["what"] for ratio in bench.as_dict()["ratios"]] == [ratio.what for ratio in bench.ratios]
    assert quick.table(bench).row_count == len(bench.ratios) == 5
