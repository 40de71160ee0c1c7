"""Fast objects: centres, diameters and the exposure time with motion blur, in linear light and in sRGB values."""

from dataclasses import replace

import numpy as np
import pytest
from tests.footage.videos import Clip, draw, save

from gradsim.footage.alpha import measure_object
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.recording import open_recording

CLIP = Clip(size=(360, 480), count=24, radius=17.0, light=True, shutter=0.6, shadow=False)
VARIANTS = {
    "bright": CLIP,
    "dark in front of bright": replace(CLIP, color=(0.08, 0.2, 0.1)),
    "mixed as sRGB values": replace(CLIP, light=False, shutter=0.3),
    "slow": replace(CLIP, count=60, shutter=0.05),
    "with a shadow": replace(CLIP, shadow=True),
}


def falling(clip, times):
    """A fall that ends at 1.4 diameters in a frame."""
    t = np.asarray(times, float) * 24 / clip.count
    return np.stack([100 + 8 * t, 40 + 0.5 * t**2], -1)


@pytest.fixture(scope="module", params=VARIANTS)
def measured(request, tmp_path_factory):
    clip = VARIANTS[request.param]
    images, centers = draw(clip, falling, background=np.full((*clip.size, 3), (0.72, 0.7, 0.66)))
    path = save(tmp_path_factory.mktemp("blur") / "fall.mp4", images)
    return clip, measure_object(find_moving_objects(open_recording(path))), centers


def test_centers(measured):
    clip, track, centers = measured
    assert len(track) >= clip.count - 4
    errors = track.centers - centers[track.frames]
    assert np.sqrt((errors**2).mean(0)).max() < 0.25


def test_diameters_do_not_depend_on_speed(measured):
    clip, track, _ = measured
    assert track.is_round
    assert track.diameter == pytest.approx(2 * clip.radius, rel=0.02)
    assert np.abs(track.diameters / (2 * clip.radius) - 1).max() < 0.04
    assert abs(track.diameter - 2 * clip.radius) < 3 * track.diameter_uncertainty


def test_the_exposure_time_is_found(measured):
    clip, track, _ = measured
    if clip.shutter < 0.1:
        assert track.shutter is None or track.shutter < 0.15
    else:
        assert track.shutter == pytest.approx(clip.shutter, abs=0.12)


def test_standard_deviations_are_of_the_size_of_the_errors(measured):
    _, track, centers = measured
    scores = (track.centers - centers[track.frames]) / track.center_std
    assert 0.2 < np.sqrt((scores**2).mean()) < 3.5
