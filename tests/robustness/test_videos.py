"""Odd, hostile and damaged video files: each is read, or refused by name in little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch

import gradsim as gs
from gradsim.scene.errors import OutOfMemory, VideoFileError

FRAMES = torch.linspace(0.0, 1.0, 12 * 32 * 32 * 3, dtype=torch.float64).reshape(12, 32, 32, 3)


@pytest.fixture(scope="module")
def movie(tmp_path_factory):
    file = tmp_path_factory.mktemp("videos") / "video.mp4"
    gs.save_video(file, FRAMES, 30.0)
    return file


def test_a_name_with_a_colon_is_a_file(movie, tmp_path):
    copy = tmp_path / "at 10:30:00.mp4"
    copy.write_bytes(movie.read_bytes())
    assert len(gs.load_video(copy)) == 12


@pytest.mark.parametrize(
    "text",
    [
        "ffconcat version 1.0\nfile '{secret}'\n",
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:1\n#EXTINF:1.0,\n{secret}\n#EXT-X-ENDLIST\n",
    ],
    ids=["ffconcat", "playlist"],
)
def test_a_file_that_names_others_is_refused(movie, tmp_path, text):
    (tmp_path / "secret.mp4").write_bytes(movie.read_bytes())
    file = tmp_path / "list.mp4"
    file.write_text(text.format(secret="secret.mp4"))
    with pytest.raises(VideoFileError, match="unreadable"):
        gs.load_video(file)


def test_a_file_cut_by_fifty_bytes_is_refused_or_read_in_part(movie, tmp_path):
    file = tmp_path / "cut.mp4"
    file.write_bytes(movie.read_bytes()[:-50])
    with pytest.raises(VideoFileError, match=r"cut\.mp4"):
        gs.load_video(file)


def test_frames_beyond_memory_are_refused_before_they_are_decoded(tmp_path):
    file = tmp_path / "large.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("frames.npy", "w") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": (10**6, 1000, 1000, 3)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(bytes(3_000_000))
    with pytest.raises(OutOfMemory, match=r"large\.npz = 1000000 frames of 1000 x 1000 pixels: would take"):
        gs.load_video(file, fps=30.0)


def test_two_frames_of_a_compressed_array_do_not_inflate_it(tmp_path):
    """A process that may use 3 GB reads two frames of an array whose header announces 6 GB."""
    file = tmp_path / "bomb.npz"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("frames.npy", "w") as stream:
        header = {"descr": "|u1", "fortran_order": False, "shape": (20_000, 1000, 100, 3)}
        np.lib.format.write_array_header_1_0(stream, header)
        stream.write(bytes(2 * 300_000))
    script = "import sys, gradsim as gs; print(gs.load_video(sys.argv[1], frames=(0, 2), fps=30.0).frames.shape)"
    limit = 3_000_000_000

    def limited():
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    command = [sys.executable, "-c", script, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert "torch.Size([2, 1000, 100, 3])" in done.stdout, done.stderr[-500:]


BROKEN_ARRAYS = {
    "no array": {},
    "no frames": {"a": FRAMES.numpy(), "b": FRAMES.numpy()},
    "several rates": {"frames": FRAMES.numpy(), "fps": np.array([30.0, 31.0])},
    "complex rate": {"frames": FRAMES.numpy(), "fps": np.array(30.0 + 1.0j)},
    "text as rate": {"frames": FRAMES.numpy(), "fps": np.array("fast")},
}


@pytest.mark.parametrize("case", BROKEN_ARRAYS)
@pytest.mark.filterwarnings("error")
def test_a_broken_array_file_is_refused_by_name(tmp_path, case):
    file = tmp_path / "video.npz"
    np.savez(file, **BROKEN_ARRAYS[case])
    with pytest.raises(VideoFileError, match=r"video\.npz = unreadable"):
        gs.load_video(file)


@pytest.mark.parametrize("cut", [0.0, 0.2, 0.7])
def test_a_damaged_array_file_is_refused_by_name(tmp_path, cut):
    file = tmp_path / "video.npy"
    np.save(file, FRAMES.numpy())
    content = file.read_bytes()
    file.write_bytes(b"\x93NUMPY\x01\x00\xff\xff{{{" if cut == 0.0 else content[: int(cut * len(content))])
    with pytest.raises(VideoFileError, match=r"video\.npy = unreadable"):
        gs.load_video(file, fps=30.0)


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_selected_frames_of_an_array_are_those_of_the_whole(tmp_path, suffix):
    file = tmp_path / f"video{suffix}"
    (np.save if suffix == ".npy" else np.savez_compressed)(file, FRAMES.numpy())
    part = gs.load_video(file, frames=slice(3, 11, 4), fps=30.0)
    assert torch.equal(part.frames, FRAMES[3:11:4])
