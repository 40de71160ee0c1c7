"""The benchmark of the renderer: it measures what it says, and its rivals draw the same thing."""

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
from gradsim.bench import render
from gradsim.bench.deodr_peer import DeodrVideo
from gradsim.bench.pictures import MESHES, Drawing, Pair, turning
from gradsim.bench.render import Cost, ExactRow, Lengths, bench_render, deodr_difference, kept_memory
from gradsim.bench.render_report import as_dict, bars, report
from gradsim.bench.timing import least_times
from gradsim.cli import app
from gradsim.render.raster import rasterize

SHORT = Lengths(exact=2, softras=2, threads=9, video=3, worlds=2)


@pytest.fixture(scope="module")
def small_bench():
    lines: list[str] = []
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        bench = bench_render((12,), pixels=(16, 24), peer=False, seconds=0.0, lengths=SHORT, progress=lines.append)
        after = torch.get_num_threads()
    finally:
        torch.set_num_threads(before)
    return bench, lines, after


def shown(bench):
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(report(bench))
    return console.export_text()


def needs_deodr():
    pytest.importorskip("deodr", reason="needs DEODR: pip install 'gradsim[bench]'", exc_type=ImportError)


class TestMeasurement:
    def test_numbers_are_positive(self, small_bench):
        bench = small_bench[0]
        assert [(row.faces, row.pixels) for row in bench.exact] == [(12, 16), (12, 24)]
        assert [(row.faces, row.pixels, row.equal) for row in bench.threads] == [(12, 24, True)]
        assert [(row.faces, row.pixels) for row in bench.softras] == [(12, 24)]
        costs = [bench.video.cost, bench.softras[0].softras, bench.softras[0].plain, bench.softras[0].ratio]
        costs += [cost for row in bench.exact for cost in (row.exact64, row.exact32)]
        assert min(min(cost.forward, cost.both) for cost in costs) > 0
        assert bench.threads[0].speedup > 0
        assert bench.exact[0].deodr is bench.exact[0].ratio is bench.exact[0].difference is None

    def test_leaves_the_threads_as_they_were(self, small_bench):
        assert small_bench[2] == 2

    def test_progress_says_what_is_measured(self, small_bench):
        assert small_bench[1] == [
            "Exact, 12 faces, 16 px",
            "Exact, 12 faces, 24 px",
            "Exact on two threads, 12 faces, 24 px",
            "SoftRas and plain kernels, 12 faces, 24 px",
            "gs.render of a cube and a sphere, 24 px",
        ]

    def test_serializes(self, small_bench):
        bench = small_bench[0]
        content = json.loads(json.dumps(as_dict(bench)))
        assert content["exact"][0]["exact64"] == {
            "forward": bench.exact[0].exact64.forward,
            "both": bench.exact[0].exact64.both,
        }
        assert content["exact"][0]["ratio"] is None
        assert content["threads"][0]["speedup"] == bench.threads[0].speedup
        assert content["softras"][0]["ratio"]["both"] == bench.softras[0].ratio.both
        assert content["video"]["kept_bytes"] == bench.video.kept_bytes
        assert content["lengths"]["exact"] == 2
        assert len(content["bars"]) == 4
        assert {"python", "torch", "warp-lang", "deodr"} <= set(content["machine"]["versions"])

    def test_without_deodr_its_columns_are_left_out(self, small_bench):
        text = shown(dataclasses.replace(small_bench[0], note="a note"))
        assert "float64 per" not in text
        assert "a note" in text

    def test_tables_show_times_ratios_and_bars(self, small_bench):
        row = ExactRow(1920, 128, Cost(1.0, 2.25), Cost(0.5, 1.0), Cost(0.5, 0.75), 0.004)
        slow = dataclasses.replace(row, pixels=256, deodr=Cost(0.25, 0.5))
        threads = dataclasses.replace(small_bench[0].threads[0], one=1.8, two=1.0)
        bench = dataclasses.replace(small_bench[0], exact=(row, slow), threads=(threads,))
        text = shown(bench)
        for part in ("1.000 / 2.250", "0.500 / 0.750", "2.00 / 3.00", "4.00 / 4.50", "differ by 0.004", "MiB kept"):
            assert part in text
        deodr, single, fast, equal, _ = bars(bench)
        assert str(deodr).startswith("MISSED")
        assert deodr.got == "at most 4.50 (1,920 faces, 256 px)"
        assert single.met
        assert single.got == "at most 0.50 of its time (1,920 faces, 128 px)"
        assert fast.met
        assert fast.got == "at least 1.80 (12 faces, 24 px)"
        assert equal.met
        near = dataclasses.replace(row, exact32=Cost(0.5, 2.5), deodr=Cost(0.5, 1.25))
        deodr, single = bars(dataclasses.replace(bench, exact=(near,)))[:2]
        assert deodr.met
        assert not single.met
        unequal = dataclasses.replace(threads, equal=False)
        assert not bars(dataclasses.replace(bench, threads=(unequal,)))[3].met

    def test_unknown_size_is_named(self):
        with pytest.raises(gs.InvalidInput, match="sizes = 300: must be among 12, 320"):
            bench_render((300,))

    def test_empty_images_are_named(self):
        with pytest.raises(gs.InvalidInput, match=r"pixels = \(0,\): must be one or more whole numbers"):
            bench_render((12,), pixels=(0,))

    def test_without_deodr_a_note_says_how_to_get_it(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "deodr", None)
        bench = bench_render((), pixels=(8,), seconds=0.0, lengths=SHORT)
        assert "pip install 'gradsim[bench]'" in str(bench.note)

    def test_command_line(self, tmp_path, monkeypatch):
        monkeypatch.setattr(render, "least_times", lambda calls, seconds: least_times(calls, seconds=0.0))
        file = tmp_path / "bench.json"
        run = ["bench", "render", "--size", "12", "--pixels", "16", "--no-peer", "--json", str(file)]
        result = CliRunner().invoke(app, run)
        assert result.exit_code == 0, result.output
        assert "bitwise equal" in result.output
        content = json.loads(file.read_text())
        assert content["exact"][0]["pixels"] == 16
        assert content["video"]["worlds"] == 8


class TestPictures:
    @pytest.mark.parametrize(("size", "faces"), [(12, 12), (320, 320), (2000, 1920), (20000, 20160)])
    def test_sizes(self, size, faces):
        assert len(MESHES[size]().faces) == faces

    def test_a_mesh_turns_in_sight_with_colours_of_its_vertices(self):
        seen = turning(320, 32, 5)
        places = seen.vertices[..., :2] / seen.vertices[..., 2:]
        assert places.min() > 0
        assert places.max() < 32
        assert torch.equal(seen.connectivity.corners, seen.connectivity.faces)
        assert 0.1 < (places[1:] - places[:-1]).norm(dim=-1).amax() < 1.0  # pixels a frame

    def test_single_precision_draws_the_same(self):
        seen = turning(320, 32, 2)
        double, single = (Drawing(gs.Exact(), seen, 32, dtype) for dtype in (torch.float64, torch.float32))
        for exact, rounded in zip(double.both(), single.both(), strict=True):
            assert rounded.dtype == torch.float32
            assert (rounded - exact).abs().max() < 1e-3 * exact.abs().max()

    def test_memory_holds_images_owners_and_lists(self):
        pair = Pair(5, 20, 3)
        image_bytes, kept_bytes = kept_memory(pair.render)
        frames = 5 * 3 * 20 * 20
        assert image_bytes == 8 * 3 * frames
        assert image_bytes + 4 * frames + 4 * frames <= kept_bytes  # an owner and a word of the list for each pixel
        assert kept_bytes < 3 * image_bytes + 2**20

    def test_gradients_reach_both_bodies_at_all_frames(self):
        for gradient in Pair(3, 24, 2).both():
            assert gradient.shape == (2, 3, 3)
            assert (gradient.abs().sum(-1) > 0).all()


class TestDeodr:
    """Both must draw the same thing, or a ratio of times says nothing."""

    @pytest.mark.parametrize("size", [12, 2000])
    def test_images_and_gradients_agree(self, size):
        needs_deodr()
        drawing = Drawing(gs.Exact(), turning(size, 64, 2), 64)
        weights = smooth_weights(2, 64)
        deodr = DeodrVideo(drawing.triangles, (64, 64), weights)
        assert deodr_difference(drawing, deodr) < 0.013  # 0.012 and 0.008: outlines
        deodr.both()
        deodr.both()  # must not add to the gradients of the first
        seen = drawing.seen
        images = rasterize(gs.Exact(), seen, (64, 64), alpha=False)
        vertices, colors = torch.autograd.grad(images, (seen.vertices, seen.attributes), torch.from_numpy(weights))
        places = vertices[..., :2] * seen.vertices.detach()[..., 2:]  # of x instead of x w
        for name, got, own in zip(("places", "colors"), deodr.gradients, (places.numpy(), colors.numpy()), strict=True):
            assert np.abs(got - own).sum() < 0.2 * np.abs(own).sum(), name  # 0.08 to 0.15

    def test_another_picture_is_refused(self):
        needs_deodr()
        seen = turning(12, 64, 1)
        drawing = Drawing(gs.Exact(), seen, 64)
        mirrored = dataclasses.replace(seen, attributes=1.0 - seen.attributes)
        with pytest.raises(RuntimeError, match="DEODR draws something else"):
            deodr_difference(drawing, DeodrVideo(mirrored, (64, 64), drawing.weights.numpy()))

    def test_is_measured_in_the_same_run(self):
        needs_deodr()
        bench = bench_render((12,), pixels=(32,), seconds=0.0, lengths=SHORT)
        (row,) = bench.exact
        assert row.ratio is not None
        assert row.ratio.both == row.exact64.both / row.deodr.both
        assert len(bars(bench)) == 5
        assert "float64 per" in shown(bench)


def smooth_weights(frames, pixels):
    x = np.linspace(-1.0, 1.0, pixels)
    plane = np.stack([1.0 + x[:, None] + 0 * x, 1.0 + x[None, :] + 0 * x[:, None], np.ones((pixels, pixels))], -1)
    return np.repeat(plane[None], frames, axis=0)
