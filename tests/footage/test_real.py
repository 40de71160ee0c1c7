"""The balls of two real recordings are found, and fly along parabolas."""

import numpy as np
import pytest
from tests.footage.videos import REAL

from gradsim.footage.alpha import measure_object
from gradsim.footage.detection import find_moving_objects
from gradsim.footage.recording import open_recording


def measured(name, frames=None):
    if not (REAL / name).is_file():
        pytest.skip(f"no recording: {name} is not in ../shared/real")
    return measure_object(find_moving_objects(open_recording(REAL / name, frames=frames)))


def residuals(track, selected, degree):
    """Root mean square of x and y after the best polynomial in time [2] [px]."""
    times = track.times[selected] - track.times[selected][0]
    table = np.vander(times, degree + 1)
    centers = track.centers[selected]
    left = centers - table @ np.linalg.lstsq(table, centers, rcond=None)[0]
    return np.sqrt((left**2).mean(0))


def test_ball_toss():
    track = measured("ball_toss.mp4")
    assert len(track) >= 17
    assert set(track.frames) <= set(range(9, 31))
    assert residuals(track, slice(None), 2).max() < 0.9
    assert residuals(track, slice(None), 3).max() < 0.25  # the ball also moves along the view
    assert 7 < track.diameter < 12
