"""gradsim prepare and gradsim estimate of what it writes: output, files and errors."""

import json
from pathlib import Path

import pytest
from tests.footage import physical_videos as videos
from tests.test_cli import assert_rejected, run

import gradsim as gs

RULER = ",".join(map(str, videos.RULER))


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    return videos.throw_video(tmp_path_factory.mktemp("throw") / "throw.mp4")


def test_prepare_then_estimate(video, tmp_path, capsys):
    code, out, _ = run(capsys, "prepare", video, "--scale", RULER, "-o", tmp_path / "new" / "prepared")
    assert code == 0
    for words in ("object: 2", "motion: flight", "scale: 150.0", "estimates: ", "note: ", "next: gradsim"):
        assert words in out
    folder, result = tmp_path / "new" / "prepared", tmp_path / "out"
    code, out, _ = run(capsys, "estimate", folder, "-o", result, "--corrections", 0)
    assert code == 0
    page = (result / "report.html").read_text()
    assert "<h1>throw</h1>" in page
    assert "flight in frames 0 to 15 of throw.mp4" in page
    assert "<h2>Footage</h2>" in page
    found = json.loads((result / "fit.json").read_text())["parameters"]
    gravity = found["scene.gravity[1]"]
    assert gravity["low"] < -videos.GRAVITY < gravity["high"]
    assert gravity["identifiability"] == "identifiable"


def test_options_reach_the_draft(video, tmp_path, capsys):
    options = "--diameter 0.13 --mass 0.1 --gravity 9.8 --frames 2:14 --as flight --object 150,110 --ignore 0,0,10,10"
    code, out, _ = run(capsys, "prepare", video, *options.split(), "-o", tmp_path / "prepared")
    assert code == 0
    assert "frames 2 to 13" in out
    scene = gs.load_scene(tmp_path / "prepared" / "scene.yaml")
    assert "scene.gravity[1]" not in scene.unknowns
    assert float(scene["object"].mass) == pytest.approx(0.1)
    assert float(scene["object"].radius) == pytest.approx(0.065)


BAD_OPTIONS = {
    "scale with too few numbers": ("--scale 1,2,3", "--scale", "x1,y1,x2,y2"),
    "scale that is no numbers": ("--scale a,b,c,d,1", "--scale", "x1,y1,x2,y2"),
    "scale of no length": ("--scale 1,2,300,4,0", "scale", "> 0"),
    "scale with equal ends": ("--scale 5,5,5,5,1", "scale", "2 px apart"),
    "object with one number": ("--object 5", "--object", "320,240"),
    "floor with three numbers": ("--floor 1,2,3", "--floor", "x1,y1,x2,y2"),
    "ignore with five numbers": ("--ignore 1,2,3,4,5", "--ignore", "x1,y1,x2,y2"),
    "diameter of zero": ("--diameter 0", "diameter", "> 0"),
    "negative mass": ("--mass -1", "mass", "> 0"),
    "negative gravity": ("--gravity -9.81", "gravity", "> 0"),
    "negative readout": ("--rolling-shutter -1", "rolling-shutter"),
    "frames backwards": ("--frames 9:3", "frames"),
    "rate of zero": ("--fps 0", "fps"),
    "unknown motion": ("--as flihgt", "flight"),
    "missing lens": ("--lens nowhere.yaml", "nowhere.yaml", "gradsim calibrate"),
    "no object there": ("--object 300,20", "object"),
}


@pytest.mark.parametrize("what", BAD_OPTIONS)
def test_bad_options(video, tmp_path, capsys, what):
    options, *remedies = BAD_OPTIONS[what]
    assert_rejected(capsys, ["prepare", video, *options.split(), "-o", tmp_path / "prepared"], *remedies)
    assert not (tmp_path / "prepared").exists()


def test_missing_video(tmp_path, capsys):
    assert_rejected(capsys, ["prepare", tmp_path / "nothing.mp4", "-o", tmp_path / "p"], "nothing.mp4")


def test_a_foreign_folder_is_kept(video, tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.txt").write_text("a")
    assert_rejected(capsys, ["prepare", video, "-o", tmp_path / "photos"], "--out", "choose another folder")
    assert [file.name for file in (tmp_path / "photos").iterdir()] == ["a.txt"]


def test_estimate_of_a_folder_that_is_not_prepared(tmp_path, capsys):
    assert_rejected(capsys, ["estimate", tmp_path, "-o", tmp_path / "out"], "gradsim prepare")


def test_options_of_videos_do_not_apply_to_a_prepared_folder(tmp_path, capsys):
    Path(tmp_path / "trials.yaml").touch()
    Path(tmp_path / "prepared.json").touch()
    arguments = ["estimate", tmp_path, "--frames", "0:5", "-o", tmp_path / "out"]
    assert_rejected(capsys, arguments, "--frames", "give it to `gradsim prepare`")
