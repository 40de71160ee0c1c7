"""Frames that repeat the one before are found and left out."""

import numpy as np
import pytest
from tests.footage.videos import Clip, bounces, draw, save_at

from gradsim.footage.recording import open_recording
from gradsim.footage.repeats import repeated_frames

CLIP = Clip(size=(120, 160), count=24, radius=8.0)


@pytest.fixture(scope="module", params=[{}, {"motion": bounces}], ids=["throw", "bounces"])
def images(request):
    return draw(CLIP, **request.param)[0]


@pytest.mark.parametrize(
    "shown",
    [np.repeat(np.arange(24), 2), np.repeat(np.arange(24), [2, 3] * 12), np.sort([*range(24), 5, 13])],
    ids=["30 to 60 fps", "24 to 60 fps", "dropped frames"],
)
def test_repeated_frames_are_found(images, shown):
    noise = np.random.default_rng(0).normal(0, 0.4, (len(shown), *images.shape[1:]))  # of a codec
    frames = np.clip(images[shown] + noise, 0, 255).round().astype(np.uint8)
    repeats = np.insert(np.diff(shown) == 0, 0, False)
    found = repeated_frames(frames)
    assert not (found & ~repeats).any()
    assert found[repeats].all()


def test_frames_of_a_steady_video_are_kept(images):
    assert not repeated_frames(images).any()
    assert not repeated_frames(np.full_like(images, 100)).any()


def test_a_recording_leaves_repetitions_out(tmp_path):
    images = draw(CLIP)[0]
    path = save_at(tmp_path / "twice.mp4", np.repeat(images, 2, 0), np.arange(48), rate=60)
    recording = open_recording(path)
    assert recording.repeated >= 23
    assert recording.numbers == tuple(range(0, 48, 2))[: len(recording)]
    assert recording.times == pytest.approx(np.array(recording.numbers) / 60)
    assert sum(1 for _ in recording.full_frames()) == len(recording)
