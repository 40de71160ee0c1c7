"""The commands in docs/estimation.md run, and name every option of gradsim estimate."""

import re
import shlex
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from tests.test_cli import SCENE, run

import gradsim as gs

PAGE = Path(__file__).parents[1] / "docs" / "estimation.md"
SECTION = PAGE.read_text().split("### Options of `gradsim estimate`")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^    gradsim (.*)$", SECTION, re.MULTILINE)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the commands name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "scene.yaml").write_text(SCENE)
    (folder / "throws.yaml").write_text("scene: scene.yaml\ntrials: [{video: throw.npz}, {video: second.npz}]\n")
    scene = gs.load_scene(folder / "scene.yaml").with_values({"cube.mass": 3.7})
    motion = gs.simulate(scene, frames=10, fps=20, substeps=16, integrator=gs.RungeKutta4())
    video = gs.render(scene, motion, (32, 32))
    for seed, name in enumerate(("throw.npz", "second.npz")):
        noise = torch.randn(video.shape, generator=torch.Generator().manual_seed(seed), dtype=video.dtype)
        gs.save_video(folder / name, (video + 0.01 * noise).clamp(0.0, 1.0), 20)
    matplotlib.image.imsave(folder / "mask.png", np.ones((32, 32)), cmap="gray", vmin=0.0, vmax=1.0)
    matplotlib.image.imsave(folder / "plate.png", np.ones((32, 32, 3)))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_runs(files, monkeypatch, capsys, command):
    monkeypatch.chdir(files)
    code, out, err = run(capsys, *shlex.split(command))
    assert code == 0, err
    assert "cube.mass" in out


def test_every_option_has_an_example_and_an_explanation(capsys):
    _, out, _ = run(capsys, "estimate", "--help")
    options = set(re.findall(r"--[a-z]+", out.split("Options")[1])) - {"--help"}
    many = {"--many", "--jobs", "--ray"}  # a page of its own has their examples
    assert many <= options
    assert all(option in (PAGE.parent / "dataset.md").read_text() for option in many)
    options -= many
    assert len(options) > 20
    shown = " ".join(COMMANDS).replace("-o ", "--out ")
    assert sorted(option for option in options if option not in shown) == []
    assert sorted(option for option in options if f"`{option}`" not in SECTION) == []
