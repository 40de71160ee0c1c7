"""A small version of the demo: a video, a fit to it, and a report."""

from dataclasses import replace

import pytest

import gradsim as gs
from gradsim import cli
from gradsim.experiments import demo


def test_hidden_values_are_drawn_within_their_ranges():
    values = [demo.hidden_values(seed) for seed in range(5)]
    assert values[0] == demo.hidden_values(0)
    assert len({value["cube.mass"] for value in values}) == 5
    for value in values:
        for path, (low, high) in demo.RANGES.items():
            assert low <= value[path] <= high
    assert set(values[0]) == set(demo.guessed_scene().unknowns)


def test_demo_records_fits_and_reports(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(demo, "TIME", replace(demo.TIME, frames=16, substeps=64))
    monkeypatch.setattr("gradsim.fit.bootstrap.COPIES", 2)
    monkeypatch.setattr(demo, "RECORDED_SIZE", (128, 128))
    monkeypatch.setattr(demo, "COMPARED_SIZE", (32, 32))
    monkeypatch.setattr("sys.argv", ["gradsim", "demo", "-o", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "true" in shown
    video = gs.load_video(tmp_path / "demo.mp4")
    assert (video.codec, video.size, len(video), video.fps) == ("h264", (128, 128), 16, 30.0)
    assert "side the interval" in (tmp_path / "report.html").read_text()
    truth, fitted = demo.hidden_values(0), gs.load_scene(tmp_path / "fitted.yaml")
    assert float(fitted["cube"].mass) == pytest.approx(truth["cube.mass"], rel=0.02)
    assert float(fitted.ground.mu) == pytest.approx(truth["ground.mu"], rel=0.05)
    assert set(gs.load_scene(tmp_path / "demo.yaml").unknowns) == set(truth)
