"""gradsim estimate --many: one row a video, resumed where it stopped; gradsim dataset on the command line."""

import csv
import json

import pytest
from tests.test_cli import assert_rejected, run
from tests.test_cli_trials import MASS, TOSS, VELOCITIES, simulated

import gradsim as gs

MANIFEST = "name,scene,video,cube.velocity\n" + "".join(
    f"{name},toss.yaml,{name}.mkv,{' '.join(map(str, velocity))}\n" for name, velocity in VELOCITIES.items()
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two videos of 32 x 32 pixels of tosses with known velocities, and the manifest of both."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toss.yaml").write_text(TOSS.replace(", per_trial: true", ""))
    for name, velocity in VELOCITIES.items():
        scene, motion = simulated(velocity)
        gs.save_video(f"{name}.mkv", gs.render(scene, motion, (32, 32)), 20, codec="ffv1")
    (tmp_path / "many.csv").write_text(MANIFEST)
    return tmp_path


def rows(file):
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_one_row_a_video_and_no_fit_is_repeated(folder):
    result = run("estimate", "--many", "many.csv", "-o", "fits")
    assert result.code == 0, result.stderr
    table = rows(folder / "fits" / "fits.csv")
    assert [row["name"] for row in table] == ["a", "b"]
    for row in table:
        assert float(row["cube.mass"]) == pytest.approx(MASS, rel=0.02)
        assert float(row["cube.mass low"]) < float(row["cube.mass"]) < float(row["cube.mass high"])
        stored = json.loads((folder / "fits" / row["name"] / "fit.json").read_text())
        assert float(row["cube.mass"]) == stored["parameters"]["cube.mass"]["value"]
        assert gs.load_scene(folder / "fits" / row["name"] / "fitted.yaml").bodies[0].name == "cube"
    before = (folder / "fits" / "b" / "fit.json").stat().st_mtime_ns
    (folder / "fits" / "a" / "fit.json").unlink()
    (folder / "fits" / "a" / "fitted.yaml").unlink()
    (folder / "fits" / "a").rmdir()
    again = run("estimate", "--many", "many.csv", "-o", "fits")
    assert "2 videos, 1 fitted now, 0 failed" in again.stdout
    assert (folder / "fits" / "b" / "fit.json").stat().st_mtime_ns == before
    repeated = rows(folder / "fits" / "fits.csv")
    without_time = [{k: v for k, v in row.items() if k != "seconds"} for row in repeated]
    assert without_time == [{k: v for k, v in row.items() if k != "seconds"} for row in table]


def test_a_video_that_fails_does_not_stop_the_others(folder):
    (folder / "many.csv").write_text(MANIFEST + "c,toss.yaml,missing.mkv,\n")
    result = run("estimate", "--many", "many.csv", "-o", "fits", "--jobs", "2")
    assert result.code == 1
    assert "c: " in result.stderr
    *_, last = rows(folder / "fits" / "fits.csv")
    assert last["status"].startswith("failed: ")
    assert "missing.mkv" in last["status"]
    assert (folder / "fits" / "a" / "fit.json").exists()


def test_options_that_do_not_apply(folder):
    assert_rejected(run("estimate", "toss.yaml", "a.mkv", "--many", "many.csv"), "SCENE", "does not apply to --many")
    assert_rejected(run("estimate", "--many", "many.csv", "--jobs", "2", "--ray", "auto"), "--jobs", "--ray")
    assert_rejected(run("estimate", "toss.yaml", "a.mkv", "--jobs", "2"), "applies to --many")
    (folder / "twice.csv").write_text("name,scene,video\na,toss.yaml,a.mkv\na,toss.yaml,b.mkv\n")
    assert_rejected(run("estimate", "--many", "twice.csv"), "name of its own")


def test_a_data_set_is_made_and_fitted(tmp_path):
    """The list of fits that `gradsim dataset` writes is a manifest for `--many`."""
    place = tmp_path / "rigid"
    made = run("dataset", "rigid", "--videos", "2", "--size", "32", "--frames", "6", "--out", str(place))
    assert made.code == 0, made.stderr
    assert "2 videos, 2 new" in made.stdout
    assert [row["name"] for row in rows(place / "fits.csv")] == ["0000000", "0000001"]
    again = run("dataset", "rigid", "--videos", "2", "--size", "32", "--frames", "6", "--out", str(place))
    assert "2 videos, 0 new" in again.stdout
    other = run("dataset", "rigid", "--videos", "2", "--size", "16", "--frames", "6", "--out", str(place))
    assert_rejected(other, "side", "has 32")
