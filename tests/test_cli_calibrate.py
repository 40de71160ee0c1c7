"""gradsim calibrate: its output, file and errors."""

import json

import numpy as np
import pytest
from tests.footage.board_videos import TrueLens, chessboard, picture, tour
from tests.footage.videos import save
from tests.test_cli import assert_rejected, run

from gradsim.footage.lens_files import load_lens

TRUE = TrueLens(size=(270, 480), fx=416, fy=415, cx=244, cy=131)


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    poses = tour(TRUE, 0.2, 0.125, 12, fill=0.52, tilt=0.6)
    images = [picture(TRUE, chessboard(9, 6, 0.025), pose, seed=k) for k, pose in enumerate(poses)]
    return save(tmp_path_factory.mktemp("boards") / "board.mp4", np.stack(images))


def test_calibrate_prints_and_writes_the_lens(video, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "calibrate", video, "--board", "9x6", "--square", 0.025, "-o", "new/lens.yaml")
    assert code == 0
    for word in ("focal length: fx 41", "field of view: 3", "distortion: k1 -0.1", "reprojection error: 0."):
        assert word in out
    assert "; 11 used" in out  # the edge of the picture cuts two boards, one of them too far in
    lens = load_lens(tmp_path / "new" / "lens.yaml")
    assert lens.fx == pytest.approx(TRUE.fx, rel=0.02)
    assert lens.size == TRUE.size


def test_calibrate_prints_json(video, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(
        capsys, "calibrate", video, "--board", "9x6", "--square", 0.025, "--frames", "0:8", "--json", "-"
    )
    assert code == 0
    content = json.loads(out)
    assert content["values"]["fx"] == load_lens("lens.yaml").fx
    assert sorted(content["used"] + content["rejected"]) == content["found"]


BAD_COMMANDS = {
    "wrong board": ("--board 8x5 --square 0.025", "chessboard with 8 x 5 inner corners", "9 x 6 inner corners"),
    "too few frames": ("--board 9x6 --square 0.025 --frames 0:3", "only 2 of 3", "needs 6"),
    "board misspelt": ("--board 9,6 --square 0.025", "--board", "9x6"),
    "square of no size": ("--board 9x6 --square 0", "board.square", "> 0"),
    "no square": ("--board 9x6", "--square"),
    "markers larger than squares": ("--board 9x6 --square 0.02 --charuco 0.03", "smaller than a square"),
    "unknown dictionary": ("--board 9x6 --square 0.02 --charuco 0.01 --dictionary 9X9", "must be one of 4X4"),
    "another file format": ("--board 9x6 --square 0.02 -o lens.txt", ".yaml"),
}


@pytest.mark.parametrize("what", BAD_COMMANDS)
def test_bad_commands(video, tmp_path, capsys, monkeypatch, what):
    monkeypatch.chdir(tmp_path)
    arguments, *remedies = BAD_COMMANDS[what]
    assert_rejected(capsys, ("calibrate", video, *arguments.split()), *remedies)
    assert not list(tmp_path.iterdir())
