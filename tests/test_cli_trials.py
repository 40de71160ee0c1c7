"""The command line: manifests of trials, options of estimates, checkpoints, and gradsim identify."""

import json

import matplotlib.image
import numpy as np
import pytest
import torch
from tests.test_cli import SCENE, assert_rejected, run

import gradsim as gs
from gradsim.fit.nuisances.nuisance import GROUPS

TOSS = """\
bodies:
  - rigid:
      name: cube
      mesh: {box: 0.7}
      mass: {unknown: 5.0, low: 1.0, high: 20.0}
      position: [-0.8, -0.3, 0.0]
      velocity: {unknown: [0.8, 1.2, 0.0], low: -4.0, high: 4.0, per_trial: true}
      pushes:
        - {impulse: [4.0, 0.0, -1.0], point: [0.0, 0.1, 0.0]}
camera: {eye: [0.0, 0.0, 5.0], target: [0.0, 0.0, 0.0], fov: 40.0}
time: {frames: 10, fps: 20, substeps: 16}
"""
VELOCITIES = {"a": (1.0, 1.5, 0.0), "b": (0.5, 2.0, 0.3)}
MASS = 3.7


def simulated(velocity):
    scene = gs.load_scene("toss.yaml").with_values({"cube.mass": MASS, "cube.velocity": velocity})
    return scene, gs.simulate(scene, frames=10, fps=20, substeps=32, integrator=gs.RungeKutta4())


def write_table(file, times, cube):
    """Writes a table of times [s], positions and rotations."""
    names = [f"cube.position.{axis}" for axis in "xyz"] + [f"cube.rotation[{k}]" for k in range(4)]
    table = np.concatenate([times[:, None], cube.position, cube.rotation], 1)
    np.savetxt(file, table, fmt="%.10g", delimiter=",", header=",".join(["time", *names]), comments="")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two tosses as videos of 32 x 32 pixels and as tables of states, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toss.yaml").write_text(TOSS)
    (tmp_path / "scene.yaml").write_text(SCENE)
    for name, velocity in VELOCITIES.items():
        scene, motion = simulated(velocity)
        gs.save_video(f"{name}.npz", gs.render(scene, motion, (32, 32)), 20)
        cube = motion["cube"]
        np.savez(f"{name}_states.npz", **{"cube.position": cube.position, "cube.rotation": cube.rotation})
        write_table(f"{name}.csv", 100.0 + np.arange(10) / 20, cube)
    return tmp_path


def parameters(folder) -> dict:
    return json.loads((folder / "out" / "fit.json").read_text())["parameters"]


def test_videos_of_one_scene_with_their_own_guesses(folder, capsys):
    (folder / "tosses.yaml").write_text(
        "scene: toss.yaml\n"
        "trials:\n"
        "  - {video: a.npz, name: a}\n"
        "  - {video: b.npz, name: b, frames: '0:9', set: {cube.velocity: [0.4, 2.2, 0.2]}}\n"
    )
    code, *_ = run(capsys, "estimate", "--trials", "tosses.yaml", "--corrections", "0", "--json", "fit.json")
    assert code == 0
    found = parameters(folder)
    assert found["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)
    for name, velocity in VELOCITIES.items():
        for k in range(3):
            assert found[f"cube.velocity@{name}[{k}]"]["value"] == pytest.approx(velocity[k], abs=0.05)
    assert json.loads((folder / "fit.json").read_text())["parameters"] == found
    page = (folder / "out" / "report.html").read_text()
    assert "tosses.yaml: 2 trials of 9 to 10 frames" in page


def test_motion_capture_as_states_from_csv_and_npz(folder, capsys):
    rows = ["scene,states,name,fps,cube.velocity", "toss.yaml,a.csv,a,,1 1 0", "toss.yaml,b.csv,b,20,0.4 2 0"]
    (folder / "tosses.csv").write_text("\n".join(rows) + "\n")
    code, *_ = run(capsys, "estimate", "--trials", "tosses.csv", "--corrections", "0")
    assert code == 0
    assert parameters(folder)["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)
    (folder / "tosses.yaml").write_text(
        "scene: toss.yaml\nfps: 20\nnoise: {position: 0.001, rotation: 0.01}\n"
        "trials: [{states: a_states.npz}, {states: b_states.npz}]\n"
    )
    code, *_ = run(capsys, "estimate", "--trials", "tosses.yaml", "--corrections", "0")
    assert code == 0
    assert parameters(folder)["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)


def test_tracks_of_points_in_the_image_and_in_space(folder, capsys):
    _, motion = simulated(VELOCITIES["a"])
    center, corner = motion["cube"].center_of_mass, motion["cube"].vertices[:, 3]
    names = [f"cube.{point}.{axis}" for point in ("center", "vertex3") for axis in "xyz"]
    table = torch.cat([center, corner], 1).numpy()
    np.savetxt("space.csv", table, delimiter=",", header=",".join(names), comments="")
    focal, depth = 16 / np.tan(np.deg2rad(20.0)), 5.0 - torch.stack([center, corner])[..., 2]
    points = torch.stack([center, corner])
    x, y = 16 + focal * points[..., 0] / depth, 16 - focal * points[..., 1] / depth
    pixels = torch.stack([x[0], y[0], x[1], y[1]], 1).numpy()
    header = ",".join(name for name in names if not name.endswith("z"))
    np.savetxt("image.csv", pixels, delimiter=",", header=header, comments="")
    for entry in ("{tracks: space.csv, noise: 0.001}", "{tracks: image.csv, size: 32x32, noise: 0.1}"):
        (folder / "one.yaml").write_text(f"scene: toss.yaml\nfps: 20\ntrials: [{entry}]\n")
        code, *_ = run(capsys, "estimate", "--trials", "one.yaml", "--corrections", "0")
        assert code == 0
        assert parameters(folder)["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)


def test_irregular_times_of_a_table(folder, capsys):
    scene, _ = simulated(VELOCITIES["a"])
    motion = gs.simulate(scene, frames=37, fps=80, substeps=8, integrator=gs.RungeKutta4())
    rows = [0, 3, 8, 12, 17, 22, 28, 32, 36]
    write_table("t.csv", np.array(rows) / 80, motion.sample(torch.tensor(rows) / 80)["cube"])
    (folder / "one.yaml").write_text(
        "scene: toss.yaml\nnoise: {position: 0.001, rotation: 0.01}\ntrials: [{states: t.csv}]\n"
    )
    code, *_ = run(capsys, "estimate", "--trials", "one.yaml", "--corrections", "0")
    assert code == 0
    assert parameters(folder)["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)


def test_options_of_an_estimate_are_passed_on(folder, capsys, monkeypatch):
    mask = np.ones((32, 32))
    mask[:, :8] = 0.0
    matplotlib.image.imsave("mask.png", mask, cmap="gray", vmin=0.0, vmax=1.0)
    given = {}

    def estimate(trials, **options):
        given.update(options, trial=trials[0])
        raise gs.InvalidInput("stop", "here", "after the options")

    monkeypatch.setattr("gradsim.fit.estimate.estimate", estimate)
    options = "--mask mask.png --robust 0.1 --brightness --offset 0.01 --shutter 0.1 --noise 0.02 --size 16x16"
    more = "--roughly camera,start --corrections 2 --starts 3 --checkpoint fit.pt"
    run(capsys, "estimate", "scene.yaml", "a.npz", *options.split(), *more.split())
    assert given["mask"].shape == (16, 16)
    assert given["mask"][:, :4].max() == 0.0
    assert given["mask"][:, 4:].min() == 1.0
    assert (given["robust"], given["brightness"], given["noise"]) == (0.1, True, 0.02)
    trial = given["trial"]
    assert (trial.exposure, trial.readout) == (pytest.approx(0.005), 0.0)
    assert (float(trial.offset.low), float(trial.offset.high)) == (-0.01, 0.01)
    assert (given["roughly"], given["corrections"], given["starts"]) == (("camera", "start"), 2, 3)
    assert str(given["checkpoint"]) == "fit.pt"


def test_several_videos_of_one_scene(folder, capsys):
    """The mass is shared; the velocity, which the scene file marks per_trial, belongs to each video."""
    code, *_ = run(capsys, "estimate", "toss.yaml", "a.npz", "--trial", "b.npz", "--corrections", "0")
    assert code == 0
    found = parameters(folder)
    assert found["cube.mass"]["value"] == pytest.approx(MASS, rel=0.02)
    for name, velocity in VELOCITIES.items():
        for k in range(3):
            assert found[f"cube.velocity@{name}[{k}]"]["value"] == pytest.approx(velocity[k], abs=0.05)
    assert "a.npz, b.npz: 2 trials of 10 to 10 frames" in (folder / "out" / "report.html").read_text()


def loaded(monkeypatch, capsys, *arguments):
    """Returns the trials that a command would estimate."""
    found = []

    def estimate(trials, **options):
        found.extend(trials)
        raise gs.InvalidInput("stop", "here", "after the options")

    with monkeypatch.context() as patch:
        patch.setattr("gradsim.fit.estimate.estimate", estimate)
        run(capsys, "estimate", *arguments)
    return found


def test_times_of_the_shutter(folder, capsys, monkeypatch):
    """Fractions are of a frame, of 50 ms here."""
    for text, seconds in (("0.5", 0.025), ("4ms", 0.004), ("1/250", 0.004), ("1/250s", 0.004), ("0.01 s", 0.01)):
        (trial,) = loaded(monkeypatch, capsys, "scene.yaml", "a.npz", "--shutter", text, "--readout", text)
        assert (trial.exposure, trial.readout) == (pytest.approx(seconds), pytest.approx(seconds))
    (trial,) = loaded(monkeypatch, capsys, "scene.yaml", "a.npz", "--shutter", "unknown", "--readout", "unknown")
    for unknown in (trial.exposure, trial.readout):
        assert (float(unknown.low), float(unknown.high)) == (0.0, 0.05)
    for text, remedy in (("fast", "4ms"), ("2", "one frame"), ("1/0", "4ms")):
        assert_rejected(capsys, ("estimate", "scene.yaml", "a.npz", "--shutter", text), remedy, "--shutter")
    assert_rejected(capsys, ("estimate", "scene.yaml", "a.npz", "--readout", "fast"), "4ms", "--readout")


def test_backgrounds_are_cropped_and_downsampled_as_the_video(folder, capsys, monkeypatch):
    plate = np.random.default_rng(0).uniform(0.0, 1.0, (32, 32, 3))
    matplotlib.image.imsave("plate.png", plate)
    np.save("plate.npy", plate)
    options = ("--crop", "0,0,16,16", "--size", "8x8")
    expected = plate[:16, :16].reshape(8, 2, 8, 2, 3).mean((1, 3))
    for name in ("plate.png", "plate.npy"):
        (trial,) = loaded(monkeypatch, capsys, "scene.yaml", "a.npz", "--background", name, *options)
        np.testing.assert_allclose(trial.scene.background, expected, atol=1 / 255)
    (trial,) = loaded(monkeypatch, capsys, "scene.yaml", "a.npz", "--background", "auto")
    np.testing.assert_allclose(trial.scene.background, gs.load_video("a.npz").frames.median(0).values)
    np.save("small.npy", plate[:8])
    assert_rejected(capsys, ("estimate", "scene.yaml", "a.npz", "--background", "small.npy"), "as large as", "8 x 32")
    assert_rejected(capsys, ("estimate", "scene.yaml", "a.npz", "--background", "no.png"), "auto", "no.png")


def test_shutter_readout_and_background_of_a_manifest(folder, capsys, monkeypatch):
    (folder / "one.yaml").write_text(
        "scene: scene.yaml\nbackground: auto\ntrials: [{video: a.npz, shutter: 0.5, readout: 10ms}]\n"
    )
    (trial,) = loaded(monkeypatch, capsys, "--trials", "one.yaml")
    assert (trial.exposure, trial.readout) == (0.025, 0.01)
    assert trial.scene.background.shape == (32, 32, 3)
    (folder / "two.yaml").write_text("scene: scene.yaml\ntrials: [{video: a.npz, shutter: 0.5, exposure: 0.01}]\n")
    assert_rejected(capsys, ("estimate", "--trials", "two.yaml"), "not both", "shutter")
    assert_rejected(capsys, ("estimate", "--trials", "one.yaml", "--shutter", "0.5"), "manifest", "--shutter")


def test_the_help_names_the_words_that_exist(capsys):
    _, out, _ = run(capsys, "estimate", "--help")
    text = " ".join(out.replace("│", " ").split())
    for word in GROUPS:
        assert word in text
    for word in ("material", "air", "push"):
        assert f" {word}," not in text


def test_an_interrupted_estimate_resumes_from_its_checkpoint(folder, capsys, monkeypatch):
    arguments = ("estimate", "scene.yaml", "a.npz", "--checkpoint", "fit.pt", "--corrections", "0")
    with monkeypatch.context() as patch:
        stages = []

        def stop(bar, stage):
            stages.append(stage)
            if len(stages) == 3:
                raise KeyboardInterrupt

        patch.setattr("gradsim.cli.estimate.show_stage", stop)
        code, *_ = run(capsys, *arguments)
        assert code == 130
    assert (folder / "fit.pt").exists()
    code, *_ = run(capsys, *arguments)
    assert code == 0
    assert parameters(folder)["cube.mass"]["value"] == pytest.approx(MASS, rel=0.01)
    assert_rejected(capsys, (*arguments, "--seed", "3"), "another scene", "fit.pt")


BAD_MANIFESTS = {
    "no trials": ("scene: toss.yaml\n", "trials:"),
    "no scene": ("trials: [{video: a.npz}]\n", "scene file for each trial"),
    "no observation": ("scene: toss.yaml\ntrials: [{name: a}]\n", "video, states, tracks"),
    "unknown key": ("scene: toss.yaml\ntrials: [{vidoe: a.npz}]\n", "did you mean 'video'"),
    "no such file": ("scene: toss.yaml\ntrials: [{states: nothing.csv}]\n", "existing .csv"),
    "no such path": ("scene: toss.yaml\ntrials: [{video: a.npz, set: {cube.weight: 1.0}}]\n", "cube.mass"),
    "guess beyond bounds": (
        "scene: toss.yaml\ntrials: [{video: a.npz, set: {cube.mass: 99.0}}]\n",
        "between low and high",
    ),
    "noise of a video": ("scene: toss.yaml\ntrials: [{video: a.npz, noise: 0.1}]\n", "--noise"),
    "other guesses of a shared unknown": (
        "scene: toss.yaml\ntrials: [{video: a.npz}, {video: b.npz, set: {cube.mass: 4.0}}]\n",
        "declared equally",
    ),
    "two trials of one name": (
        "scene: toss.yaml\ntrials: [{video: a.npz, name: x}, {video: b.npz, name: x}]\n",
        "name of its own",
    ),
    "size missing": ("scene: toss.yaml\ntrials: [{tracks: image.csv}]\n", "size"),
    "point misspelt": ("scene: toss.yaml\ntrials: [{tracks: a.csv}]\n", "cube.vertex3.x"),
    "component missing": ("scene: toss.yaml\ntrials: [{states: partial.csv}]\n", "all components"),
    "text in a table": ("scene: toss.yaml\ntrials: [{states: words.csv}]\n", "must be numbers"),
}


@pytest.mark.parametrize("what", BAD_MANIFESTS)
def test_bad_manifests(folder, capsys, what):
    text, remedy = BAD_MANIFESTS[what]
    (folder / "bad.yaml").write_text(text)
    (folder / "partial.csv").write_text("cube.position.y\n1\n2\n")
    (folder / "words.csv").write_text("cube.position.x\nfar\n")
    (folder / "image.csv").write_text("cube.center.x,cube.center.y\n1,2\n1,2\n")
    assert_rejected(capsys, ("estimate", "--trials", "bad.yaml"), remedy)


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        ("estimate --trials none.yaml", "existing .yaml or .csv"),
        ("estimate toss.yaml --trials tosses.yaml", "does not apply to --trials"),
        ("estimate --trials tosses.yaml --crop 0,0,8,8", "in the manifest"),
        ("estimate scene.yaml a.npz --mask none.png", "existing .png"),
        ("estimate scene.yaml a.npz --roughly camra", "did you mean 'camera'"),
        ("identify scene.yaml --frames 1", "frames"),
        ("identify scene.yaml --roughly camra", "did you mean 'camera'"),
        ("identify scene.yaml toss.yaml", "must have the unknowns"),
        ("identify scene.yaml --design cube.mass", "nothing is left"),
    ],
)
def test_bad_arguments(folder, capsys, arguments, remedy):
    (folder / "tosses.yaml").write_text("scene: toss.yaml\ntrials: [{video: a.npz}]\n")
    assert_rejected(capsys, arguments.split(), remedy)


def test_identify_prints_verdicts_and_ranks_scenes(folder, capsys):
    free = SCENE.replace("impulse: [4.0, 0.0, -1.0]", "impulse: [0.0, 0.0, 0.0]")
    (folder / "free.yaml").write_text(free)
    options = ("--size", "24x24", "--frames", "8", "--samples", "2", "--json", "expected.json")
    code, out, _ = run(capsys, "identify", "free.yaml", "scene.yaml", *options)
    assert code == 0
    assert "not identifiable" in out
    assert "gravity accelerates all masses equally" in out
    numbers = json.loads((folder / "expected.json").read_text())
    assert list(numbers["candidates"]) == ["scene.yaml", "as given"]
    mass = numbers["candidates"]["scene.yaml"]["parameters"]["cube.mass"]
    assert mass["identifiability"] == "identifiable"
    assert mass["values"][0] == pytest.approx(5.0)


def test_identify_finds_a_design(folder, capsys):
    text = SCENE.replace("impulse: [4.0, 0.0, -1.0]", "impulse: [{unknown: 1.0, low: -4.0, high: 4.0}, 0.0, 0.0]")
    (folder / "design.yaml").write_text(text)
    options = ("--size", "24x24", "--frames", "8", "--samples", "1", "--json", "design.json")
    code, out, _ = run(capsys, "identify", "design.yaml", "--design", "cube.pushes[0].impulse[0]", *options)
    assert code == 0
    assert "typical half width" in out
    numbers = json.loads((folder / "design.json").read_text())
    assert abs(numbers["design"]["cube.pushes[0].impulse[0]"]) > 2.0
    assert numbers["after"]["score"] < 0.6 * numbers["before"]["score"]
