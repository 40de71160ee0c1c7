"""All benches together: which sizes are held to bars, and what is written."""

from __future__ import annotations

import json

import pytest

from gradsim.bench import everything
from gradsim.bench.everything import Part, bench_everything
from gradsim.bench.physics import PAPER, SIZES, Bench, Row
from gradsim.bench.result import Bar
from gradsim.bench.timing import this_machine

NAMES = ("tets", "cloth", "rigid", "worlds", "calls", "render", "chain", "memory", "growth")


def row(tets, ratio_forward, ratio_both, dtype="float32"):
    return Row(
        forward=1e5 * ratio_forward,
        both=1e5 * ratio_both,
        newton_forward=None,
        newton_both=None,
        newton_graph_forward=1e5,
        newton_graph_both=1e5,
        tets=tets,
        nodes=tets,
        dtype=dtype,
        paper_forward=PAPER[tets][0],
        paper_backward=PAPER[tets][1],
        overhead=1e-3,
    )


def test_beams_are_held_to_bars_at_four_sizes(monkeypatch):
    rows = tuple(row(tets, 3.1, 4.5, dtype) for tets in SIZES for dtype in ("float32", "float64"))
    found = Bench(rows, None, this_machine())
    monkeypatch.setattr(everything.physics, "bench_physics", lambda sizes, **_: found)
    part = everything._tets(lambda text: None, True)
    *newton, precision, paper = part.bars
    assert [bar.what for bar in newton] == [
        f"tets: {tets} tets {way} times Newton's graph"
        for tets, least in (("100", 4), ("1,000", 5), ("5,000", 5), ("10,000", 5))
        for way in (f"with gradients at least {least}", "forward at least 3")
    ]
    assert [bar.met for bar in newton] == [True, True, False, True, False, True, False, True]
    assert precision.met
    assert paper.met


def test_results_grow_bench_by_bench(monkeypatch, tmp_path):
    for name in NAMES:
        part = Part(name.title(), f"a table of {name}", {"rows": [name]}, (Bar(f"{name} is fast", "yes", True),))
        monkeypatch.setattr(everything, f"_{name}", lambda told, peer, part=part: part)
    for count, part in enumerate(bench_everything(tmp_path), 1):
        content = json.loads((tmp_path / "results.json").read_text())
        assert list(content) == [name.title() for name in NAMES[:count]]
        assert content[part.title]["bars"][0]["met"]
    page = (tmp_path / "results.md").read_text()
    assert f"{len(NAMES)} of {len(NAMES)} bars are met." in page
    for name in NAMES:
        assert f"\n## {name.title()}\n\n```text\na table of {name}\n```" in page


@pytest.mark.parametrize(("size", "least"), [(100, 4.0), (1000, 5.0)])
def test_a_bar_is_met_from_its_value_on(size, least):
    (bar, _) = everything._against_newton("tets", [("some", size, row(size, 3.0, least))])
    assert bar.met
    (bar, _) = everything._against_newton("tets", [("some", size, row(size, 3.0, least - 0.01))])
    assert not bar.met
