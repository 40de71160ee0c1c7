"""From a video file to subpixel centres: a disc over clutter with noise, a shadow, motion blur and H.264."""

import numpy as np
import pytest
from tests.footage.videos import Clip, bounces, clutter, draw, recording_of, save

from gradsim.footage.alpha import measure_object, whole_blobs
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.mixture import color_mixture
from gradsim.footage.objects import is_shadow
from gradsim.footage.recording import open_recording
from gradsim.scene.errors import NoMovingObject

CLIP = Clip()


@pytest.fixture(scope="module")
def thrown(tmp_path_factory):
    images, centers = draw(CLIP)
    detection = find_moving_objects(open_recording(save(tmp_path_factory.mktemp("footage") / "disc.mp4", images)))
    return detection, measure_object(detection), centers


def test_centers_are_found_to_a_seventh_of_a_pixel(thrown):
    _, track, centers = thrown
    assert len(track) >= CLIP.count - 1
    error = track.centers - centers[track.frames]
    assert np.sqrt((error**2).mean(0)).max() < 0.145
    assert track.times == pytest.approx(track.frames / 30)


def test_size_and_color_are_those_of_the_disc(thrown):
    _, track, _ = thrown
    assert track.diameter == pytest.approx(2 * CLIP.radius, rel=0.03)
    assert track.diameter_spread < 0.02
    assert track.color == pytest.approx(CLIP.color, abs=0.05)


def test_the_plate_shows_the_background(thrown):
    detection, _, _ = thrown
    assert detection.plate.noise_level < 0.02
    assert np.median(np.abs(detection.plate.color - clutter(CLIP.size, CLIP.seed))) < 0.01


def test_overlays_are_written(thrown, tmp_path):
    detection, track, _ = thrown
    detection.save_overlay(tmp_path / "paths.png")
    track.save_overlay(tmp_path / "outlines.png")
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("paths.png", "outlines.png"))


def test_a_bouncing_disc_is_one_tracklet():
    images, centers = draw(Clip(count=40, radius=8.0, shadow=False), bounces)
    best = find_moving_objects(recording_of(images)).best
    assert len(best) >= 38
    assert np.abs(best.centers - centers[best.frames]).max() < 1.0


def test_a_video_without_motion_is_reported():
    images, _ = draw(Clip(count=10), lambda clip, times: np.array([-50.0, -50.0]) + 0 * np.asarray(times)[..., None])
    with pytest.raises(NoMovingObject, match=r"nothing moves in 10 frames: needs an object"):
        find_moving_objects(recording_of(images))


def test_partly_hidden_blobs_are_left_out(thrown):
    detection, _, _ = thrown
    blobs = list(detection.best.blobs)
    small = blobs[12].__class__(**{**vars(blobs[12]), "area": blobs[12].area // 2})
    kept = whole_blobs((*blobs[:12], small, *blobs[13:]))
    assert small not in kept
    assert len(kept) >= len(blobs) - 2


def test_shadows_have_the_color_of_the_plate():
    plate, noise = np.array([[0.6, 0.5, 0.4]], np.float32), np.array([0.01], np.float32)
    assert is_shadow(0.7 * plate, plate, noise).all()
    assert not is_shadow(0.3 * plate, plate, noise).any()
    assert not is_shadow(plate[:, ::-1], plate, noise).any()


def test_a_mixture_ignores_shadows_and_finds_coverage():
    plate, color = np.full((1, 5, 3), (0.6, 0.55, 0.5)), np.array([0.1, 0.5, 0.2])
    cover = np.linspace(0, 1, 5)[None, :, None]
    mixed, rest = color_mixture((1 - cover) * plate + cover * color, plate, color)
    assert mixed == pytest.approx(cover[..., 0], abs=0.003)
    assert rest == pytest.approx(1 - cover[..., 0], abs=0.003)
    assert np.abs(color_mixture(0.7 * plate, plate, color)[0]).max() < 0.12
