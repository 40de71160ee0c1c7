"""The command line: what it prints, writes and returns."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch
import typer
from tests.experiments.small import throw

import gradsim as gs
from gradsim import __version__, cli
from gradsim.check.result import expect_close, expect_zero
from gradsim.cli.check import report
from gradsim.cli.seen import comparable

SCENE = """\
bodies:
  - rigid:
      name: cube
      mesh: {box: 0.7}
      mass: {unknown: 5.0, low: 1.0, high: 20.0}
      position: [-0.8, -0.3, 0.0]
      velocity: [1.0, 1.5, 0.0]
      pushes:
        - {impulse: [4.0, 0.0, -1.0], point: [0.0, 0.1, 0.0]}
camera: {eye: [0.0, 0.0, 5.0], target: [0.0, 0.0, 0.0], fov: 40.0}
time: {frames: 10, fps: 20, substeps: 8}
"""


def run(capsys, *words) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["gradsim", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    shown = capsys.readouterr()
    return stopped.value.code, shown.out, shown.err


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A scene file and a video of it, 32 x 32 pixels, mass 3.7 kg."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "scene.yaml").write_text(SCENE)
    scene = gs.load_scene(folder / "scene.yaml").with_values({"cube.mass": 3.7})
    trajectory = gs.simulate(scene, frames=10, fps=20, substeps=8, integrator=gs.Midpoint())
    gs.save_video(folder / "film.mp4", gs.render(scene, trajectory, (32, 32)), 20)
    gs.save_video(folder / "film.npz", gs.render(scene, trajectory, (32, 32)), 20)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A copy of them, to work in."""
    for file in made.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_report_prints_writes_and_fails_on_a_miss(tmp_path, capsys):
    good = expect_zero("a topic", "a length [m]", np.float64(1e-12), 1e-10)
    bad = expect_close("a topic", "a time [s]", 2.0, np.float64(2.1), 1e-3)
    file = tmp_path / "facts.json"
    report(lambda progress: [good], "title", ("expected", "got"), file)
    assert "a length [m]" in capsys.readouterr().out
    assert json.loads(file.read_text()) == [good.as_dict()]
    with pytest.raises(typer.Exit) as stopped:
        report(lambda progress: [good, bad], "title", ("expected", "got"), None)
    assert stopped.value.exit_code == 1
    assert "MISS" in capsys.readouterr().out


def test_simulate_writes_a_video(folder, capsys):
    words = ("simulate", "scene.yaml", "-o", "new/film.npz", "--size", "32x32", "--set", "cube.mass=3.7")
    code, out, err = run(capsys, *words, "--json", "-")
    assert code == 0
    assert json.loads(out)["values"] == {"cube.mass": 3.7}
    assert "rendering" in err
    video, known = gs.load_video("new/film.npz"), gs.load_video("film.npz")
    assert (len(video), video.fps) == (10, 20.0)
    torch.testing.assert_close(video.frames, known.frames, rtol=0, atol=1e-12)


def test_simulate_takes_guesses_rate_and_precision(folder, capsys):
    words = ("--frames", "4", "--fps", "40", "--dtype", "float32", "--threads", torch.get_num_threads())
    code, out, _ = run(capsys, "simulate", "scene.yaml", "-o", "film.gif", "--size", "24", *words)
    assert code == 0
    assert "4 frames of 24 x 24 at 40 fps, 4 steps a frame" in out
    assert len(gs.load_video("film.gif")) == 4


def test_estimate_finds_the_mass_and_writes_a_report(folder, capsys):
    code, out, err = run(capsys, "estimate", "scene.yaml", "film.mp4", "-o", "found", "--starts", "2", "--seed", "3")
    assert code == 0
    assert "identifiable" in out
    assert "2 of 2 starts agree" in out
    assert "mean square" in err
    numbers = json.loads((folder / "found" / "fit.json").read_text())
    mass = numbers["parameters"]["cube.mass"]
    assert mass["low"] < 3.7 < mass["high"]
    assert mass["high"] - mass["low"] < 0.5
    assert numbers["interval method"].startswith("bootstrap")
    page = (folder / "found" / "report.html").read_text()
    assert "gradsim estimate scene.yaml film.mp4 -o found --starts 2 --seed 3" in page
    assert gs.load_scene("found/fitted.yaml").unknowns == {}


def test_estimate_takes_some_frames_reduced_and_prints_json_alone(folder, capsys):
    words = ("--frames", "0:8", "--size", "16x16", "--substeps", "8", "--json", "-")
    code, out, _ = run(capsys, "estimate", "scene.yaml", "film.npz", "-o", "found", *words)
    assert code == 0
    assert json.loads(out)["parameters"]["cube.mass"]["value"] == pytest.approx(3.7, rel=1e-6)


def test_interrupted_estimate_saves_the_best_so_far(folder, capsys, monkeypatch):
    def stop(bar, stage):
        stages.append(stage)
        if len(stages) == 3:
            raise KeyboardInterrupt

    stages = []
    monkeypatch.setattr("gradsim.cli.estimate.show_stage", stop)
    code, out, _ = run(capsys, "estimate", "scene.yaml", "film.mp4", "-o", "found")
    assert code == 130
    assert "interrupted" in out
    assert json.loads((folder / "found" / "fit.json").read_text())["status"] == "interrupted"
    assert "best values so far" in (folder / "found" / "report.html").read_text()


def test_interrupted_elsewhere(folder, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["gradsim.render.render"], "render", stop)
    code, _, err = run(capsys, "simulate", "scene.yaml", "-o", "film2.mp4", "--size", "32")
    assert code == 130
    assert "Traceback" not in err
    assert not (folder / "film2.mp4").exists()


def test_landscape_over_one_and_two(folder, capsys):
    words = ("landscape", "scene.yaml", "film.npz", "--over", "cube.mass", "--points", "40", "--json", "l.json")
    code, out, _ = run(capsys, *words, "-o", "one.png", "--size", "16")
    assert code == 0
    lowest = json.loads((folder / "l.json").read_text())["minimum"]["cube.mass"]
    assert lowest == pytest.approx(3.7, rel=0.05)
    assert (folder / "one.png").stat().st_size > 5000
    text = SCENE.replace("velocity: [1.0, 1.5, 0.0]", "velocity: {unknown: [1.0, 1.5, 0.0], low: -4.0, high: 4.0}")
    (folder / "two.yaml").write_text(text)
    words = ("landscape", "two.yaml", "film.npz", "--over", "cube.velocity[1]", "--over", "cube.mass", "--size", "16")
    code, out, _ = run(capsys, *words, "--points", "6", "-o", "two.svg", "--dtype", "float32", "--json", "-")
    assert code == 0
    assert np.shape(json.loads(out)["mean square"]) == (6, 6)
    assert (folder / "two.svg").read_text().startswith("<?xml")


@pytest.fixture
def thrown(monkeypatch):
    """A throw in place of the gear's task, which takes minutes."""
    monkeypatch.setattr("gradsim.experiments.control.gear.task", throw)


def test_control_reaches_a_goal_and_writes_a_report(thrown, folder, capsys):
    code, out, err = run(capsys, "control", "gear", "--seed", "2", "-o", "reached", "--json", "plan.json")
    assert code == 0
    assert "where throw 2 led" in out
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["first", "best", "last"]
    assert "2 of 13 iterates, loss" in err
    numbers = json.loads((folder / "plan.json").read_text())
    assert (numbers["task"], numbers["method"], numbers["seed"]) == ("gear", "image", 2)
    assert numbers["best"]["metric"] < 1e-12
    page = (folder / "reached" / "report.html").read_text()
    assert "Gear, seed 2" in page
    assert "gradsim control gear --seed 2 -o reached --json plan.json" in page
    found = gs.load_scene("reached/plan.yaml")["cube"].velocity
    assert np.allclose(found, [2.5, 2.2, 0.0], atol=1e-6)


def test_control_by_another_method_with_fewer_iterations(thrown, folder, capsys):
    code, out, _ = run(capsys, "control", "gear", "--method", "state", "--iterations", "1", "--json", "-")
    assert code == 0
    assert len(json.loads(out)["history"]) == 2
    assert "The goal is a state" in (folder / "out" / "report.html").read_text()


def test_interrupted_control_saves_the_best_so_far(thrown, folder, capsys, monkeypatch):
    def stop(bar, iterate):
        if iterate.number == at:
            raise KeyboardInterrupt

    monkeypatch.setattr("gradsim.cli.control.show_iterate", stop)
    at = 2
    code, out, _ = run(capsys, "control", "gear", "-o", "reached")
    assert code == 130
    assert "interrupted" in out
    numbers = json.loads((folder / "reached" / "plan.json").read_text())
    assert numbers["status"] == "interrupted"
    assert numbers["last"]["iterate"] == 2
    assert "best so far" in (folder / "reached" / "report.html").read_text()


@pytest.mark.parametrize(
    ("size", "reduced"),
    [((128, 128), (128, 128)), ((512, 512), (128, 128)), ((1080, 1920), (144, 256)), ((640, 480), (128, 96))],
)
def test_pictures_are_reduced_to_a_size_that_halves(size, reduced):
    found = comparable(size)
    assert min(found) <= 160
    assert abs(found[0] / found[1] - size[0] / size[1]) < 0.02
    if size != (640, 480):
        assert found == reduced


def changed(old, new):
    assert old in SCENE
    return SCENE.replace(old, new)


# What is wrong, the words of the command, a scene in place of the good one, and a word of the remedy.
BAD_SCENES = {
    "empty scene": ("", "bodies"),
    "no YAML": ("bodies: [", "YAML"),
    "unknown field": (changed("mass:", "masss:"), "mass"),
    "negative mass": (changed("unknown: 5.0, low: 1.0", "unknown: -5.0, low: -9.0"), "mass"),
    "wrong shape": (changed("velocity: [1.0, 1.5, 0.0]", "velocity: [1.0, 1.5]"), "velocity"),
    "text for a number": (changed("[-0.8, -0.3, 0.0]", "[left, 0, 0]"), "position"),
    "guess beyond its bounds": (changed("unknown: 5.0", "unknown: 50.0"), "between low and high"),
    "impossible bounds": (changed("low: 1.0", "low: 30.0"), "below high"),
    "no unknowns": (changed("{unknown: 5.0, low: 1.0, high: 20.0}", "5.0"), "unknown"),
    "no camera": (changed("camera:", "# camera:"), "camera"),
    "no such mesh": (changed("{box: 0.7}", "{file: nothing.obj}"), "nothing.obj"),
    "no frames": (changed("frames: 10", "frames: 0"), ">= 1"),
}


@pytest.mark.parametrize("what", BAD_SCENES)
def test_bad_scenes(folder, capsys, what):
    text, remedy = BAD_SCENES[what]
    (folder / "bad.yaml").write_text(text)
    refused(capsys, ("estimate", "bad.yaml", "film.mp4"), remedy, "bad.yaml")


BAD_COMMANDS = {
    "scene missing": ("estimate nothing.yaml film.mp4", "existing"),
    "scene misspelt": ("estimate bouncing_cub film.mp4", "did you mean 'bouncing_cube'"),
    "video missing": ("estimate scene.yaml nothing.mp4", "existing"),
    "video empty": ("estimate scene.yaml empty.mp4", "empty"),
    "video cut off": ("estimate scene.yaml cut.mp4", "cut.mp4"),
    "no video": ("estimate scene.yaml text.mp4", "text.mp4"),
    "unknown kind of video": ("estimate scene.yaml film.doc", ".mp4"),
    "folder without pictures": ("estimate scene.yaml nothing_in_it", "pictures"),
    "array of the wrong shape": ("estimate scene.yaml flat.npy", "[T, H, W, 3]"),
    "one frame": ("estimate scene.yaml film.mp4 --frames 3:4", "two frames"),
    "video shorter than asked": ("estimate scene.yaml film.mp4 --frames 0:100", "10 frames"),
    "frames misspelt": ("estimate scene.yaml film.mp4 --frames 1-5", "start:stop"),
    "size misspelt": ("estimate scene.yaml film.mp4 --size 12by12", "128x128"),
    "size of another shape": ("estimate scene.yaml film.mp4 --size 8x32", "squeeze"),
    "crop outside": ("estimate scene.yaml film.mp4 --crop 0,0,64,64", "inside"),
    "crop misspelt": ("estimate scene.yaml film.mp4 --crop 0,0", "top,left,height,width"),
    "rate not positive": ("estimate scene.yaml film.mp4 --fps 0", "fps"),
    "no starts": ("estimate scene.yaml film.mp4 --starts 0", "starts"),
    "folder is a file": ("estimate scene.yaml film.mp4 -o scene.yaml/out", "folder"),
    "unknown option": ("estimate scene.yaml film.mp4 --bogus", "--bogus"),
    "argument missing": ("estimate scene.yaml", "video"),
    "over what is no unknown": ("landscape scene.yaml film.mp4 --over cube.mas", "did you mean 'cube.mass'"),
    "over too many": ("landscape scene.yaml film.mp4 --over a --over b --over c", "one unknown or two"),
    "picture of unknown kind": ("landscape scene.yaml film.mp4 --over cube.mass -o l.txt", ".png"),
    "value of nothing": ("simulate scene.yaml -o new.mp4 --set cube.weight=2", "cube.mass"),
    "value that is no number": ("simulate scene.yaml -o new.mp4 --set cube.mass=heavy", "path=value"),
    "value out of range": ("simulate scene.yaml -o new.mp4 --set cube.mass=-1", "cube.mass"),
    "values of the wrong shape": ("simulate scene.yaml -o new.mp4 --set cube.velocity=1,2", "velocity"),
    "video to write of unknown kind": ("simulate scene.yaml -o new.doc", ".mp4"),
    "odd pictures": ("simulate scene.yaml -o new.mp4 --size 31x31", "even"),
    "no such task": ("control gears", "walker"),
    "no such goal": ("control gear --goal posed", "place, rest"),
    "no such method": ("control gear --method magic", "random"),
    "no iterations": ("control gear --iterations 0", "iterations"),
    "report in a file": ("control gear -o scene.yaml/out", "folder"),
    "rows of another experiment": ("reproduce control --only gear --json film.npz", "film.npz"),
}


@pytest.mark.parametrize("what", BAD_COMMANDS)
def test_bad_commands(folder, capsys, what):
    words, remedy = BAD_COMMANDS[what]
    (folder / "empty.mp4").touch()
    content = (folder / "film.mp4").read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])
    (folder / "text.mp4").write_text("once upon a time\n" * 40)
    (folder / "film.doc").write_bytes(content)
    (folder / "nothing_in_it").mkdir()
    np.save(folder / "flat.npy", np.zeros((10, 32, 32)))
    refused(capsys, words.split(), remedy)


def refused(capsys, words, *remedies):
    """The command ends with exit code 2 and one paragraph that names the remedies."""
    code, _, err = run(capsys, *words)
    assert code == 2
    assert "Traceback" not in err
    told = err.partition("error: ")[2]
    assert "\n" not in told.strip()
    for remedy in remedies:
        assert remedy.lower() in told.lower(), told


def test_help_shows_examples(capsys):
    for command in ("simulate", "estimate", "landscape", "control"):
        code, out, _ = run(capsys, command, "--help")
        assert code == 0
        assert f"gradsim {command} " in " ".join(out.split())
    code, out, _ = run(capsys, "--help")
    assert "Exit codes" in out


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert __version__ in out
