"""The plate is the background, whatever passes in front of it."""

import numpy as np
import pytest

from gradsim.footage.plate import background_plate, sample_numbers


@pytest.fixture
def frames():
    """Twenty noisy frames, with a white square that rests in the first twelve."""
    random = np.random.default_rng(0)
    images = 100 + 5 * random.standard_normal((20, 70, 40, 3))
    images[:12, 20:30, 10:20] = 255
    return images.round().astype(np.uint8)


def test_noise_and_color_of_pixels(frames):
    plate = background_plate(frames)
    assert plate.color[50:].mean() * 255 == pytest.approx(100, abs=0.5)
    assert plate.noise_level * 255 == pytest.approx(1.6 * 5, rel=0.25)  # of the channel that varies most
    assert plate.known.all()
    assert plate.color[25, 15, 0] == 1.0


def test_hidden_pixels_do_not_count(frames):
    hidden = frames[..., 0] == 255
    plate = background_plate(frames, hidden)
    assert plate.known.all()
    assert plate.color[20:30, 10:20].mean() * 255 == pytest.approx(100, abs=2)


def test_pixels_that_are_always_hidden_are_unknown(frames):
    hidden = np.zeros(frames.shape[:3], bool)
    hidden[:, 20:30, 10:20] = True
    plate = background_plate(frames, hidden)
    assert plate.known.sum() == 70 * 40 - 100
    assert plate.color[25, 15, 0] == 1.0  # the median of all frames


def test_samples_are_spread_over_the_frames():
    assert list(sample_numbers(5)) == [0, 1, 2, 3, 4]
    samples = sample_numbers(1000)
    assert len(samples) == 61
    assert (samples[0], samples[-1]) == (0, 999)
