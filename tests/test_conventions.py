"""What users of other packages expect: logging, schema, completion, new scenes, batches."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.test_cli import run

import gradsim as gs
from gradsim.cli.app import app
from gradsim.cli.new import BODIES, scene_text, schema_file

ROOT = Path(__file__).parents[1]


def pushed(mass):
    push = gs.Push(impulse=(1.0, 0.0, 0.0))
    scene = gs.Scene([gs.Rigid("cube", gs.meshes.box(0.4), mass=mass, pushes=[push])])
    return gs.simulate(scene, frames=3, substeps=4)["cube"].position[..., -1, 0]


def test_log_is_silent_and_named_gradsim(caplog):
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("gradsim").handlers)
    with caplog.at_level(logging.DEBUG, logger="gradsim"):
        pushed(1.0)
    assert caplog.record_tuples == [("gradsim.simulate", logging.DEBUG, "simulated 3 frames of 4 steps, batch ()")]


def test_schema_file_is_that_of_the_scene_objects():
    # In a process of its own: other tests declare forces, which belong to the schema of this one.
    program = "import runpy; print(runpy.run_path('tools/make_schema.py')['schema_text'](), end='')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert schema_file().read_text() == done.stdout, "run tools/make_schema.py"
    assert json.loads(schema_file().read_text())["properties"].keys() >= {"bodies", "ground", "camera", "time"}


def test_scenes_of_the_package_name_their_schema():
    for file in (Path(gs.__file__).parent / "scenes").glob("*.yaml"):
        first = file.read_text().splitlines()[0]
        assert first == "# yaml-language-server: $schema=scene.schema.json"


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("ground", [False, True])
def test_new_scenes_can_be_read(body, ground, tmp_path):
    file = tmp_path / "scene.yaml"
    file.write_text(scene_text("scene.yaml", body, 0.2, ground=ground, fps=60.0, frames=90))
    loaded = gs.load_scene_file(file)
    assert (loaded.time.fps, loaded.time.frames) == (60.0, 90)
    assert list(loaded.scene.unknowns) == ["object.velocity"]
    assert (loaded.scene.ground is not None) == ground


def test_new_writes_a_file_and_keeps_existing_ones(capsys, tmp_path):
    file = tmp_path / "scene.yaml"
    options = ("--body", "ball", "--size", "0.2", "--ground", "--fps", "60", "--frames", "90")
    assert run(capsys, "new", file, *options)[0] == 0
    assert float(gs.load_scene(file)["object"].radius) == pytest.approx(0.1)
    code, _, error = run(capsys, "new", file, *options)
    assert code == 2
    assert "exists already" in error


def test_new_asks_and_takes_an_empty_answer_as_the_default(tmp_path):
    from typer.testing import CliRunner

    file = tmp_path / "scene.yaml"
    result = CliRunner().invoke(app, ["new", str(file)], input="\n" * 5)
    assert result.exit_code == 0
    assert "[ball]" in result.output
    assert float(gs.load_scene(file)["object"].radius) == pytest.approx(0.05)


def test_shells_complete_commands():
    from click.shell_completion import ShellComplete
    from typer.main import get_command

    complete = ShellComplete(get_command(app), {}, "gradsim", "_GRADSIM_COMPLETE")
    assert [item.value for item in complete.get_completions([], "si")] == ["simulate"]
    assert "--install-completion" in [parameter.opts[0] for parameter in get_command(app).params]


def test_a_batch_equals_a_loop():
    mass = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    loop = torch.stack([pushed(one) for one in mass])
    assert torch.allclose(pushed(mass), loop, rtol=0, atol=1e-12)
