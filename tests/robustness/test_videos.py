"""Odd, hostile and damaged video files: each is read, or refused by name in little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import zipfile
from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from av.stream import Disposition

import gradsim as gs
from gradsim.scene.errors import OutOfMemory, OutOfRange, VideoFileError, WrongType

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


def test_a_large_movie_is_reduced_frame_by_frame(tmp_path):
    """Frames that would take 1.8 GB are read at a small size by a process that takes less than half of that."""
    file = tmp_path / "large.mp4"
    with av.open(str(file), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuv420p"
        for number in range(80):
            image = np.full((720, 1280, 3), number, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        container.mux(stream.encode(None))
    script = (
        "import resource, sys, gradsim as gs; resident = resource.RUSAGE_SELF\n"
        "before = resource.getrusage(resident).ru_maxrss\n"
        "frames = gs.load_video(sys.argv[1], size=(36, 64)).frames\n"
        "print(*frames.shape, (resource.getrusage(resident).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
    *shape, grown = map(int, done.stdout.split())
    assert shape == [80, 36, 64, 3]
    assert grown < 800  # [MB]


def test_a_stream_that_changes_size_is_refused(tmp_path):
    """Motion JPEG is one picture after the other, here of two sizes."""
    content = b""
    for height, width in ((32, 48), (48, 32)):
        encoder = av.CodecContext.create("mjpeg", "w")
        encoder.height, encoder.width, encoder.pix_fmt, encoder.time_base = height, width, "yuvj420p", Fraction(1, 30)
        content += 4 * bytes(encoder.encode(av.VideoFrame(width, height, "yuvj420p"))[0])
    file = tmp_path / "turned.avi"
    file.write_bytes(content)
    assert len(gs.load_video(file, frames=(0, 4))) == 4
    with pytest.raises(VideoFileError, match="48 x 32 pixels in frame 4: needs 32 x 48 pixels, like the first frame"):
        gs.load_video(file)


def test_the_cover_of_a_recording_is_no_video(tmp_path):
    file = tmp_path / "song.mp4"
    with av.open(str(file), "w") as container:
        cover, sound = container.add_stream("mjpeg"), container.add_stream("aac", rate=8000)
        cover.width = cover.height = 16
        cover.pix_fmt, cover.disposition = "yuvj420p", Disposition.attached_pic
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        samples.sample_rate = 8000
        for stream, content in ((cover, av.VideoFrame(16, 16, "yuvj420p")), (sound, samples)):
            container.mux([*stream.encode(content), *stream.encode(None)])
    with pytest.raises(VideoFileError, match="only the picture of a cover"):
        gs.load_video(file)


@pytest.mark.parametrize("fps", [1e-9, 1e9, 10**400, True])
def test_a_rate_that_no_movie_has_is_refused(tmp_path, fps):
    with pytest.raises(OutOfRange, match="fps = "):
        gs.save_video(tmp_path / "video.mp4", FRAMES, fps)


@pytest.mark.parametrize(
    "option", [{"frames": slice(0.5, 2)}, {"frames": (0.0, 2.0)}, {"dtype": "float64"}, {"dtype": torch.int32}]
)
def test_an_option_of_another_type_is_refused_by_name(movie, option):
    with pytest.raises(WrongType, match=f"{next(iter(option))} = "):
        gs.load_video(movie, **option)


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
