"""Bad inputs: those that cannot be used raise an error with a remedy; limits of those that can are remarked."""

import re
from dataclasses import replace

import cv2
import numpy as np
import pytest
from tests.footage import physical_videos
from tests.footage.videos import Clip, clutter, draw, parabola, recording_of, save, two_ball_images

import gradsim as gs
from gradsim.footage.alpha import measure_object
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.lens import pinhole_lens
from gradsim.footage.measured import Measured
from gradsim.footage.recording import open_recording
from gradsim.footage.stabilization import shift_image
from gradsim.scene.errors import (
    AmbiguousObject,
    InvalidInput,
    MovingCamera,
    NoMovingObject,
    OutOfRange,
    SceneCut,
    UnexplainedMotion,
    UnknownName,
    VideoFileError,
)

CLIP = Clip(size=(180, 240), count=24)


def noisy(background, count=16):
    random = np.random.default_rng(2)
    images = background + 0.01 * random.standard_normal((count, *background.shape))
    return (255 * np.clip(images, 0, 1)).astype(np.uint8)


def still():
    return noisy(clutter(CLIP.size, 0))


def black():
    return np.zeros((12, *CLIP.size, 3), np.uint8)


def flicker():
    """Lamps that flicker, without motion."""
    gains = 1 + 0.15 * np.sin(2.1 * np.arange(16))
    return np.clip(still() * gains[:, None, None, None], 0, 255).astype(np.uint8)


def flash():
    """One bright frame."""
    images = still()
    images[8] = 255 - (255 - images[8]) // 3
    return images


def panning():
    wide = noisy(clutter((180, 480), 0), 1)[0]
    return np.stack([wide[:, 9 * k : 9 * k + 240] for k in range(24)])


def turning():
    """A camera that turns about the view and zooms in."""
    image = noisy(clutter(CLIP.size, 0), 1)[0]
    turns = [cv2.getRotationMatrix2D((120, 90), 1.5 * k, 1 + 0.03 * k) for k in range(16)]
    return np.stack([cv2.warpAffine(image, own, CLIP.size[::-1], borderMode=cv2.BORDER_REFLECT) for own in turns])


def creeping():
    """A camera that turns slowly, by 3 degrees altogether."""
    image = noisy(clutter(CLIP.size, 3), 1)[0]
    turns = [cv2.getRotationMatrix2D((120, 90), 0.15 * k, 1.0) for k in range(20)]
    return np.stack([cv2.warpAffine(image, own, CLIP.size[::-1], borderMode=cv2.BORDER_REFLECT) for own in turns])


def cut():
    return np.concatenate([draw(CLIP)[0], draw(replace(CLIP, seed=7))[0]])


def noise():
    return np.random.default_rng(0).integers(0, 256, (16, 120, 160, 3)).astype(np.uint8)


BAD_VIDEOS = {
    still: (NoMovingObject, "nothing moves in 16 frames: needs an object that differs from the background"),
    black: (NoMovingObject, "nothing moves in 12 frames"),
    flicker: (NoMovingObject, "nothing moves in 16 frames"),
    flash: (NoMovingObject, "nothing moves in 16 frames"),
    panning: (MovingCamera, "the camera moves .*: needs a still camera .* use a tripod"),
    turning: (MovingCamera, "the camera moves .*: needs a still camera"),
    creeping: (MovingCamera, "the camera moves .*: needs a still camera"),
    cut: (SceneCut, r"changes at once before frame 24: needs one take: select frames=\(0, 24\)"),
    noise: (NoMovingObject, "successive frames have nothing in common .* this is noise"),
}


@pytest.mark.parametrize("make", BAD_VIDEOS, ids=lambda make: make.__name__)
def test_bad_videos(make):
    error, message = BAD_VIDEOS[make]
    with pytest.raises(error, match=message):
        find_moving_objects(recording_of(make()))


def two_balls(folder):
    """Two equal balls, one thrown to each side."""
    return {"video": save(folder / "balls.mp4", two_ball_images())}


def truncated(folder):
    path = save(folder / "half.mp4", draw(CLIP)[0])
    path.write_bytes(path.read_bytes()[: int(0.6 * path.stat().st_size)])
    return {"video": path}


def text_file(folder):
    (folder / "notes.mp4").write_text("no video at all\n" * 40)
    return {"video": folder / "notes.mp4"}


def thrown(folder, **options):
    return {"video": physical_videos.throw_video(folder / "throw.mp4"), **options}


BAD_INPUTS = {
    "two equal balls": (two_balls, AmbiguousObject, r"two objects move alike: at \(\d+, \d+\) and at \(\d+, \d+\)"),
    "driven motion": (
        lambda folder: {"video": physical_videos.wandering_video(folder / "wander.mp4")},
        UnexplainedMotion,
        r"no kind of motion explains the path \((at best .* %|none could be fitted)\): check --object and --frames",
    ),
    "wrong template": (
        lambda folder: thrown(folder, motion="slide", scale=physical_videos.RULER),
        None,
        "flight is the runner-up|flight is almost as likely|slide explains only|cannot be fitted",
    ),
    "unknown template": (lambda folder: thrown(folder, motion="fling"), UnknownName, "did you mean|must be one of"),
    "a point beside the object": (
        lambda folder: thrown(folder, object=(300.0, 10.0)),
        NoMovingObject,
        r"no object passes \(300, 10\): needs a point on the path of an object: some pass",
    ),
    "a point outside": (
        lambda folder: thrown(folder, object=(900.0, 10.0)),
        OutOfRange,
        "must be inside the picture of 320 x 240",
    ),
    "a ruler without length": (
        lambda folder: thrown(folder, scale=(20.0, 20.0, 170.0, 20.0, 0.0)),
        OutOfRange,
        "the known length must be > 0",
    ),
    "a ruler of one point": (
        lambda folder: thrown(folder, scale=(20.0, 20.0, 20.5, 20.0, 1.0)),
        InvalidInput,
        "its ends must be at least 2 px apart",
    ),
    "a negative size": (lambda folder: thrown(folder, diameter=-0.1), OutOfRange, "diameter = -0.1: must be > 0"),
    "frames beyond the end": (lambda folder: thrown(folder, frames=(90, 99)), VideoFileError, "16 frames"),
    "a few frames": (lambda folder: thrown(folder, frames=(2, 4)), VideoFileError, "2 frames: needs at least 4 frames"),
    "no such file": (lambda folder: {"video": folder / "none.mp4"}, VideoFileError, "no such file"),
    "a photograph's name": (
        lambda folder: {"video": folder / "ball.jpg"},
        VideoFileError,
        "extension '.jpg': needs one",
    ),
    "a text file": (text_file, VideoFileError, "unreadable: needs a complete video"),
    "half a download": (truncated, VideoFileError, r"truncated: \d+ of 24 frames can be read"),
    "a lens of another format": (
        lambda folder: thrown(folder, lens=pinhole_lens((1080, 1920), Measured(1500, 20, "px"))),
        OutOfRange,
        "calibrate in the mode of the recording",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_inputs(case, tmp_path):
    """Each is refused, or remarked, in one sentence that says what is wrong and what to do."""
    make, error, message = BAD_INPUTS[case]
    options = make(tmp_path)
    if error is None:
        assert re.search(message, str(gs.prepare(**options)))
        return
    with pytest.raises(error, match=message) as caught:
        gs.prepare(**options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_there_are_more_than_twenty_bad_inputs():
    assert len(BAD_VIDEOS) + len(BAD_INPUTS) >= 20


def measured(path, images):
    return measure_object(find_moving_objects(open_recording(save(path, images))))


def test_an_object_that_leaves_the_picture(tmp_path):
    def leaving(clip, times):
        return parabola(clip, times) * [1.4, 1.0]

    images, centers = draw(CLIP, leaving)
    track = measured(tmp_path / "leaving.mp4", images)
    inside = centers[:, 0] < CLIP.size[1] - CLIP.radius
    assert set(track.frames) <= set(np.flatnonzero(centers[:, 0] < CLIP.size[1] - 0.8 * CLIP.radius))
    assert len(track) >= inside.sum() - 2
    assert any("edge of the picture" in own for own in track.remarks)


def test_lamps_that_flicker_do_not_hide_the_object(tmp_path):
    images, centers = draw(CLIP)
    gains = 1 + 0.12 * np.sin(2.1 * np.arange(CLIP.count))
    flickering = np.clip(images * gains[:, None, None, None], 0, 255).astype(np.uint8)
    track = measured(tmp_path / "flicker.mp4", flickering)
    assert len(track) >= CLIP.count - 3
    assert np.abs(track.centers - centers[track.frames]).max() < 0.5
    assert any("drift" in own for own in track.remarks)


def test_a_shaking_camera_is_remarked(tmp_path):
    images, centers = draw(CLIP)
    shifts = np.cumsum(np.random.default_rng(0).uniform(-1.2, 1.2, (CLIP.count, 2)), 0)
    shifts -= shifts[0]
    shaken = np.stack([shift_image(own, shift) for own, shift in zip(images, shifts, strict=True)])
    track = measured(tmp_path / "shake.mp4", shaken)
    assert np.sqrt(((track.centers - centers[track.frames]) ** 2).mean()) < 0.3
    assert any("camera shakes" in own for own in track.remarks)
