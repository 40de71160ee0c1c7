"""Recordings have the times that their files state, upright frames, and errors for files that cannot be used."""

import av
import numpy as np
import pytest
from tests.footage.videos import Clip, draw, save, save_at
from tests.video.audio_file import audio

from gradsim.footage import recording
from gradsim.footage.recording import open_recording
from gradsim.scene.errors import OutOfRange, VideoFileError

IMAGES, _ = draw(Clip(size=(120, 160), count=12))


@pytest.fixture(scope="module")
def mp4(tmp_path_factory):
    return save(tmp_path_factory.mktemp("footage") / "disc.mp4", IMAGES)


def test_frames_and_times_are_those_of_the_file(mp4):
    own = open_recording(mp4)
    assert own.times == pytest.approx(np.arange(12) / 30)
    assert own.size == (120, 160)
    assert own.reduced.shape == (12, 120, 160, 3)
    assert list(own.scale) == [1.0, 1.0]
    assert np.median(np.abs(own.reduced.astype(int) - IMAGES)) <= 3  # edges of colour are soft in H.264


def test_times_of_variable_rate_are_kept(tmp_path):
    ticks = np.cumsum([0, 20, 20, 35, 20, 5, 20, 60, 20, 20, 11, 20])
    own = open_recording(save_at(tmp_path / "variable.mp4", IMAGES, ticks))
    assert own.times - own.times[0] == pytest.approx(ticks / 600)


def test_a_rate_replaces_the_times(mp4):
    assert open_recording(mp4, fps=240).times == pytest.approx(np.arange(12) / 240)


def test_a_range_of_frames(mp4):
    own = open_recording(mp4, frames=(3, 9))
    assert own.numbers == range(3, 9)
    assert own.times == pytest.approx(np.arange(3, 9) / 30)
    assert np.array_equal(own.reduced, open_recording(mp4).reduced[3:9])
    assert np.array_equal(np.stack(list(own.full_frames())), own.reduced)


def test_large_frames_are_reduced_by_area(tmp_path):
    smooth = np.linspace(0, 255, 900)[None, :, None] + np.zeros((600, 1, 3))
    own = open_recording(save(tmp_path / "large.mp4", np.stack([smooth.astype(np.uint8)] * 4)))
    assert own.size == (600, 900)
    assert own.reduced.shape == (4, 200, 300, 3)
    assert list(own.scale) == [3.0, 3.0]
    assert np.abs(own.reduced[0] - smooth.reshape(200, 3, 300, 3, 3).mean((1, 3))).max() < 3


QUARTERS = {1: (0, -1, 1, 0), 2: (-1, 0, 0, -1), 3: (0, 1, -1, 0)}


def turned_copy(mp4, turned, turns):
    """Copies a file and adds metadata that turn its frames by quarters, counter-clockwise."""
    with av.open(str(mp4)) as source, av.open(str(turned), "w") as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                output.mux(packet)
    content = bytearray(turned.read_bytes())
    identity = np.array([0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000], ">i4").tobytes()
    a, b, c, d = (0x10000 * number for number in QUARTERS[turns])
    quarter = np.array([a, b, 0, c, d, 0, 0, 0, 0x40000000], ">i4").tobytes()
    place = content.index(identity, content.index(b"tkhd"))
    content[place : place + 36] = quarter
    turned.write_bytes(content)
    return turned


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_rotation_metadata_is_applied(mp4, tmp_path, turns):
    own = open_recording(turned_copy(mp4, tmp_path / "portrait.mp4", turns))
    assert own.size == ((160, 120) if turns % 2 else (120, 160))
    upright = np.rot90(open_recording(mp4).reduced, turns, axes=(1, 2))
    assert np.array_equal(own.reduced, upright)


def cut(path):
    save(path, IMAGES)
    path.write_bytes(path.read_bytes()[: int(0.7 * path.stat().st_size)])
    return path


def text(path, content=b"no video at all\n" * 40):
    path.write_bytes(content)
    return path


BAD_FILES = {
    "missing": (lambda d: d / "none.mp4", "no such file"),
    "unknown kind": (lambda d: text(d / "a.txt"), "extension '.txt': needs one of .mp4"),
    "empty": (lambda d: text(d / "a.mp4", b""), "an empty file"),
    "not a video": (lambda d: text(d / "a.mp4"), "unreadable"),
    "without video": (lambda d: audio(d / "a.mp4"), "no video stream"),
    "broken": (lambda d: cut(d / "a.mp4"), r"truncated: \d+ of 12 frames can be read: .*frames=\(0, \d+\)"),
    "one frame": (lambda d: save(d / "a.mp4", IMAGES[:1]), "a single frame: needs at least 4 frames"),
    "two frames": (lambda d: save(d / "a.mp4", IMAGES[:2]), "2 frames: needs at least 4 frames"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files(tmp_path, case):
    make, message = BAD_FILES[case]
    path = make(tmp_path)
    with pytest.raises(VideoFileError, match=message) as caught:
        open_recording(path)
    assert str(path) in str(caught.value)


def test_too_many_frames_raise_before_decoding(mp4, monkeypatch):
    monkeypatch.setattr(recording, "MAX_FRAMES", 10)
    with pytest.raises(OutOfRange, match="number of frames = 12: must be at most 10: select"):
        open_recording(mp4)
    assert len(open_recording(mp4, frames=(0, 10))) == 10
