"""Odd options, names of files and manifests on the command line: one line that says what is wrong, or an answer."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import torch
import yaml
from tests.test_cli import SCENE, run

import gradsim as gs

SIZE = (8, 8)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A scene file, a video that is none of it, and files that are not what they are called, as the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scene.yaml").write_text(SCENE)
    gs.save_video("video.npz", torch.full((3, *SIZE, 3), 0.5), fps=20.0)
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "text.npy").write_text("not an array")
    (tmp_path / "folder.yaml").mkdir()
    np.save("words.npy", np.array([["a", "b"]]))
    np.save("bytes.npy", np.full((*SIZE, 3), 200))  # 8-bit values with 64 bits
    np.save("nan.npy", np.full((*SIZE, 3), np.nan))
    (tmp_path / "bytes.csv").write_bytes(b"video,scene\n\xff\xfe,scene.yaml\n")
    (tmp_path / "cells.csv").write_text("video,scene\nvideo.npz,scene.yaml,more\n")
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "large.png").write_bytes(large_picture(60_000))
    for name in ("pipe.mp4", "pipe.yaml", "pipe.json"):
        os.mkfifo(tmp_path / name)
    return tmp_path


def large_picture(side: int) -> bytes:
    """A small file of a large black picture, cut off after its first rows."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side // 8 + 1) * 100))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


DIGITS = "9" * 5000
ESTIMATE, SIMULATE = "estimate scene.yaml video.npz", "simulate scene.yaml -o out.npz"
REFUSED = {
    "size of many digits": (f"{SIMULATE} --size {DIGITS}", "--size"),
    "frames of many digits": (f"{ESTIMATE} --frames 0:{DIGITS}", "--frames"),
    "crop of many digits": (f"{ESTIMATE} --crop 0,0,8,{DIGITS}", "--crop"),
    "seed beyond 64 bits": (f"{ESTIMATE} --seed {10**20}", "--seed"),
    "mask that is no picture": (f"{ESTIMATE} --mask text.png", "text.png"),
    "mask that is no array": (f"{ESTIMATE} --mask text.npy", "text.npy"),
    "mask of words": (f"{ESTIMATE} --mask words.npy", "words.npy"),
    "background of bytes in 64 bits": (f"{ESTIMATE} --background bytes.npy", "values from 200 to 200"),
    "background of NaN": (f"{ESTIMATE} --background nan.npy", "values from nan to nan"),
    "background that is no picture": (f"{ESTIMATE} --background text.png", "text.png"),
    "video that is a pipe": ("estimate scene.yaml pipe.mp4", "a device or pipe"),
    "scene that is a pipe": ("simulate pipe.yaml -o out.npz", "a device or pipe"),
    "scene that is a folder": ("simulate folder.yaml -o out.npz", "a folder"),
    "output that is a pipe": ("simulate scene.yaml --frames 2 --size 8 -o pipe.mp4", "a device or pipe"),
    "numbers into a pipe": ("simulate scene.yaml --frames 2 --size 8 -o out.npz --json pipe.json", "a device or pipe"),
    "checkpoint in no folder": (f"{ESTIMATE} --checkpoint none/search.pt", "needs an existing folder"),
    "checkpoint that is a pipe": (f"{ESTIMATE} --checkpoint pipe.mp4", "must be a checkpoint"),
    "manifest that is no text": ("estimate --trials bytes.csv", "bytes.csv"),
    "manifest with a long row": ("estimate --trials cells.csv", "more cells"),
    "object in frame NaN": ("prepare video.mp4 --object 1,2,nan", "--object"),
    "scale of NaN": ("prepare video.mp4 --scale nan,0,0,100,1", "scale"),
    "fit of another kind": ("view scene.yaml --fit fit.json", "fit.json"),
    "many samples": (f"identify scene.yaml --samples {10**9}", "samples"),
    "frames beyond memory": (f"identify scene.yaml --frames {10**9}", "would take"),
    "frames larger than memory": ("identify scene.yaml --size 100000", "would take"),
    "video beyond memory": (f"{SIMULATE} --frames {10**6} --size 1000", "would take"),
    "many points": (f"landscape scene.yaml video.npz --over cube.mass --points {10**9}", "points"),
    "many videos": (f"dataset rigid -o out --videos {10**18}", "videos"),
    "many starts": (f"{ESTIMATE} --starts {10**12}", "starts"),
    "many threads": (f"{ESTIMATE} --threads {10**5}", "--threads"),
    "threads beyond 64 bits": (f"{ESTIMATE} --threads {2**63}", "--threads"),
    "two numbers for a component": (f"{SIMULATE} --set cube.velocity[0]=1,2", "one number"),
    "many processes": (f"estimate --many cells.csv --jobs {10**9}", "--jobs"),
    "two numbers for a mass": (f"{SIMULATE} --set cube.mass=1,2", "one number"),
    "mask of many pixels": (f"{ESTIMATE} --mask large.png", "large.png"),
    "picture of one pixel": ("simulate scene.yaml -o out.mp4 --frames 2 --size 1", "such as 2 x 2"),
    "module that is no Python": ("--import broken.py simulate scene.yaml -o out.npz", "broken.py"),
    "rate NaN": ("new made.yaml --body ball --size 0.2 --ground --fps nan --frames 20", "fps"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_command_is_refused_in_one_line(folder, capsys, case):
    (folder / "fit.json").write_text('{"parameters": [1]}')
    command, words = REFUSED[case]
    before = sorted(path.name for path in folder.iterdir() if path.name not in ("out", "out.npz"))
    code, _, errors = run(capsys, *command.split())
    assert code == 2, errors
    assert words in errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in folder.iterdir() if path.name not in ("out", "out.npz")) == before


TRIALS = {
    "video that is a number": {"video": 5},
    "scene that is a list": {"video": "video.npz", "scene": ["scene.yaml"]},
    "frames that are numbers": {"video": "video.npz", "frames": [0, 5]},
    "crop that is a list": {"video": "video.npz", "crop": [0, 0, 8, 8]},
    "name that is a number": {"video": "video.npz", "name": 7},
    "values that are a list": {"video": "video.npz", "set": [1.0]},
    "value that is a text": {"video": "video.npz", "set": {"cube.mass": "heavy"}},
    "key that is a number": {"video": "video.npz", 3: 4},
}


@pytest.mark.parametrize("option", ["--trials", "--many"])
@pytest.mark.parametrize("case", TRIALS)
def test_a_manifest_is_refused_by_name(folder, capsys, case, option):
    (folder / "trials.yaml").write_text(yaml.safe_dump({"scene": "scene.yaml", "trials": [TRIALS[case]]}))
    code, _, errors = run(capsys, "estimate", option, "trials.yaml", "-o", "fits")
    assert "trials[0]" in errors
    assert code == (1 if option == "--many" and case == "value that is a text" else 2)


@pytest.mark.parametrize("name", ["[/bold].npz", "[red]x.npz", "漢字 :car: é.npz", "tab\tand\nline.npz", "\udcff.npz"])
def test_any_name_of_a_file(folder, capsys, name):
    code, output, errors = run(capsys, "simulate", "scene.yaml", "--frames", "2", "--size", "8", "-o", name)
    assert code == 0, errors
    assert len(gs.load_video(folder / name)) == 2
    assert name in output or not name.isprintable()


def test_a_file_behind_a_link_is_replaced(folder, capsys):
    (folder / "disk").mkdir()
    (folder / "link.npz").symlink_to(folder / "disk" / "real")
    for frames in ("2", "3"):
        assert run(capsys, "simulate", "scene.yaml", "--frames", frames, "--size", "8", "-o", "link.npz")[0] == 0
        assert (folder / "link.npz").is_symlink()
        assert len(gs.load_video("link.npz")) == int(frames)
    assert [path.name for path in (folder / "disk").iterdir()] == ["real"]


def test_a_device_stays_what_it_is(folder, capsys):
    code, _, errors = run(
        capsys, "simulate", "scene.yaml", "--frames", "2", "--size", "8", "-o", "o.npz", "--json", "null"
    )
    assert code == 0, errors  # the name of a file
    with pytest.raises(gs.InvalidInput, match="a device or pipe"):
        gs.save_video(folder / "pipe.mp4", torch.zeros(2, 16, 16, 3), fps=10.0)
    assert (folder / "pipe.mp4").is_fifo()


def test_an_output_that_nobody_reads_ends_the_command():
    ends = os.pipe()
    os.close(ends[0])
    program = "from gradsim.cli import main; main()"
    command = [sys.executable, "-c", program, "--version"]
    done = subprocess.run(command, stdout=ends[1], stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    os.close(ends[1])
    assert (done.returncode, done.stderr) == (141, "")
