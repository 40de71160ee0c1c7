"""gradsim estimate --many: one row a video, resumed where it stopped; gradsim dataset on the command line."""

import csv
import json

import pytest
from tests.test_cli import assert_rejected, run
from tests.test_cli_trials import MASS, TOSS, VELOCITIES, simulated

import gradsim as gs
from gradsim.cli.manifest import load_entries, read_entries

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


def test_one_row_a_video_and_no_fit_is_repeated(folder, capsys):
    code, _, err = run(capsys, "estimate", "--many", "many.csv", "-o", "fits")
    assert code == 0, err
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
    _, out, _ = run(capsys, "estimate", "--many", "many.csv", "-o", "fits")
    assert "2 videos, 1 fitted now, 0 failed" in out
    assert (folder / "fits" / "b" / "fit.json").stat().st_mtime_ns == before
    repeated = rows(folder / "fits" / "fits.csv")
    assert {k: v for k, v in repeated[1].items() if k != "seconds"} == {
        k: v for k, v in table[1].items() if k != "seconds"
    }
    assert repeated[0]["status"] == table[0]["status"]
    # A search ends where its steps are small: two processes agree to about 1e-10.
    assert float(repeated[0]["cube.mass"]) == pytest.approx(float(table[0]["cube.mass"]), rel=1e-8)


def test_a_fit_of_other_inputs_is_not_taken_for_one_of_these(folder, capsys):
    many = ("estimate", "--many", "many.csv", "-o", "fits")
    (folder / "many.csv").write_text(MANIFEST.replace("b,toss.yaml,b.mkv", "b,toss.yaml,missing.mkv"))
    assert run(capsys, *many)[0] == 1
    for changed in ("toss.yaml", "a.mkv"):
        file = folder / changed
        content = file.read_bytes()
        file.write_bytes(content + b"\n")
        assert_rejected(capsys, many, "fits/a", "fit of another scene, other files, options")
        file.write_bytes(content)
    assert_rejected(capsys, (*many, "--noise", 0.1), "fits/a", "other files, options")
    assert run(capsys, *many)[0] == 1  # nothing has changed but the video that is missing
    (folder / "fits" / "a" / "fit.json").write_text("{")
    assert_rejected(capsys, many, "fits/a", "is damaged")


def test_a_video_that_fails_does_not_stop_the_others(folder, capsys):
    (folder / "many.csv").write_text(MANIFEST + "c,toss.yaml,missing.mkv,\n")
    code, _, err = run(capsys, "estimate", "--many", "many.csv", "-o", "fits", "--jobs", 2)
    assert code == 1
    assert "c: " in err
    *_, last = rows(folder / "fits" / "fits.csv")
    assert last["status"].startswith("failed: ")
    assert "missing.mkv" in last["status"]
    assert (folder / "fits" / "a" / "fit.json").exists()


def test_options_that_do_not_apply(folder, capsys):
    many = ("estimate", "--many", "many.csv")
    assert_rejected(capsys, (*many, "toss.yaml", "a.mkv"), "SCENE", "does not apply to --many")
    assert_rejected(capsys, (*many, "--jobs", 2, "--ray", "auto"), "--jobs", "--ray")
    assert_rejected(capsys, ("estimate", "toss.yaml", "a.mkv", "--jobs", 2), "applies to --many")
    (folder / "twice.csv").write_text("name,scene,video\na,toss.yaml,a.mkv\na,toss.yaml,b.mkv\n")
    assert_rejected(capsys, ("estimate", "--many", "twice.csv"), "name of its own")


def test_a_data_set_is_made_once(tmp_path, capsys):
    """The list of fits is a manifest for `--many`."""
    place = tmp_path / "rigid"
    command = ("dataset", "rigid", "--videos", 2, "--frames", 3, "--out", place)
    code, out, err = run(capsys, *command, "--size", 16)
    assert code == 0, err
    assert "2 videos, 2 new" in out
    assert [row["name"] for row in rows(place / "fits.csv")] == ["0000000", "0000001"]
    entries = read_entries(place / "fits.csv", "--many")
    assert len(load_entries(place / "fits.csv", entries).trials) == 2
    _, out, _ = run(capsys, *command, "--size", 16)
    assert "2 videos, 0 new" in out
    assert_rejected(capsys, (*command, "--size", 32), "side", "has 16")
