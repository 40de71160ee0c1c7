"""The command line: its output, files and exit codes."""

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
from gradsim.cli import warm_up
from gradsim.cli.check import run_check
from gradsim.cli.inputs import default_size
from gradsim.datasets import compilation

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


def run(capsys, *arguments) -> tuple[int, str, str]:
    """Returns the exit code, standard output and standard error of a command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["gradsim", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
    output = capsys.readouterr()
    return stopped.value.code, output.out, output.err


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A scene file and a video of it, 32 x 32 pixels, mass 3.7 kg."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "scene.yaml").write_text(SCENE)
    scene = gs.load_scene(folder / "scene.yaml").with_values({"cube.mass": 3.7})
    trajectory = gs.simulate(scene, frames=10, fps=20, substeps=8, integrator=gs.Midpoint())
    gs.save_video(folder / "video.mp4", gs.render(scene, trajectory, (32, 32)), 20)
    gs.save_video(folder / "video.npz", gs.render(scene, trajectory, (32, 32)), 20)
    return folder


@pytest.fixture
def folder(recorded, tmp_path, monkeypatch):
    """A copy of them, as the working directory."""
    for file in recorded.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_check_prints_and_writes_results_and_exits_with_1_on_failure(tmp_path, capsys):
    good = expect_zero("a topic", "a length [m]", np.float64(1e-12), 1e-10)
    bad = expect_close("a topic", "a time [s]", 2.0, np.float64(2.1), 1e-3)
    file = tmp_path / "results.json"
    run_check(lambda progress: [good], "title", ("expected", "computed"), file)
    assert "a length [m]" in capsys.readouterr().out
    assert json.loads(file.read_text()) == [good.as_dict()]
    with pytest.raises(typer.Exit) as stopped:
        run_check(lambda progress: [good, bad], "title", ("expected", "computed"), None)
    assert stopped.value.exit_code == 1
    assert "FAIL" in capsys.readouterr().out


def test_simulate_writes_a_video(folder, capsys):
    arguments = ("simulate", "scene.yaml", "-o", "new/video.npz", "--size", "32x32", "--set", "cube.mass=3.7")
    code, out, err = run(capsys, *arguments, "--json", "-")
    assert code == 0
    assert json.loads(out)["values"] == {"cube.mass": 3.7}
    assert "rendering" in err
    video, known = gs.load_video("new/video.npz"), gs.load_video("video.npz")
    assert (len(video), video.fps) == (10, 20.0)
    torch.testing.assert_close(video.frames, known.frames, rtol=0, atol=1e-12)


def test_simulate_uses_guesses_frame_rate_and_precision(folder, capsys):
    options = ("--frames", "4", "--fps", "40", "--dtype", "float32", "--threads", torch.get_num_threads())
    code, out, _ = run(capsys, "simulate", "scene.yaml", "-o", "video.gif", "--size", "24", *options)
    assert code == 0
    assert "4 frames of 24 x 24 pixels at 40 fps, 4 substeps per frame" in out
    assert len(gs.load_video("video.gif")) == 4


def test_estimate_recovers_the_mass_and_writes_a_report(folder, capsys):
    code, out, err = run(capsys, "estimate", "scene.yaml", "video.mp4", "-o", "found", "--starts", "2", "--seed", "3")
    assert code == 0
    assert "identifiable" in out
    assert "2 of 2 starts agree" in out
    assert "mean squared residual" in err
    numbers = json.loads((folder / "found" / "fit.json").read_text())
    mass = numbers["parameters"]["cube.mass"]
    assert mass["low"] < 3.7 < mass["high"]
    assert mass["high"] - mass["low"] < 0.5
    assert numbers["interval method"].startswith("bootstrap")
    page = (folder / "found" / "report.html").read_text()
    assert "gradsim estimate scene.yaml video.mp4 -o found --starts 2 --seed 3" in page
    assert gs.load_scene("found/fitted.yaml").unknowns == {}


def test_estimate_selects_frames_downsamples_and_prints_only_json(folder, capsys):
    options = ("--frames", "0:8", "--size", "16x16", "--substeps", "8", "--json", "-")
    code, out, _ = run(capsys, "estimate", "scene.yaml", "video.npz", "-o", "found", *options)
    assert code == 0
    assert json.loads(out)["parameters"]["cube.mass"]["value"] == pytest.approx(3.7, rel=1e-6)


def test_interrupted_estimate_saves_the_best_values(folder, capsys, monkeypatch):
    def stop(bar, stage):
        stages.append(stage)
        if len(stages) == 3:
            raise KeyboardInterrupt

    stages = []
    monkeypatch.setattr("gradsim.cli.estimate.show_stage", stop)
    code, out, _ = run(capsys, "estimate", "scene.yaml", "video.mp4", "-o", "found")
    assert code == 130
    assert "interrupted" in out
    assert json.loads((folder / "found" / "fit.json").read_text())["status"] == "interrupted"
    assert "best values so far" in (folder / "found" / "report.html").read_text()


def test_interrupted_rendering_writes_no_video(folder, capsys, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["gradsim.render.render"], "render", stop)
    code, _, err = run(capsys, "simulate", "scene.yaml", "-o", "video2.mp4", "--size", "32")
    assert code == 130
    assert "Traceback" not in err
    assert not (folder / "video2.mp4").exists()


def test_landscape_over_one_and_two_unknowns(folder, capsys):
    arguments = ("landscape", "scene.yaml", "video.npz", "--over", "cube.mass", "--points", "40", "--json", "l.json")
    code, out, _ = run(capsys, *arguments, "-o", "one.png", "--size", "16")
    assert code == 0
    lowest = json.loads((folder / "l.json").read_text())["minimum"]["cube.mass"]
    assert lowest == pytest.approx(3.7, rel=0.05)
    assert (folder / "one.png").stat().st_size > 5000
    text = SCENE.replace("velocity: [1.0, 1.5, 0.0]", "velocity: {unknown: [1.0, 1.5, 0.0], low: -4.0, high: 4.0}")
    (folder / "two.yaml").write_text(text)
    arguments = (
        "landscape",
        "two.yaml",
        "video.npz",
        "--over",
        "cube.velocity[1]",
        "--over",
        "cube.mass",
        "--size",
        "16",
    )
    code, out, _ = run(capsys, *arguments, "--points", "6", "-o", "two.svg", "--dtype", "float32", "--json", "-")
    assert code == 0
    assert np.shape(json.loads(out)["mean square"]) == (6, 6)
    assert (folder / "two.svg").read_text().startswith("<?xml")


@pytest.fixture
def thrown(monkeypatch):
    """Replaces the gear's task, which takes minutes, by a throw."""
    monkeypatch.setattr("gradsim.experiments.control.gear.task", throw)


def test_control_reaches_a_goal_and_writes_a_report(thrown, folder, capsys):
    code, out, err = run(capsys, "control", "gear", "--seed", "2", "-o", "reached", "--json", "plan.json")
    assert code == 0
    assert "the end of throw 2" in out
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["first", "best", "last"]
    assert "2 of 13 iterates, loss" in err
    numbers = json.loads((folder / "plan.json").read_text())
    assert (numbers["task"], numbers["method"], numbers["seed"]) == ("gear", "image", 2)
    assert numbers["best"]["metric"] < 1e-12
    page = (folder / "reached" / "report.html").read_text()
    assert "Gear, seed 2" in page
    assert "gradsim control gear --seed 2 -o reached --json plan.json" in page
    velocity = gs.load_scene("reached/plan.yaml")["cube"].velocity
    assert np.allclose(velocity, [2.5, 2.2, 0.0], atol=1e-6)


def test_control_by_another_method_with_fewer_iterations(thrown, folder, capsys):
    code, out, _ = run(capsys, "control", "gear", "--method", "state", "--iterations", "1", "--json", "-")
    assert code == 0
    assert len(json.loads(out)["history"]) == 2
    assert "The goal is a state" in (folder / "out" / "report.html").read_text()


def test_interrupted_control_saves_the_best_iterate(thrown, folder, capsys, monkeypatch):
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
    assert "best iterate so far" in (folder / "reached" / "report.html").read_text()


@pytest.mark.parametrize(
    ("size", "expected"),
    [((128, 128), (128, 128)), ((512, 512), (128, 128)), ((1080, 1920), (144, 256)), ((640, 480), (128, 96))],
)
def test_default_sizes_are_divisible_by_8(size, expected):
    computed = default_size(size)
    assert min(computed) <= 160
    assert abs(computed[0] / computed[1] - size[0] / size[1]) < 0.02
    if size != (640, 480):
        assert computed == expected


def changed(old, new):
    assert old in SCENE
    return SCENE.replace(old, new)


# By problem: an invalid scene file, and a word of the remedy.
BAD_SCENES = {
    "empty scene": ("", "bodies"),
    "invalid YAML": ("bodies: [", "YAML"),
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
    assert_rejected(capsys, ("estimate", "bad.yaml", "video.mp4"), remedy, "bad.yaml")


BAD_COMMANDS = {
    "scene missing": ("estimate nothing.yaml video.mp4", "existing"),
    "scene misspelt": ("estimate bouncing_cub video.mp4", "did you mean 'bouncing_cube'"),
    "video missing": ("estimate scene.yaml nothing.mp4", "existing"),
    "video empty": ("estimate scene.yaml empty.mp4", "empty"),
    "video truncated": ("estimate scene.yaml truncated.mp4", "truncated.mp4"),
    "no video": ("estimate scene.yaml text.mp4", "text.mp4"),
    "unknown kind of video": ("estimate scene.yaml video.doc", ".mp4"),
    "folder without images": ("estimate scene.yaml empty_folder", "images"),
    "array of the wrong shape": ("estimate scene.yaml flat.npy", "[T, H, W, 3]"),
    "one frame": ("estimate scene.yaml video.mp4 --frames 3:4", "two frames"),
    "video shorter than requested": ("estimate scene.yaml video.mp4 --frames 0:100", "10 frames"),
    "frames misspelt": ("estimate scene.yaml video.mp4 --frames 1-5", "start:stop"),
    "size misspelt": ("estimate scene.yaml video.mp4 --size 12by12", "128x128"),
    "size of another shape": ("estimate scene.yaml video.mp4 --size 8x32", "aspect ratio"),
    "crop outside": ("estimate scene.yaml video.mp4 --crop 0,0,64,64", "inside"),
    "crop misspelt": ("estimate scene.yaml video.mp4 --crop 0,0", "top,left,height,width"),
    "rate not positive": ("estimate scene.yaml video.mp4 --fps 0", "fps"),
    "no starts": ("estimate scene.yaml video.mp4 --starts 0", "starts"),
    "folder is a file": ("estimate scene.yaml video.mp4 -o scene.yaml/out", "folder"),
    "unknown option": ("estimate scene.yaml video.mp4 --bogus", "--bogus"),
    "argument missing": ("estimate scene.yaml", "video"),
    "over what is no unknown": ("landscape scene.yaml video.mp4 --over cube.mas", "did you mean 'cube.mass'"),
    "over too many": ("landscape scene.yaml video.mp4 --over a --over b --over c", "one unknown or two"),
    "plot of unknown format": ("landscape scene.yaml video.mp4 --over cube.mass -o l.txt", ".png"),
    "value of nothing": ("simulate scene.yaml -o new.mp4 --set cube.weight=2", "cube.mass"),
    "value that is no number": ("simulate scene.yaml -o new.mp4 --set cube.mass=heavy", "path=value"),
    "value out of range": ("simulate scene.yaml -o new.mp4 --set cube.mass=-1", "cube.mass"),
    "values of the wrong shape": ("simulate scene.yaml -o new.mp4 --set cube.velocity=1,2", "velocity"),
    "video to write of unknown kind": ("simulate scene.yaml -o new.doc", ".mp4"),
    "odd frame size": ("simulate scene.yaml -o new.mp4 --size 31x31", "even"),
    "no such task": ("control gears", "walker"),
    "no such goal": ("control gear --goal posed", "place, rest"),
    "no such method": ("control gear --method magic", "random"),
    "no iterations": ("control gear --iterations 0", "iterations"),
    "report in a file": ("control gear -o scene.yaml/out", "folder"),
    "rows of another experiment": ("reproduce control --only gear --json video.npz", "video.npz"),
}


@pytest.mark.parametrize("what", BAD_COMMANDS)
def test_bad_commands(folder, capsys, what):
    arguments, remedy = BAD_COMMANDS[what]
    (folder / "empty.mp4").touch()
    content = (folder / "video.mp4").read_bytes()
    (folder / "truncated.mp4").write_bytes(content[: len(content) // 2])
    (folder / "text.mp4").write_text("once upon a time\n" * 40)
    (folder / "video.doc").write_bytes(content)
    (folder / "empty_folder").mkdir()
    np.save(folder / "flat.npy", np.zeros((10, 32, 32)))
    assert_rejected(capsys, arguments.split(), remedy)


def assert_rejected(capsys, arguments, *remedies):
    """Asserts that the command exits with code 2 and prints one paragraph that names the remedies."""
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "Traceback" not in err
    message = err.partition("error: ")[2]
    assert "\n" not in message.strip()
    for remedy in remedies:
        assert remedy.lower() in message.lower(), message


HELP = [
    *("simulate", "estimate", "identify", "landscape", "control", "calibrate", "prepare", "demo", "warm-up"),
    *(f"check {name}" for name in ("gradients", "physics", "render")),
    *(
        f"reproduce {name}"
        for name in (
            "paper",
            "mass",
            "baselines",
            "contact",
            "deformable",
            "pendula",
            "coverage",
            "control",
            "closed-loop",
        )
    ),
    *("dataset rigid", "dataset deformable"),
]


def test_help_shows_examples(capsys):
    for command in HELP:
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0
        assert f"gradsim {command} " in " ".join(out.split())
    code, out, _ = run(capsys, "--help")
    assert "Exit codes" in out


def test_warm_up_compiles_every_kind_of_kernel(capsys, monkeypatch):
    used = set()

    def compile_kernels(name, dtype, _compile=compilation.compile_kernels):
        used.add((name, dtype))
        _compile(name, dtype)

    monkeypatch.setattr(warm_up, "compile_kernels", compile_kernels)
    code, out, _ = run(capsys, "warm-up", "--jobs", "1")
    assert code == 0
    assert f"{len(used)} kinds" in out
    assert {name.partition(",")[0] for name, _ in used} == {"renderer", *compilation.SYSTEMS}
    assert {dtype for _, dtype in used} == {torch.float64}


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert __version__ in out
