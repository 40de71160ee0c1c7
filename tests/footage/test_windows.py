"""Windows of frames are decoded without converting the rest, from the key frame before them."""

from dataclasses import replace

import numpy as np
import pytest
from tests.footage.test_recording import turned_copy
from tests.footage.videos import Clip, draw, save

from gradsim.footage import crops
from gradsim.footage.alpha import measure_object
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.recording import Recording, open_recording, reduced_short_side
from gradsim.footage.window import Window

IMAGES, _ = draw(Clip(size=(120, 160), count=40))


@pytest.fixture(scope="module")
def mp4(tmp_path_factory):
    return save(tmp_path_factory.mktemp("windows") / "disc.mp4", IMAGES, keyframes=8)


PLACES = {
    "inside": (slice(31, 78), slice(40, 93)),
    "corner": (slice(0, 17), slice(131, 160)),
    "all": (slice(0, 120), slice(0, 160)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_window_is_a_part_of_the_frame(mp4, place):
    rows, columns = PLACES[place]
    recording = open_recording(mp4)
    full = list(recording.full_frames())
    for k, frame in recording.lazy_frames([0, 7, 21, 39]):
        assert np.abs(frame.window(rows, columns).astype(int) - full[k][rows, columns]).max() <= 1


def test_frames_after_a_key_frame_are_those_of_the_file(mp4):
    recording = open_recording(mp4, frames=(5, 38))
    full = list(recording.full_frames())
    found = [k for k, frame in recording.lazy_frames([15, 16, 27, 32])]
    assert found == [15, 16, 27, 32]
    for k, frame in recording.lazy_frames([15, 16, 27, 32]):
        assert np.array_equal(frame.window(slice(0, 120), slice(0, 160)), full[k])


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_windows_of_rotated_files(mp4, tmp_path, turns):
    recording = open_recording(turned_copy(mp4, tmp_path / "turned.mp4", turns))
    full = list(recording.full_frames())
    rows, columns = slice(11, 58), slice(20, 83)
    for k, frame in recording.lazy_frames([3, 30]):
        assert frame.window(rows, columns).shape == (47, 63, 3)
        assert np.abs(frame.window(rows, columns).astype(int) - full[k][rows, columns]).max() <= 1


def test_edges_of_windows_are_multiples_of_a_step():
    own = Window.clipped(np.array([-5, 13]), np.array([40, 1000]), (101, 160), 4)
    assert (own.left, own.top, own.width, own.height) == (0, 12, 40, 88)
    around = Window.around([own, Window(40, 0, 8, 4)])
    assert (around.left, around.top, around.width, around.height) == (0, 0, 48, 100)
    assert own.inside(around, 4) == (slice(3, 25), slice(0, 10))


def test_long_recordings_are_reduced_more():
    assert reduced_short_side(300) == 270
    assert 160 < reduced_short_side(1800) < 270
    assert reduced_short_side(7200) == 160


@pytest.fixture(scope="module")
def large_disc(tmp_path_factory):
    clip = Clip(size=(324, 480), count=14, radius=46.0, shadow=False, shutter=0.05)
    images, centers = draw(clip)
    return open_recording(save(tmp_path_factory.mktemp("large") / "disc.mp4", images)), centers


def test_a_long_recording_is_measured_in_its_reduced_copy(large_disc, monkeypatch):
    recording, centers = large_disc
    detection = find_moving_objects(recording)
    decoded = measure_object(detection)
    monkeypatch.setattr(crops, "MAX_DECODED", 0.0)
    monkeypatch.setattr(Recording, "lazy_frames", None)  # the file is not decoded again
    copied = measure_object(detection)
    assert np.array_equal(copied.frames, decoded.frames)
    assert np.abs(copied.centers - centers[copied.frames]).max() < 0.3
    assert np.abs(copied.centers - decoded.centers).max() < 0.3
    assert copied.diameter == pytest.approx(decoded.diameter, abs=1.0)


def test_small_objects_are_decoded_again(large_disc, monkeypatch):
    recording, _ = large_disc
    blobs = find_moving_objects(recording).best.blobs
    assert crops.copied_factor(recording, blobs) is None  # it takes a moment only
    monkeypatch.setattr(crops, "MAX_DECODED", 0.0)
    assert crops.copied_factor(recording, blobs) == 2
    odd = replace(recording, size=(325, 480))
    assert crops.copied_factor(odd, blobs) is None
